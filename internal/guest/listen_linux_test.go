package guest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/libp2p/go-yamux/v5"
	"go.uber.org/goleak"
	"golang.org/x/net/nettest"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// inProcess returns a connection to a guest in this process.
func inProcess(t testing.TB) *Client {
	t.Helper()
	a, b := net.Pipe()
	s := &Server{}
	served := make(chan struct{})
	go func() { defer close(served); s.ServeConn(b) }()
	c, err := Connect(t.Context(), a, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(); <-served; s.Close() })
	return c
}

// listenAt listens, and closes when the test ends.
func listenAt(t testing.TB, c *Client, network, address string) net.Listener {
	t.Helper()
	l, err := c.Listen(t.Context(), network, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// both returns the two ends of a connection through a listener.
func both(t testing.TB, l net.Listener) (host, program net.Conn) {
	t.Helper()
	program, err := net.Dial(l.Addr().Network(), l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	host, err = l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { host.Close(); program.Close() })
	return host, program
}

func TestListen(t *testing.T) {
	c := inProcess(t)
	for _, at := range [][2]string{
		{"tcp", "127.0.0.1:0"},
		{"tcp", "localhost:0"},
		{"tcp", "[::1]:0"},
		{"unix", filepath.Join(t.TempDir(), "sock")},
	} {
		t.Run(at[0]+" "+filepath.Base(at[1]), func(t *testing.T) {
			l := listenAt(t, c, at[0], at[1])
			host, program := both(t, l)
			fmt.Fprint(program, "ask")
			if err := program.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
				t.Fatal(err)
			}
			if b, err := io.ReadAll(host); string(b) != "ask" || err != nil {
				t.Fatalf("the host got %q, %v", b, err)
			}
			fmt.Fprint(host, "answer")
			if err := host.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
				t.Fatal(err)
			}
			if b, err := io.ReadAll(program); string(b) != "answer" || err != nil {
				t.Fatalf("the program got %q, %v", b, err)
			}
			if _, err := c.Listen(t.Context(), at[0], l.Addr().String()); !errors.Is(err, atoll.ErrExists) {
				t.Errorf("an address that is taken: %v", err)
			}
			if err := l.Close(); err != nil {
				t.Error(err)
			}
			if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
				t.Errorf("Accept after Close: %v", err)
			}
			if _, err := net.Dial(at[0], l.Addr().String()); err == nil {
				t.Error("somebody listens after Close")
			}
			again, err := c.Listen(t.Context(), at[0], l.Addr().String())
			if err != nil {
				t.Fatalf("the same address again: %v", err)
			}
			again.Close()
		})
	}
}

func TestListenRefuses(t *testing.T) {
	c := inProcess(t)
	for _, at := range []struct {
		network, address string
		want             error
	}{
		{"tcp", "0.0.0.0:0", atoll.ErrInvalid},
		{"tcp", "[::]:0", atoll.ErrInvalid},
		{"tcp", "10.0.0.1:80", atoll.ErrInvalid},
		{"tcp", "example.com:80", atoll.ErrInvalid},
		{"tcp", "127.0.0.1:65536", atoll.ErrInvalid},
		{"tcp", "127.0.0.1", atoll.ErrInvalid},
		{"udp", "127.0.0.1:0", atoll.ErrInvalid},
		{"unix", "relative", atoll.ErrInvalid},
		{"unix", "@abstract", atoll.ErrInvalid},
		{"unix", filepath.Join(t.TempDir(), "no", "sock"), atoll.ErrNotFound},
	} {
		if l, err := c.Listen(t.Context(), at.network, at.address); !errors.Is(err, at.want) {
			t.Errorf("%s %s: %v, %v", at.network, at.address, l, err)
		}
	}
}

func TestListenConnKeepsNetsLaws(t *testing.T) {
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, before) })
	c := inProcess(t)
	nettest.TestConn(t, func() (c1, c2 net.Conn, stop func(), err error) {
		l, err := c.Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			return nil, nil, nil, err
		}
		defer l.Close()
		if c1, err = net.Dial("tcp", l.Addr().String()); err != nil {
			return nil, nil, nil, err
		}
		if c2, err = l.Accept(); err != nil {
			return nil, nil, nil, err
		}
		return c1, c2, func() { c1.Close(); c2.Close() }, nil
	})
}

func TestListenEnds(t *testing.T) {
	before := goleak.IgnoreCurrent()
	c := inProcess(t)
	path := filepath.Join(t.TempDir(), "sock")
	l := listenAt(t, c, "unix", path)
	host, program := both(t, l)
	waiting, err := net.Dial("unix", path) // nobody accepts it
	if err != nil {
		t.Fatal(err)
	}
	defer waiting.Close()
	accepted := make(chan error)
	go func() {
		for {
			if _, err := l.Accept(); err != nil {
				accepted <- err
				return
			}
		}
	}()
	c.Close()
	if err := <-accepted; !errors.Is(err, net.ErrClosed) {
		t.Errorf("Accept when the connection to the guest ends: %v", err)
	}
	if _, err := host.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the host's end: %v", err)
	}
	if n, err := program.Read(make([]byte, 1)); err == nil {
		t.Errorf("the program's end: %d bytes", n)
	}
	if _, err := waiting.Read(make([]byte, 1)); err == nil {
		t.Error("the one that waited has read something")
	}
	goleak.VerifyNone(t, before, goleak.IgnoreAnyFunction("github.com/atoll-sandbox/atoll/internal/guest.(*launcher).loop"))
	if _, err := os.Lstat(path); err == nil {
		t.Error("the socket is still there")
	}
}

// A connection that the host closes breaks as soon as the program sends more: it
// does not wait for ever for somebody who reads.
func TestListenCloseBreaksTheProgram(t *testing.T) {
	host, program := both(t, listenAt(t, inProcess(t), "tcp", "127.0.0.1:0"))
	fmt.Fprint(host, "bye")
	host.Close()
	b, err := io.ReadAll(program)
	if string(b) != "bye" || err != nil {
		t.Fatalf("the program got %q, %v", b, err)
	}
	_ = program.SetWriteDeadline(time.Now().Add(time.Minute)) // TCP supports deadlines
	for err == nil {
		_, err = program.Write(make([]byte, 64<<10))
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal("the program writes on and on")
	}
	if _, err := host.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Read after Close: %v", err)
	}
}

// More connections than the host takes at once wait; nothing is lost.
func TestListenManyAtOnce(t *testing.T) {
	const n = maxAccepted + 100
	c := inProcess(t)
	l := listenAt(t, c, "tcp", "127.0.0.1:0")
	var programs sync.WaitGroup
	for i := range n {
		programs.Go(func() {
			conn, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			want := fmt.Sprintf("program %d", i)
			fmt.Fprint(conn, want)
			conn.(*net.TCPConn).CloseWrite()
			if b, err := io.ReadAll(conn); string(b) != want || err != nil {
				t.Errorf("%s got %q, %v", want, b, err)
			}
		})
	}
	// All that may come at once come, though nobody is served.
	var held []net.Conn
	for range maxAccepted {
		conn, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, conn)
	}
	if got := c.mux.NumStreams(); got > guestStreams {
		t.Errorf("%d channels", got)
	}
	echo := func(conn net.Conn) {
		_, _ = io.Copy(conn, conn)
		conn.Close()
	}
	for _, conn := range held {
		go echo(conn)
	}
	for range n - maxAccepted {
		conn, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		go echo(conn)
	}
	programs.Wait()
}

func TestListenersAreBounded(t *testing.T) {
	c := inProcess(t)
	for range maxListeners {
		listenAt(t, c, "tcp", "127.0.0.1:0")
	}
	if _, err := c.Listen(t.Context(), "tcp", "127.0.0.1:0"); !errors.Is(err, atoll.ErrQuota) {
		t.Fatalf("one more: %v", err)
	}
}

// A guest that says what it likes of a listener, opens channels that lead
// nowhere, and more than anybody accepts, gets nowhere.
func TestListenHostileGuest(t *testing.T) {
	before := goleak.IgnoreCurrent()
	t.Run("Address", func(t *testing.T) {
		for _, said := range []string{"", "0.0.0.0:80", "127.0.0.1:0", "127.0.0.2:80", "example.com:80", "unix"} {
			conn := muxed(t, func(mux *yamux.Session) {
				st, err := mux.AcceptStream()
				var q Request
				if err == nil && readMessage(st, &q) == nil {
					sendReply(st, wire.Listening{Address: said}, nil)
				}
				<-mux.CloseChan()
			})
			c, err := Connect(t.Context(), conn, Options{})
			if err != nil {
				t.Fatal(err)
			}
			if _, err = c.Listen(t.Context(), "tcp", "127.0.0.1:0"); !errors.Is(err, errWire) {
				t.Errorf("a guest that listens at %q: %v", said, err)
			}
			c.Close()
		}
	})
	t.Run("Channels", func(t *testing.T) {
		sessions := make(chan *yamux.Session, 1)
		conn := muxed(t, func(mux *yamux.Session) {
			st, err := mux.AcceptStream()
			var q Request
			if err == nil && readMessage(st, &q) == nil {
				sendReply(st, wire.Listening{Address: "127.0.0.1:80"}, nil)
			}
			sessions <- mux
			<-mux.CloseChan()
		})
		c, err := Connect(t.Context(), conn, Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		l, err := c.Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		mux := <-sessions
		for _, id := range []uint64{0, 2, 1 << 63} {
			st, err := openReverseTo(t.Context(), mux, id)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := st.Read(make([]byte, 1)); !errors.Is(err, yamux.ErrStreamReset) {
				t.Errorf("a channel to listener %d: %v", id, err)
			}
		}
		for range 2 * guestStreams {
			_, _ = openReverseTo(t.Context(), mux, 1) // what is too much is reset
		}
		if n := c.mux.NumStreams(); n > guestStreams+2 {
			t.Errorf("the host holds %d channels", n)
		}
		if _, err := l.Accept(); err != nil {
			t.Errorf("Accept: %v", err)
		}
		closed := make(chan struct{})
		go func() {
			l.Close() // the guest does not say that it has ended
			close(closed)
		}()
		select {
		case <-closed:
		case <-time.After(time.Minute):
			t.Error("Close waits for an answer")
		}
	})
	goleak.VerifyNone(t, before)
}

// FuzzListen gives a host that listens what a guest may answer, and what it may
// open a reverse channel with.
func FuzzListen(f *testing.F) {
	message := func(v any) []byte {
		var b bytes.Buffer
		if err := writeMessage(&b, v); err != nil {
			f.Fatal(err)
		}
		return b.Bytes()
	}
	good, head := message(Response{Body: json.RawMessage(`{"address":"127.0.0.1:80"}`)}), message(&Request{Op: opAccepted, Body: json.RawMessage(`{"listener":1}`)})
	f.Add(good, append(head, "hello"...))
	f.Add(append(good, 0), head)
	f.Add(message(Response{Body: json.RawMessage(`{"address":"[::1]:80"}`)}), message(&Request{Op: opAccepted, Body: json.RawMessage(`{"listener":2,"to":"x"}`)}))
	f.Add(message(Response{Problem: wire.ProblemOf(atoll.ErrExists)}), message(&Request{Op: OfferEgress, Body: json.RawMessage(`{"to":"1.2.3.4:5"}`)}))
	f.Fuzz(func(t *testing.T, answer, opened []byte) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		c, err := Connect(ctx, muxed(t, func(mux *yamux.Session) {
			st, err := mux.AcceptStream()
			if err != nil {
				return
			}
			var q Request
			if readMessage(st, &q) != nil {
				return
			}
			if back, err := mux.OpenStream(ctx); err == nil {
				_, _ = back.Write(opened)
				_ = back.CloseWrite()
			}
			_, _ = st.Write(answer)
			_ = st.CloseWrite()
			_, _ = io.Copy(io.Discard, st)
		}), Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		l, err := c.Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			if ctx.Err() != nil {
				t.Error("it took its whole time")
			}
			return
		}
		if a, ok := l.Addr().(*net.TCPAddr); !ok || !a.IP.Equal(net.IPv4(127, 0, 0, 1)) || a.Port == 0 {
			t.Errorf("it listens at %s", l.Addr())
		}
		if conn, err := l.Accept(); err == nil { // or it has ended before
			_, _ = io.Copy(io.Discard, conn)
			_ = conn.Close()
		}
		_ = l.Close()
	})
}
