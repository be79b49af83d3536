package api

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"sync"

	"github.com/danielgtaylor/huma/v2"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// registerDial registers connections to addresses inside a sandbox.
func (s *Server) registerDial(api huma.API) {
	s.registerRaw(api, huma.Operation{
		OperationID: "dial", Method: http.MethodGet, Path: "/v1/sandboxes/{id}/dial", Tags: []string{"sandboxes"}, DefaultStatus: http.StatusSwitchingProtocols,
		Summary:     "Connect to an address in a sandbox",
		Description: "A WebSocket of the subprotocol " + wire.DialProtocol + ": binary messages carry the bytes. An empty message ends one direction.",
		Parameters: append(pathParams("id"),
			&huma.Param{Name: "network", In: "query", Required: true, Description: "tcp or unix.", Schema: &huma.Schema{Type: "string"}},
			&huma.Param{Name: "address", In: "query", Required: true, Description: "localhost:8080, or a path.", Schema: &huma.Schema{Type: "string"}}),
		Errors: []int{404, 409, 426, 501},
	}, s.serveDial)
}

func (s *Server) serveDial(w http.ResponseWriter, r *http.Request, a *fleet.Account) error {
	q := newQuery(r.URL.Query())
	network, address := q.readText("network"), q.readText("address")
	if network != "tcp" && network != "unix" {
		q.addError("query.network", "must be tcp or unix", network)
	}
	if address == "" {
		q.addError("query.address", "must not be empty", nil)
	}
	if err := q.checkErrors(); err != nil {
		return err
	}
	if err := checkUpgrade(r, wire.DialProtocol); err != nil {
		return err
	}
	sb, err := a.Open(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	inner, err := atoll.Dial(r.Context(), sb, network, address)
	if err != nil {
		return err
	}
	outer, err := acceptWebSocket(w, r, wire.DialProtocol)
	if err != nil {
		_ = inner.Close() // the client can't use it
		return err
	}
	defer s.metrics.countStream("dial")()
	joinConns(r.Context(), outer, inner)
	return nil
}

// joinConns copies bytes in both directions until both have ended, one fails, or ctx is done.
func joinConns(ctx context.Context, outer messageConn, inner net.Conn) {
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	outer.Limit(wire.Window)
	stop := sync.OnceFunc(func() {
		end()
		_ = inner.Close() // buffered bytes are dropped
	})
	defer context.AfterFunc(ctx, stop)()
	said, gone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		defer stop()
		copyInward(life, outer, inner, sync.OnceFunc(func() { close(said) }))
	}()
	if copyOutward(life, inner, outer) {
		select { // the other direction may still be open
		case <-said:
		case <-gone:
		}
		outer.Close()
	}
	stop()
	outer.Break()
	<-gone
}

// copyInward copies bytes into the sandbox until the client disconnects. It calls said when the
// client ends its direction.
func copyInward(ctx context.Context, outer messageConn, inner net.Conn, said func()) {
	b := bufferPool.Get().(*bytes.Buffer)
	defer putBuffer(b)
	for outer.Read(ctx, b) == nil {
		if b.Len() == 0 {
			if half, ok := inner.(interface{ CloseWrite() error }); ok {
				_ = half.CloseWrite() // the other direction reports the error
			}
			said()
			continue
		}
		if _, err := inner.Write(b.Bytes()); err != nil {
			return
		}
	}
}

// copyOutward copies bytes out of the sandbox until the end of the stream, which it reports.
func copyOutward(ctx context.Context, inner net.Conn, outer messageConn) bool {
	buf := messageBuffers.Get().(*[]byte)
	defer messageBuffers.Put(buf)
	for {
		n, err := inner.Read((*buf)[:wire.MaxPayload])
		if n > 0 && outer.Write(ctx, (*buf)[:n]) != nil {
			return false
		}
		if err != nil {
			return err == io.EOF && outer.Write(ctx, nil) == nil //nolint:errorlint // io.Reader returns EOF itself
		}
	}
}
