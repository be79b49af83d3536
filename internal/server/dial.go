package server

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

// dials adds connections to addresses inside.
func (s *Server) dials(api huma.API) {
	s.handle(api, huma.Operation{
		OperationID: "dial", Method: http.MethodGet, Path: "/v1/sandboxes/{id}/dial", Tags: []string{"sandboxes"}, DefaultStatus: http.StatusSwitchingProtocols,
		Summary:     "Connect to an address inside",
		Description: "A WebSocket of the subprotocol " + wire.DialProtocol + ": bytes in binary messages, as they come. An empty message ends one direction.",
		Parameters: append(pathParams("id"),
			&huma.Param{Name: "network", In: "query", Required: true, Description: "tcp or unix.", Schema: &huma.Schema{Type: "string"}},
			&huma.Param{Name: "address", In: "query", Required: true, Description: "localhost:8080, or a path.", Schema: &huma.Schema{Type: "string"}}),
		Errors: []int{404, 409, 426, 501},
	}, s.dial)
}

func (s *Server) dial(w http.ResponseWriter, r *http.Request, a *fleet.Account) error {
	q := newQuery(r.URL.Query())
	network, address := q.text("network"), q.text("address")
	if network != "tcp" && network != "unix" {
		q.wrong("query.network", "must be tcp or unix", network)
	}
	if address == "" {
		q.wrong("query.address", "must not be empty", nil)
	}
	if err := q.err(); err != nil {
		return err
	}
	if err := mayUpgrade(r, wire.DialProtocol); err != nil {
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
	outer, err := upgrade(w, r, wire.DialProtocol)
	if err != nil {
		_ = inner.Close() // nobody wants it
		return err
	}
	defer s.metrics.stream("dial")()
	join(r.Context(), outer, inner)
	return nil
}

// join carries bytes both ways until both have ended, one is broken, or ctx is
// done.
func join(ctx context.Context, outer conn, inner net.Conn) {
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	outer.Limit(wire.Window)
	stop := sync.OnceFunc(func() {
		end()
		_ = inner.Close() // whatever it still had, nobody takes
	})
	defer context.AfterFunc(ctx, stop)()
	said, gone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		defer stop()
		inward(life, outer, inner, sync.OnceFunc(func() { close(said) }))
	}()
	if outward(life, inner, outer) {
		select { // the other direction may go on
		case <-said:
		case <-gone:
		}
		outer.Close()
	}
	stop()
	outer.Break()
	<-gone
}

// inward carries bytes into the sandbox until the client is gone. It calls said
// when the client says that no more come.
func inward(ctx context.Context, outer conn, inner net.Conn, said func()) {
	b := scratch.Get().(*bytes.Buffer)
	defer release(b)
	for outer.Read(ctx, b) == nil {
		if b.Len() == 0 {
			if half, ok := inner.(interface{ CloseWrite() error }); ok {
				_ = half.CloseWrite() // the other direction says what is wrong
			}
			said()
			continue
		}
		if _, err := inner.Write(b.Bytes()); err != nil {
			return
		}
	}
}

// outward carries bytes out of the sandbox until no more come.
func outward(ctx context.Context, inner net.Conn, outer conn) bool {
	buf := messages.Get().(*[]byte)
	defer messages.Put(buf)
	for {
		n, err := inner.Read((*buf)[:wire.MaxPayload])
		if n > 0 && outer.Write(ctx, (*buf)[:n]) != nil {
			return false
		}
		if err != nil {
			return err == io.EOF && outer.Write(ctx, nil) == nil //nolint:errorlint // io.Reader's contract: EOF itself is the end
		}
	}
}
