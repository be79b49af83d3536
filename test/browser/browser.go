// Package browser drives a real browser for tests of what atoll shows in one:
// Debian's chromium, by playwright-core on Node.
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

// Patience is how long a page may take to come to what a test waits for, also
// on a machine that is busy with other things.
const Patience = 60 * time.Second

// Browser is a browser that ends with its test.
type Browser struct {
	in  io.Writer
	out *bufio.Reader

	mu   sync.Mutex // held while a command is on its way and answered
	last int        // page; guarded by mu
}

// Start starts a browser without a window. Where there is none the test is
// skipped; ATOLL_MUST=chromium makes that a failure.
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
	script := filepath.Join(t.TempDir(), "driver.mjs")
	if err := os.WriteFile(script, driver, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(node, script, playwright, chromium) //nolint:noctx // it ends with its standard input
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
	stderr := new(tail)
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
	b := &Browser{in: in, out: bufio.NewReaderSize(out, 64<<10)}
	t.Cleanup(func() {
		_ = in.Close() // the driver ends the browser, then itself
		kill := time.AfterFunc(Patience, func() { _ = cmd.Process.Kill() })
		defer kill.Stop()
		if err := cmd.Wait(); err != nil {
			t.Errorf("browser: %v\n%s", err, stderr)
		}
	})
	if _, err := b.call(command{Do: "start"}); err != nil {
		t.Fatalf("browser: %v\n%s", err, stderr)
	}
	return b
}

// tail keeps the end of what is written.
type tail struct {
	mu sync.Mutex
	b  []byte // guarded by mu
}

func (w *tail) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.b = append(w.b, p...)
	w.b = w.b[max(0, len(w.b)-4096):]
	return len(p), nil
}

func (w *tail) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return string(w.b)
}

// Look says how a page's window is; the zero one is 1000 by 640, dark.
type Look struct {
	Width, Height int
	Light         bool
	Touch         bool // a phone's: a finger, no mouse
}

type command struct {
	Do      string `json:"do"`
	Page    int    `json:"page,omitempty"`
	Text    string `json:"text,omitempty"` // address, script, selector, keys
	Width   int    `json:"width,omitempty"`
	Height  int    `json:"height,omitempty"`
	Light   bool   `json:"light,omitempty"`
	Touch   bool   `json:"touch,omitempty"`
	On      bool   `json:"on,omitempty"`
	Timeout int64  `json:"timeout,omitempty"` // milliseconds
}

type answer struct {
	Value json.RawMessage `json:"value"`
	Error string          `json:"error"`
}

// call has the driver do something.
func (b *Browser) call(c command) (json.RawMessage, error) {
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
		return nil, fmt.Errorf("%s: the browser's driver has ended: %w", c.Do, err)
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

// Page is one window, of a person of its own: nothing is shared with others.
// A method that fails fails the test.
type Page struct {
	b *Browser
	t testing.TB
	n int
}

// Open opens a page of an address, for a test that ends before the browser's.
func (b *Browser) Open(t testing.TB, address string, look Look) *Page {
	t.Helper()
	if look.Width == 0 {
		look.Width, look.Height = 1000, 640
	}
	b.mu.Lock()
	b.last++
	p := &Page{b: b, t: t, n: b.last}
	b.mu.Unlock()
	p.do(command{Do: "open", Text: address, Width: look.Width, Height: look.Height, Light: look.Light, Touch: look.Touch})
	return p
}

// shownText is a script that gives a page's text, with what its terminal shows.
const shownText = `document.body.innerText + (window.atoll?.term ? Array.from({ length: window.atoll.term.rows }, (_, y) => {
	const b = window.atoll.term.buffer.active
	return b.getLine(b.baseY + y)?.translateToString(true) ?? ''
}).join('\n').trimEnd() + '\n' + window.atoll.term.cols + 'x' + window.atoll.term.rows : '')`

func (p *Page) do(c command) json.RawMessage {
	p.t.Helper()
	c.Page, c.Timeout = p.n, Patience.Milliseconds()
	v, err := p.b.call(c)
	if err != nil {
		if pic := os.Getenv("ATOLL_SCREENSHOTS"); pic != "" {
			if b, err := p.b.call(command{Do: "screenshot", Page: p.n, Timeout: 5000}); err == nil {
				_ = savePNG(filepath.Join(pic, "failed.png"), b)
			}
		}
		said, _ := p.b.call(command{Do: "console", Page: p.n}) // it explains, if it can
		shown, _ := p.b.call(command{Do: "eval", Page: p.n, Text: shownText})
		p.t.Fatalf("page %d: %s %s: %v\nthe page said: %s\nand shows: %s", p.n, c.Do, c.Text, err, said, shown)
	}
	return v
}

// Goto loads another address.
func (p *Page) Goto(address string) { p.t.Helper(); p.do(command{Do: "goto", Text: address}) }

// Eval stores in v, unless it is nil, what an expression of JavaScript gives.
func (p *Page) Eval(expression string, v any) {
	p.t.Helper()
	got := p.do(command{Do: "eval", Text: expression})
	if v == nil {
		return
	}
	if err := json.Unmarshal(got, v); err != nil {
		p.t.Fatalf("page %d: eval %s: %v: %s", p.n, expression, err, got)
	}
}

// Wait waits until an expression is true.
func (p *Page) Wait(expression string) { p.t.Helper(); p.do(command{Do: "wait", Text: expression}) }

// WaitText waits until an element that a CSS selector names has a text in it.
func (p *Page) WaitText(selector, text string) {
	p.t.Helper()
	p.Wait(fmt.Sprintf("(document.querySelector(%s)?.textContent ?? '').includes(%s)", quoted(selector), quoted(text)))
}

// Click clicks on an element.
func (p *Page) Click(selector string) { p.t.Helper(); p.do(command{Do: "click", Text: selector}) }

// Type types text where the focus is.
func (p *Page) Type(text string) { p.t.Helper(); p.do(command{Do: "type", Text: text}) }

// Press presses a key, like "Enter" or "Control+C".
func (p *Page) Press(key string) { p.t.Helper(); p.do(command{Do: "press", Text: key}) }

// Resize gives the window another size.
func (p *Page) Resize(width, height int) {
	p.t.Helper()
	p.do(command{Do: "resize", Width: width, Height: height})
}

// Offline cuts the page off the network, or connects it again.
func (p *Page) Offline(off bool) { p.t.Helper(); p.do(command{Do: "offline", On: off}) }

// Said returns the warnings and errors of the page so far, what its policy
// refused among them.
func (p *Page) Said() []string {
	p.t.Helper()
	var list []string
	if err := json.Unmarshal(p.do(command{Do: "console"}), &list); err != nil {
		p.t.Fatal(err)
	}
	return list
}

// Close closes the page.
func (p *Page) Close() { p.t.Helper(); p.do(command{Do: "close"}) }

// Screenshot writes a picture of the page to $ATOLL_SCREENSHOTS/name.png, for
// people to look at, if that is set.
func (p *Page) Screenshot(name string) {
	p.t.Helper()
	dir := os.Getenv("ATOLL_SCREENSHOTS")
	if dir == "" {
		return
	}
	if err := savePNG(filepath.Join(dir, name+".png"), p.do(command{Do: "screenshot"})); err != nil {
		p.t.Fatal(err)
	}
}

func savePNG(file string, value json.RawMessage) error {
	var text string
	if err := json.Unmarshal(value, &text); err != nil {
		return err
	}
	b, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return err
	}
	return os.WriteFile(file, b, 0o644)
}

// quoted is a string as JavaScript reads it.
func quoted(s string) string {
	b, _ := json.Marshal(s) // never fails
	return strings.ReplaceAll(strings.ReplaceAll(string(b), "\u2028", `\u2028`), "\u2029", `\u2029`)
}
