package api

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

// Serve serves the connections of a listener until Shutdown, which closes it. Connections of a
// Unix socket, and of [Pipe], belong to local users and need no token; all others do.
func (s *Server) Serve(l net.Listener) error {
	if tcp, ok := l.Addr().(*net.TCPAddr); ok && !tcp.IP.IsLoopback() {
		if _, plain := l.(*net.TCPListener); plain {
			s.log.Warn("tokens are sent over the network unencrypted: use TLS, or a proxy with TLS", "address", l.Addr().String())
		}
	}
	srv := s.newHTTP(l)
	s.mu.Lock()
	if s.stopping.Err() != nil {
		s.mu.Unlock()
		return l.Close()
	}
	s.served[srv], s.urls[srv] = l, s.listenURL(l)
	s.accepting.Add(1)
	s.mu.Unlock()
	defer s.accepting.Done()
	shedding := newSheddingListener(l, func() { s.metrics.refused.WithLabelValues("descriptors").Inc() })
	if err := srv.Serve(shedding); !errors.Is(err, http.ErrServerClosed) && s.stopping.Err() == nil {
		return fmt.Errorf("serve %s: %w", l.Addr(), err)
	}
	return nil
}

// newHTTP returns the HTTP server of one listener.
func (s *Server) newHTTP(l net.Listener) *http.Server {
	network := l.Addr().Network()
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)                    // required by WebSockets
	protocols.SetUnencryptedHTTP2(s.e2b != nil) // the Connect protocol is used over both
	return &http.Server{
		Handler:                      s.Handler(),
		Protocols:                    protocols,
		ReadHeaderTimeout:            s.limits.HeaderTime,
		IdleTimeout:                  s.limits.Idle,
		MaxHeaderBytes:               8*s.limits.Header + maxURL, // net/http refuses more; checkSize refuses less
		DisableGeneralOptionsHandler: true,
		ErrorLog:                     slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
		BaseContext:                  func(net.Listener) context.Context { return s.lifetime },
		ConnState:                    s.limitConns(),
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			if network == pipeNetwork {
				ctx = context.WithValue(ctx, pipeKey{}, true)
			}
			ctx = context.WithValue(ctx, connKey{}, c)
			return context.WithValue(ctx, localKey{}, network == "unix" || network == pipeNetwork)
		},
	}
}

// limitConns returns a function that counts the connections of a listener and closes those beyond
// the limit with 503 before they are read: in all, or from one address, which gets a quarter unless it is a trusted proxy.
func (s *Server) limitConns() func(net.Conn, http.ConnState) {
	open := &connLimiter{limit: s.limits.Connections, trusted: s.opts.TrustedProxies, from: make(map[netip.Prefix]int)}
	return func(c net.Conn, state http.ConnState) {
		if state != http.StateActive { // then its request is yet to be handed over: see serveRequest
			s.fresh.Delete(c)
		}
		switch state {
		case http.StateNew:
			s.fresh.Store(c, nil)
			s.metrics.connections.Inc()
			if !open.addConn(c) {
				s.metrics.refused.WithLabelValues("connections").Inc()
				refuseConn(c)
			}
		case http.StateClosed, http.StateHijacked:
			open.removeConn(c)
			s.metrics.connections.Dec()
		}
	}
}

// connLimiter counts the connections of a listener.
type connLimiter struct {
	limit   int            // negative: unlimited
	trusted []netip.Prefix // proxies, which have no limit of their own

	mu   sync.Mutex
	all  int                  // guarded by mu
	from map[netip.Prefix]int // by address; guarded by mu
}

// addConn counts a connection, and reports whether it is within the limit.
func (d *connLimiter) addConn(c net.Conn) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.all++
	ok := d.limit < 0 || d.all <= d.limit
	if p := d.networkOf(c); p.IsValid() {
		d.from[p]++
		ok = ok && (d.limit < 0 || d.from[p] <= max(d.limit/4, 1))
	}
	return ok
}

// removeConn ends the count of a connection.
func (d *connLimiter) removeConn(c net.Conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.all--
	if p := d.networkOf(c); p.IsValid() {
		if d.from[p]--; d.from[p] == 0 {
			delete(d.from, p)
		}
	}
}

// networkOf returns the network that a connection counts for; invalid if it has no address, or comes
// from a trusted proxy.
func (d *connLimiter) networkOf(c net.Conn) netip.Prefix {
	tcp, ok := c.RemoteAddr().(*net.TCPAddr)
	if !ok || isTrusted(tcp.AddrPort().Addr(), d.trusted) {
		return netip.Prefix{}
	}
	return networkOf(tcp.AddrPort().Addr())
}

// Shutdown shuts the server down: it stops accepting connections, ends streams, and waits for the
// requests in progress. When ctx is done, the rest is aborted and the error reports that.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	s.beginStop()
	servers := make([]*http.Server, 0, len(s.served))
	var errs []error
	for srv, l := range s.served {
		servers = append(servers, srv)
		if err := l.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
	}
	s.mu.Unlock()
	// A connection that was accepted while its listener was closed is known once Serve has returned. From Shutdown on,
	// net/http answers no request that arrives on one.
	s.accepting.Wait()
	s.waitForFirstRequests(ctx)
	for _, srv := range servers {
		errs = append(errs, srv.Shutdown(ctx))
	}
	select {
	case <-s.active.idleChan():
		s.endLifetime()
		return errors.Join(ignoreBusy(errors.Join(errs...)), s.closeSessions(ctx))
	case <-ctx.Done():
	}
	s.endLifetime()
	for _, srv := range servers {
		errs = append(errs, srv.Close())
	}
	last := time.NewTimer(abortTimeout)
	defer last.Stop()
	select {
	case <-s.active.idleChan():
	case <-last.C:
	}
	return errors.Join(fmt.Errorf("%w: requests were aborted that had not ended in time", atoll.ErrTimeout), s.closeSessions(ctx))
}

// connKey is the key of a request's net.Conn.
type connKey struct{}

// waitForFirstRequests waits a second, at most, until the first request of each connection is being answered.
func (s *Server) waitForFirstRequests(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	for ctx.Err() == nil {
		waiting := false
		s.fresh.Range(func(any, any) bool { waiting = true; return false })
		if !waiting {
			return
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

// closeSessions closes the sessions of MCP clients, the turns and what the APIs of other vendors keep, after the last
// request.
func (s *Server) closeSessions(ctx context.Context) error {
	if s.e2b != nil {
		s.e2b.Close()
	}
	if s.daytona != nil {
		s.daytona.Close()
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortTimeout)
	defer cancel()
	return errors.Join(s.closeTurns(ctx), s.mcpSessions.close(ctx))
}

// abortTimeout is how long aborted requests may take to end.
const abortTimeout = 5 * time.Second

// ignoreBusy drops the error that connections were still busy when ctx ended: the wait for their
// requests has ended since.
func ignoreBusy(err error) error {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}
