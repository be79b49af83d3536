package api

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

// registerListen registers listening on addresses inside a sandbox.
func (s *Server) registerListen(api huma.API) {
	s.registerRaw(api, huma.Operation{
		OperationID: "listen", Method: http.MethodGet, Path: "/v1/sandboxes/{id}/listen", Tags: []string{"sandboxes"}, DefaultStatus: http.StatusSwitchingProtocols,
		Summary: "Listen on an address in a sandbox",
		Description: "A WebSocket of the subprotocol " + wire.ListenProtocol + ". Its first message is JSON, `{\"address\": \"127.0.0.1:41234\"}`; all others are binary and carry yamux (version 0, " +
			"https://github.com/hashicorp/yamux/blob/master/spec.md), in which the server's streams are odd. The client opens one stream, the listener's: closing its half closes the listener. The server opens " +
			"one for each connection of a program. It sends a byte on the listener's stream when the address is free, and closes it when all connections have ended.",
		Parameters: append(pathParams("id"),
			&huma.Param{Name: "network", In: "query", Required: true, Description: "tcp or unix.", Schema: &huma.Schema{Type: "string"}},
			&huma.Param{Name: "address", In: "query", Required: true, Description: "127.0.0.1:8080, with port 0 for a free port, or a path.", Schema: &huma.Schema{Type: "string"}}),
		Errors: []int{404, 409, 426, 501, 507},
	}, s.serveListen)
}

func (s *Server) serveListen(w http.ResponseWriter, r *http.Request, a *fleet.Account) error {
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
	if err := checkUpgrade(r, wire.ListenProtocol); err != nil {
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
	outer, err := acceptWebSocket(w, r, wire.ListenProtocol)
	if err != nil {
		return err
	}
	defer outer.Break()
	defer s.metrics.countStream("listen")()
	outer.Limit(wire.LineLimit)
	hello, err := json.Marshal(wire.Listening{Address: inner.Addr().String()})
	if err != nil {
		return nil //nolint:nilerr // no response is possible after the upgrade
	}
	if outer.Write(r.Context(), hello) != nil {
		return nil
	}
	if mux, err := wire.NewSession(outer, wire.FarEnd, outer.Break); err == nil {
		t := &reverseTunnel{mux: mux, inner: inner}
		t.run(r.Context())
	}
	return nil
}

// reverseTunnel forwards the connections to an address inside a sandbox to a client.
type reverseTunnel struct {
	mux   *yamux.Session
	inner net.Listener
	conns sync.WaitGroup
}

// run forwards connections until the client has closed the listener and all connections have
// ended, the client disconnects, or ctx is done.
func (t *reverseTunnel) run(ctx context.Context) {
	life, end := context.WithCancel(ctx)
	defer t.conns.Wait()
	defer t.mux.Close()
	defer end()
	context.AfterFunc(life, func() { _ = t.mux.Close() })
	own, err := t.mux.AcceptStream()
	if err != nil {
		return
	}
	go func() { // ends with the WebSocket at the latest
		_, _ = own.Read(make([]byte, 1)) // the client only closes it
		_ = t.inner.Close()              // no more connections are accepted
	}()
	for {
		c, err := t.inner.Accept()
		if err != nil {
			break
		}
		t.conns.Go(func() { t.forwardConn(life, c) })
	}
	_ = t.inner.Close() // waits for a Close in progress: the address is free when the client is notified
	if _, err := own.Write([]byte{0}); err != nil {
		return
	}
	over := make(chan struct{})
	go func() { t.conns.Wait(); close(over) }()
	select {
	case <-over:
		_ = own.CloseWrite() // if it fails, the session has ended
		<-t.mux.CloseChan()
	case <-t.mux.CloseChan():
	}
}

// forwardConn forwards one connection to the client.
func (t *reverseTunnel) forwardConn(ctx context.Context, c net.Conn) {
	st, err := t.mux.OpenStream(ctx)
	half, ok := c.(wire.HalfCloser)
	if err != nil || !ok {
		wire.Abort(c)
		return
	}
	wire.Join(ctx, half, st)
}
