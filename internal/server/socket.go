package server

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

// conn is a connection of messages. One goroutine reads, any write.
type conn interface {
	// Read replaces what is in b by the next message.
	Read(ctx context.Context, b *bytes.Buffer) error
	Write(ctx context.Context, message []byte) error
	Ping(ctx context.Context) error
	Limit(bytes int64) // of a message that is read
	Close()            // says good-bye, but not for long
	Break()            // ends it at once
}

// pingEvery is how often a stream is kept alive through what is between.
const pingEvery = 30 * time.Second

// webSocket is a conn over a WebSocket.
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

func (s webSocket) Close() { _ = s.ws.Close(websocket.StatusNormalClosure, "") } // who is gone hears no good-bye

func (s webSocket) Break() { _ = s.ws.CloseNow() } // likewise

// upgrade makes a WebSocket of a request. Its first error, before the switch, is
// to be answered.
func upgrade(w http.ResponseWriter, r *http.Request, protocol string) (conn, error) {
	if err := mayUpgrade(r, protocol); err != nil {
		return nil, err
	}
	// Where it comes from was looked at on its way here.
	ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{protocol}, InsecureSkipVerify: true})
	if err != nil {
		return nil, refuse(http.StatusBadRequest, "the WebSocket could not be opened")
	}
	return webSocket{ws}, nil
}

// mayUpgrade says what a request lacks that is to become a WebSocket.
func mayUpgrade(r *http.Request, protocol string) error {
	if !hasToken(r.Header, "Connection", "upgrade") || !hasToken(r.Header, "Upgrade", "websocket") {
		return &refusal{status: http.StatusUpgradeRequired, kind: "invalid", header: http.Header{"Connection": {"Upgrade"}, "Upgrade": {"websocket"}},
			detail: fmt.Sprintf("this is a WebSocket of the subprotocol %s: ask for an upgrade", protocol)}
	}
	if r.Header.Get("Sec-WebSocket-Version") != "13" {
		return &refusal{status: http.StatusBadRequest, kind: "invalid", header: http.Header{"Sec-Websocket-Version": {"13"}}, detail: "Sec-WebSocket-Version: must be 13"}
	}
	if key, err := base64.StdEncoding.DecodeString(strings.TrimSpace(r.Header.Get("Sec-WebSocket-Key"))); err != nil || len(key) != 16 || len(r.Header.Values("Sec-WebSocket-Key")) != 1 {
		return refuse(http.StatusBadRequest, "Sec-WebSocket-Key: must be there once, 16 bytes in base64")
	}
	if !hasToken(r.Header, "Sec-WebSocket-Protocol", protocol) {
		return refuse(http.StatusBadRequest, "Sec-WebSocket-Protocol: must be %s", protocol)
	}
	return nil
}

// hasToken reports whether a header's list has a word.
func hasToken(h http.Header, name, word string) bool {
	for _, v := range h.Values(name) {
		for t := range strings.SplitSeq(v, ",") {
			if strings.EqualFold(strings.TrimSpace(t), word) {
				return true
			}
		}
	}
	return false
}

// scratch are buffers for messages and answers.
var scratch = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// release gives a buffer back, unless it has grown big.
func release(b *bytes.Buffer) {
	if b.Cap() <= 256<<10 {
		b.Reset()
		scratch.Put(b)
	}
}
