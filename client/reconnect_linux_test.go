package client_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/client"
)

// lineWriter calls leave after the first line.
type lineWriter struct {
	bytes.Buffer
	leave func()
}

func (w *lineWriter) Write(b []byte) (int, error) {
	n, err := w.Buffer.Write(b)
	if bytes.IndexByte(b, '\n') >= 0 {
		w.leave()
	}
	return n, err
}

// TestReconnectTimeout ends a command whose server is gone when the time for connecting again is over.
func TestReconnectTimeout(t *testing.T) {
	st := serve(t, "tcp", real(t))
	var gone atomic.Bool
	conns := make(chan net.Conn, 100)
	c, err := client.New(client.Options{Host: st.host, Token: st.token, ReconnectTimeout: 100 * time.Millisecond, DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		if gone.Load() {
			return nil, errors.New("nobody listens")
		}
		conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
		if err == nil {
			conns <- conn
		}
		return conn, err
	}})
	if err != nil {
		t.Fatal(err)
	}
	sb, err := c.Open(t.Context(), st.sandbox(t).ID())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	out := &lineWriter{leave: func() {
		gone.Store(true)
		for len(conns) > 0 {
			_ = (<-conns).Close()
		}
	}}
	if _, err := sb.Exec(ctx, atoll.Cmd{Shell: "echo begun; sleep 60", Stdout: out}); !errors.Is(err, atoll.ErrUnavailable) || ctx.Err() != nil {
		t.Errorf("%v", err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}
