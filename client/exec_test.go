package client_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/client"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// firstWrite tells when something was written.
type firstWrite struct {
	once sync.Once
	seen chan struct{}

	mu sync.Mutex
	b  bytes.Buffer // guarded by mu
}

func newFirstWrite() *firstWrite { return &firstWrite{seen: make(chan struct{})} }

func (f *firstWrite) Write(p []byte) (int, error) {
	f.once.Do(func() { close(f.seen) })
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.b.Write(p)
}

func (f *firstWrite) String() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.b.String()
}

// runs waits until a sandbox has a command under way.
func runs(t *testing.T, sb *client.Sandbox) atoll.Process {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for ctx.Err() == nil {
		list, err := sb.Processes(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range list {
			if p.Running {
				return p
			}
		}
	}
	t.Fatal("no command runs")
	return atoll.Process{}
}

// gone waits until none of a sandbox's commands is under way.
func gone(t *testing.T, sb *client.Sandbox) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for ctx.Err() == nil {
		info, err := sb.Info(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if info.Commands == 0 {
			return
		}
	}
	t.Fatal("a command is still under way")
}

func TestCancelKeepsOutputOfOneRequest(t *testing.T) {
	sb := serve(t, "unix").sandbox(t)
	ctx, cancel := context.WithCancel(t.Context())
	var exit atoll.Exit
	var err error
	var wg sync.WaitGroup
	wg.Go(func() {
		exit, err = sb.Exec(ctx, atoll.Cmd{Shell: "echo so far; echo err >&2; echo > /tmp/written; while :; do :; done"})
	})
	for {
		if _, serr := atoll.Stat(t.Context(), sb, "/tmp/written"); serr == nil {
			break
		}
	}
	cancel()
	wg.Wait()
	if !errors.Is(err, context.Canceled) || string(exit.Stdout) != "so far\n" || string(exit.Stderr) != "err\n" {
		t.Errorf("Exec: %q, %q, %v", exit.Stdout, exit.Stderr, err)
	}
	gone(t, sb)
}

func TestDeadlineOfContextIsTimeout(t *testing.T) {
	sb := serve(t, "unix").sandbox(t)
	for _, cmd := range []atoll.Cmd{{Shell: "echo out; while :; do :; done"}, {Shell: "echo out; while :; do :; done", Stderr: io.Discard}} {
		var exit atoll.Exit
		var err error
		for d := 300 * time.Millisecond; d < time.Minute && len(exit.Stdout) == 0; d *= 2 { // on a busy machine it may not have begun
			ctx, cancel := context.WithTimeout(t.Context(), d)
			exit, err = sb.Exec(ctx, cmd)
			cancel()
		}
		if !errors.Is(err, atoll.ErrTimeout) || !errors.Is(err, context.DeadlineExceeded) || string(exit.Stdout) != "out\n" {
			t.Errorf("Exec: %q, %v", exit.Stdout, err)
		}
	}
}

// TestDisconnectedClientEndsCommand cuts the client's connections.
func TestDisconnectedClientEndsCommand(t *testing.T) {
	st := serve(t, "tcp")
	sb := st.sandbox(t)
	for name, cmd := range map[string]atoll.Cmd{
		"request": {Shell: "while :; do :; done"},
		"stream":  {Shell: "while :; do echo x; done", Stdout: io.Discard},
		"stdin":   {Shell: "cat; while :; do :; done", Stdin: neverEnds(t)},
	} {
		t.Run(name, func(t *testing.T) {
			cut := &cutter{}
			c, err := client.New(client.Options{Host: st.host, Token: st.token, DialContext: cut.dial})
			if err != nil {
				t.Fatal(err)
			}
			mine, err := c.Sandbox(t.Context(), sb.ID())
			if err != nil {
				t.Fatal(err)
			}
			var wg sync.WaitGroup
			wg.Go(func() {
				if _, err := mine.Exec(t.Context(), cmd); !errors.Is(err, atoll.ErrUnavailable) {
					t.Errorf("Exec over a connection that breaks: %v", err)
				}
			})
			runs(t, sb)
			cut.all()
			wg.Wait()
			gone(t, sb)
		})
	}
}

// neverEnds returns a reader that blocks until the test ends.
func neverEnds(t *testing.T) io.Reader {
	r, w := io.Pipe()
	t.Cleanup(func() { _ = w.Close() })
	return r
}

// cutter makes connections that it can break.
type cutter struct {
	mu    sync.Mutex
	conns []net.Conn // guarded by mu
}

func (c *cutter) dial(ctx context.Context, network, address string) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, address)
	if err == nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.conns = append(c.conns, conn)
	}
	return conn, err
}

func (c *cutter) all() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.conns {
		_ = conn.Close()
	}
	c.conns = nil
}

// TestSlowReaderBlocksCommand: unhindered, the command would write some 100 MB.
func TestSlowReaderBlocksCommand(t *testing.T) {
	testenv.Logic(t)
	sb := serve(t, "unix").sandbox(t)
	r, w := io.Pipe()
	defer r.Close()
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := sb.Exec(t.Context(), atoll.Cmd{Shell: "yes 0123456789abcdef", Stdout: w, Timeout: 3 * time.Second}); !errors.Is(err, atoll.ErrTimeout) {
			t.Errorf("Exec: %v", err)
		}
		_ = w.Close() // who still reads hangs otherwise
	})
	if _, err := io.ReadFull(r, make([]byte, 100)); err != nil {
		t.Fatal(err)
	}
	p := runs(t, sb)
	wg.Wait()
	p, err := sb.Process(t.Context(), p.ID)
	if err != nil {
		t.Fatal(err)
	}
	if p.Output > 4<<20 || p.Running {
		t.Errorf("a command whose reader has taken 100 bytes has written %d (running: %t)", p.Output, p.Running)
	}
}

func TestDetachedCommandContinues(t *testing.T) {
	st := serve(t, "unix")
	sb := st.sandbox(t)
	ctx := t.Context()
	p, err := sb.StartProcess(ctx, "job", atoll.Cmd{Shell: "echo one; read x; echo got $x; echo err >&2; exit 7"})
	if err != nil {
		t.Fatal(err)
	}
	if p.ID != "job" || !p.Running || !p.Detached {
		t.Errorf("StartProcess: %+v", p)
	}
	lost, leave := context.WithCancel(ctx)
	out := newFirstWrite()
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := sb.Attach(lost, "job", client.Attachment{Stdout: out}); !errors.Is(err, context.Canceled) {
			t.Errorf("Attach of who leaves: %v", err)
		}
	})
	<-out.seen
	leave()
	wg.Wait()
	if p, err = sb.Process(ctx, "job"); err != nil || !p.Running {
		t.Fatalf("the process did not go on: %+v, %v", p, err)
	}
	// another caller attaches, with another connection
	again, err := st.client(t).Sandbox(ctx, sb.ID())
	if err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	exit, err := again.Attach(ctx, "job", client.Attachment{Offset: 4, Stdin: strings.NewReader("this\n"), Stdout: &stdout, Stderr: &stderr})
	if err != nil || exit.Code != 7 || stdout.String() != "got this\n" || stderr.String() != "err\n" {
		t.Errorf("Attach: %+v, %v, %q, %q", exit, err, stdout.String(), stderr.String())
	}
	// and when it has ended
	stdout.Reset()
	if exit, err = again.Attach(ctx, "job", client.Attachment{Stdout: &stdout}); err != nil || exit.Code != 7 || stdout.String() != "one\ngot this\n" {
		t.Errorf("Attach to what has ended: %+v, %v, %q", exit, err, stdout.String())
	}
	rc, err := again.Output(ctx, "job", client.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(rc)
	if err = errors.Join(err, rc.Close()); err != nil || string(b) != "err\n" {
		t.Errorf("Output: %q, %v", b, err)
	}
	if _, err := sb.Attach(ctx, "nobody", client.Attachment{}); !errors.Is(err, atoll.ErrNotFound) {
		t.Errorf("Attach to what is not there: %v", err)
	}
}

func TestOutputOfARunningProcess(t *testing.T) {
	sb := serve(t, "unix").sandbox(t)
	ctx := t.Context()
	if _, err := sb.StartProcess(ctx, "job", atoll.Cmd{Shell: "echo one; echo two >&2; read x; echo three"}); err != nil {
		t.Fatal(err)
	}
	var text []byte
	for string(text) != "one\n" { // what there is comes without waiting for the end
		rc, err := sb.Output(ctx, "job", client.Stdout)
		if err != nil {
			t.Fatal(err)
		}
		if text, err = io.ReadAll(rc); errors.Join(err, rc.Close()) != nil {
			t.Fatal(err)
		}
	}
	rc, err := sb.FollowOutput(ctx, "job", client.Stdout)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(rc, make([]byte, 4)); err != nil {
		t.Fatal(err)
	}
	if _, err := sb.Attach(ctx, "job", client.Attachment{Stdin: strings.NewReader("go on\n")}); err != nil {
		t.Fatal(err)
	}
	rest, err := io.ReadAll(rc)
	if err = errors.Join(err, rc.Close()); err != nil || string(rest) != "three\n" {
		t.Errorf("FollowOutput: %q, %v", rest, err)
	}
}

func TestSignalAndKill(t *testing.T) {
	sb := serve(t, "unix").sandbox(t)
	ctx := t.Context()
	for signal, code := range map[string]int{"TERM": 143, "KILL": 137} {
		p, err := sb.StartProcess(ctx, "", atoll.Cmd{Shell: "while :; do sleep 1; done"})
		if err != nil {
			t.Fatal(err)
		}
		if err := sb.Signal(ctx, p.ID, signal); err != nil {
			t.Errorf("Signal %s: %v", signal, err)
		}
		if exit, err := sb.Attach(ctx, p.ID, client.Attachment{}); err != nil || exit.Code != code || exit.Signal != signal {
			t.Errorf("after %s: %+v, %v", signal, exit, err)
		}
		if err := sb.Kill(ctx, p.ID); !errors.Is(err, atoll.ErrState) {
			t.Errorf("Kill of what has ended: %v", err)
		}
	}
}

// TestLostServer stands between client and server and breaks off.
func TestLostServer(t *testing.T) {
	st := serve(t, "tcp")
	sb := st.sandbox(t)
	cut := &cutter{}
	c, err := client.New(client.Options{Host: st.host, Token: st.token, DialContext: cut.dial})
	if err != nil {
		t.Fatal(err)
	}
	mine, err := c.Sandbox(t.Context(), sb.ID())
	if err != nil {
		t.Fatal(err)
	}
	out := newFirstWrite()
	var wg sync.WaitGroup
	wg.Go(func() {
		_, err = mine.Exec(t.Context(), atoll.Cmd{Shell: "echo out; while :; do :; done", Stdout: out})
	})
	<-out.seen // the two streams may overtake each other, so this looks at one
	cut.all()
	wg.Wait()
	if !errors.Is(err, atoll.ErrUnavailable) || out.String() != "out\n" {
		t.Errorf("Exec: %q, %v", out, err)
	}
	var fault *atoll.Error
	if !errors.As(err, &fault) || fault.Op != "exec" || fault.ID != sb.ID() {
		t.Errorf("the error %#v names neither operation nor object", err)
	}
}

// TestThroughAProxy goes through one that knows nothing of us.
func TestThroughAProxy(t *testing.T) {
	st := serve(t, "tcp")
	target, err := url.Parse(st.host)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }, FlushInterval: -1, Transport: &http.Transport{DisableKeepAlives: true}}
	web := &http.Server{Handler: http.StripPrefix("/box", proxy), ReadHeaderTimeout: time.Minute}
	served := make(chan error, 1)
	go func() { served <- web.Serve(l) }()
	defer func() {
		_ = web.Close()
		<-served
	}()
	c, err := client.New(client.Options{Host: "http://" + l.Addr().String() + "/box/", Token: st.token})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	sb, err := c.Create(t.Context(), atoll.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if _, err := sb.Exec(t.Context(), atoll.Cmd{Args: []string{"cat"}, Stdin: io.MultiReader(strings.NewReader("a"), strings.NewReader("b")), Stdout: &out}); err != nil || out.String() != "ab" {
		t.Errorf("a stream: %q, %v", out.String(), err)
	}
	if exit, err := sb.Exec(t.Context(), atoll.Cmd{Args: []string{"echo", "hi"}}); err != nil || string(exit.Stdout) != "hi\n" {
		t.Errorf("a request: %q, %v", exit.Stdout, err)
	}
	if err := sb.Destroy(t.Context()); err != nil {
		t.Error(err)
	}
}
