package daytona

import (
	"context"
	"net/http"
	"strings"

	"github.com/coder/websocket"

	"github.com/atoll-sandbox/atoll/internal/api/compat"
)

// isUpgrade reports whether a request asks for a WebSocket.
func isUpgrade(r *http.Request) bool { return strings.EqualFold(r.Header.Get("Upgrade"), "websocket") }

// offeredProtocols returns the subprotocols that a client offers.
func offeredProtocols(r *http.Request) []string {
	return strings.FieldsFunc(strings.Join(r.Header.Values("Sec-WebSocket-Protocol"), ","), func(c rune) bool { return c == ',' || c == ' ' })
}

// maxMessage is the size of a message of a client in bytes.
const maxMessage = 4 << 20

// acceptWebSocket upgrades a request to a WebSocket. The context is done when the server shuts down; cancel
// closes the connection. A client that offers subprotocols gets its first one: it would break the connection
// off otherwise.
func (s *Server) acceptWebSocket(c *call) (*websocket.Conn, context.Context, context.CancelFunc, error) {
	if !isUpgrade(c.r) {
		return nil, nil, nil, &Error{Status: http.StatusUpgradeRequired, Message: "this needs a WebSocket: request an upgrade"}
	}
	if c.r.Header.Get("Sec-WebSocket-Version") != "13" || c.r.Header.Get("Sec-WebSocket-Key") == "" {
		return nil, nil, nil, invalidError("Sec-WebSocket-Version: must be 13, with a Sec-WebSocket-Key")
	}
	// The server has checked the origin.
	ws, err := websocket.Accept(c.w, c.r, &websocket.AcceptOptions{Subprotocols: offeredProtocols(c.r), InsecureSkipVerify: true})
	if err != nil {
		return nil, nil, nil, invalidError("the WebSocket could not be opened")
	}
	ws.SetReadLimit(maxMessage)
	ctx, cancel := context.WithCancelCause(c.r.Context())
	stop := context.AfterFunc(s.opts.Stopping, func() { cancel(compat.ErrStopping) })
	return ws, ctx, func() {
		stop()
		cancel(nil)
		_ = ws.CloseNow() // the error means that it was closed
	}, nil
}
