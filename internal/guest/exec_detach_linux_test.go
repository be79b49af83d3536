package guest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/libp2p/go-yamux/v5"
	"pgregory.net/rapid"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/testing/rapidtest"
)

// counted returns a link to a guest in this process, and counts its connections.
func counted(t testing.TB) (*Link, *atomic.Int32) {
	t.Helper()
	s := &Server{}
	var n atomic.Int32
	l := &Link{ID: "test", Connect: func(context.Context) (net.Conn, error) {
		n.Add(1)
		a, b, err := pair()
		if err == nil {
			go s.ServeConn(b)
		}
		return a, err
	}}
	t.Cleanup(func() { l.Disconnect(); s.Close() })
	return l, &n
}

func TestDetachedGoesOn(t *testing.T) {
	l, _ := counted(t)
	ctx := t.Context()
	p, err := l.Detach(ctx, atoll.Cmd{Shell: "echo early; echo fault >&2; read x; echo got $x; exit 5"})
	if err != nil || !p.Running || p.Sandbox != "test" {
		t.Fatalf("got %+v, %v", p, err)
	}
	l.Disconnect() // this host is gone
	short, cancel := context.WithCancel(ctx)
	r, w := io.Pipe()
	go func() {
		_, err := l.Reattach(short, p.ID, atoll.Cmd{Stdout: w})
		_ = w.CloseWithError(err)
	}()
	b := make([]byte, 6)
	if _, err := io.ReadFull(r, b); err != nil || string(b) != "early\n" {
		t.Fatalf("got %q, %v", b, err)
	}
	cancel()
	if _, err := r.Read(b); !errors.Is(err, context.Canceled) {
		t.Errorf("a host that leaves: %v", err)
	}
	list, err := l.Detached(ctx)
	if err != nil || len(list) != 1 || !list[0].Running || list[0].ID != p.ID {
		t.Fatalf("got %+v, %v", list, err)
	}
	exit, err := l.Reattach(ctx, p.ID, atoll.Cmd{Stdin: strings.NewReader("this\n")})
	if err != nil || exit.Code != 5 || string(exit.Stdout) != "early\ngot this\n" || string(exit.Stderr) != "fault\n" {
		t.Errorf("got %+v, %v", exit, err)
	}
	again, err := l.Reattach(ctx, p.ID, atoll.Cmd{})
	if err != nil || again.Code != 5 || !bytes.Equal(again.Stdout, exit.Stdout) {
		t.Errorf("after its end: %+v, %v", again, err)
	}
	if _, err := l.Reattach(ctx, "nobody", atoll.Cmd{}); !errors.Is(err, atoll.ErrNotFound) {
		t.Errorf("an id that is not there: %v", err)
	}
}

func TestDetachedEnds(t *testing.T) {
	l, _ := counted(t)
	for _, c := range []struct {
		name string
		cmd  atoll.Cmd
		sent string
		code int
		want error
	}{
		{"signal", atoll.Cmd{Shell: "sleep 60"}, "KILL", 137, nil},
		{"terminal", atoll.Cmd{Shell: "sleep 60", TTY: &atoll.TTY{}}, "TERM", 143, nil},
		{"timeout", atoll.Cmd{Shell: "sleep 60", Timeout: 50 * time.Millisecond}, "", 137, atoll.ErrTimeout},
		{"missing", atoll.Cmd{Args: []string{"no-such-program"}}, "", 127, nil},
	} {
		p, err := l.Detach(t.Context(), c.cmd)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		signals := make(chan string, 1)
		if c.sent != "" {
			signals <- c.sent
		}
		exit, err := l.Reattach(t.Context(), p.ID, atoll.Cmd{Signals: signals})
		if exit.Code != c.code || !errors.Is(err, c.want) {
			t.Errorf("%s: got %+v, %v", c.name, exit, err)
		}
	}
	if _, err := l.Detach(t.Context(), atoll.Cmd{Args: []string{"true"}, Dir: "/no/such"}); !errors.Is(err, atoll.ErrNotFound) {
		t.Errorf("a directory that is not there: %v", err)
	}
}

// Who sends a signal may hang up as soon as the next is taken: the one before has
// arrived then, however late the guest reads.
func TestDetachedSignalArrives(t *testing.T) {
	s := &Server{}
	s.init()
	asked, read := make(chan struct{}), make(chan struct{})
	signal := s.ops[OpSignal]
	s.ops[OpSignal] = func(ctx context.Context, h *host, st *yamux.Stream, q *Request) {
		close(asked)
		<-read
		signal(ctx, h, st, q)
	}
	l := &Link{ID: "test", Connect: func(context.Context) (net.Conn, error) {
		a, b, err := pair()
		if err == nil {
			go s.ServeConn(b)
		}
		return a, err
	}}
	t.Cleanup(func() { l.Disconnect(); s.Close() })
	p, err := l.Detach(t.Context(), atoll.Cmd{Args: []string{"sleep", "1000"}})
	if err != nil {
		t.Fatal(err)
	}
	signals, left := make(chan string), make(chan struct{})
	go func() {
		defer close(left)
		_, _ = l.Reattach(t.Context(), p.ID, atoll.Cmd{Signals: signals}) // it is hung up
	}()
	signals <- "TERM"
	select {
	case <-asked:
	case <-left:
		t.Fatal("nobody answered the signal")
	}
	select {
	case signals <- "":
		t.Error("the next is taken before the guest has read the first")
	default:
	}
	close(read)
	select {
	case signals <- "":
	case <-left: // with the command
	}
	l.Disconnect()
	<-left
	exit, err := l.Reattach(t.Context(), p.ID, atoll.Cmd{})
	if err != nil || exit.Signal != "TERM" {
		t.Errorf("after TERM and a hang-up: %+v, %v", exit, err)
	}
}

func TestDetachedIsBounded(t *testing.T) {
	l, _ := counted(t)
	p, err := l.Detach(t.Context(), atoll.Cmd{Shell: "yes | head -c 100000; echo end", MaxOutput: 1000})
	if err != nil {
		t.Fatal(err)
	}
	exit, err := l.Reattach(t.Context(), p.ID, atoll.Cmd{Stdout: io.Discard})
	if err != nil || exit.Code != 0 {
		t.Fatalf("got %+v, %v", exit, err)
	}
	exit, err = l.Reattach(t.Context(), p.ID, atoll.Cmd{})
	if err != nil || len(exit.Stdout) != 1000 || !strings.HasSuffix(string(exit.Stdout), "y\nend\n") || !exit.Truncated {
		t.Errorf("got %d bytes, truncated %v, %v", len(exit.Stdout), exit.Truncated, err)
	}
	for range maxEnded + maxDetached {
		if _, err = l.Detach(t.Context(), atoll.Cmd{Args: []string{"sleep", "60"}}); err != nil {
			break
		}
	}
	if !errors.Is(err, atoll.ErrQuota) {
		t.Errorf("more than %d: %v", maxDetached, err)
	}
	list, err := l.Detached(t.Context())
	if err != nil || len(list) != maxDetached+1 {
		t.Errorf("got %d, %v", len(list), err)
	}
	for _, p := range list {
		kill := make(chan string, 1)
		kill <- "KILL"
		if _, err := l.Reattach(t.Context(), p.ID, atoll.Cmd{Signals: kill}); err != nil {
			t.Error(err)
		}
	}
}

func TestRingKeepsTheLast(t *testing.T) {
	rapidtest.Check(t, func(rt *rapid.T) {
		r := ring{limit: rapid.IntRange(1, 20).Draw(rt, "most")}
		var all []byte
		var at int64
		for _, n := range rapid.SliceOf(rapid.IntRange(0, 50)).Draw(rt, "writes") {
			p := make([]byte, n)
			for i := range p {
				p[i] = byte(len(all) + i)
			}
			all = append(all, p...)
			if k, err := r.Write(p); k != n || err != nil {
				rt.Fatalf("Write: %d, %v", k, err)
			}
			oldest := int64(max(0, len(all)-r.limit))
			wantLost := at < oldest
			from := max(at, oldest)
			b := make([]byte, rapid.IntRange(1, 30).Draw(rt, "read"))
			k, next, lost := r.read(at, b)
			if lost != wantLost || next != from+int64(k) || !bytes.Equal(b[:k], all[from:next]) || k == 0 && from < int64(len(all)) {
				rt.Fatalf("read at %d of %d: %d bytes to %d, lost %v", at, len(all), k, next, lost)
			}
			at = next
		}
	})
}

func TestLinkConnectsAgain(t *testing.T) {
	l, n := counted(t)
	for range 3 {
		c, err := l.Client(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.Exec(t.Context(), atoll.Cmd{Args: []string{"true"}}); err != nil {
			t.Fatal(err)
		}
		_ = c.Close()
		<-c.Done()
	}
	if n.Load() != 3 {
		t.Errorf("%d connections, want 3", n.Load())
	}
	// A connection that dies between Client and the request: once more.
	tries := 0
	err := l.runOp(t.Context(), "exec", func(c *Client) error {
		tries++
		if tries == 1 {
			_ = c.Close()
		}
		_, err := c.Exec(t.Context(), atoll.Cmd{Args: []string{"true"}, Dir: "/"})
		return err
	})
	if err != nil || tries != 2 {
		t.Errorf("%d tries, %v", tries, err)
	}
	// One that dies when the guest has the request: never twice.
	tries = 0
	err = l.runOp(t.Context(), "exec", func(c *Client) error {
		tries++
		_, err := c.Exec(t.Context(), atoll.Cmd{Shell: "echo started; sleep 60", Stdout: closer{c}})
		return err
	})
	if !errors.Is(err, atoll.ErrUnavailable) || tries != 1 {
		t.Errorf("%d tries, %v", tries, err)
	}
}

// closer closes a connection when something comes.
type closer struct{ c *Client }

func (c closer) Write(b []byte) (int, error) { return len(b), c.c.Close() }
