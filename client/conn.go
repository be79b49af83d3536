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

// conn is a connection that carries messages. Read is for one goroutine at a time; Write may be called concurrently.
type conn interface {
	// Read replaces the contents of b with the next message.
	Read(ctx context.Context, b *bytes.Buffer) error
	Write(ctx context.Context, message []byte) error
	Ping(ctx context.Context) error
	Close()
}

// pingInterval is the time between two pings of a stream, pingTimeout how long the
// answer may take.
const (
	pingInterval = 30 * time.Second
	pingTimeout  = 30 * time.Second
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

func (s socket) Close() { _ = s.ws.CloseNow() } // the connection is not used any more

// openWebSocket opens a WebSocket. ctx applies to the handshake only.
func (c *Client) openWebSocket(ctx context.Context, k call, protocol string) (conn, error) {
	h := make(http.Header)
	c.setIdentity(h)
	shake := &handshake{rt: c.http.Transport}
	ws, _, err := websocket.Dial(ctx, c.callURL(k.path, k.query), &websocket.DialOptions{ //nolint:bodyclose // the body needs no Close, see websocket.Dial
		HTTPClient: &http.Client{Transport: shake, CheckRedirect: c.http.CheckRedirect}, HTTPHeader: h, Subprotocols: []string{protocol},
	})
	switch {
	case err != nil && shake.refusal != nil:
		return nil, c.readProblem(k, shake.refusal)
	case err != nil:
		return nil, k.wrapError(c.transportError(ctx, err))
	case ws.Subprotocol() != protocol:
		_ = ws.CloseNow() // wrong protocol
		return nil, k.wrapError(fmt.Errorf("%w: %s does not speak %s", atoll.ErrUnavailable, c.host, protocol))
	}
	ws.SetReadLimit(maxProblem)
	return socket{ws}, nil
}

// handshake records the response of a server that does not switch protocols.
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
	_ = resp.Body.Close() // the bytes read so far are used
	if err != nil {
		return nil, err
	}
	kept := *resp
	kept.Body = io.NopCloser(bytes.NewReader(b))
	h.refusal = &kept
	resp.Body = http.NoBody
	return resp, nil
}

// protocolError returns an error for a server that violates the wire protocol.
func protocolError(format string, a ...any) error {
	return fmt.Errorf("%w: the server broke the protocol %s: %s", atoll.ErrUnavailable, wire.ExecProtocol, fmt.Sprintf(format, a...))
}
