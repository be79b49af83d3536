package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// Serve answers the connections of a listener until Shutdown, which closes it.
// Those of a unix socket, and of [Pipe], are the people of this machine: they
// need no token. All others do.
func (s *Server) Serve(l net.Listener) error {
	if tcp, ok := l.Addr().(*net.TCPAddr); ok && !tcp.IP.IsLoopback() {
		if _, plain := l.(*net.TCPListener); plain {
			s.log.Warn("tokens go over the network in the clear: use TLS, or a proxy that does", "address", l.Addr().String())
		}
	}
	srv := s.newHTTP(l)
	s.mu.Lock()
	if s.ending.Err() != nil {
		s.mu.Unlock()
		return l.Close()
	}
	s.served[srv], s.doors[srv] = true, s.addressOf(l)
	s.mu.Unlock()
	if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve %s: %w", l.Addr(), err)
	}
	return nil
}

// newHTTP returns the HTTP server of one listener.
func (s *Server) newHTTP(l net.Listener) *http.Server {
	network := l.Addr().Network()
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true) // WebSockets need it
	return &http.Server{
		Handler:                      s.Handler(),
		Protocols:                    protocols,
		ReadHeaderTimeout:            s.limits.HeaderTime,
		IdleTimeout:                  s.limits.Idle,
		MaxHeaderBytes:               8*s.limits.Header + maxURL, // beyond, net/http answers by itself; up to it, checkRequest does
		DisableGeneralOptionsHandler: true,
		ErrorLog:                     slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
		BaseContext:                  func(net.Listener) context.Context { return s.life },
		ConnState:                    s.connections(),
		ConnContext: func(ctx context.Context, _ net.Conn) context.Context {
			if network == pipeNetwork {
				ctx = context.WithValue(ctx, pipeKey{}, true)
			}
			return context.WithValue(ctx, localKey{}, network == "unix" || network == pipeNetwork)
		},
	}
}

// connections returns what counts the connections of a listener, and closes
// those that are too many before anything is read of them: altogether, or from
// one address, which gets a quarter.
func (s *Server) connections() func(net.Conn, http.ConnState) {
	open := &doors{most: s.limits.Connections, from: make(map[netip.Prefix]int)}
	return func(c net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			s.metrics.connections.Inc()
			if !open.enter(c) {
				s.metrics.refused.WithLabelValues("connections").Inc()
				_ = c.Close() // its reader finds out
			}
		case http.StateClosed, http.StateHijacked:
			open.leave(c)
			s.metrics.connections.Dec()
		}
	}
}

// doors counts the connections of a listener.
type doors struct {
	most int // negative: any number

	mu   sync.Mutex
	all  int                  // guarded by mu
	from map[netip.Prefix]int // by address, guarded by mu
}

// enter counts a connection in, also one that is too many.
func (d *doors) enter(c net.Conn) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.all++
	ok := d.most < 0 || d.all <= d.most
	if p := origin(c); p.IsValid() {
		d.from[p]++
		ok = ok && (d.most < 0 || d.from[p] <= max(d.most/4, 1))
	}
	return ok
}

// leave counts a connection out.
func (d *doors) leave(c net.Conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.all--
	if p := origin(c); p.IsValid() {
		if d.from[p]--; d.from[p] == 0 {
			delete(d.from, p)
		}
	}
}

// origin returns where a connection comes from: an address, or of IPv6 the
// network that one customer has. What has no such address has no origin.
func origin(c net.Conn) netip.Prefix {
	tcp, ok := c.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return netip.Prefix{}
	}
	addr := tcp.AddrPort().Addr().Unmap().WithZone("")
	p, _ := addr.Prefix(min(addr.BitLen(), 64)) // that many bits it has
	return p
}

// Shutdown ends the server: it takes no more connections, tells streams to say
// good-bye, and waits for the requests under way. Those that have not ended when
// ctx is done are broken off; the error then says so.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	s.end()
	servers := make([]*http.Server, 0, len(s.served))
	for srv := range s.served {
		servers = append(servers, srv)
	}
	s.mu.Unlock()
	var errs []error
	for _, srv := range servers {
		errs = append(errs, srv.Shutdown(ctx))
	}
	select {
	case <-s.active.gone():
		s.die()
		return errors.Join(notOver(errors.Join(errs...)), s.farewell(ctx))
	case <-ctx.Done():
	}
	s.die()
	for _, srv := range servers {
		errs = append(errs, srv.Close())
	}
	last := time.NewTimer(lastWait)
	defer last.Stop()
	select {
	case <-s.active.gone():
	case <-last.C:
	}
	return errors.Join(fmt.Errorf("%w: requests were broken off that had not ended in time", atoll.ErrTimeout), s.farewell(ctx))
}

// farewell ends the sessions of MCP clients and the turns under way, after the
// last request.
func (s *Server) farewell(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWait)
	defer cancel()
	return errors.Join(s.closeDesk(ctx), s.circles.close(ctx))
}

// lastWait is how long a request that is broken off may take to notice.
const lastWait = 5 * time.Second

// notOver leaves out that connections were still busy when the wait for their
// requests began: the wait has ended since.
func notOver(err error) error {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}
