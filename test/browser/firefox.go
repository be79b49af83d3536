package browser

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/coder/websocket"

	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// Firefox is Debian's firefox-esr with one window, driven over WebDriver BiDi. playwright-core can't: it
// sends commands that this version does not know. A method that fails ends the test.
type Firefox struct {
	t        testing.TB
	conn     *websocket.Conn
	last     int      // id of the last command
	window   string   // the browsing context
	messages []string // warnings and errors of the page
}

// firefoxSettings keep a new profile from asking and downloading.
const firefoxSettings = `user_pref("app.update.auto", false);
user_pref("browser.shell.checkDefaultBrowser", false);
user_pref("browser.startup.page", 0);
user_pref("datareporting.policy.dataSubmissionEnabled", false);
user_pref("extensions.update.enabled", false);
user_pref("network.captive-portal-service.enabled", false);
user_pref("network.connectivity-service.enabled", false);
user_pref("services.settings.server", "data:,");
user_pref("toolkit.telemetry.enabled", false);
user_pref("ui.systemUsesDarkTheme", 1);
`

// listening is what Firefox prints before the address of its WebDriver.
const listening = "WebDriver BiDi listening on "

// StartFirefox starts a headless Firefox, which ends with the test. Without one the test is skipped, or fails if
// ATOLL_MUST names "firefox".
func StartFirefox(t testing.TB, width, height int) *Firefox {
	t.Helper()
	program, err := exec.LookPath("firefox-esr")
	if err != nil {
		testenv.Skip(t, "firefox", "no firefox-esr (apt-get install firefox-esr): %v", err)
	}
	dir, err := os.MkdirTemp("", "firefox")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if err := os.WriteFile(filepath.Join(dir, "user.js"), []byte(firefoxSettings), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "--headless", "--no-remote", "--profile", dir, "--remote-debugging-port", "0", "about:blank") //nolint:noctx // the cleanup ends it
	cmd.Env = append(os.Environ(), "HOME="+dir, "MOZ_CRASHREPORTER_DISABLE=1")
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	address, drained := make(chan string, 1), make(chan struct{})
	go func() {
		defer close(drained)
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			if at, ok := strings.CutPrefix(lines.Text(), listening); ok {
				address <- strings.TrimSpace(at)
			}
		}
	}()
	t.Cleanup(func() {
		kill := time.AfterFunc(Timeout, func() { _ = cmd.Process.Kill() })
		defer kill.Stop()
		<-drained
		_ = cmd.Wait() // its status says nothing: browser.close ends it
	})
	f := &Firefox{t: t}
	select {
	case at := <-address:
		f.connect(at)
	case <-time.After(2 * Timeout):
		_ = cmd.Process.Kill()
		t.Fatal("firefox: it does not listen")
	}
	f.command("browsingContext.setViewport", map[string]any{"context": f.window, "viewport": map[string]int{"width": width, "height": height}}, nil)
	return f
}

// connect begins a session with the Firefox at an address, and ends both after the test.
func (f *Firefox) connect(address string) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(f.t.Context()), Timeout)
	defer cancel()
	conn, _, err := websocket.Dial(ctx, address+"/session", nil) //nolint:bodyclose // the library closes it
	if err != nil {
		f.t.Fatal(err)
	}
	conn.SetReadLimit(32 << 20) // pictures
	f.conn = conn
	f.t.Cleanup(func() {
		f.command("browser.close", map[string]any{}, nil)
		_ = conn.CloseNow() // Firefox has closed it
	})
	f.command("session.new", map[string]any{"capabilities": map[string]any{}}, nil)
	f.command("session.subscribe", map[string]any{"events": []string{"log.entryAdded"}}, nil)
	var tree struct {
		Contexts []struct {
			Context string `json:"context"`
		} `json:"contexts"`
	}
	f.command("browsingContext.getTree", map[string]any{}, &tree)
	if len(tree.Contexts) == 0 {
		f.t.Fatal("firefox: it has no window")
	}
	f.window = tree.Contexts[0].Context
}

// bidiMessage is an answer or an event.
type bidiMessage struct {
	ID      int             `json:"id"`
	Error   string          `json:"error"`
	Message string          `json:"message"`
	Method  string          `json:"method"` // of an event
	Result  json.RawMessage `json:"result"`
	Params  struct {
		Level string `json:"level"`
		Text  string `json:"text"`
	} `json:"params"`
}

// command sends a command and stores its result, unless result is nil.
func (f *Firefox) command(method string, params map[string]any, result any) {
	f.t.Helper()
	if err := f.send(method, params, result); err != nil {
		f.t.Fatalf("firefox: %s: %v\nconsole: %q", method, err, f.messages)
	}
}

func (f *Firefox) send(method string, params map[string]any, result any) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(f.t.Context()), Timeout)
	defer cancel()
	f.last++
	b, err := json.Marshal(map[string]any{"id": f.last, "method": method, "params": params})
	if err != nil {
		return err
	}
	if err := f.conn.Write(ctx, websocket.MessageText, b); err != nil {
		return err
	}
	for {
		_, b, err := f.conn.Read(ctx)
		if err != nil {
			return err
		}
		var m bidiMessage
		if err := json.Unmarshal(b, &m); err != nil {
			return err
		}
		switch {
		case m.Method == "log.entryAdded" && (m.Params.Level == "error" || m.Params.Level == "warn"):
			f.messages = append(f.messages, m.Params.Text)
		case m.Method != "" || m.ID != f.last:
		case m.Error != "":
			return errors.New(m.Error + ": " + m.Message)
		case result == nil:
			return nil
		default:
			return json.Unmarshal(m.Result, result)
		}
	}
}

// Goto loads an address.
func (f *Firefox) Goto(address string) {
	f.t.Helper()
	f.command("browsingContext.navigate", map[string]any{"context": f.window, "url": address, "wait": "complete"}, nil)
}

// Eval evaluates a JavaScript expression and stores its value in v, unless v is nil.
func (f *Firefox) Eval(expression string, v any) {
	f.t.Helper()
	var got struct {
		Type   string `json:"type"`
		Result struct {
			Value string `json:"value"`
		} `json:"result"`
		Details struct {
			Text string `json:"text"`
		} `json:"exceptionDetails"`
	}
	f.command("script.evaluate", map[string]any{
		"expression": "(async () => JSON.stringify((await (" + expression + ")) ?? null))()", "target": map[string]string{"context": f.window}, "awaitPromise": true,
	}, &got)
	if got.Type == "exception" {
		f.t.Fatalf("firefox: %s: %s", expression, got.Details.Text)
	}
	if v == nil {
		return
	}
	if err := json.Unmarshal([]byte(got.Result.Value), v); err != nil {
		f.t.Fatalf("firefox: %s: %v: %s", expression, err, got.Result.Value)
	}
}

// Wait waits until an expression is true.
func (f *Firefox) Wait(expression string) {
	f.t.Helper()
	var done bool
	f.Eval(fmt.Sprintf(`new Promise((done) => {
		const end = performance.now() + %d
		const look = () => { let is = false; try { is = Boolean(%s) } catch { }; if (is || performance.now() > end) done(is); else setTimeout(look, 30) }
		look()
	})`, (Timeout-5*time.Second).Milliseconds(), expression), &done)
	if !done {
		var text string
		f.Eval(`document.body.innerText`, &text)
		f.t.Fatalf("firefox: %s did not become true; console %q, text: %s", expression, f.messages, text)
	}
}

// Click clicks with the pointer on the first element of a CSS selector.
func (f *Firefox) Click(selector string) {
	f.t.Helper()
	f.Wait(`document.querySelector(` + quoteJS(selector) + `)`)
	var at struct{ X, Y int }
	f.Eval(`(() => { const e = document.querySelector(`+quoteJS(selector)+`); e.scrollIntoView({ block: 'center' }); const r = e.getBoundingClientRect(); return { X: Math.round(r.x + r.width / 2), Y: Math.round(r.y + r.height / 2) } })()`, &at)
	f.perform(map[string]any{"type": "pointer", "id": "mouse", "actions": []any{
		map[string]any{"type": "pointerMove", "x": at.X, "y": at.Y}, map[string]any{"type": "pointerDown", "button": 0}, map[string]any{"type": "pointerUp", "button": 0},
	}})
}

// Fill replaces the text of a field.
func (f *Firefox) Fill(selector, text string) {
	f.t.Helper()
	f.Click(selector)
	f.Eval(`(document.activeElement.select?.(), null)`, nil)
	f.Type(text)
}

// Type types text into the focused element. A line break is the key Enter.
func (f *Firefox) Type(text string) {
	f.t.Helper()
	actions := make([]any, 0, 2*utf8.RuneCountInString(text))
	for _, r := range text {
		key := string(r)
		if r == '\n' {
			key = "\ue007"
		}
		actions = append(actions, map[string]any{"type": "keyDown", "value": key}, map[string]any{"type": "keyUp", "value": key})
	}
	f.perform(map[string]any{"type": "key", "id": "keys", "actions": actions})
}

func (f *Firefox) perform(source map[string]any) {
	f.t.Helper()
	f.command("input.performActions", map[string]any{"context": f.window, "actions": []any{source}}, nil)
}

// Messages returns the warnings and errors of the page so far.
func (f *Firefox) Messages() []string { return f.messages }

// Screenshot writes an image of the page to $ATOLL_SCREENSHOTS/name.png, if that variable is set.
func (f *Firefox) Screenshot(name string) {
	f.t.Helper()
	dir := os.Getenv("ATOLL_SCREENSHOTS")
	if dir == "" {
		return
	}
	var shot struct {
		Data string `json:"data"`
	}
	f.command("browsingContext.captureScreenshot", map[string]any{"context": f.window}, &shot)
	b, err := base64.StdEncoding.DecodeString(shot.Data)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, name+".png"), b, 0o644)
	}
	if err != nil {
		f.t.Fatal(err)
	}
}
