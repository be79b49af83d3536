package guest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// cutLink is a link to a server of this process whose connections a test can cut.
type cutLink struct {
	Link
	server *Server

	mu    sync.Mutex
	conns []net.Conn // guarded by mu: the ends of the host
}

func newCutLink(t *testing.T) *cutLink {
	l := &cutLink{server: &Server{}}
	l.Link = Link{ID: "s1", Connect: l.connect}
	t.Cleanup(l.cut)
	return l
}

func (l *cutLink) connect(context.Context) (net.Conn, error) {
	a, b := net.Pipe()
	go l.server.ServeConn(b)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conns = append(l.conns, a)
	return a, nil
}

// cut cuts all connections, as a tunnel that ends.
func (l *cutLink) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.conns {
		_ = c.Close()
	}
	l.conns = nil
}

// cuttingWriter cuts the connections of a link after each n bytes.
type cuttingWriter struct {
	bytes.Buffer
	l       *cutLink
	n, next int
	cuts    int
}

func (w *cuttingWriter) Write(p []byte) (int, error) {
	n, err := w.Buffer.Write(p)
	if w.Len() >= w.next {
		w.next = w.Len() + w.n
		w.cuts++
		w.l.cut()
	}
	return n, err
}

// keptCommands returns how many commands a server keeps.
func (s *Server) keptCommands() int {
	s.kept.mu.Lock()
	defer s.kept.mu.Unlock()
	return len(s.kept.list)
}

func (s *Server) listKept() []*keptCommand {
	s.kept.mu.Lock()
	defer s.kept.mu.Unlock()
	return slices.Collect(maps.Values(s.kept.list))
}

// keptRunning returns how many of them run.
func (s *Server) keptRunning() (n int) {
	for _, k := range s.listKept() {
		k.state.Lock()
		if !k.ended {
			n++
		}
		k.state.Unlock()
	}
	return n
}

// waitForNoneRunning waits until no command of a server runs. One that has ended may be kept: when the
// connection is lost after the end was received, the guest does not know that.
func waitForNoneRunning(t *testing.T, s *Server) { waitForNone(t, s.keptRunning) }

// waitForNoKept waits until a server keeps no command.
func waitForNoKept(t *testing.T, s *Server) { waitForNone(t, s.keptCommands) }

func waitForNone(t *testing.T, count func() int) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for count() > 0 {
		if time.Now().After(deadline) {
			t.Fatal("a command is kept for ever")
		}
		runtime.Gosched()
	}
}

// deafConn loses its connection, with what has just arrived, once it is armed and the server has a command.
type deafConn struct {
	net.Conn

	armed  atomic.Bool
	server *Server
}

func (c *deafConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err != nil || !c.armed.Load() {
		return n, err
	}
	for c.server.keptCommands() == 0 {
		runtime.Gosched()
	}
	_ = c.Close()
	return 0, io.EOF
}

// TestConnectionLostBeforeAnswer loses the connection between the start of a command and the guest's answer: the command
// goes on, and its host gets all of it.
func TestConnectionLostBeforeAnswer(t *testing.T) {
	l := newCutLink(t)
	var conn *deafConn
	l.Connect = func(ctx context.Context) (net.Conn, error) {
		c, err := l.connect(ctx)
		if conn != nil {
			return c, err
		}
		conn = &deafConn{Conn: c, server: l.server}
		return conn, err
	}
	if _, err := l.Client(t.Context()); err != nil {
		t.Fatal(err)
	}
	conn.armed.Store(true)
	exit, err := l.Exec(t.Context(), atoll.Cmd{Shell: "cat; echo error >&2; exit 7", Stdin: strings.NewReader("input\n")})
	if err != nil || exit.Code != 7 || string(exit.Stdout) != "input\n" || string(exit.Stderr) != "error\n" {
		t.Errorf("Exec: %+v, %q, %q, %v", exit, exit.Stdout, exit.Stderr, err)
	}
	waitForNoneRunning(t, l.server)
}

// TestCommandContinuesAfterLostConnection cuts the connection again and again: the output is whole, once
// and in order, the input too, and the status is right.
func TestCommandContinuesAfterLostConnection(t *testing.T) {
	const lines = 300_000
	var want strings.Builder
	for i := range lines {
		fmt.Fprintln(&want, i)
	}
	for _, test := range []struct {
		name string
		cmd  atoll.Cmd
	}{
		{"output", atoll.Cmd{Shell: fmt.Sprintf("i=0; seq 0 %d; exit 7", lines-1)}},
		{"input", atoll.Cmd{Shell: "cat; exit 7", Stdin: strings.NewReader(want.String())}},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := newCutLink(t)
			out := &cuttingWriter{l: l, n: 100_000}
			test.cmd.Stdout = out
			exit, err := l.Exec(t.Context(), test.cmd)
			if err != nil || exit.Code != 7 {
				t.Errorf("Exec: %+v, %v", exit, err)
			}
			if out.String() != want.String() {
				t.Errorf("%d bytes of output, want %d: they differ", out.Len(), want.Len())
			}
			if out.cuts < 5 {
				t.Errorf("only %d cuts", out.cuts)
			}
			waitForNoneRunning(t, l.server)
		})
	}
}

// TestCommandWithoutOutputContinues: the connection is cut while nothing is sent.
func TestCommandWithoutOutputContinues(t *testing.T) {
	l := newCutLink(t)
	r, w := io.Pipe()
	out := newNotifyingWriter()
	done := make(chan error, 1)
	go func() {
		exit, err := l.Exec(t.Context(), atoll.Cmd{Shell: "echo ready; read x; echo $x; exit 3", Stdin: r, Stdout: out})
		if err == nil && exit.Code != 3 {
			err = fmt.Errorf("status %d", exit.Code)
		}
		done <- err
	}()
	<-out.written
	l.cut()
	if _, err := io.WriteString(w, "late\n"); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil || out.String() != "ready\nlate\n" {
		t.Errorf("%q, %v", out.String(), err)
	}
	waitForNoKept(t, l.server)
}

// notifyingWriter tells when something was written.
type notifyingWriter struct {
	mu      sync.Mutex
	b       bytes.Buffer // guarded by mu
	once    sync.Once
	written chan struct{}
}

func newNotifyingWriter() *notifyingWriter { return &notifyingWriter{written: make(chan struct{})} }

func (w *notifyingWriter) Write(p []byte) (int, error) {
	w.once.Do(func() { close(w.written) })
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.Write(p)
}

func (w *notifyingWriter) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.String()
}

// TestCancelledCommandIsNotKept: who gives up kills the command.
func TestCancelledCommandIsNotKept(t *testing.T) {
	l := newCutLink(t)
	ctx, cancel := context.WithCancel(t.Context())
	out := newNotifyingWriter()
	done := make(chan error, 1)
	go func() {
		_, err := l.Exec(ctx, atoll.Cmd{Shell: "echo ready; sleep 1000", Stdout: out})
		done <- err
	}()
	<-out.written
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("Exec: %v", err)
	}
	waitForNoKept(t, l.server)
}

// TestUnreachableSandboxEndsCommand: the sandbox can't be reached again, and nothing says that it will.
func TestUnreachableSandboxEndsCommand(t *testing.T) {
	l := newCutLink(t)
	out := newNotifyingWriter()
	done := make(chan error, 1)
	go func() {
		_, err := l.Exec(t.Context(), atoll.Cmd{Shell: "echo ready; sleep 1000", Stdout: out})
		done <- err
	}()
	<-out.written
	l.mu.Lock()
	l.Link.Connect = func(context.Context) (net.Conn, error) { return nil, atoll.ErrNotFound }
	l.mu.Unlock()
	l.cut()
	err := <-done
	if !errors.Is(err, atoll.ErrUnavailable) || errors.Is(err, atoll.ErrNotFound) {
		t.Errorf("Exec: %v, want ErrUnavailable alone", err)
	}
	for _, k := range l.server.listKept() {
		k.kill()
		k.giveUp()
	}
	waitForNoKept(t, l.server)
}

// TestCommandContinuesAfterRefusals: the way to the sandbox is interrupted in some ways that are over soon.
func TestCommandContinuesAfterRefusals(t *testing.T) {
	l := newCutLink(t)
	l.Reconnects = true
	out := newNotifyingWriter()
	r, w := io.Pipe()
	done := make(chan error, 1)
	go func() {
		_, err := l.Exec(t.Context(), atoll.Cmd{Shell: "echo ready; cat", Stdin: r, Stdout: out})
		done <- err
	}()
	<-out.written
	refusals := []error{atoll.ErrDenied, atoll.ErrUnavailable, atoll.ErrTimeout, atoll.ErrInvalid, io.EOF}
	l.mu.Lock()
	l.Link.Connect = func(ctx context.Context) (net.Conn, error) { // one at a time
		if len(refusals) == 0 {
			return l.connect(ctx)
		}
		err := refusals[0]
		refusals = refusals[1:]
		return nil, err
	}
	l.mu.Unlock()
	l.cut()
	fmt.Fprint(w, "more")
	_ = w.Close()
	if err := <-done; err != nil || out.String() != "ready\nmore" || len(refusals) > 0 {
		t.Errorf("%q, %v", out.String(), err)
	}
	waitForNoneRunning(t, l.server)
}

func TestIsFinal(t *testing.T) {
	for _, test := range []struct {
		err         error
		soon, later bool
	}{
		{atoll.ErrNotFound, true, true},
		{atoll.ErrState, true, true},
		{atoll.ErrUnsupported, true, true},
		{atoll.ErrDenied, false, true},
		{atoll.ErrUnavailable, false, false},
		{atoll.ErrTimeout, false, false},
		{io.EOF, false, false},
	} {
		err := fmt.Errorf("%w: reason", test.err)
		if soon, later := isFinal(err, 0), isFinal(err, deniedTime+1); soon != test.soon || later != test.later {
			t.Errorf("%v: %v and %v", err, soon, later)
		}
	}
}

func TestNegotiateVersion(t *testing.T) {
	for greeting, want := range map[string]int{
		"atoll-guest 1\n": 1, "atoll-guest 2 1\n": 2, "atoll-guest 9 1\n": Version, "atoll-guest 9 2\n": Version,
		"atoll-guest 9 8\n": 0, "atoll-guest 9\n": 0, "atoll-guest 0\n": 0, "atoll-guest\n": 0, "atoll-guest x\n": 0, "atoll-guest 2 x\n": 0, "HTTP/1.1 400\n": 0,
	} {
		got, err := negotiateVersion(greeting)
		if got != want || (err == nil) != (want != 0) {
			t.Errorf("%q: %d, %v, want %d", greeting, got, err, want)
		}
	}
}

// TestCommandIsTakenOver: processes take a command over from each other, each with the bytes that the
// one before had.
func TestCommandIsTakenOver(t *testing.T) {
	const lines = 200_000
	l := newCutLink(t)
	var want strings.Builder
	for i := range lines {
		fmt.Fprintln(&want, i)
	}
	input := want.String()
	var got bytes.Buffer
	leave := func(cancel context.CancelCauseFunc) io.Writer { // after each 150 kB
		most := got.Len() + 150_000
		return writerFunc(func(p []byte) (int, error) {
			if got.Len() >= most {
				cancel(atoll.ErrLeft)
			}
			return got.Write(p)
		})
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cmd := atoll.Cmd{ID: "c1", Shell: "cat; exit 5", Stdin: strings.NewReader(input), Stdout: leave(cancel)}
	exit, err := l.Exec(ctx, cmd)
	times := 0
	for ; errors.Is(err, atoll.ErrLeft); times++ {
		other := &cutLink{server: l.server} // another process
		other.Link = Link{ID: "s1", Connect: other.connect}
		ctx, cancel := context.WithCancelCause(t.Context())
		exit, err = other.ResumeExec(ctx, atoll.Cmd{ID: "c1", Stdout: leave(cancel)}, atoll.Resumption{
			Stdout: int64(got.Len()),
			Stdin:  func(received int64) (io.Reader, error) { return strings.NewReader(input[received:]), nil },
		})
		other.cut()
	}
	if err != nil || exit.Code != 5 || got.String() != want.String() {
		t.Errorf("after %d changes: status %d, %v; %d bytes, want %d", times, exit.Code, err, got.Len(), want.Len())
	}
	if times < 3 {
		t.Errorf("only %d changes", times)
	}
	waitForNoneRunning(t, l.server)
	_, err = l.ResumeExec(t.Context(), atoll.Cmd{ID: "c2"}, atoll.Resumption{})
	if !errors.Is(err, atoll.ErrNotFound) {
		t.Errorf("a command that is not there: %v, want ErrNotFound", err)
	}
}

// TestEndedCommandsAreLimited: hosts that never take the end of their commands don't fill the guest.
func TestEndedCommandsAreLimited(t *testing.T) {
	l := newCutLink(t)
	for i := range 24 {
		ctx, cancel := context.WithCancelCause(t.Context())
		out := writerFunc(func(p []byte) (int, error) {
			cancel(atoll.ErrLeft)
			return len(p), nil
		})
		if _, err := l.Exec(ctx, atoll.Cmd{ID: fmt.Sprint("c", i), Shell: "head -c 3000000 /dev/zero", Stdout: out, Stderr: io.Discard}); !errors.Is(err, atoll.ErrLeft) {
			t.Fatal(err)
		}
	}
	other := l.server.kept.find("c23")
	if other == nil {
		t.Fatal("the last command is not kept")
	}
	for i := range 24 { // each takes its command over, and leaves when all of its output was sent
		ctx, cancel := context.WithCancelCause(t.Context())
		got := 0
		out := writerFunc(func(p []byte) (int, error) {
			if got += len(p); got > 2_900_000 {
				cancel(atoll.ErrLeft)
			}
			return len(p), nil
		})
		_, err := l.ResumeExec(ctx, atoll.Cmd{ID: fmt.Sprint("c", i), Stdout: out, Stderr: io.Discard}, atoll.Resumption{})
		if err != nil && !errors.Is(err, atoll.ErrLeft) && !errors.Is(err, atoll.ErrUnavailable) && !errors.Is(err, atoll.ErrNotFound) {
			t.Error(err)
		}
	}
	deadline := time.Now().Add(time.Minute)
	for l.server.keptCommands() > maxEndedOutput/2_000_000 {
		if time.Now().After(deadline) {
			t.Fatalf("%d ended commands are kept", l.server.keptCommands())
		}
		runtime.Gosched()
	}
}

// TestRefusedHostLeavesCommand: a host asks for output that there is not. The command waits for another
// host, not for ever.
func TestRefusedHostLeavesCommand(t *testing.T) {
	l := newCutLink(t)
	out := newNotifyingWriter()
	done := make(chan error, 1)
	go func() {
		_, err := l.Exec(t.Context(), atoll.Cmd{ID: "c1", Shell: "echo ready; sleep 1000", Stdout: out})
		done <- err
	}()
	<-out.written
	other := &cutLink{server: l.server}
	other.Link = Link{ID: "s1", Connect: other.connect}
	t.Cleanup(other.cut)
	_, err := other.ResumeExec(t.Context(), atoll.Cmd{ID: "c1"}, atoll.Resumption{Stdout: 1000})
	if !errors.Is(err, atoll.ErrUnavailable) {
		t.Errorf("output that there is not: %v, want ErrUnavailable", err)
	}
	if err := <-done; !errors.Is(err, atoll.ErrUnavailable) {
		t.Errorf("the host before: %v, want ErrUnavailable", err)
	}
	k := l.server.kept.find("c1")
	if k == nil {
		t.Fatal("the command is not kept")
	}
	k.state.Lock()
	waits := k.expiry != nil
	k.state.Unlock()
	if !waits {
		t.Error("the command has no host and waits for ever")
	}
	k.expire()
	waitForNoKept(t, l.server)
}
