package server

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"sync"

	"github.com/danielgtaylor/huma/v2"
	"github.com/libp2p/go-yamux/v5"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// listens adds addresses inside that lead to a client.
func (s *Server) listens(api huma.API) {
	s.handle(api, huma.Operation{
		OperationID: "listen", Method: http.MethodGet, Path: "/v1/sandboxes/{id}/listen", Tags: []string{"sandboxes"}, DefaultStatus: http.StatusSwitchingProtocols,
		Summary: "Make an address inside lead to the caller",
		Description: "A WebSocket of the subprotocol " + wire.ListenProtocol + ". Its first message is JSON, `{\"address\": \"127.0.0.1:41234\"}`; all others are binary and carry yamux (version 0, " +
			"https://github.com/hashicorp/yamux/blob/master/spec.md), in which the server has the odd streams. The client opens one stream, the listener's: closing its half gives up the address. The server opens " +
			"one for each connection of a program. It says a byte on the listener's stream when the address is free, and closes it when all connections have ended.",
		Parameters: append(pathParams("id"),
			&huma.Param{Name: "network", In: "query", Required: true, Description: "tcp or unix.", Schema: &huma.Schema{Type: "string"}},
			&huma.Param{Name: "address", In: "query", Required: true, Description: "127.0.0.1:8080, with the port 0 for one that is free, or a path.", Schema: &huma.Schema{Type: "string"}}),
		Errors: []int{404, 409, 426, 501, 507},
	}, s.listen)
}

func (s *Server) listen(w http.ResponseWriter, r *http.Request, a *fleet.Account) error {
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
	if err := mayUpgrade(r, wire.ListenProtocol); err != nil {
		return err
	}
	sb, err := a.Open(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	inner, err := atoll.Listen(r.Context(), sb, network, address)
	if err != nil {
		return err
	}
	defer inner.Close()
	outer, err := upgrade(w, r, wire.ListenProtocol)
	if err != nil {
		return err
	}
	defer outer.Break()
	defer s.metrics.stream("listen")()
	outer.Limit(wire.LineLimit)
	hello, err := json.Marshal(wire.Listening{Address: inner.Addr().String()})
	if err != nil {
		return nil //nolint:nilerr // there is nobody left to tell: what was asked for has been answered
	}
	if outer.Write(r.Context(), hello) != nil {
		return nil
	}
	if mux, err := wire.Multiplexed(outer, wire.Far, outer.Break); err == nil {
		t := &tunnel{mux: mux, inner: inner}
		t.run(r.Context())
	}
	return nil
}

// tunnel is an address inside that leads to a client.
type tunnel struct {
	mux   *yamux.Session
	inner net.Listener
	lines sync.WaitGroup
}

// run carries connections until the client has given up the address and all
// have ended, the client is gone, or ctx is done.
func (t *tunnel) run(ctx context.Context) {
	life, end := context.WithCancel(ctx)
	defer t.lines.Wait()
	defer t.mux.Close()
	defer end()
	context.AfterFunc(life, func() { _ = t.mux.Close() })
	own, err := t.mux.AcceptStream()
	if err != nil {
		return
	}
	go func() { // ends with the WebSocket at the latest
		_, _ = own.Read(make([]byte, 1)) // the client says nothing but that it is over
		_ = t.inner.Close()              // whatever it says, nobody comes any more
	}()
	for {
		c, err := t.inner.Accept()
		if err != nil {
			break
		}
		t.lines.Go(func() { t.carry(life, c) })
	}
	_ = t.inner.Close() // where that is under way, it is waited for: the address is free when the client hears of it
	if _, err := own.Write([]byte{0}); err != nil {
		return
	}
	over := make(chan struct{})
	go func() { t.lines.Wait(); close(over) }()
	select {
	case <-over:
		_ = own.CloseWrite() // where it breaks, it is over too
		<-t.mux.CloseChan()
	case <-t.mux.CloseChan():
	}
}

// carry takes one connection to the client.
func (t *tunnel) carry(ctx context.Context, c net.Conn) {
	st, err := t.mux.OpenStream(ctx)
	half, ok := c.(wire.Halver)
	if err != nil || !ok {
		wire.Abort(c)
		return
	}
	wire.Join(ctx, half, st)
}
