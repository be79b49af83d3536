package kernel

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/vfs"
)

// runOnTTY runs a program on a terminal.
func runOnTTY(t *testing.T, r Run, main Program) (Result, error) {
	t.Helper()
	k := New(Config{FS: vfs.New(vfs.Options{})})
	if r.TTY == nil {
		r.TTY = &atoll.TTY{}
	}
	r.Args, r.Main = []string{"prog"}, main
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	res, err := k.Run(ctx, r)
	if len(k.ttys) != 0 {
		t.Errorf("%d terminals are left", len(k.ttys))
	}
	return res, err
}

// readEntries reads everything, with one entry for each read.
func readEntries(p *Proc) []string {
	var list []string
	b := make([]byte, 1<<13)
	for {
		n, err := p.Stdin.Read(b)
		if err != nil {
			return list
		}
		list = append(list, string(b[:n]))
	}
}

func TestTTYReadsLines(t *testing.T) {
	var got []string
	res, err := runOnTTY(t, Run{Stdin: strings.NewReader("one\rtwo\npart")}, func(p *Proc) int {
		got = readEntries(p)
		_, _ = p.Stdout.WriteString("done\n")
		return 3
	})
	if err != nil || res.Status.Code != 3 {
		t.Fatalf("%+v, %v", res, err)
	}
	if s := strings.Join(got, "|"); s != "one\n|two\n|part" {
		t.Errorf("read %q", s)
	}
	if s := string(res.Stdout); s != "one\r\ntwo\r\npartdone\r\n" {
		t.Errorf("screen %q", s)
	}
}

func TestTTYWithoutInputEnds(t *testing.T) {
	res, err := runOnTTY(t, Run{}, func(p *Proc) int { return len(readEntries(p)) })
	if err != nil || res.Status.Code != 0 {
		t.Errorf("%+v, %v", res, err)
	}
}

// TestTTYMinTime checks that VMIN and VTIME work as on Linux.
func TestTTYMinTime(t *testing.T) {
	r, w := io.Pipe()
	defer w.Close()
	_, err := runOnTTY(t, Run{Stdin: r}, func(p *Proc) int {
		y := p.Terminal()
		m := y.Mode().Raw()
		read := func(least, tenths byte) string {
			m.Chars[VMIN], m.Chars[VTIME] = least, tenths
			y.SetMode(m)
			b := make([]byte, 10)
			n, err := p.Stdin.Read(b)
			if err != nil {
				return "end"
			}
			return string(b[:n])
		}
		if s := read(0, 0); s != "end" {
			t.Errorf("without waiting: %q", s)
		}
		if s := read(0, 1); s != "end" {
			t.Errorf("after a tenth of a second: %q", s)
		}
		go func() {
			_, _ = io.WriteString(w, "ab")
			_, _ = io.WriteString(w, "cd")
		}()
		if s := read(4, 0); s != "abcd" {
			t.Errorf("at least four: %q", s)
		}
		go func() { _, _ = io.WriteString(w, "e") }()
		if s := read(5, 1); s != "e" {
			t.Errorf("a tenth of a second after the first: %q", s)
		}
		return 0
	})
	if err != nil {
		t.Error(err)
	}
}

// brokenReader is the input of a client that disconnects.
type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// TestTTYHangsUp checks that a client that disconnects causes a hang-up, for readers and for
// writers.
func TestTTYHangsUp(t *testing.T) {
	res, err := runOnTTY(t, Run{Stdin: brokenReader{}}, func(p *Proc) int {
		p.Sleep(time.Hour, true)
		return 0
	})
	if err != nil || res.Status.Signal != SIGHUP {
		t.Errorf("input that fails: %+v, %v", res, err)
	}
	res, err = runOnTTY(t, Run{Stdout: brokenWriter{}}, func(p *Proc) int {
		for {
			_, _ = p.Stdout.WriteString("more\n")
		}
	})
	if !errors.Is(err, io.ErrClosedPipe) || res.Status.Signal != SIGHUP {
		t.Errorf("output that fails: %+v, %v", res, err)
	}
	res, _ = runOnTTY(t, Run{Stdout: brokenWriter{}}, func(p *Proc) int {
		p.SetSignal(SIGHUP, Ignore)
		for {
			if _, err := p.Stdout.WriteString("more\n"); err != nil {
				return 7
			}
		}
	})
	if res.Status.Code != 7 {
		t.Errorf("output that fails, without the signal: %+v", res)
	}
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

// TestTTYFlood checks that a client that types without end into a program that does not read is
// blocked, and that the program ends.
func TestTTYFlood(t *testing.T) {
	flood := &counter{}
	res, err := runOnTTY(t, Run{Stdin: flood}, func(p *Proc) int {
		y := p.Terminal()
		m := y.Mode()
		m.Local &^= ECHO
		y.SetMode(m)
		p.Sleep(50*time.Millisecond, false)
		y.mu.Lock()
		defer y.mu.Unlock()
		if n := len(y.line.input); n > lineSize {
			t.Errorf("the terminal holds %d bytes", n)
		}
		return 0
	})
	if err != nil || res.Status.Code != 0 {
		t.Errorf("%+v, %v", res, err)
	}
	flood.mu.Lock()
	defer flood.mu.Unlock()
	if flood.n > 1<<20 {
		t.Errorf("%d bytes were taken from the client", flood.n)
	}
}

// counter is input that never ends.
type counter struct {
	mu sync.Mutex
	n  int // guarded by mu
}

func (c *counter) Read(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range b {
		b[i] = "line\n"[i%5]
	}
	c.n += len(b)
	return len(b), nil
}

// TestTTYFlowControl checks that ^S stops the output, and ^Q continues it.
func TestTTYFlowControl(t *testing.T) {
	r, w := io.Pipe()
	defer w.Close()
	var screen bytes.Buffer
	_, err := runOnTTY(t, Run{Stdin: r, Stdout: &screen}, func(p *Proc) int {
		y := p.Terminal()
		_, _ = io.WriteString(w, "\x13")
		for halted := false; !halted; {
			y.mu.Lock()
			halted = y.line.halted
			y.mu.Unlock()
		}
		go func() { _, _ = io.WriteString(w, "\x11") }()
		_, _ = p.Stdout.WriteString("after\n")
		return 0
	})
	if err != nil || screen.String() != "after\r\n" {
		t.Errorf("%q, %v", screen.String(), err)
	}
}

// TestTTYBackgroundStops checks that a process that reads in the background is stopped, and
// continues in the foreground.
func TestTTYBackgroundStops(t *testing.T) {
	r, w := io.Pipe()
	defer w.Close()
	go func() { _, _ = io.WriteString(w, "hello\n") }()
	res, err := runOnTTY(t, Run{Stdin: r}, func(p *Proc) int {
		got := ""
		c, err := p.Spawn(Spawn{Args: []string{"child"}, Group: -1, Main: func(c *Proc) int {
			b := make([]byte, 64)
			n, _ := c.Stdin.Read(b)
			got = string(b[:n])
			return 5
		}})
		if err != nil {
			t.Error(err)
			return 1
		}
		if _, stopped := p.WaitJob(c); !stopped {
			t.Error("it is not stopped")
		}
		p.Terminal().SetForeground(c.Group())
		_ = p.Kernel().KillGroup(c.Group(), SIGCONT)
		st, _ := p.WaitJob(c)
		if got != "hello\n" {
			t.Errorf("read %q", got)
		}
		return st.Code
	})
	if err != nil || res.Status.Code != 5 {
		t.Errorf("%+v, %v", res, err)
	}
}

// TestTTYSizes checks that the foreground is notified of a new size.
func TestTTYSizes(t *testing.T) {
	sizes := make(chan atoll.Size, 1)
	res, err := runOnTTY(t, Run{TTY: &atoll.TTY{Size: atoll.Size{Rows: 7}, Resize: sizes}}, func(p *Proc) int {
		if s := p.Terminal().Size(); s != (atoll.Size{Rows: 7, Cols: 80}) {
			t.Errorf("size %v", s)
		}
		p.SetSignal(SIGWINCH, Catch)
		sizes <- atoll.Size{Rows: 3, Cols: 4}
		for !p.HasCaughtSignal() {
			p.Pause()
		}
		if s := p.Terminal().Size(); s != (atoll.Size{Rows: 3, Cols: 4}) {
			t.Errorf("size %v", s)
		}
		return 0
	})
	if err != nil || res.Status.Code != 0 {
		t.Errorf("%+v, %v", res, err)
	}
}

// TestSignalsFromOutside checks signals by name: they end, are caught, and are ignored.
func TestSignalsFromOutside(t *testing.T) {
	for _, c := range []struct {
		names []string
		want  Status
	}{
		{[]string{"TERM"}, Status{Code: 143, Signal: SIGTERM}},
		{[]string{"SIGINT"}, Status{Code: 130, Signal: SIGINT}},
		{[]string{"NONSENSE", "", "0", "EXIT", "HUP"}, Status{Code: 129, Signal: SIGHUP}},
		{[]string{"STOP", "KILL"}, Status{Code: 137, Signal: SIGKILL}},
		{[]string{"STOP", "CONT", "TERM"}, Status{Code: 143, Signal: SIGTERM}},
		{[]string{"WINCH", "CHLD", "USR2"}, Status{Code: 140, Signal: SIGUSR2}},
	} {
		k := New(Config{FS: vfs.New(vfs.Options{})})
		signals := make(chan string, 8)
		for _, n := range c.names {
			signals <- n
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		res, err := k.Run(ctx, Run{Args: []string{"p"}, Signals: signals, Main: func(p *Proc) int {
			p.Sleep(time.Hour, true)
			return 0
		}})
		cancel()
		if err != nil || res.Status != c.want {
			t.Errorf("%q: %+v, %v", c.names, res.Status, err)
		}
	}
}

// TestPauseStandsStill checks that nothing runs between Pause and Resume.
func TestPauseStandsStill(t *testing.T) {
	k := New(Config{FS: vfs.New(vfs.Options{})})
	turn := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	started, done := make(chan struct{}, 4), make(chan struct{})
	go func() {
		defer close(done)
		_, _ = k.Run(ctx, Run{Args: []string{"p"}, Main: func(p *Proc) int {
			r, w := p.Pipe()
			worker := func(c *Proc) int {
				started <- struct{}{}
				for {
					select {
					case turn <- struct{}{}:
					default:
					}
					c.Tick(100)
				}
			}
			sleeper := func(c *Proc) int {
				started <- struct{}{}
				for {
					c.Sleep(time.Millisecond, true)
					select {
					case turn <- struct{}{}:
					default:
					}
				}
			}
			piper := func(c *Proc) int {
				started <- struct{}{}
				for {
					_, _ = c.Stdout.Write(make([]byte, 100))
				}
			}
			reader := func(c *Proc) int {
				started <- struct{}{}
				for {
					_, _ = c.Stdin.Read(make([]byte, 77))
				}
			}
			for _, s := range []Spawn{{Main: worker}, {Main: sleeper}, {Main: piper, Stdout: w}, {Main: reader, Stdin: r}} {
				s.Args = []string{"c"}
				if _, err := p.Spawn(s); err != nil {
					t.Error(err)
				}
			}
			for {
				p.Pause()
			}
		}})
	}()
	for range 4 {
		<-started
	}
	for range 20 {
		if err := k.Pause(ctx); err != nil {
			t.Fatal(err)
		}
		select {
		case <-turn:
			t.Fatal("a turn while paused")
		case <-time.After(5 * time.Millisecond): // long enough for some turns of the slowest
		}
		k.Resume()
		<-turn
	}
	if err := k.Pause(ctx); err != nil {
		t.Fatal(err)
	}
	cancel()
	<-done
}
