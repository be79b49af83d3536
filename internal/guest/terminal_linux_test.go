package guest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll"
)

// linkToServer connects to a server in this process, without walls.
func linkToServer(t *testing.T, s *Server) *Link {
	t.Helper()
	l := &Link{ID: "test", Connect: func(context.Context) (net.Conn, error) {
		a, b := net.Pipe()
		go s.ServeConn(b)
		return a, nil
	}}
	t.Cleanup(l.Disconnect)
	return l
}

// shown is what a window has shown.
type shown struct {
	mu   sync.Mutex
	text bytes.Buffer // guarded by mu
	news chan struct{}
}

func newShown() *shown { return &shown{news: make(chan struct{}, 1)} }

func (s *shown) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case s.news <- struct{}{}:
	default:
	}
	return s.text.Write(b)
}

func (s *shown) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// waits until something was shown.
func (s *shown) waits(t *testing.T, text string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for !strings.Contains(s.String(), text) {
		select {
		case <-s.news:
		case <-ctx.Done():
			t.Fatalf("%q is not shown, but %q", text, s.String())
		}
	}
}

func TestTerminal(t *testing.T) {
	s := &Server{}
	t.Cleanup(s.Close)
	one, two := linkToServer(t, s), linkToServer(t, s)
	ctx, dir := t.Context(), t.TempDir()
	info, err := one.OpenTerminal(ctx, atoll.TerminalSpec{Name: "main", Args: []string{"/bin/sh"}, Env: []string{"PS1=> "}, Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if info.Name != "main" || info.Command != "/bin/sh" || !info.Running {
		t.Errorf("terminal %+v", info)
	}
	keys, typing := io.Pipe()
	screen := newShown()
	left, leave := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() {
		_, err := one.AttachTerminal(left, "main", atoll.Attachment{Stdin: keys, Stdout: screen, Size: atoll.Size{Rows: 10, Cols: 40}})
		done <- err
	}()
	screen.waits(t, ">")
	_, _ = io.WriteString(typing, "stty size; sleep 1000 & echo $! >pid; x=kept; echo $COLORTERM $TERM\r")
	screen.waits(t, "truecolor xterm-256color")
	if !strings.Contains(screen.String(), "10 40\r\n") {
		t.Errorf("the size is another: %q", screen.String())
	}
	leave()
	if err := <-done; !errors.Is(err, context.Canceled) || errors.Is(err, atoll.ErrUnavailable) {
		t.Errorf("who leaves gets %v", err)
	}
	one.Disconnect()
	late := newShown()
	exited := make(chan atoll.Exit, 1)
	go func() {
		exit, err := two.AttachTerminal(ctx, "main", atoll.Attachment{Stdout: late})
		if err != nil {
			t.Error(err)
		}
		exited <- exit
	}()
	late.waits(t, "truecolor xterm-256color")
	if err := two.SendTerminal(ctx, "main", []byte("echo \"<$x>\"\r")); err != nil {
		t.Error(err)
	}
	late.waits(t, "<kept>\r\n")
	read, err := one.ReadTerminal(ctx, "main") // on a new connection
	if err != nil || !strings.Contains(strings.Join(read.Lines, "\n"), "<kept>") {
		t.Errorf("screen %+v, %v", read, err)
	}
	pid, err := os.ReadFile(filepath.Join(dir, "pid"))
	if err != nil {
		t.Fatal(err)
	}
	if err := two.CloseTerminal(ctx, "main"); err != nil {
		t.Error(err)
	}
	if exit := <-exited; exit.Code != 137 || exit.Signal != "KILL" {
		t.Errorf("exit %+v", exit)
	}
	stat, err := os.ReadFile("/proc/" + strings.TrimSpace(string(pid)) + "/stat")
	if err == nil && !strings.Contains(string(stat), ") Z ") { // this test is no init: it can't bury it
		t.Errorf("process of a closed terminal: %s", stat)
	}
}

func TestTerminalWithoutProgram(t *testing.T) {
	s := &Server{}
	t.Cleanup(s.Close)
	l := linkToServer(t, s)
	info, err := l.OpenTerminal(t.Context(), atoll.TerminalSpec{Args: []string{"no-such-program"}})
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	exit, err := l.AttachTerminal(t.Context(), info.Name, atoll.Attachment{Stdout: &b})
	if err != nil || exit.Code != 127 || !strings.Contains(b.String(), "not found") {
		t.Errorf("%+v, %v: %q", exit, err, b.String())
	}
	if _, err := l.OpenTerminal(t.Context(), atoll.TerminalSpec{Dir: "/not/there"}); !errors.Is(err, atoll.ErrNotFound) && !errors.Is(err, atoll.ErrInvalid) {
		t.Errorf("a directory that is not there: %v", err)
	}
	if _, err := l.AttachTerminal(t.Context(), "nobody", atoll.Attachment{Stdout: &b}); !errors.Is(err, atoll.ErrNotFound) {
		t.Errorf("a terminal that is not there: %v", err)
	}
}

func TestChosenShells(t *testing.T) {
	for shell, want := range map[string]bool{"/bin/zsh": true, "/usr/bin/fish": true, "/bin/bash": true, "/bin/sh": false, "/usr/sbin/nologin": false, "/bin/false": false, "bash": false, "": false} {
		if got := isUserShell(shell); got != want {
			t.Errorf("%q: %v, want %v", shell, got, want)
		}
	}
}

func TestTerminalSlowWindow(t *testing.T) {
	s := &Server{}
	t.Cleanup(s.Close)
	l := linkToServer(t, s)
	info, err := l.OpenTerminal(t.Context(), atoll.TerminalSpec{Args: []string{"sh", "-c", "read x; seq 200000; echo the end; read x"}})
	if err != nil {
		t.Fatal(err)
	}
	free, slow, fast := make(chan struct{}), newShown(), newShown()
	go func() {
		_, _ = l.AttachTerminal(t.Context(), info.Name, atoll.Attachment{Stdout: writerFunc(func(b []byte) (int, error) {
			<-free
			return slow.Write(b)
		})})
	}()
	go func() { _, _ = l.AttachTerminal(t.Context(), info.Name, atoll.Attachment{Stdout: fast}) }()
	if err := l.SendTerminal(t.Context(), info.Name, []byte("\r")); err != nil {
		t.Fatal(err)
	}
	fast.waits(t, "the end")
	close(free)
	slow.waits(t, "the end")
	if n := len(slow.String()); n > 1<<20 {
		t.Errorf("a slow window got %d bytes", n)
	}
	if err := l.CloseTerminal(t.Context(), info.Name); err != nil {
		t.Error(err)
	}
}

type writerFunc func(b []byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

// hears is a listener of a server that nothing else looks after: only what is
// told or done touches anything.
func hears(t *testing.T, s *Server) *listener {
	t.Helper()
	l := &listener{idleAfter: time.Hour, wake: make(chan struct{}, 1)}
	s.news.mu.Lock()
	defer s.news.mu.Unlock()
	s.news.listeners = map[*listener]bool{l: true}
	return l
}

// TestTerminalIsActivity needs nobody who is attached, and the end is told.
func TestTerminalIsActivity(t *testing.T) {
	s := &Server{}
	t.Cleanup(s.Close)
	l, dir := linkToServer(t, s), t.TempDir()
	news := hears(t, s)
	if err := unix.Mkfifo(filepath.Join(dir, "go"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := l.ListTerminals(t.Context()); err != nil { // now the server is set up
		t.Fatal(err)
	}
	if _, err := s.terminals.OpenTerminal(t.Context(), atoll.TerminalSpec{Name: "build", Args: []string{"/bin/sh", "-c", "read x <go; echo out; exit 3"}, Dir: dir}); err != nil {
		t.Fatal(err)
	}
	s.activity.last.Store(1)
	if _, err := l.ListTerminals(t.Context()); err != nil || s.activity.last.Load() != 1 {
		t.Errorf("a look at the list is activity (%v)", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "go"), []byte("\n"), 0); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	select {
	case <-news.wake:
	case <-ctx.Done():
		t.Fatal("the end of a terminal's program is not told")
	}
	list := news.drainQueue()
	if len(list) != 1 || list[0].Kind != atoll.NoticeProcessEnded || list[0].Process != "build" || !strings.HasPrefix(list[0].Command, "/bin/sh") || list[0].Code != 3 || list[0].PID == 0 {
		t.Errorf("notices %+v", list)
	}
	if s.activity.last.Load() == 1 {
		t.Error("what a terminal shows to nobody is no activity")
	}
	if all, err := l.ListTerminals(t.Context()); err != nil || len(all) != 1 || all[0].Running || all[0].Code != 3 {
		t.Errorf("after its end: %+v, %v", all, err)
	}
}

func TestTypingIsActivity(t *testing.T) {
	s := &Server{}
	t.Cleanup(s.Close)
	l, dir := linkToServer(t, s), t.TempDir()
	if err := unix.Mkfifo(filepath.Join(dir, "done"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := l.ListTerminals(t.Context()); err != nil { // now the server is set up
		t.Fatal(err)
	}
	info, err := s.terminals.OpenTerminal(t.Context(), atoll.TerminalSpec{Args: []string{"/bin/sh", "-c", "stty -echo; echo ready; read x; echo $x >done; read x"}, Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	keys, typing := io.Pipe()
	screen := newShown()
	go func() {
		_, _ = l.AttachTerminal(t.Context(), info.Name, atoll.Attachment{Stdin: keys, Stdout: screen})
	}()
	screen.waits(t, "ready")
	s.activity.last.Store(1)
	_, _ = io.WriteString(typing, "key\r")
	b, err := os.ReadFile(filepath.Join(dir, "done"))
	if err != nil || string(b) != "key\n" {
		t.Fatalf("%q, %v", b, err)
	}
	if s.activity.last.Load() == 1 {
		t.Error("typing is no activity")
	}
}

func TestTerminalWithoutProgramIsTold(t *testing.T) {
	s := &Server{}
	t.Cleanup(s.Close)
	l, news := linkToServer(t, s), hears(t, s)
	if _, err := l.OpenTerminal(t.Context(), atoll.TerminalSpec{Name: "none", Args: []string{"no-such-program"}}); err != nil {
		t.Fatal(err)
	}
	<-news.wake
	if list := news.drainQueue(); len(list) != 1 || list[0].Process != "none" || list[0].Code != 127 {
		t.Errorf("notices %+v", list)
	}
}
