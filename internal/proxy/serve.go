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

// Bounds of what clients may hold.
const (
	headTimeout = 10 * time.Second // for a request's head
	idleTimeout = time.Minute      // between two requests
	maxHead     = 64 << 10         // of a request
	maxLines    = 4096             // connections
	maxLinesOf  = 256              // of one address that is not this machine's
	farewell    = 5 * time.Second  // for requests under way at the end
)

// ServeOptions says how a listener is served.
type ServeOptions struct {
	// TLS has the certificates; nil serves without.
	TLS *tls.Config
	// Open says that whoever reaches the listener may come in, wherever it
	// is: somebody else sees to who that is. Without it, a listener that others
	// than this machine's own reach needs [Proxy.Access].
	Open bool
}

// Serve serves HTTP/1.1 and HTTP/2 on l until ctx is done, then lets requests
// end for a moment, and returns nil. A listener that would let in more than
// was meant is ErrInvalid. It closes l.
func (p *Proxy) Serve(ctx context.Context, l net.Listener, o ServeOptions) error {
	defer l.Close()
	if err := p.mayServe(l, o); err != nil {
		return err
	}
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	s := &http.Server{
		Handler: p, TLSConfig: o.TLS, ErrorLog: log.New(io.Discard, "", 0),
		ReadHeaderTimeout: headTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHead,
		BaseContext: func(net.Listener) context.Context { return life },
		Protocols:   new(http.Protocols),
	}
	s.Protocols.SetHTTP1(true)
	s.Protocols.SetHTTP2(true)
	s.Protocols.SetUnencryptedHTTP2(true)
	served := make(chan error, 1)
	go func() {
		crowd := &crowd{Listener: l, front: p.Front, by: make(map[netip.Addr]int)}
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
	last, cancel := context.WithTimeout(life, farewell)
	defer cancel()
	if s.Shutdown(last) != nil {
		end() // streams and what else does not end by itself
		_ = s.Close()
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// mayServe reports a listener that lets in more than was meant.
func (p *Proxy) mayServe(l net.Listener, o ServeOptions) error {
	if err := p.Names.Check(); err != nil {
		return err
	}
	if p.Access != nil || o.Open {
		return nil
	}
	if p.Front {
		return fmt.Errorf("%w: %s: a proxy in front may let in everybody: access by links is needed, or the word that it sees to that", atoll.ErrInvalid, l.Addr())
	}
	switch a := l.Addr().(type) {
	case *net.UnixAddr:
		return nil
	case *net.TCPAddr:
		if a.IP.IsLoopback() {
			return nil
		}
	}
	return fmt.Errorf("%w: %s: others than this machine may reach it: access by links is needed, or an address such as 127.0.0.1", atoll.ErrInvalid, l.Addr())
}

// crowd is a listener that keeps no more connections than it may. What comes
// beyond is closed at once, so those that are there are served.
type crowd struct {
	net.Listener
	front bool // all come from one address

	mu  sync.Mutex
	all int                // guarded by mu, as by
	by  map[netip.Addr]int // of addresses that are not this machine's
}

// Accept waits for a connection that there is room for.
func (c *crowd) Accept() (net.Conn, error) {
	for {
		conn, err := c.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if g := c.admit(conn); g != nil {
			return g, nil
		}
		_ = conn.Close()
	}
}

func (c *crowd) admit(conn net.Conn) net.Conn {
	var from netip.Addr
	if a, ok := conn.RemoteAddr().(*net.TCPAddr); ok && !a.IP.IsLoopback() && !c.front {
		from = a.AddrPort().Addr().Unmap()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all >= maxLines || from.IsValid() && c.by[from] >= maxLinesOf {
		return nil
	}
	c.all++
	if from.IsValid() {
		c.by[from]++
	}
	return &guest{Conn: conn, leave: sync.OnceFunc(func() { c.leave(from) })}
}

func (c *crowd) leave(from netip.Addr) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all--
	if !from.IsValid() {
		return
	}
	if c.by[from]--; c.by[from] == 0 {
		delete(c.by, from)
	}
}

// guest is a connection that was admitted.
type guest struct {
	net.Conn
	leave func()
}

// Close ends the connection.
func (g *guest) Close() error {
	defer g.leave()
	return g.Conn.Close()
}
