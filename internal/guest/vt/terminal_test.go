package vt

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// echo is a program that writes what is typed; "." ends it.
type echo struct {
	t *Terminal

	mu     sync.Mutex
	sizes  []atoll.Size // guarded by mu
	killed bool         // guarded by mu
}

func (e *echo) Write(p []byte) (int, error) {
	_, _ = e.t.Write(p)
	if bytes.Contains(p, []byte(".")) {
		e.t.RecordExit(atoll.Exit{Code: 3})
	}
	return len(p), nil
}

func (e *echo) Resize(s atoll.Size) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.sizes = append(e.sizes, s)
}

func (e *echo) Kill() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.killed {
		e.killed = true
		go e.t.RecordExit(atoll.Exit{Code: 137, Signal: "KILL"})
	}
}

func newSet() *Set {
	return &Set{Start: func(_ context.Context, spec *atoll.TerminalSpec, t *Terminal) (Program, error) {
		if spec.Dir == "/gone" {
			return nil, atoll.ErrNotFound
		}
		return &echo{t: t}, nil
	}}
}

// watcher is a window that is a terminal too.
type watcher struct {
	mu sync.Mutex
	m  *Emulator // guarded by mu
	n  int       // guarded by mu; bytes that it was sent
}

func newWatcher(s atoll.Size) *watcher { return &watcher{m: New(s, 100)} }

func (w *watcher) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.n += len(p)
	return w.m.Write(p)
}

func (w *watcher) resized(s atoll.Size) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.m.Resize(s)
}

func (w *watcher) text() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.m.Text()
}

func TestSharedRemovesEndedTerminals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSet()
		ctx := t.Context()
		if _, err := s.OpenTerminal(ctx, atoll.TerminalSpec{Dir: "/gone"}); !errors.Is(err, atoll.ErrNotFound) {
			t.Errorf("a program that does not start: %v", err)
		}
		for i := range MaxTerminals {
			info, err := s.OpenTerminal(ctx, atoll.TerminalSpec{})
			if err != nil || info.Name != fmt.Sprint(i+1) {
				t.Fatalf("terminal %d: %+v, %v", i, info, err)
			}
		}
		if _, err := s.OpenTerminal(ctx, atoll.TerminalSpec{}); !errors.Is(err, atoll.ErrQuota) {
			t.Errorf("one too many: %v", err)
		}
		if err := s.SendTerminal(ctx, "7", []byte("bye.")); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if screen, err := s.ReadTerminal(ctx, "7"); err != nil || screen.Lines[0] != "bye." {
			t.Errorf("one that has ended: %+v, %v", screen, err)
		}
		if err := s.SendTerminal(ctx, "7", []byte("x")); !errors.Is(err, atoll.ErrState) {
			t.Errorf("typing on it: %v", err)
		}
		if info, err := s.OpenTerminal(ctx, atoll.TerminalSpec{}); err != nil || info.Name != "33" {
			t.Errorf("one more in its place: %+v, %v", info, err)
		}
		if err := s.SendTerminal(ctx, "8", []byte(".")); err != nil {
			t.Error(err)
		}
		time.Sleep(keepEnded + time.Second)
		synctest.Wait()
		if _, err := s.ReadTerminal(ctx, "8"); !errors.Is(err, atoll.ErrNotFound) {
			t.Errorf("one that ended long ago: %v", err)
		}
		list, err := s.ListTerminals(ctx)
		if err != nil || len(list) != MaxTerminals-1 {
			t.Errorf("%d terminals, %v", len(list), err)
		}
		for _, i := range list {
			if err := s.CloseTerminal(ctx, i.Name); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestSharedWindowsOfAllSizes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var program *echo
		shared, err := NewTerminal(&atoll.TerminalSpec{Size: atoll.Size{Rows: 6, Cols: 20}}, time.Now, func(s *Terminal) (Program, error) {
			program = &echo{t: s}
			return program, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		large, small, follower := atoll.Size{Rows: 10, Cols: 40}, atoll.Size{Rows: 3, Cols: 8}, newWatcher(atoll.Size{})
		typist, tall, tiny := newWatcher(atoll.Size{Rows: 6, Cols: 20}), newWatcher(large), newWatcher(small)
		keys, typing := io.Pipe()
		sizes := make(chan atoll.Size)
		for _, a := range []atoll.Attachment{
			{Stdout: typist, Stdin: keys, Size: atoll.Size{Rows: 6, Cols: 20}, Resize: sizes},
			{Stdout: tall, Size: large, ReadOnly: true},
			{Stdout: tiny, Size: small, ReadOnly: true},
			{Stdout: follower, OnResize: follower.resized, History: true, ReadOnly: true},
		} {
			go func() { _, _ = shared.Attach(ctx, a) }()
		}
		_, _ = io.WriteString(typing, "a line of more than twenty characters\r\n2\r\n3\r\n4\r\n\x1b[1;31m漢字\x1b[m!")
		synctest.Wait()
		want := screenOf(shared)
		for name, w := range map[string]*watcher{"typist": typist, "tall": tall, "follower": follower} {
			if got := w.text(); got != want {
				t.Errorf("%s sees %q, want %q", name, got, want)
			}
		}
		if got := tiny.text(); got != "3\n4\n漢字!" {
			t.Errorf("a tiny window sees %q", got)
		}
		sizes <- atoll.Size{Rows: 4, Cols: 30}
		_, _ = io.WriteString(typing, "\r\nafter")
		synctest.Wait()
		want = screenOf(shared)
		for name, w := range map[string]*watcher{"tall": tall, "follower": follower} {
			if got := w.text(); got != want {
				t.Errorf("%s sees %q after a resize, want %q", name, got, want)
			}
		}
		if s := follower.m.Size(); s != (atoll.Size{Rows: 4, Cols: 30}) {
			t.Errorf("the viewer with Sized got %v", s)
		}
		if n := len(program.sizes); n != 1 {
			t.Errorf("the program was told of %d sizes: %v", n, program.sizes)
		}
		if i := shared.Info(); i.Clients != 4 {
			t.Errorf("%d are attached", i.Clients)
		}
		cancel()
		_ = typing.Close()
		shared.Kill()
		synctest.Wait()
	})
}

func screenOf(s *Terminal) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.emulator.Text()
}

// A viewer that does not read delays nothing, and gets the current screen when it
// reads again.
func TestSharedSlowWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared, err := NewTerminal(&atoll.TerminalSpec{}, time.Now, func(s *Terminal) (Program, error) { return &echo{t: s}, nil })
		if err != nil {
			t.Fatal(err)
		}
		slow, free := newWatcher(atoll.Size{}), make(chan struct{})
		go func() {
			_, _ = shared.Attach(t.Context(), atoll.Attachment{Stdout: writerFunc(func(p []byte) (int, error) {
				<-free
				return slow.Write(p)
			})})
		}()
		synctest.Wait()
		for i := range 20_000 {
			fmt.Fprintf(shared, "line %d\r\n", i)
		}
		close(free)
		synctest.Wait()
		if got, want := slow.text(), screenOf(shared); got != want {
			t.Errorf("it sees %q, want %q", got, want)
		}
		if slow.n > 2*maxOutput {
			t.Errorf("it was sent %d bytes", slow.n)
		}
		shared.Kill()
	})
}

func TestFilter(t *testing.T) {
	var b bytes.Buffer
	f := NewFilter(&b)
	for _, part := range []string{"a\x1b]52;c;", "aGk=\ab\x1b[3", "1mc\x1bPq#0;2;0;0;0\x1b\\d\u009b6ne\x1b]0;title\x1b\\"} {
		if n, err := f.Write([]byte(part)); n != len(part) || err != nil {
			t.Fatal(n, err)
		}
	}
	if got, want := b.String(), "ab\x1b[31mcde\x1b]2;title\a"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// What a program does not read is bounded.
func TestSharedInputIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stuck := make(chan struct{})
		var s *Terminal
		s, err := NewTerminal(&atoll.TerminalSpec{}, time.Now, func(*Terminal) (Program, error) {
			return program{func() { <-stuck }, func() { s.RecordExit(atoll.Exit{}) }}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Send(t.Context(), []byte("first")); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := s.Send(ctx, make([]byte, maxInput+1)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("more than there is room for: %v", err)
		}
		_, _ = s.Write([]byte("\x1b[6n")) // an answer for which there is no room
		close(stuck)
		synctest.Wait()
		if err := s.Send(t.Context(), []byte("again")); err != nil {
			t.Error(err)
		}
		s.Kill()
	})
}

type program struct{ write, kill func() }

func (p program) Write(b []byte) (int, error) {
	p.write()
	return len(b), nil
}

func (p program) Resize(atoll.Size) {}

func (p program) Kill() { p.kill() }
