package egress

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/egress/policy"
	"github.com/atoll-sandbox/atoll/internal/egress/upstream"
)

// resolution is the host's configuration of name resolution, read before the proxy is confined.
type resolution struct {
	Servers []string            `json:"servers,omitempty"` // ip:port
	Hosts   map[string][]string `json:"hosts,omitempty"`   // of /etc/hosts
	Fixed   bool                `json:"fixed,omitempty"`   // the servers were given explicitly and are not replaced by the host's

	Upstream upstream.Proxies `json:"upstream,omitzero"`
}

// readResolution reads the host's files. Unreadable files count as empty.
func readResolution(u upstream.Config) resolution {
	conf, _ := os.ReadFile("/etc/resolv.conf")
	hosts, _ := os.ReadFile("/etc/hosts")
	r := parseResolution(conf, hosts)
	r.Upstream = u.Compile()
	return r
}

// maxHosts limits the names that are read from a hosts file, which may be a block list of millions.
const maxHosts = 1000

func parseResolution(conf, hosts []byte) resolution {
	r := resolution{Hosts: make(map[string][]string)}
	for sc := bufio.NewScanner(bytes.NewReader(conf)); sc.Scan(); {
		f := strings.Fields(sc.Text())
		if len(f) < 2 || f[0] != "nameserver" || len(r.Servers) == 3 {
			continue
		}
		if a, err := netip.ParseAddr(f[1]); err == nil {
			r.Servers = append(r.Servers, netip.AddrPortFrom(a, 53).String())
		}
	}
	if len(r.Servers) == 0 {
		r.Servers = []string{"127.0.0.1:53"} // like the C library
	}
	for sc := bufio.NewScanner(bytes.NewReader(hosts)); sc.Scan() && len(r.Hosts) < maxHosts; {
		line, _, _ := strings.Cut(sc.Text(), "#")
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		if _, err := netip.ParseAddr(f[0]); err != nil {
			continue
		}
		for _, name := range f[1:] {
			if h, err := policy.CanonicalHost(name); err == nil {
				r.Hosts[h] = append(r.Hosts[h], f[0])
			}
		}
	}
	return r
}

// Limits of dialling.
const (
	lookupTimeout = 10 * time.Second
	dialTimeout   = 15 * time.Second // for one address
	maxAddrs      = 8                // addresses of a name that are tried
)

// network is the host's network.
type network struct {
	names  atomic.Pointer[resolution]
	lookup func(ctx context.Context, host string) ([]netip.Addr, error)
	dial   func(ctx context.Context, to netip.AddrPort) (net.Conn, error)
}

func newNetwork(names resolution) *network {
	n := new(network)
	n.names.Store(&names)
	var d net.Dialer
	var turn atomic.Uint32
	r := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		servers := n.names.Load().Servers
		return d.DialContext(ctx, network, servers[int(turn.Add(1)-1)%len(servers)])
	}}
	n.lookup = func(ctx context.Context, host string) ([]netip.Addr, error) {
		return r.LookupNetIP(ctx, "ip", host+".") // absolute: no search list
	}
	n.dial = func(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
		return d.DialContext(ctx, "tcp", to.String())
	}
	return n
}

// resolveHost returns the addresses of a host, which must be in the form of policy.Host.
func (n *network) resolveHost(ctx context.Context, host string) ([]netip.Addr, error) {
	if a, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{a}, nil
	}
	if host == policy.HostName {
		return []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()}, nil
	}
	var list []netip.Addr
	for _, text := range n.names.Load().Hosts[host] {
		if a, err := netip.ParseAddr(text); err == nil {
			list = append(list, a)
		}
	}
	if len(list) > 0 {
		return list, nil
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	list, err := n.lookup(ctx, host)
	var dns *net.DNSError
	if errors.As(err, &dns) && dns.IsNotFound {
		return nil, fmt.Errorf("%w: %s has no address", atoll.ErrNotFound, host)
	}
	return list, err
}

// resolveAllowed returns the addresses that a rule assigns to a host, or those to which it resolves.
func (n *network) resolveAllowed(ctx context.Context, rules *policy.Rules, host string, port uint16) ([]netip.Addr, error) {
	if list := rules.Addresses(host, port); len(list) > 0 {
		return list, nil
	}
	return n.resolveHost(ctx, host)
}

// dialAllowed connects to the first address of a host that the rules allow. It dials exactly the
// address that was checked.
func (n *network) dialAllowed(ctx context.Context, rules *policy.Rules, host string, port uint16) (net.Conn, netip.Addr, error) {
	if host != policy.HostName && len(rules.Addresses(host, port)) == 0 { // those are reached directly
		proxy, err := n.names.Load().Upstream.ProxyFor(host, port)
		if err != nil {
			return nil, netip.Addr{}, err
		}
		if proxy != nil {
			d := upstream.Dialer{Resolve: n.resolveHost, Dial: n.dial}
			return d.DialAllowed(ctx, proxy, rules, host, port)
		}
	}
	addrs, err := n.resolveAllowed(ctx, rules, host, port)
	if err != nil {
		return nil, netip.Addr{}, err
	}
	var refused, failed error
	tried := 0
	for _, a := range addrs {
		if v := rules.CheckAddress(host, a, port); !v.Allowed {
			if refused == nil {
				refused = v.Err()
			}
			continue
		}
		if tried++; tried > maxAddrs {
			break
		}
		one, cancel := context.WithTimeout(ctx, dialTimeout)
		c, err := n.dial(one, netip.AddrPortFrom(a, port))
		cancel()
		if err == nil {
			return c, a, nil
		}
		if failed = errors.Join(failed, err); ctx.Err() != nil {
			break
		}
	}
	switch {
	case failed != nil:
		return nil, netip.Addr{}, failed
	case refused != nil:
		return nil, netip.Addr{}, refused
	}
	return nil, netip.Addr{}, fmt.Errorf("%w: %s has no address", atoll.ErrNotFound, host)
}
