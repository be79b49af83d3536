package client_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"net"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/coder/websocket"
	"golang.org/x/net/nettest"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/atolltest"
	"github.com/atoll-sandbox/atoll/driver/namespace"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// real returns a driver of real programs, or skips the test; where ATOLL_MUST
// names it, it fails.
func real(t testing.TB) atoll.Driver {
	t.Helper()
	testenv.Real(t, "namespace")
	d := &namespace.Driver{Dir: filepath.Join(t.TempDir(), "namespace")}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	if _, err := d.Probe(t.Context()); err != nil {
		testenv.Skip(t, "namespace", "driver/namespace can't be had here: %v", err)
	}
	return d
}

// TestSuiteReal is a share of the contract of real sandboxes, over the wire.
func TestSuiteReal(t *testing.T) {
	laws := atolltest.Laws()
	atolltest.RunLaws(t, serve(t, "unix", real(t)).client(t), testenv.Sample(t, laws, len(laws)/4, "ATOLL_LAWS")...)
}

// TestListenEndsWithClient ends clients in every way: afterwards the address
// is free, and the server has nothing left of them.
func TestListenEndsWithClient(t *testing.T) {
	st := serve(t, "unix", real(t))
	sb := st.sandbox(t)
	const at = "127.0.0.1:20101"
	free := func(law string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for {
			l, err := atoll.Listen(ctx, sb, "tcp", at)
			if err == nil {
				if err := l.Close(); err != nil {
					t.Errorf("%s: %v", law, err)
				}
				return
			}
			if ctx.Err() != nil {
				t.Fatalf("%s: the address stays taken: %v", law, err)
			}
		}
	}
	other := st.client(t)
	theirs, err := other.Open(t.Context(), sb.ID())
	if err != nil {
		t.Fatal(err)
	}
	l, err := atoll.Listen(t.Context(), theirs, "tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() {
		served <- http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	}()
	conn, err := atoll.Dial(t.Context(), sb, "tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-served; err == nil {
		t.Error("Serve returned nil")
	}
	free("Close while a connection is open")
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
	free("Close")
}

// TestListenConnConformsToNet has the connections of listeners do what those of
// net do, all the way.
func TestListenConnConformsToNet(t *testing.T) {
	sb := serve(t, "unix", real(t)).sandbox(t)
	nettest.TestConn(t, func() (c1, c2 net.Conn, stop func(), err error) {
		l, err := atoll.Listen(t.Context(), sb, "tcp", "127.0.0.1:0")
		if err != nil {
			return nil, nil, nil, err
		}
		defer l.Close()
		if c1, err = atoll.Dial(t.Context(), sb, "tcp", l.Addr().String()); err != nil {
			return nil, nil, nil, err
		}
		if c2, err = l.Accept(); err != nil {
			return nil, nil, nil, err
		}
		return c1, c2, func() { c1.Close(); c2.Close() }, nil
	})
}

// TestListenHostileClient has clients that do not keep to the protocol, or go
// away: the server lets go of the address each time.
func TestListenHostileClient(t *testing.T) {
	st := serve(t, "tcp", real(t))
	sb := st.sandbox(t)
	const at = "127.0.0.1:20102"
	frame := func(kind byte, flags, stream, n int) []byte {
		b := append([]byte{0, kind}, byte(flags>>8), byte(flags))
		b = binary.BigEndian.AppendUint32(b, uint32(stream))
		return binary.BigEndian.AppendUint32(b, uint32(n))
	}
	for law, f := range map[string]func(ctx context.Context, ws *websocket.Conn){
		"Gone":     func(_ context.Context, ws *websocket.Conn) { _ = ws.CloseNow() },
		"Says bye": func(_ context.Context, ws *websocket.Conn) { _ = ws.Close(websocket.StatusNormalClosure, "") },
		"Text":     func(ctx context.Context, ws *websocket.Conn) { _ = ws.Write(ctx, websocket.MessageText, []byte("hi")) },
		"Garbage": func(ctx context.Context, ws *websocket.Conn) {
			_ = ws.Write(ctx, websocket.MessageBinary, bytes.Repeat([]byte{0xff}, 100))
		},
		"Long": func(ctx context.Context, ws *websocket.Conn) {
			_ = ws.Write(ctx, websocket.MessageBinary, make([]byte, 1<<20))
		},
		"Many streams": func(ctx context.Context, ws *websocket.Conn) {
			for i := range 1000 {
				_ = ws.Write(ctx, websocket.MessageBinary, frame(1, 1, 2+2*i, 0)) // SYN
			}
			_ = ws.CloseNow()
		},
		"Streams of the server's": func(ctx context.Context, ws *websocket.Conn) {
			_ = ws.Write(ctx, websocket.MessageBinary, frame(1, 1, 1, 0))
		},
		"More than its window": func(ctx context.Context, ws *websocket.Conn) {
			_ = ws.Write(ctx, websocket.MessageBinary, frame(1, 1, 2, 0))
			_ = ws.Write(ctx, websocket.MessageBinary, frame(0, 0, 2, 1<<30))
			for range 64 {
				if ws.Write(ctx, websocket.MessageBinary, make([]byte, 60<<10)) != nil {
					return
				}
			}
		},
	} {
		t.Run(law, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			var ws *websocket.Conn
			for ws == nil { // the one before may still have the address
				c, _, err := websocket.Dial(ctx, st.host+"/v1/sandboxes/"+sb.ID()+"/listen?network=tcp&address="+at, &websocket.DialOptions{
					HTTPHeader: http.Header{"Authorization": {"Bearer " + st.token}}, Subprotocols: []string{"listen.v1.atoll"},
				})
				if err != nil && ctx.Err() != nil {
					t.Fatalf("the address stays taken: %v", err)
				}
				ws = c
			}
			defer ws.CloseNow()
			if _, hello, err := ws.Read(ctx); err != nil || string(hello) != `{"address":"`+at+`"}` {
				t.Fatalf("%s, %v", hello, err)
			}
			f(ctx, ws)
			for {
				if _, _, err := ws.Read(ctx); err != nil {
					break
				}
			}
			if ctx.Err() != nil {
				t.Error("the server stays")
			}
		})
	}
	l, err := atoll.Listen(t.Context(), sb, "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
}
