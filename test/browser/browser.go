// Package browser drives a real browser for tests of atoll's pages: Debian's chromium,
// with playwright-core on Node.
package browser

import (
	"bufio"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

//go:embed driver.mjs
var driver []byte

// Timeout is how long a page may take to reach the state that a test waits for, also on
// a busy machine.
const Timeout = 60 * time.Second

// Browser is a browser. It lasts until Close.
type Browser struct {
	in  io.Writer
	out *bufio.Reader

	dir  string
	stop func() error // ends the driver and waits for it

	mu   sync.Mutex // held while a command is sent and answered
	last int        // number of the newest page; guarded by mu
}

// Start starts a headless browser, which many tests can share: the pages of each are apart. Without one
// the test is skipped, or fails if ATOLL_MUST names "chromium". The caller closes it.
func Start(t testing.TB) *Browser {
	t.Helper()
	playwright := testenv.Program(t, "chromium", "ATOLL_PLAYWRIGHT")
	node, err := exec.LookPath("node")
	if err != nil {
		testenv.Skip(t, "chromium", "no node: %v", err)
	}
	chromium, err := exec.LookPath("chromium")
	if err != nil {
		testenv.Skip(t, "chromium", "no chromium (apt-get install chromium): %v", err)
	}
	dir, err := os.MkdirTemp("", "browser")
	if err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(dir, "driver.mjs")
	if err := os.WriteFile(script, driver, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(node, script, playwright, chromium) //nolint:noctx // it exits when its standard input is closed
	cmd.Env = append(os.Environ(), "HOME="+dir)
	stderr := new(tailBuffer)
	cmd.Stderr = stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	b := &Browser{in: in, out: bufio.NewReaderSize(out, 64<<10), dir: dir}
	b.stop = func() error {
		_ = in.Close() // the driver then stops the browser and exits
		kill := time.AfterFunc(Timeout, func() { _ = cmd.Process.Kill() })
		defer kill.Stop()
		if err := cmd.Wait(); err != nil {
			return fmt.Errorf("browser: %w\n%s", err, stderr)
		}
		return nil
	}
	if _, err := b.sendCommand(command{Do: "start"}); err != nil {
		_ = b.Close() // the first error says more
		t.Fatalf("browser: %v\n%s", err, stderr)
	}
	return b
}

// Close ends the browser and waits for its end.
func (b *Browser) Close() error { return errors.Join(b.stop(), os.RemoveAll(b.dir)) }

// tailBuffer keeps the last 4 KB of its input.
type tailBuffer struct {
	mu sync.Mutex
	b  []byte // guarded by mu
}

func (w *tailBuffer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.b = append(w.b, p...)
	w.b = w.b[max(0, len(w.b)-4096):]
	return len(p), nil
}

func (w *tailBuffer) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return string(w.b)
}

// Window describes a page's window; the zero value is 1000 by 640 with dark colors.
type Window struct {
	Width, Height int
	Light         bool
	Touch         bool // a touch screen and no mouse

	Half bool      // pictures have half the width and height
	Time time.Time // what the page's clock says, in UTC; zero: the time
}

type command struct {
	Do      string `json:"do"`
	Page    int    `json:"page,omitempty"`
	Text    string `json:"text,omitempty"`  // address, script, selector, keys
	Input   string `json:"input,omitempty"` // text of a field, option, path of a file
	Width   int    `json:"width,omitempty"`
	Height  int    `json:"height,omitempty"`
	Light   bool   `json:"light,omitempty"`
	Touch   bool   `json:"touch,omitempty"`
	On      bool   `json:"on,omitempty"`
	Half    bool   `json:"half,omitempty"`
	Time    int64  `json:"time,omitempty"`    // milliseconds since 1970
	Timeout int64  `json:"timeout,omitempty"` // milliseconds
}

type answer struct {
	Value json.RawMessage `json:"value"`
	Error string          `json:"error"`
}

// sendCommand sends a command to the driver and returns its answer.
func (b *Browser) sendCommand(c command) (json.RawMessage, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	line, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	if _, err := b.in.Write(append(line, '\n')); err != nil {
		return nil, err
	}
	text, err := b.out.ReadBytes('\n')
	if err != nil {
		return nil, fmt.Errorf("%s: the browser's driver has exited: %w", c.Do, err)
	}
	var a answer
	if err := json.Unmarshal(text, &a); err != nil {
		return nil, fmt.Errorf("%s: %w", c.Do, err)
	}
	if a.Error != "" {
		return nil, errors.New(a.Error)
	}
	return a.Value, nil
}

// Page is a window in a browser profile of its own: pages share nothing. A method that
// fails ends the test.
type Page struct {
	b *Browser
	t testing.TB
	n int
}

// Open opens a page with an address. The test t must end before the browser's.
func (b *Browser) Open(t testing.TB, address string, look Window) *Page {
	t.Helper()
	if look.Width == 0 {
		look.Width, look.Height = 1000, 640
	}
	b.mu.Lock()
	b.last++
	p := &Page{b: b, t: t, n: b.last}
	b.mu.Unlock()
	c := command{Do: "open", Text: address, Width: look.Width, Height: look.Height, Light: look.Light, Touch: look.Touch, Half: look.Half}
	if !look.Time.IsZero() {
		c.Time = look.Time.UnixMilli()
	}
	p.runCommand(c)
	return p
}

// shownText is a script that returns a page's text and its terminal's screen.
const shownText = `document.body.innerText + (window.atoll?.term ? Array.from({ length: window.atoll.term.rows }, (_, y) => {
	const b = window.atoll.term.buffer.active
	return b.getLine(b.baseY + y)?.translateToString(true) ?? ''
}).join('\n').trimEnd() + '\n' + window.atoll.term.cols + 'x' + window.atoll.term.rows : '')`

// runCommand runs a command of the driver on the page. A failure ends the test.
func (p *Page) runCommand(c command) json.RawMessage {
	p.t.Helper()
	c.Page, c.Timeout = p.n, Timeout.Milliseconds()
	v, err := p.b.sendCommand(c)
	if err != nil {
		if pic := os.Getenv("ATOLL_SCREENSHOTS"); pic != "" {
			if b, err := p.b.sendCommand(command{Do: "screenshot", Page: p.n, Timeout: 5000}); err == nil {
				_ = savePNG(filepath.Join(pic, "failed.png"), b)
			}
		}
		console, _ := p.b.sendCommand(command{Do: "console", Page: p.n}) // they may explain the failure
		shown, _ := p.b.sendCommand(command{Do: "eval", Page: p.n, Text: shownText})
		p.t.Fatalf("page %d: %s %s: %v\nconsole: %s\ntext: %s", p.n, c.Do, c.Text, err, console, shown)
	}
	return v
}

// Goto loads another address.
func (p *Page) Goto(address string) { p.t.Helper(); p.runCommand(command{Do: "goto", Text: address}) }

// Eval evaluates a JavaScript expression and stores its value in v, unless v is nil.
func (p *Page) Eval(expression string, v any) {
	p.t.Helper()
	got := p.runCommand(command{Do: "eval", Text: expression})
	if v == nil {
		return
	}
	if err := json.Unmarshal(got, v); err != nil {
		p.t.Fatalf("page %d: eval %s: %v: %s", p.n, expression, err, got)
	}
}

// Wait waits until an expression is true.
func (p *Page) Wait(expression string) {
	p.t.Helper()
	p.runCommand(command{Do: "wait", Text: expression})
}

// WaitText waits until the element that a CSS selector selects contains a text.
func (p *Page) WaitText(selector, text string) {
	p.t.Helper()
	p.Wait(fmt.Sprintf("(document.querySelector(%s)?.textContent ?? '').includes(%s)", quoteJS(selector), quoteJS(text)))
}

// Click clicks on an element.
func (p *Page) Click(selector string) {
	p.t.Helper()
	p.runCommand(command{Do: "click", Text: selector})
}

// Fill replaces the text of a field.
func (p *Page) Fill(selector, text string) {
	p.t.Helper()
	p.runCommand(command{Do: "fill", Text: selector, Input: text})
}

// Select chooses an option of a select element.
func (p *Page) Select(selector, option string) {
	p.t.Helper()
	p.runCommand(command{Do: "select", Text: selector, Input: option})
}

// ChooseFile chooses a file of this machine in an input element.
func (p *Page) ChooseFile(selector, file string) {
	p.t.Helper()
	p.runCommand(command{Do: "files", Text: selector, Input: file})
}

// Type types text into the focused element.
func (p *Page) Type(text string) { p.t.Helper(); p.runCommand(command{Do: "type", Text: text}) }

// Press presses a key, like "Enter" or "Control+C".
func (p *Page) Press(key string) { p.t.Helper(); p.runCommand(command{Do: "press", Text: key}) }

// Resize changes the window's size.
func (p *Page) Resize(width, height int) {
	p.t.Helper()
	p.runCommand(command{Do: "resize", Width: width, Height: height})
}

// Offline disconnects the page from the network, or connects it again.
func (p *Page) Offline(off bool) { p.t.Helper(); p.runCommand(command{Do: "offline", On: off}) }

// ConsoleMessages returns the page's warnings and errors so far, including violations
// of its content security policy.
func (p *Page) ConsoleMessages() []string {
	p.t.Helper()
	var list []string
	if err := json.Unmarshal(p.runCommand(command{Do: "console"}), &list); err != nil {
		p.t.Fatal(err)
	}
	return list
}

// Close closes the page.
func (p *Page) Close() { p.t.Helper(); p.runCommand(command{Do: "close"}) }

// Screenshot writes an image of the page to $ATOLL_SCREENSHOTS/name.png for manual
// review, if that variable is set.
func (p *Page) Screenshot(name string) {
	p.t.Helper()
	dir := os.Getenv("ATOLL_SCREENSHOTS")
	if dir == "" {
		return
	}
	if err := savePNG(filepath.Join(dir, name+".png"), p.runCommand(command{Do: "screenshot"})); err != nil {
		p.t.Fatal(err)
	}
}

// Picture returns an image of the page as a PNG.
func (p *Page) Picture() []byte {
	p.t.Helper()
	b, err := decodePNG(p.runCommand(command{Do: "screenshot"}))
	if err != nil {
		p.t.Fatal(err)
	}
	return b
}

// Heap returns the bytes of the page's JavaScript objects and the number of its DOM nodes, after a collection of
// garbage.
func (p *Page) Heap() (bytes, nodes int) {
	p.t.Helper()
	var got struct{ Bytes, Nodes float64 }
	if err := json.Unmarshal(p.runCommand(command{Do: "heap"}), &got); err != nil {
		p.t.Fatal(err)
	}
	return int(got.Bytes), int(got.Nodes)
}

func decodePNG(value json.RawMessage) ([]byte, error) {
	var text string
	if err := json.Unmarshal(value, &text); err != nil {
		return nil, err
	}
	return base64.StdEncoding.DecodeString(text)
}

func savePNG(file string, value json.RawMessage) error {
	b, err := decodePNG(value)
	if err != nil {
		return err
	}
	return os.WriteFile(file, b, 0o644)
}

// quoteJS returns a string as a JavaScript literal.
func quoteJS(s string) string {
	b, _ := json.Marshal(s) // never fails
	return strings.ReplaceAll(strings.ReplaceAll(string(b), "\u2028", `\u2028`), "\u2029", `\u2029`)
}
