package browser_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/client"
	"github.com/atoll-sandbox/atoll/driver/namespace"
	"github.com/atoll-sandbox/atoll/internal/agents/turn"
	"github.com/atoll-sandbox/atoll/internal/api"
	"github.com/atoll-sandbox/atoll/internal/fleet"
	"github.com/atoll-sandbox/atoll/internal/preview"
	"github.com/atoll-sandbox/atoll/internal/testing/helpertest"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
	"github.com/atoll-sandbox/atoll/test/browser"
)

func TestMain(m *testing.M) {
	os.Exit(testenv.Main(m, "chromium and namespace", func(m *testing.M) int {
		code := helpertest.Main(m)
		if shared == nil {
			return code
		}
		if err := shared.Close(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return code
	}))
}

// shared is the browser of all tests; nil: none has needed one.
var shared *browser.Browser

// sharedBrowser returns the browser of all tests, which run one after the other.
func sharedBrowser(t testing.TB) *browser.Browser {
	t.Helper()
	if shared == nil {
		shared = browser.Start(t)
	}
	return shared
}

// hostID is the id of the server's home.
const hostID = "home-of-the-test"

// testServer is a server of sandboxes that run real programs, with one sandbox.
type testServer struct {
	testing.TB
	home     string
	address  string
	driver   *namespace.Driver
	fleet    *fleet.Fleet
	server   *api.Server
	served   chan error
	previews net.Listener   // of the proxy of ports
	turns    *turn.Registry // nil: no agent was asked for
	endRun   func()         // ends Fleet.Run
	links    bool           // ports are opened with links only, from the next start on

	sandboxID string // the sandbox
	token     string // of the owner
}

func newTestServer(t testing.TB) *testServer {
	t.Helper()
	s := &testServer{TB: t, home: t.TempDir(), address: "127.0.0.1:0"}
	s.driver = &namespace.Driver{Dir: filepath.Join(s.home, "namespace")}
	t.Cleanup(func() {
		if err := s.driver.Close(); err != nil {
			t.Error(err)
		}
	})
	if _, err := s.driver.Probe(t.Context()); err != nil {
		testenv.Skip(t, "namespace", "%v", err)
	}
	var err error
	if s.previews, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.previews.Close() }) // unless a proxy has closed it
	s.startServer()
	t.Cleanup(s.stopServer)
	all := s.fleet.Account(fleet.LocalCaller())
	sb, err := all.Create(t.Context(), atoll.Config{Spec: atoll.Spec{Name: "web"}})
	if err != nil {
		t.Fatal(err)
	}
	s.sandboxID = sb.ID()
	t.Cleanup(func() {
		sb, err := s.fleet.Account(fleet.LocalCaller()).Open(context.Background(), s.sandboxID)
		if err == nil {
			err = sb.Destroy(context.Background())
		}
		if err != nil {
			t.Error(err)
		}
	})
	s.token = s.createToken(atoll.Token{Scopes: []atoll.Scope{atoll.ScopeRead, atoll.ScopeRun}}).Secret
	return s
}

// startServer starts the server, on the same address as before.
func (s *testServer) startServer() {
	s.Helper()
	f, err := fleet.Open(s.Context(), fleet.Options{Home: s.home, Drivers: []atoll.Driver{s.driver}, UsageInterval: time.Second})
	if err == nil {
		err = f.Reconcile(s.Context())
	}
	if err != nil {
		s.Fatal(err)
	}
	l, err := net.Listen("tcp", s.address)
	for end := time.Now().Add(browser.Timeout); errors.Is(err, syscall.EADDRINUSE) && time.Now().Before(end); { // another connection uses the port
		<-time.After(100 * time.Millisecond)
		l, err = net.Listen("tcp", s.address)
	}
	if err != nil {
		s.Fatal(err)
	}
	s.address = l.Addr().String()
	s.fleet, s.turns, s.served = f, nil, make(chan error, 1)
	routes := &preview.Registry{Fleet: f, Address: preview.Address{Scheme: "http", Port: s.previews.Addr().(*net.TCPAddr).Port}}
	if s.links {
		routes.Access = preview.LinkAccess(f)
	}
	s.server = api.New(api.Options{Fleet: f, Agents: s.newAgents, HostID: hostID, Routes: routes})
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.Context()))
	run := make(chan error, 1)
	go func() { run <- f.Run(ctx) }()
	s.endRun = func() {
		cancel()
		if err := <-run; err != nil {
			s.Error(err)
		}
	}
	go func(srv *api.Server, served chan error) { served <- srv.Serve(l) }(s.server, s.served)
}

// stopServer stops the server; programs in sandboxes continue.
func (s *testServer) stopServer() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if s.turns != nil {
		if err := s.turns.Close(ctx); err != nil {
			s.Error(err)
		}
	}
	_ = s.server.Shutdown(ctx) // closes the pages' connections
	if err := <-s.served; err != nil {
		s.Error(err)
	}
	s.endRun()
	if err := s.fleet.Close(context.Background()); err != nil {
		s.Error(err)
	}
}

func (s *testServer) createToken(t atoll.Token) atoll.Token {
	s.Helper()
	t, err := s.fleet.Account(fleet.LocalCaller()).CreateToken(s.Context(), t)
	if err != nil {
		s.Fatal(err)
	}
	return t
}

// createLink returns a link to a terminal, as 'atoll attach --web' prints it.
func (s *testServer) createLink(terminal string, scopes ...atoll.Scope) (string, atoll.Token) {
	s.Helper()
	t := s.createToken(atoll.Token{Scopes: scopes, Expires: time.Now().Add(time.Hour), Link: &atoll.Link{Sandbox: s.sandboxID, Terminal: terminal}})
	return "http://" + s.address + "/ui/#" + url.Values{"token": {t.Secret}, "terminal": {terminal}}.Encode(), t
}

func (s *testServer) openSandbox() *client.Sandbox {
	s.Helper()
	c, err := client.New(client.Options{Host: "http://" + s.address, Token: s.token})
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { _ = c.Close() }) // only its idle connections
	sb, err := c.Sandbox(s.Context(), s.sandboxID)
	if err != nil {
		s.Fatal(err)
	}
	return sb
}

// openTerminal opens a terminal; without args it runs a shell without startup files.
func (s *testServer) openTerminal(name string, args ...string) {
	s.Helper()
	if len(args) == 0 {
		args = []string{"bash", "--norc", "--noprofile"}
	}
	_, err := s.openSandbox().OpenTerminal(s.Context(), atoll.TerminalSpec{Name: name, Args: args, Env: []string{"PS1=$ ", "LANG=C.UTF-8", "LC_ALL=C.UTF-8", "TERM=xterm-256color", "HISTFILE="}})
	if err != nil {
		s.Fatal(err)
	}
}

// waitForText waits until the screen of a page's terminal contains a text.
func waitForText(p *browser.Page, text string) {
	b, _ := json.Marshal(text) // never fails
	p.Wait(fmt.Sprintf(`(() => { const t = window.atoll?.term; if (!t) return false; const b = t.buffer.active
		for (let y = 0; y < t.rows; y++) if (b.getLine(b.baseY + y)?.translateToString(true).includes(%s)) return true
		return false })()`, b))
}

// screenScript is a script that returns the cells of a screen, its cursor position and
// whether it is the alternate screen.
const screenScript = `(() => {
	const t = window.atoll.term, b = t.buffer.active, rows = []
	for (let y = 0; y < t.rows; y++) {
		const line = b.getLine(b.baseY + y), row = []
		for (let x = 0; x < t.cols; x++) {
			const c = line.getCell(x)
			if (c.getWidth() === 0) continue
			row.push([c.getChars() || ' ', c.getWidth(), c.getFgColorMode(), c.getFgColor(), c.getBgColorMode(), c.getBgColor(),
				c.isBold() | c.isDim() | c.isItalic() | c.isUnderline() | c.isInverse() | c.isStrikethrough() | c.isInvisible() | c.isOverline()].join(','))
		}
		rows.push(row.join(' '))
	}
	return [t.cols + 'x' + t.rows, b.type, b.cursorX + ',' + b.cursorY, ...rows]
})()`

// waitForEqualScreens waits until two pages have equal cells. There is no event when a
// page has drawn.
func waitForEqualScreens(t *testing.T, a, b *browser.Page) {
	t.Helper()
	var one, two []string
	for end := time.Now().Add(browser.Timeout); ; {
		a.Eval(screenScript, &one)
		b.Eval(screenScript, &two)
		if slices.Equal(one, two) {
			return
		}
		if time.Now().After(end) {
			break
		}
		a.Eval(`new Promise((done) => setTimeout(done, 50))`, nil)
	}
	for i := range one {
		if i >= len(two) || one[i] != two[i] {
			t.Fatalf("line %d of the screens:\n%s\n%s", i-3, one[i], strings.Join(two[i:min(i+1, len(two))], ""))
		}
	}
	t.Fatalf("%d lines, and %d", len(one), len(two))
}
