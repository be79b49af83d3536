package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// Limits on clients.
const (
	headerTimeout   = 10 * time.Second // for a request's head
	idleTimeout     = time.Minute      // between two requests
	maxHeaderBytes  = 64 << 10         // of a request
	maxConns        = 4096             // connections
	maxConnsPerAddr = 256              // from one remote address
	shutdownTimeout = 5 * time.Second  // for requests in flight
)

// ServeOptions configure Serve.
type ServeOptions struct {
	// TLS has the certificates; nil serves without.
	TLS *tls.Config
	// Public admits everyone who reaches the listener, whatever its
	// address: the operator controls access otherwise. Without it, a listener that other
	// hosts can reach needs [Proxy.Access].
	Public bool
}

// Serve serves HTTP/1.1 and HTTP/2 on l until ctx is done, then gives requests
// a short time to end, and returns nil. A listener that would admit more clients than
// configured is ErrInvalid. It closes l.
func (p *Proxy) Serve(ctx context.Context, l net.Listener, o ServeOptions) error {
	defer l.Close()
	if err := p.checkListener(l, o); err != nil {
		return err
	}
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	s := &http.Server{
		Handler: p, TLSConfig: o.TLS, ErrorLog: log.New(io.Discard, "", 0),
		ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes,
		BaseContext: func(net.Listener) context.Context { return life },
		Protocols:   new(http.Protocols),
	}
	s.Protocols.SetHTTP1(true)
	s.Protocols.SetHTTP2(true)
	s.Protocols.SetUnencryptedHTTP2(true)
	served := make(chan error, 1)
	go func() {
		crowd := &limitListener{Listener: l, front: p.BehindProxy, perAddr: make(map[netip.Addr]int)}
		if o.TLS != nil {
			served <- s.ServeTLS(crowd, "", "")
			return
		}
		served <- s.Serve(crowd)
	}()
	select {
	case err := <-served:
		return errors.Join(err, s.Close())
	case <-ctx.Done():
	}
	last, cancel := context.WithTimeout(life, shutdownTimeout)
	defer cancel()
	if s.Shutdown(last) != nil {
		end() // ends streams
		_ = s.Close()
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// checkListener returns an error for a listener that admits more clients than configured.
func (p *Proxy) checkListener(l net.Listener, o ServeOptions) error {
	if err := p.Names.Check(); err != nil {
		return err
	}
	if p.Access != nil || o.Public {
		return nil
	}
	if p.BehindProxy {
		return fmt.Errorf("%w: %s: the proxy in front may admit anyone: require access links, or declare that it authenticates users", atoll.ErrInvalid, l.Addr())
	}
	switch a := l.Addr().(type) {
	case *net.UnixAddr:
		return nil
	case *net.TCPAddr:
		if a.IP.IsLoopback() {
			return nil
		}
	}
	return fmt.Errorf("%w: %s: other hosts may reach it: require access links, or listen on an address such as 127.0.0.1", atoll.ErrInvalid, l.Addr())
}

// limitListener limits the open connections, in total and per address. It closes
// excess connections at once, so that the open ones are served.
type limitListener struct {
	net.Listener
	front bool // all come from one address

	mu      sync.Mutex
	total   int                // guarded by mu, as by
	perAddr map[netip.Addr]int // of remote addresses
}

// Accept returns the next connection within the limits.
func (c *limitListener) Accept() (net.Conn, error) {
	for {
		conn, err := c.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if g := c.admitConn(conn); g != nil {
			return g, nil
		}
		_ = conn.Close()
	}
}

func (c *limitListener) admitConn(conn net.Conn) net.Conn {
	var from netip.Addr
	if a, ok := conn.RemoteAddr().(*net.TCPAddr); ok && !a.IP.IsLoopback() && !c.front {
		from = a.AddrPort().Addr().Unmap()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.total >= maxConns || from.IsValid() && c.perAddr[from] >= maxConnsPerAddr {
		return nil
	}
	c.total++
	if from.IsValid() {
		c.perAddr[from]++
	}
	return &limitedConn{Conn: conn, release: sync.OnceFunc(func() { c.releaseConn(from) })}
}

func (c *limitListener) releaseConn(from netip.Addr) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.total--
	if !from.IsValid() {
		return
	}
	if c.perAddr[from]--; c.perAddr[from] == 0 {
		delete(c.perAddr, from)
	}
}

// limitedConn is an accepted connection that counts towards the limits.
type limitedConn struct {
	net.Conn
	release func()
}

// Close closes the connection.
func (g *limitedConn) Close() error {
	defer g.release()
	return g.Conn.Close()
}
