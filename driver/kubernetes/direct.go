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

// directTime is how long a pod's address may take to answer before the tunnel is
// taken.
const directTime = 2 * time.Second

// way is how a pod is reached.
type way struct {
	mu          sync.Mutex
	first       net.Conn // guarded by mu, as all below; to a guest that was started just now
	address     string   // of the pod, where it is reached directly; empty: it is not
	fingerprint []byte   // of the certificate there
}

// keep keeps a connection for who needs the next.
func (w *way) keep(conn net.Conn) {
	w.mu.Lock()
	old := w.first
	w.first = conn
	w.mu.Unlock()
	if old != nil {
		_ = old.Close() // nobody has used it
	}
}

func (w *way) takeFirst() net.Conn {
	w.mu.Lock()
	defer w.mu.Unlock()
	conn := w.first
	w.first = nil
	return conn
}

// forget is for a pod that is another now, or none.
func (w *way) forget() {
	w.keep(nil)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.address, w.fingerprint = "", nil
}

// directly connects to a pod that was reached directly before; nil: it can't.
func (p *pod) directly(ctx context.Context, key ed25519.PrivateKey) net.Conn {
	p.way.mu.Lock()
	address, fingerprint := p.way.address, p.way.fingerprint
	p.way.mu.Unlock()
	if address == "" {
		return nil
	}
	conn, err := dialDirect(ctx, key, address, fingerprint)
	if err != nil {
		p.way.forget()
		return nil
	}
	return conn
}

// straighten connects directly to a pod whose guest has told its fingerprint
// over the tunnel; nil: it can't, and the tunnel it is.
func (p *pod) straighten(ctx context.Context, key ed25519.PrivateKey, fingerprint []byte) net.Conn {
	if !p.d.Direct || len(fingerprint) == 0 || p.t.places.indirect() != nil {
		return nil
	}
	ip, err := p.address(ctx)
	if err != nil {
		return nil
	}
	address := net.JoinHostPort(ip, strconv.Itoa(directPort))
	conn, err := dialDirect(ctx, key, address, fingerprint)
	if err != nil {
		p.t.places.learnIndirect(fmt.Errorf("pods are not reached at their addresses, as from outside the cluster, or past a network policy: %w", err))
		return nil
	}
	p.way.mu.Lock()
	defer p.way.mu.Unlock()
	p.way.address, p.way.fingerprint = address, fingerprint
	return conn
}

func dialDirect(ctx context.Context, key ed25519.PrivateKey, address string, fingerprint []byte) (net.Conn, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, directTime, fmt.Errorf("%w after %v", atoll.ErrTimeout, directTime))
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	return guest.ProveDirect(ctx, conn, key, fingerprint)
}

// indirectTime is how long a target's pods are not tried directly after one was
// not reached.
const indirectTime = 5 * time.Minute

// indirect says why pods are not reached directly, nil if they may be.
func (s *places) indirect() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.missed) > indirectTime {
		return nil
	}
	return s.why
}

func (s *places) learnIndirect(why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.why, s.missed = why, time.Now()
}

// plainly reports whether tunnels are made without a WebSocket.
func (s *places) plainly() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.plain
}

func (s *places) learnPlainly() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.plain = true
}
