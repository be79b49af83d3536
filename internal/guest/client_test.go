package guest

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/libp2p/go-yamux/v5"

	"github.com/atoll-sandbox/atoll"
)

// hostile is a guest that does what it likes on its end of a connection.
func hostile(t testing.TB, f func(conn net.Conn)) net.Conn {
	t.Helper()
	a, b := net.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer b.Close()
		f(b)
	}()
	t.Cleanup(func() { _ = a.Close(); _ = b.Close(); <-done })
	return a
}

// muxed greets as a guest does, and has f play it.
func muxed(t testing.TB, f func(mux *yamux.Session)) net.Conn {
	return hostile(t, func(conn net.Conn) {
		if _, err := fmt.Fprintf(conn, "%s%d\n", Greeting, Version); err != nil {
			return
		}
		mux, err := yamux.Server(conn, muxConfig(hostStreams), nil)
		if err != nil {
			t.Error(err)
			return
		}
		defer mux.Close()
		f(mux)
	})
}

// TestBadGreetings connects to what is no guest of ours.
func TestBadGreetings(t *testing.T) {
	for name, f := range map[string]func(conn net.Conn){
		"silence": func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) },
		"nothing": func(net.Conn) {},
		"endless": func(conn net.Conn) { _, _ = io.Copy(conn, noughts{}) },
		"other":   func(conn net.Conn) { _, _ = io.WriteString(conn, "SSH-2.0-x\r\n") },
		"newer":   func(conn net.Conn) { _, _ = fmt.Fprintf(conn, "%s%d\n", Greeting, Version+1) },
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		c, err := Connect(ctx, hostile(t, f), Options{})
		if !errors.Is(err, atoll.ErrUnavailable) {
			t.Errorf("%s: %v, %v", name, c, err)
		}
		cancel()
	}
}

type noughts struct{}

func (noughts) Read(b []byte) (int, error) { clear(b); return len(b), nil }

// frames is a body of an exec channel.
func frames(list ...any) []byte {
	var b []byte
	for i := 0; i < len(list); i += 2 {
		p := []byte(fmt.Sprint(list[i+1]))
		b = append(appendFrameHead(b, list[i].(Frame), len(p)), p...)
	}
	return b
}

// answered answers a request and goes on as it is told.
func answered(f func(st *yamux.Stream)) func(mux *yamux.Session) {
	return func(mux *yamux.Session) {
		for {
			st, err := mux.AcceptStream()
			if err != nil {
				return
			}
			go func() {
				var q Request
				if readMessage(st, &q) == nil && writeMessage(st, Response{}) == nil {
					f(st)
				}
			}()
		}
	}
}

// TestHostileGuest runs commands in guests that break every rule: the call
// returns an error at its deadline at the latest, and the host holds no more
// than its bounds.
func TestHostileGuest(t *testing.T) {
	huge := binary.BigEndian.AppendUint32([]byte{byte(FrameStdout)}, 1<<31)
	for name, f := range map[string]func(mux *yamux.Session){
		"never answers":   func(mux *yamux.Session) { <-mux.CloseChan() },
		"closes":          func(mux *yamux.Session) { _, _ = mux.AcceptStream() },
		"answers nothing": answered(func(*yamux.Stream) {}),
		"huge frame":      answered(func(st *yamux.Stream) { _, _ = st.Write(huge) }),
		"huge message": func(mux *yamux.Session) {
			st, err := mux.AcceptStream()
			if err == nil {
				_, _ = st.Write([]byte{0xff, 0xff, 0xff, 0xff})
				_, _ = io.Copy(st, noughts{})
			}
		},
		"long message": func(mux *yamux.Session) {
			st, err := mux.AcceptStream()
			if err == nil {
				_, _ = st.Write(binary.BigEndian.AppendUint32(nil, maxHeader))
				_, _ = io.Copy(st, noughts{})
			}
		},
		"unknown frame":   answered(func(st *yamux.Stream) { _, _ = st.Write(frames(Frame('?'), "x")) }),
		"bad exit":        answered(func(st *yamux.Stream) { _, _ = st.Write(frames(FrameExit, "no JSON")) }),
		"acks of nothing": answered(func(st *yamux.Stream) { _, _ = st.Write(frames(FrameAck, "\x00\x00\x00\x01")) }),
		"endless output": answered(func(st *yamux.Stream) {
			b := frames(FrameStdout, string(make([]byte, maxFrame)))
			for {
				if _, err := st.Write(b); err != nil {
					return
				}
			}
		}),
		"empty frames": answered(func(st *yamux.Stream) {
			b := bytes.Repeat(frames(FrameStdout, ""), 1000)
			for {
				if _, err := st.Write(b); err != nil {
					return
				}
			}
		}),
		"reverse channels": func(mux *yamux.Session) {
			for {
				st, err := mux.OpenStream(context.Background())
				if err != nil {
					return
				}
				_ = writeMessage(st, &Request{Op: "gate"})
				_, _ = st.Write(make([]byte, 100<<10))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			c, err := Connect(ctx, muxed(t, f), Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			before := heap()
			done := make(chan error, 1)
			go func() {
				_, err := c.Exec(ctx, atoll.Cmd{Args: []string{"x"}, Timeout: 300 * time.Millisecond, MaxOutput: 1 << 20, Stdin: noughts{}, Stdout: io.Discard})
				done <- err
			}()
			select {
			case err := <-done:
				if err == nil {
					t.Error("no error")
				}
			case <-ctx.Done():
				t.Fatal("Exec does not return at the deadline of the command")
			}
			if grown := heap() - before; grown > 40<<20 {
				t.Errorf("the heap grew by %d MB", grown>>20)
			}
		})
	}
}

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestKeepsNoMoreThanAsked lets a guest send more than a caller wants.
func TestKeepsNoMoreThanAsked(t *testing.T) {
	end, _ := json.Marshal(CommandResult{Code: 1 << 20, Truncated: false})
	c, err := Connect(t.Context(), muxed(t, answered(func(st *yamux.Stream) {
		for range 64 {
			_, _ = st.Write(frames(FrameStdout, string(make([]byte, maxFrame))))
		}
		_, _ = st.Write(frames(FrameExit, string(end)))
	})), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	exit, err := c.Exec(t.Context(), atoll.Cmd{Args: []string{"x"}, MaxOutput: 1000})
	if err != nil || len(exit.Stdout) != 1000 || !exit.Truncated || exit.Code < 0 || exit.Code > 255 {
		t.Errorf("got %d bytes, truncated %v, code %d, %v", len(exit.Stdout), exit.Truncated, exit.Code, err)
	}
}

// FuzzHost gives a host what a guest may send: on a channel, and below.
func FuzzHost(f *testing.F) {
	ok, _ := json.Marshal(Response{})
	message := append(binary.BigEndian.AppendUint32(nil, uint32(len(ok))), ok...)
	f.Add(append(bytes.Clone(message), frames(FrameStdout, "out", FrameStderr, "err", FrameAck, "\x00\x00\x00\x00", FrameExit, `{"code":3}`)...), false)
	f.Add([]byte{0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0}, true)
	f.Fuzz(func(t *testing.T, b []byte, below bool) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		conn := hostile(t, func(conn net.Conn) {
			go func() { _, _ = io.Copy(io.Discard, conn) }()
			_, _ = fmt.Fprintf(conn, "%s%d\n", Greeting, Version)
			_, _ = conn.Write(b)
		})
		if !below {
			conn = muxed(t, func(mux *yamux.Session) {
				if st, err := mux.AcceptStream(); err == nil {
					go func() { _, _ = io.Copy(io.Discard, st) }()
					_, _ = st.Write(b)
					_ = st.Close()
				}
			})
		}
		c, err := Connect(ctx, conn, Options{})
		if err != nil {
			return
		}
		defer c.Close()
		exit, err := c.Exec(ctx, atoll.Cmd{Args: []string{"x"}, MaxOutput: 100})
		if len(exit.Stdout) > 100 || exit.Code < 0 || exit.Code > 255 || err == nil && below {
			t.Errorf("got %+v, %v", exit, err)
		}
		if ctx.Err() != nil {
			t.Error("it took its whole time")
		}
	})
}
