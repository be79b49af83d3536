package browser_test

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/guest/vt"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
	"github.com/atoll-sandbox/atoll/test/browser"
)

// terminalWindow is a terminal of this machine in which 'atoll attach' runs.
type terminalWindow struct {
	*os.File
	cmd   *exec.Cmd
	drawn chan struct{} // closed when all is

	mu     sync.Mutex
	screen *vt.Emulator // the visible screen; guarded by mu
}

// attachCommandLine runs 'atoll attach' with a terminal of the sandbox in a window of
// the same size as a page's.
func (s *testServer) attachCommandLine(name string, like *browser.Page) *terminalWindow {
	s.Helper()
	dir := s.TempDir()
	bin := testenv.Atoll(s)
	var size atoll.Size
	like.Eval(`({cols: window.atoll.term.cols, rows: window.atoll.term.rows})`, &size)
	cmd := exec.CommandContext(s.Context(), bin, "attach", s.sandboxID, name)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "ATOLL_HOME=" + dir, "ATOLL_HOST=http://" + s.address, "ATOLL_TOKEN=" + s.token, "TERM=xterm-256color", "LANG=C.UTF-8"}
	master, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: uint16(size.Rows), Cols: uint16(size.Cols)})
	if err != nil {
		s.Fatal(err)
	}
	w := &terminalWindow{File: master, cmd: cmd, drawn: make(chan struct{}), screen: vt.New(size, 0)}
	go func() {
		defer close(w.drawn)
		buf := make([]byte, 4<<10)
		for { // until the last process has closed it, which is an error here
			n, err := master.Read(buf)
			w.mu.Lock()
			_, _ = w.screen.Write(buf[:n]) // it never fails
			w.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	s.Cleanup(func() { _ = master.Close() })
	return w
}

// waitForSameScreen waits until the window shows the same lines as a page.
func (w *terminalWindow) waitForSameScreen(t *testing.T, p *browser.Page) {
	t.Helper()
	var page, here []string
	for end := time.Now().Add(browser.Timeout); time.Now().Before(end); {
		p.Eval(`(() => { const t = window.atoll.term, b = t.buffer.active
			return Array.from({length: t.rows}, (_, y) => b.getLine(b.baseY + y).translateToString(true).trimEnd()) })()`, &page)
		w.mu.Lock()
		here = slices.Clone(w.screen.Screen().Lines)
		w.mu.Unlock()
		for len(here) < len(page) {
			here = append(here, "")
		}
		if slices.Equal(here, page) {
			return
		}
		p.Eval(`new Promise((done) => setTimeout(done, 50))`, nil)
	}
	t.Fatalf("on the page\n%s\nin the window\n%s", strings.Join(page, "\n"), strings.Join(here, "\n"))
}

// detach presses the detach keys and waits until atoll has exited.
func (w *terminalWindow) detach(t *testing.T) {
	t.Helper()
	if _, err := w.Write([]byte{'P' & 0x1f, 'Q' & 0x1f}); err != nil {
		t.Fatal(err)
	}
	timer := time.AfterFunc(browser.Timeout, func() { _ = w.cmd.Process.Kill() })
	defer timer.Stop()
	if err := w.cmd.Wait(); err != nil {
		t.Errorf("atoll attach after detaching: %v", err)
	}
	<-w.drawn
}
