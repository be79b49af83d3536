package client

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"net/netip"
	"net/url"
	"sync"

	"github.com/libp2p/go-yamux/v5"

	"github.com/atoll-sandbox/atoll/internal/wire"
)

// Listen makes an address inside lead here: "tcp" with "127.0.0.1:0", "unix" with
// a path. The listener outlives ctx, which is for the asking.
func (s *Sandbox) Listen(ctx context.Context, network, address string) (net.Listener, error) {
	k := s.call("listen", "", "/listen")
	k.query = url.Values{"network": {network}, "address": {address}}
	if ctx.Err() != nil {
		return nil, k.fail(ended(ctx))
	}
	ws, err := s.c.upgrade(ctx, k, wire.ListenProtocol)
	if err != nil {
		return nil, err
	}
	l, err := land(ctx, ws, network)
	if err != nil {
		ws.Close()
		return nil, k.fail(s.c.broken(ctx, err))
	}
	return l, nil
}

// land begins a listener whose WebSocket is open.
func land(ctx context.Context, ws conn, network string) (*landing, error) {
	var b bytes.Buffer
	var at wire.Listening
	if err := ws.Read(ctx, &b); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(b.Bytes(), &at); err != nil {
		return nil, protocolError("where it listens: %v", err)
	}
	var addr net.Addr = &net.UnixAddr{Net: "unix", Name: at.Address}
	if network != "unix" {
		a, err := netip.ParseAddrPort(at.Address)
		if err != nil {
			return nil, protocolError("where it listens: %v", err)
		}
		addr = net.TCPAddrFromAddrPort(a)
	}
	mux, err := wire.Multiplexed(ws, wire.Near, ws.Close)
	if err != nil {
		return nil, err
	}
	st, err := mux.OpenStream(ctx)
	if err != nil {
		_ = mux.Close() // the error says more
		return nil, err
	}
	l := &landing{Listener: wire.NewListener(func() {}), mux: mux}
	l.Lead(st, addr, func() { l.count(0, true) })
	go l.receive()
	return l, nil
}

// landing is an address inside a sandbox that leads here. Its connections are
// channels of one WebSocket, which ends with the last of them.
type landing struct {
	*wire.Listener
	mux *yamux.Session

	mu    sync.Mutex
	lines int  // guarded by mu
	last  bool // no more come, and the server has said all; guarded by mu
}

// receive takes connections until the WebSocket ends.
func (l *landing) receive() {
	for {
		st, err := l.mux.AcceptStream()
		if err != nil {
			return
		}
		go l.Take(st, l.mux.CloseChan())
	}
}

// Accept waits for the next connection.
func (l *landing) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.count(1, false)
	return &lane{Line: c.(*wire.Line), l: l}, nil // those of a wire.Listener are
}

// count notes a connection more or less, or that it is over.
func (l *landing) count(n int, last bool) {
	l.mu.Lock()
	l.lines += n
	l.last = l.last || last
	over := l.last && l.lines == 0
	l.mu.Unlock()
	if over {
		_ = l.mux.Close() // nobody has anything to say
	}
}

// lane is a connection of a program inside.
type lane struct {
	*wire.Line
	l    *landing
	once sync.Once
}

// Close ends the connection.
func (c *lane) Close() error {
	err := c.Line.Close()
	c.once.Do(func() { c.l.count(-1, false) })
	return err
}

// Abort breaks the connection.
func (c *lane) Abort() {
	c.Line.Abort()
	c.once.Do(func() { c.l.count(-1, false) })
}
