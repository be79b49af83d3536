package browser_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet"
	"github.com/atoll-sandbox/atoll/internal/preview"
	"github.com/atoll-sandbox/atoll/internal/preview/proxy"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
	"github.com/atoll-sandbox/atoll/test/browser"
)

// servePreviews serves the preview names of a server's sandboxes, and returns the port.
func (s *testServer) servePreviews() string {
	s.Helper()
	l := s.previews
	desk := &preview.Registry{Fleet: s.fleet}
	p := &proxy.Proxy{Finder: desk.Finder()}
	ctx, end := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- p.Serve(ctx, l, proxy.ServeOptions{}) }()
	s.Cleanup(func() {
		end()
		if err := errors.Join(<-served, p.Close()); err != nil {
			s.Error(err)
		}
	})
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		s.Fatal(err)
	}
	return port
}

// packDir returns a tar stream of a directory of this machine.
func packDir(t *testing.T, dir string) *bytes.Buffer {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	err := errors.Join(w.AddFS(os.DirFS(dir).(fs.ReadLinkFS)), w.Close())
	if err != nil {
		t.Fatal(err)
	}
	return &b
}

// TestRoutes uses previews in a browser: pages that explain why there is no server yet,
// and a development server that updates its page without reloading it.
func TestRoutes(t *testing.T) {
	vite := testenv.Program(t, "chromium", "ATOLL_VITE")
	b := sharedBrowser(t)
	s := newTestServer(t)
	port := s.servePreviews()
	page := b.Open(t, "http://web.localhost:"+port+"/", browser.Window{})
	defer page.Close()
	page.WaitText("h1", "Nothing listens in web yet")
	page.Screenshot("route-empty")

	sb, err := s.fleet.Account(fleet.LocalCaller()).Open(t.Context(), s.sandboxID)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*browser.Timeout)
	defer cancel()
	if err := sb.Import(ctx, atoll.DefaultDir, packDir(t, vite)); err != nil {
		t.Fatal(err)
	}
	write := func(name, text string) {
		t.Helper()
		if err := sb.WriteFile(ctx, filepath.Join(atoll.DefaultDir, name), strings.NewReader(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	const code = `import { text } from './text.js'
const show = (t) => { document.querySelector('h1').textContent = t }
show(text)
import.meta.hot.accept('./text.js', (m) => show(m.text))
`
	write("index.html", `<!doctype html><title>web</title><h1></h1><script type="module" src="/main.js"></script>`)
	write("main.js", code)
	write("text.js", "export const text = 'first'\n")
	if _, err := sb.Detach(ctx, atoll.Cmd{Args: []string{"node", "node_modules/vite/bin/vite.js", "--port", "5173", "--strictPort"}, Dir: atoll.DefaultDir}); err != nil {
		t.Fatal(err)
	}
	page.WaitText("h1", "first") // the error page reloads by itself
	page.Goto("http://5173-web.localhost:" + port + "/")
	page.WaitText("h1", "first")
	page.Eval("window.same = true", nil)
	// A page does not get changes from before its WebSocket was connected, and there is
	// no event when it is.
	for n, shown := 0, ""; shown != "second"; n++ {
		if n%20 == 0 {
			write("text.js", fmt.Sprintf("export const text = 'second' // %d\n", n))
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			t.Fatalf("the page shows %q: no change comes through", shown)
		}
		page.Eval("document.querySelector('h1').textContent", &shown)
	}
	var same bool
	if page.Eval("window.same === true", &same); !same {
		t.Error("the page was loaded again: the WebSocket of Vite does not come through")
	}
	page.Screenshot("route-vite")

	page.Goto("http://81-web.localhost:" + port + "/")
	page.WaitText("h1", "Nothing listens on port 81 of web")
	page.Wait(`document.querySelector('a[href*="5173-web.localhost"]') !== null`)
	page.Screenshot("route-ports")
	if err := sb.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	page.Goto("http://5173-web.localhost:" + port + "/")
	page.WaitText("h1", "web is not running")
	page.Screenshot("route-stopped")
	page.Goto("http://other.localhost:" + port + "/")
	page.WaitText("h1", "No sandbox called other")
}
