package client

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/coder/websocket"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// conn is a connection of messages. One goroutine reads, any write.
type conn interface {
	// Read replaces what is in b by the next message.
	Read(ctx context.Context, b *bytes.Buffer) error
	Write(ctx context.Context, message []byte) error
	Ping(ctx context.Context) error
	Close()
}

// How often a stream asks whether the other end is there, and how long that may
// take to say so.
const (
	pingEvery = 30 * time.Second
	pingGrace = 30 * time.Second
)

// socket is a conn over a WebSocket.
type socket struct{ ws *websocket.Conn }

func (s socket) Read(ctx context.Context, b *bytes.Buffer) error {
	b.Reset()
	kind, r, err := s.ws.Reader(ctx)
	if err != nil {
		return err
	}
	if kind != websocket.MessageBinary {
		return fmt.Errorf("a message that is not binary")
	}
	_, err = b.ReadFrom(r)
	return err
}

func (s socket) Write(ctx context.Context, message []byte) error {
	return s.ws.Write(ctx, websocket.MessageBinary, message)
}

func (s socket) Ping(ctx context.Context) error { return s.ws.Ping(ctx) }

func (s socket) Close() { _ = s.ws.CloseNow() } // nobody listens any more

// upgrade opens a WebSocket. ctx is for the opening only.
func (c *Client) upgrade(ctx context.Context, k call, protocol string) (conn, error) {
	h := make(http.Header)
	c.identify(h)
	shake := &handshake{rt: c.http.Transport}
	ws, _, err := websocket.Dial(ctx, c.url(k.path, k.query), &websocket.DialOptions{ //nolint:bodyclose // it needs no closing, says Dial
		HTTPClient: &http.Client{Transport: shake, CheckRedirect: c.http.CheckRedirect}, HTTPHeader: h, Subprotocols: []string{protocol},
	})
	switch {
	case err != nil && shake.refusal != nil:
		return nil, c.problem(k, shake.refusal)
	case err != nil:
		return nil, k.fail(c.broken(ctx, err))
	case ws.Subprotocol() != protocol:
		_ = ws.CloseNow() // it is of no use
		return nil, k.fail(fmt.Errorf("%w: %s does not speak %s", atoll.ErrUnavailable, c.host, protocol))
	}
	ws.SetReadLimit(maxProblem)
	return socket{ws}, nil
}

// handshake keeps the answer of a server that does not switch protocols, whole.
type handshake struct {
	rt      http.RoundTripper
	refusal *http.Response
}

// RoundTrip sends the request.
func (h *handshake) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := h.rt.RoundTrip(r)
	if err != nil || resp.StatusCode == http.StatusSwitchingProtocols {
		return resp, err
	}
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxProblem))
	_ = resp.Body.Close() // what came counts
	if err != nil {
		return nil, err
	}
	kept := *resp
	kept.Body = io.NopCloser(bytes.NewReader(b))
	h.refusal = &kept
	resp.Body = http.NoBody
	return resp, nil
}

// protocolError is what a server did that no server of ours does.
func protocolError(format string, a ...any) error {
	return fmt.Errorf("%w: the server broke the protocol %s: %s", atoll.ErrUnavailable, wire.ExecProtocol, fmt.Sprintf(format, a...))
}
