package kubernetes

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/guest"
)

// directTimeout bounds how long a pod's address may take to answer before the tunnel is used.
const directTimeout = 2 * time.Second

// route is how a pod is reached.
type route struct {
	mu          sync.Mutex
	first       net.Conn // guarded by mu, as all below; connection to a guest that was just started
	address     string   // of the pod, if it is reached directly; else empty
	fingerprint []byte   // of the guest's certificate
}

// keepFirst keeps a connection for the next request.
func (w *route) keepFirst(conn net.Conn) {
	w.mu.Lock()
	old := w.first
	w.first = conn
	w.mu.Unlock()
	if old != nil {
		_ = old.Close() // it was not used
	}
}

func (w *route) takeFirst() net.Conn {
	w.mu.Lock()
	defer w.mu.Unlock()
	conn := w.first
	w.first = nil
	return conn
}

// reset forgets the route, for a pod that was replaced or removed.
func (w *route) reset() {
	w.keepFirst(nil)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.address, w.fingerprint = "", nil
}

// dialKnownAddress connects directly to a pod that was reached so before; nil: it can't.
func (p *pod) dialKnownAddress(ctx context.Context, key ed25519.PrivateKey) net.Conn {
	p.route.mu.Lock()
	address, fingerprint := p.route.address, p.route.fingerprint
	p.route.mu.Unlock()
	if address == "" {
		return nil
	}
	conn, err := dialDirect(ctx, key, address, fingerprint)
	if err != nil {
		p.route.reset()
		return nil
	}
	return conn
}

// switchToDirect connects directly to a pod whose guest has sent its fingerprint over the tunnel; nil: it
// can't, and the tunnel is used.
func (p *pod) switchToDirect(ctx context.Context, key ed25519.PrivateKey, fingerprint []byte) net.Conn {
	if !p.d.Direct || p.port != guestPort || len(fingerprint) == 0 || p.t.access.whyIndirect() != nil {
		return nil
	}
	ip, err := p.podAddress(ctx)
	if err != nil {
		return nil
	}
	address := net.JoinHostPort(ip, strconv.Itoa(directPort))
	conn, err := dialDirect(ctx, key, address, fingerprint)
	if err != nil {
		p.t.access.noteIndirect(fmt.Errorf("pods can't be reached at their addresses: atoll runs outside the cluster, or a network policy forbids it: %w", err))
		return nil
	}
	p.route.mu.Lock()
	defer p.route.mu.Unlock()
	p.route.address, p.route.fingerprint = address, fingerprint
	return conn
}

func dialDirect(ctx context.Context, key ed25519.PrivateKey, address string, fingerprint []byte) (net.Conn, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, directTimeout, fmt.Errorf("%w after %v", atoll.ErrTimeout, directTimeout))
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	return guest.AuthenticateHostTLS(ctx, conn, key, fingerprint)
}

// indirectTime is how long a target's pods are not connected to directly after one was not reached.
const indirectTime = 5 * time.Minute

// whyIndirect returns why pods are not connected to directly; nil: they may be.
func (s *access) whyIndirect() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.unreachedAt) > indirectTime {
		return nil
	}
	return s.unreachedErr
}

func (s *access) noteIndirect(why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unreachedErr, s.unreachedAt = why, time.Now()
}

// needsSPDY reports whether tunnels are made without a WebSocket.
func (s *access) needsSPDY() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.spdyOnly
}

func (s *access) noteNeedsSPDY() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.spdyOnly = true
}
