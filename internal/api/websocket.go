package api

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"
)

// messageConn is a connection of messages. One goroutine may read, any number may write.
type messageConn interface {
	// Read replaces the content of b by the next message.
	Read(ctx context.Context, b *bytes.Buffer) error
	Write(ctx context.Context, message []byte) error
	Ping(ctx context.Context) error
	Limit(bytes int64) // bytes of a message that is read
	Close()            // closes with a handshake of limited time
	Break()            // closes at once
}

// pingEvery is the interval of pings that keep a stream alive through proxies.
const pingEvery = 30 * time.Second

// webSocket is a messageConn over a WebSocket.
type webSocket struct{ ws *websocket.Conn }

var errNotBinary = errors.New("a message that is not binary")

func (s webSocket) Read(ctx context.Context, b *bytes.Buffer) error {
	b.Reset()
	kind, r, err := s.ws.Reader(ctx)
	if err != nil {
		return err
	}
	if kind != websocket.MessageBinary {
		return errNotBinary
	}
	_, err = b.ReadFrom(r)
	return err
}

func (s webSocket) Write(ctx context.Context, message []byte) error {
	return s.ws.Write(ctx, websocket.MessageBinary, message)
}

func (s webSocket) Ping(ctx context.Context) error { return s.ws.Ping(ctx) }

func (s webSocket) Limit(bytes int64) { s.ws.SetReadLimit(bytes) }

func (s webSocket) Close() { _ = s.ws.Close(websocket.StatusNormalClosure, "") } // the error means that the client is gone

func (s webSocket) Break() { _ = s.ws.CloseNow() } // the error means that the client is gone

// acceptWebSocket upgrades a request to a WebSocket. An error before the upgrade is to be
// answered.
func acceptWebSocket(w http.ResponseWriter, r *http.Request, protocol string) (messageConn, error) {
	if err := checkUpgrade(r, protocol); err != nil {
		return nil, err
	}
	// checkOrigin has checked the origin.
	ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{protocol}, InsecureSkipVerify: true})
	if err != nil {
		return nil, newRequestError(http.StatusBadRequest, "the WebSocket could not be opened")
	}
	return webSocket{ws}, nil
}

// checkUpgrade reports why a request can't become a WebSocket; nil if it can.
func checkUpgrade(r *http.Request, protocol string) error {
	if !hasHeaderToken(r.Header, "Connection", "upgrade") || !hasHeaderToken(r.Header, "Upgrade", "websocket") {
		return &requestError{
			status: http.StatusUpgradeRequired, kind: "invalid", header: http.Header{"Connection": {"Upgrade"}, "Upgrade": {"websocket"}},
			detail: fmt.Sprintf("this needs a WebSocket of the subprotocol %s: request an upgrade", protocol),
		}
	}
	if r.Header.Get("Sec-WebSocket-Version") != "13" {
		return &requestError{status: http.StatusBadRequest, kind: "invalid", header: http.Header{"Sec-Websocket-Version": {"13"}}, detail: "Sec-WebSocket-Version: must be 13"}
	}
	if key, err := base64.StdEncoding.DecodeString(strings.TrimSpace(r.Header.Get("Sec-WebSocket-Key"))); err != nil || len(key) != 16 || len(r.Header.Values("Sec-WebSocket-Key")) != 1 {
		return newRequestError(http.StatusBadRequest, "Sec-WebSocket-Key: must occur once, with 16 bytes in base64")
	}
	if !hasHeaderToken(r.Header, "Sec-WebSocket-Protocol", protocol) {
		return newRequestError(http.StatusBadRequest, "Sec-WebSocket-Protocol: must be %s", protocol)
	}
	return nil
}

// hasHeaderToken reports whether a comma-separated header contains a word.
func hasHeaderToken(h http.Header, name, word string) bool {
	for _, v := range h.Values(name) {
		for t := range strings.SplitSeq(v, ",") {
			if strings.EqualFold(strings.TrimSpace(t), word) {
				return true
			}
		}
	}
	return false
}

// bufferPool holds buffers for messages and responses.
var bufferPool = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// putBuffer returns a buffer to the pool, unless it has grown large.
func putBuffer(b *bytes.Buffer) {
	if b.Cap() <= 256<<10 {
		b.Reset()
		bufferPool.Put(b)
	}
}
