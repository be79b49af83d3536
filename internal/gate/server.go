package gate

import (
	"context"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"

	"golang.org/x/time/rate"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/gate/policy"
)

// mostFlows bounds the connections from inside at once; the wire has a bound
// that is lower.
const mostFlows = 1024

// server is a gate at work.
type server struct {
	ctx      context.Context //nolint:containedctx // its end is the gate's
	rules    atomic.Pointer[policy.Rules]
	net      *network
	names    names
	resolver resolver
	meter    meter
	journal  journal
	ca       *authority               // nil: TLS is never looked into
	roots    *x509.CertPool           // nil: the system's
	tell     func(c atoll.Connection) // a refusal, to who follows the sandbox; nil: nobody

	mu    sync.Mutex
	flows map[*flow]struct{} // guarded by mu
}

// newServer makes a gate of rules and a world.
func newServer(ctx context.Context, n atoll.Network, world *network, file io.Writer) (*server, error) {
	s := &server{ctx: ctx, net: world, flows: make(map[*flow]struct{})}
	s.journal.keep(file)
	s.journal.redact = func(text string) string { return s.rules.Load().Redact(text) }
	s.resolver = resolver{
		rules: s.rules.Load, names: &s.names, note: s.noteName, limit: rate.NewLimiter(namesRate, namesBurst),
	}
	return s, s.set(n)
}

// set replaces the rules and cuts what they no longer allow.
func (s *server) set(n atoll.Network) error {
	if err := policy.Check(n); err != nil {
		return err
	}
	r, err := policy.New(n)
	if err != nil {
		return err
	}
	if r.Inspects() && s.ca == nil && s.rules.Load() != nil {
		return fmt.Errorf("%w: inspect: this sandbox was made without an authority", atoll.ErrUnsupported)
	}
	s.meter.set(&n)
	s.rules.Store(r)
	s.mu.Lock()
	flows := make([]*flow, 0, len(s.flows))
	for f := range s.flows {
		flows = append(flows, f)
	}
	s.mu.Unlock()
	for _, f := range flows {
		f.recheck(r)
	}
	return nil
}

// refused writes a refusal down and tells of it.
func (s *server) refused(c atoll.Connection, t *traffic) {
	c.Allowed = false
	e := s.journal.begin(c, t)
	if s.tell != nil {
		s.tell(e.copy())
	}
}

// offers are what the gate offers to the guest.
func (s *server) offers() map[string]func(net.Conn) {
	return map[string]func(net.Conn){"gate": s.gate, "proxy": s.proxy, "dns": s.dns}
}

// gate serves a connection that a program made to an address.
func (s *server) gate(c net.Conn) {
	f := s.enter(c, "tcp")
	if f == nil {
		return
	}
	defer f.leave()
	to, err := netip.ParseAddrPort(c.LocalAddr().String())
	if err != nil || to.Port() == 0 {
		f.cut(errOver)
		return
	}
	a := to.Addr().Unmap().WithZone("")
	f.port, f.host = to.Port(), a.String()
	if synthetic.Contains(a) {
		name, ok := s.names.name(a)
		if !ok && !s.rules.Load().Connect(f.host, f.port).Allowed {
			f.refuse("tcp", policy.Verdict{Reason: "the address of no name that was asked for"})
			f.cut(errOver)
			return
		}
		if ok {
			f.host = name
		}
	}
	f.tunnel(nil)
}

// ask says what the rules say of a target, without connecting.
func (s *server) ask(target string) (atoll.Connection, error) {
	return policy.Ask(s.rules.Load(), target)
}
