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

// Listen forwards an address inside the sandbox to the caller: "tcp" with "127.0.0.1:0",
// "unix" with a path. ctx applies to the request only; the listener outlives it.
func (s *Sandbox) Listen(ctx context.Context, network, address string) (net.Listener, error) {
	k := s.newCall("listen", "", "/listen")
	k.query = url.Values{"network": {network}, "address": {address}}
	if ctx.Err() != nil {
		return nil, k.wrapError(contextError(ctx))
	}
	ws, err := s.c.openWebSocket(ctx, k, wire.ListenProtocol)
	if err != nil {
		return nil, err
	}
	l, err := startListener(ctx, ws, network)
	if err != nil {
		ws.Close()
		return nil, k.wrapError(s.c.transportError(ctx, err))
	}
	return l, nil
}

// startListener returns a listener on an open WebSocket.
func startListener(ctx context.Context, ws conn, network string) (*remoteListener, error) {
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
	mux, err := wire.NewSession(ws, wire.NearEnd, ws.Close)
	if err != nil {
		return nil, err
	}
	st, err := mux.OpenStream(ctx)
	if err != nil {
		_ = mux.Close() // err is returned
		return nil, err
	}
	l := &remoteListener{Listener: wire.NewListener(func() {}), mux: mux}
	l.SetControl(st, addr, func() { l.countConn(0, true) })
	go l.acceptStreams()
	return l, nil
}

// remoteListener is a listener on an address inside a sandbox. Its connections are
// channels of one WebSocket, which is closed with the last of them.
type remoteListener struct {
	*wire.Listener
	mux *yamux.Session

	mu       sync.Mutex
	conns    int  // guarded by mu
	finished bool // no more come, and the server has said all; guarded by mu
}

// acceptStreams accepts connections until the WebSocket ends.
func (l *remoteListener) acceptStreams() {
	for {
		st, err := l.mux.AcceptStream()
		if err != nil {
			return
		}
		go l.Deliver(st, l.mux.CloseChan())
	}
}

// Accept waits for the next connection.
func (l *remoteListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.countConn(1, false)
	return &remoteConn{Conn: c.(*wire.Conn), l: l}, nil // those of a wire.Listener are
}

// countConn adds n to the number of open connections. last marks the listener as finished.
func (l *remoteListener) countConn(n int, last bool) {
	l.mu.Lock()
	l.conns += n
	l.finished = l.finished || last
	over := l.finished && l.conns == 0
	l.mu.Unlock()
	if over {
		_ = l.mux.Close() // no connection is left
	}
}

// remoteConn is a connection from a program inside the sandbox.
type remoteConn struct {
	*wire.Conn
	l    *remoteListener
	once sync.Once
}

// Close closes the connection.
func (c *remoteConn) Close() error {
	err := c.Conn.Close()
	c.once.Do(func() { c.l.countConn(-1, false) })
	return err
}

// Abort resets the connection.
func (c *remoteConn) Abort() {
	c.Conn.Abort()
	c.once.Do(func() { c.l.countConn(-1, false) })
}
