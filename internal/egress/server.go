package egress

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/egress/policy"
)

// maxFlows limits the connections from inside at once. The wire protocol has a lower limit.
const maxFlows = 1024

// server is a running egress proxy.
type server struct {
	ctx      context.Context //nolint:containedctx // ends with the proxy
	rules    atomic.Pointer[policy.Rules]
	net      *network
	names    names
	resolver resolver
	meter    meter
	journal  journal
	ca       *authority               // nil: TLS is never inspected
	roots    *x509.CertPool           // nil: the system's
	notify   func(c atoll.Connection) // reports a refusal to the sandbox's subscribers; nil: no reports
	tidy     *time.Timer              // returns unused memory to the kernel; nil: never

	mu      sync.Mutex
	flows   map[*flow]struct{} // guarded by mu, as recheck
	recheck *time.Timer        // at the next end of an entry; nil: there is none
}

// newServer returns a proxy with the rules of n and the host's network.
func newServer(ctx context.Context, n atoll.Network, world *network, file io.Writer) (*server, error) {
	s := &server{ctx: ctx, net: world, flows: make(map[*flow]struct{})}
	s.journal.setFile(file)
	s.journal.redact = func(text string) string { return s.rules.Load().Redact(text) }
	s.resolver = resolver{
		rules: s.rules.Load, names: &s.names, note: s.recordDeniedName, limit: rate.NewLimiter(namesRate, namesBurst),
	}
	return s, s.setRules(n)
}

// setRules replaces the rules and aborts connections that they forbid.
func (s *server) setRules(n atoll.Network) error {
	if err := policy.Check(n); err != nil {
		return err
	}
	r, err := policy.New(n)
	if err != nil {
		return err
	}
	if r.Inspects() && s.ca == nil && s.rules.Load() != nil {
		return fmt.Errorf("%w: inspect: this sandbox was created without a certificate authority", atoll.ErrUnsupported)
	}
	s.meter.set(&n)
	s.rules.Store(r)
	s.recheckFlows(r)
	s.scheduleRecheck(n)
	return nil
}

// scheduleRecheck aborts connections when the entry that allowed them ends, at the earliest end of an entry
// that is to come, and schedules the next one.
func (s *server) scheduleRecheck(n atoll.Network) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.recheck != nil {
		s.recheck.Stop()
		s.recheck = nil
	}
	var first time.Time
	for _, end := range n.Until {
		if end.After(time.Now()) && (first.IsZero() || end.Before(first)) {
			first = end
		}
	}
	if first.IsZero() || s.ctx.Err() != nil {
		return
	}
	s.recheck = time.AfterFunc(time.Until(first), func() {
		s.recheckFlows(s.rules.Load())
		s.scheduleRecheck(n)
	})
}

// recheckFlows aborts the connections that rules forbid.
func (s *server) recheckFlows(r *policy.Rules) {
	s.mu.Lock()
	flows := make([]*flow, 0, len(s.flows))
	for f := range s.flows {
		flows = append(flows, f)
	}
	s.mu.Unlock()
	for _, f := range flows {
		f.recheck(r)
	}
}

// recordRefusal records a refused connection and reports it.
func (s *server) recordRefusal(c atoll.Connection, t *traffic) {
	c.Allowed = false
	e := s.journal.addEntry(c, t)
	if s.notify != nil {
		s.notify(e.copy())
	}
}

// buildOffers returns the channels that the proxy offers to the guest.
func (s *server) buildOffers() map[string]func(net.Conn) {
	return map[string]func(net.Conn){"gate": s.serveRedirected, "proxy": s.serveProxy, "dns": s.serveDNS}
}

// serveRedirected serves a connection that a program made to an address.
func (s *server) serveRedirected(c net.Conn) {
	f := s.newFlow(c, "tcp")
	if f == nil {
		return
	}
	defer f.closeFlow()
	to, err := netip.ParseAddrPort(c.LocalAddr().String())
	if err != nil || to.Port() == 0 {
		f.abortWith(errClosed)
		return
	}
	a := to.Addr().Unmap().WithZone("")
	f.port, f.host = to.Port(), a.String()
	if synthetic.Contains(a) {
		name, ok := s.names.lookupName(a)
		if !ok && !s.rules.Load().CheckConnect(f.host, f.port).Allowed {
			f.recordRefusal("tcp", policy.Verdict{Reason: "the address does not belong to a name that was looked up"})
			f.abortWith(errClosed)
			return
		}
		if ok {
			f.host = name
		}
	}
	f.serveTunnel(nil)
}

// evaluateTimeout is the time for resolving a name in evaluate. It is below controlTimeout.
const evaluateTimeout = 5 * time.Second

// evaluate returns what the proxy would do with a connection to a target: the verdict of the rules,
// and the address to which the host leads. It does not connect.
func (s *server) evaluate(ctx context.Context, target string) (atoll.Connection, error) {
	rules := s.rules.Load()
	c, err := policy.CheckTarget(rules, target)
	if err != nil || !c.Allowed {
		return c, err
	}
	ctx, cancel := context.WithTimeout(ctx, evaluateTimeout)
	defer cancel()
	ports := []uint16{uint16(c.Port)} //nolint:gosec // of a target
	if c.Port == 0 {
		ports = rules.Ports(c.Host)
	}
	var refused atoll.Connection
	for _, port := range ports {
		one, err := s.evaluateAddress(ctx, rules, c, port)
		if err != nil || one.Allowed {
			return one, err
		}
		if refused.Reason == "" {
			refused = one
		}
	}
	return refused, nil
}

// evaluateAddress completes the verdict on an allowed host by its address.
func (s *server) evaluateAddress(ctx context.Context, rules *policy.Rules, c atoll.Connection, port uint16) (atoll.Connection, error) {
	addrs, err := s.net.resolveAllowed(ctx, rules, c.Host, port)
	if proxy, bad := s.net.names.Load().Upstream.ProxyFor(c.Host, port); len(addrs) == 0 && bad == nil && proxy != nil && rules.Lists(c.Host, port) {
		return c, nil // the upstream proxy resolves it
	}
	if err != nil || len(addrs) == 0 {
		c.Allowed, c.Reason = false, c.Host+" does not resolve here"
		if err != nil && !errors.Is(err, atoll.ErrNotFound) {
			c.Reason += ": " + shortenError(err)
		}
		return c, nil
	}
	show := func(a netip.Addr) string {
		if c.Port == 0 {
			return a.String()
		}
		return netip.AddrPortFrom(a, port).String()
	}
	var refused policy.Verdict
	for _, a := range addrs {
		v := rules.CheckAddress(c.Host, a, port)
		if v.Allowed {
			if c.Address = show(a); c.Rule == "" {
				c.Rule = v.Rule
			}
			return c, nil
		}
		if refused.Reason == "" {
			refused, c.Address = v, show(a)
		}
	}
	c.Allowed, c.Reason, c.Suggestion = false, refused.Reason, refused.Suggestion
	if refused.Rule != "" {
		c.Rule = refused.Rule
	}
	return c, nil
}
