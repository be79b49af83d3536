package virtual

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/egress/policy"
	"github.com/atoll-sandbox/atoll/internal/egress/upstream"
	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
)

// network is the only connection of a sandbox to the outside: an HTTP transport that checks the
// rules at every request and, once the name is resolved, at every dial.
type network struct {
	rules *policy.Rules
	http  *http.Transport

	proxies upstream.Proxies
	resolve func(ctx context.Context, host string) ([]netip.Addr, error)
}

// newNetwork returns the network of a sandbox; nil if it has none.
func (d *Driver) newNetwork(n atoll.Network) (kernel.Network, error) {
	if d.network != nil {
		return d.network(n)
	}
	net, err := newNetwork(n, d.Upstream)
	if net == nil || err != nil {
		return nil, err // not a nil *network
	}
	return net, nil
}

// newNetwork returns the network for a policy; nil if the policy allows nothing.
func newNetwork(n atoll.Network, proxy upstream.Config) (*network, error) {
	rules, err := policy.New(n)
	if err != nil {
		return nil, err
	}
	if n.Mode == atoll.NetworkBridge {
		return nil, fmt.Errorf("network mode %q: %w by the virtual driver, which has none, nat and open", n.Mode, atoll.ErrUnsupported)
	}
	if n.Rate != 0 || n.Bytes != 0 {
		return nil, fmt.Errorf("network rate and bytes: %w by the virtual driver", atoll.ErrUnsupported)
	}
	if rules.AllowsNothing() {
		return nil, nil
	}
	if err := proxy.Check(); err != nil {
		return nil, err
	}
	net := &network{rules: rules, proxies: proxy.Compile(), resolve: resolveHost}
	net.http = &http.Transport{
		DialContext: net.dial, MaxIdleConns: 4, IdleConnTimeout: 5 * time.Second, DisableKeepAlives: true, DisableCompression: true,
		TLSHandshakeTimeout: 10 * time.Second, ResponseHeaderTimeout: 30 * time.Second, MaxResponseHeaderBytes: 256 << 10,
	}
	return net, nil
}

// RoundTrip sends one request. The caller follows redirects, which come through here again.
func (n *network) RoundTrip(req *http.Request) (*http.Response, error) {
	scheme := req.URL.Scheme
	if scheme != policy.HTTP && scheme != policy.HTTPS {
		return nil, fmt.Errorf("%w: protocol %q: only http and https leave this sandbox", atoll.ErrDenied, scheme)
	}
	host, port, err := parseHostPort(req.URL.Host, scheme)
	if err != nil {
		return nil, err
	}
	path := req.URL.EscapedPath()
	if path == "" {
		path = "/"
	}
	check := func(host string, port uint16) error {
		return policy.CheckOverrides(req.Method, path, req.Header, func(method, path string) policy.Verdict {
			return n.rules.CheckRequest(scheme, host, port, method, path)
		}).Err()
	}
	if err := check(host, port); err != nil {
		return nil, err
	}
	if req.Host != "" {
		// The rules must have checked the host that the server is asked for.
		asked, p, err := parseHostPort(req.Host, scheme)
		if err != nil {
			return nil, err
		}
		if err := check(asked, p); err != nil {
			return nil, err
		}
		if asked != host {
			return n.http.RoundTrip(req.WithContext(context.WithValue(req.Context(), askedHost{}, asked))) // without the headers of either
		}
	}
	if headers := n.rules.Headers(scheme, host, port, req.Method, path); len(headers) > 0 {
		req = req.Clone(req.Context())
		for _, h := range headers {
			req.Header.Set(h.Name, h.Value)
		}
	}
	return n.http.RoundTrip(req)
}

// askedHost is the key of the Host of a request in its context, if it differs from that of its URL.
type askedHost struct{}

// parseHostPort returns the host and port of a URL or of a Host field.
func parseHostPort(text, scheme string) (string, uint16, error) {
	port := uint16(80)
	if scheme == policy.HTTPS {
		port = 443
	}
	if h, p, err := net.SplitHostPort(text); err == nil {
		n, err := strconv.ParseUint(p, 10, 16)
		if err != nil || n == 0 {
			return "", 0, fmt.Errorf("%w: port %q: must be 1 to 65535", atoll.ErrDenied, p)
		}
		text, port = h, uint16(n)
	}
	host, err := policy.CanonicalHost(text)
	if err != nil {
		return "", 0, fmt.Errorf("%w: %w", atoll.ErrDenied, err)
	}
	return host, port, nil
}

// dial connects to the host of a request, through the upstream proxy if there is one for the host.
func (n *network) dial(ctx context.Context, _, address string) (net.Conn, error) {
	host, port, err := parseHostPort(address, policy.HTTP)
	if err != nil {
		return nil, err
	}
	addrs := n.rules.Addresses(host, port)
	if len(addrs) == 0 && host != policy.HostName { // those are reached directly
		proxy, err := n.proxies.ProxyFor(host, port)
		if err != nil {
			return nil, err
		}
		if proxy != nil {
			return n.dialUpstream(ctx, proxy, host, port)
		}
	}
	if len(addrs) == 0 {
		if addrs, err = n.resolve(ctx, host); err != nil {
			return nil, err
		}
	}
	return n.dialFirst(ctx, host, addrs, port)
}

// dialFirst connects to the first address of a host that the rules allow.
func (n *network) dialFirst(ctx context.Context, host string, addrs []netip.Addr, port uint16) (net.Conn, error) {
	err := fmt.Errorf("%w: %s has no address that this sandbox may connect to", atoll.ErrDenied, host)
	for _, a := range addrs {
		if no := n.rules.CheckAddress(host, a, port).Err(); no != nil {
			err = no
			continue
		}
		if asked, ok := ctx.Value(askedHost{}).(string); ok {
			if no := n.rules.CheckAddress(asked, a, port).Err(); no != nil {
				err = no
				continue
			}
		}
		var c net.Conn
		if c, err = dialAddress(ctx, netip.AddrPortFrom(a, port)); err == nil {
			return c, nil
		}
	}
	return nil, err
}

// dialUpstream connects to a host through a proxy of the host's network. A request for another host is
// refused unless that host may lead to the same address, which only this host's resolution shows.
func (n *network) dialUpstream(ctx context.Context, proxy *url.URL, host string, port uint16) (net.Conn, error) {
	d := upstream.Dialer{Resolve: n.resolve, Dial: dialAddress}
	c, addr, err := d.DialAllowed(ctx, proxy, n.rules, host, port)
	if err != nil {
		return nil, err
	}
	if asked, ok := ctx.Value(askedHost{}).(string); ok {
		err = fmt.Errorf("%w: a connection to %s that asks for %s, which the upstream proxy may lead elsewhere", atoll.ErrDenied, host, asked)
		if addr.IsValid() {
			err = n.rules.CheckAddress(asked, addr, port).Err()
		}
	}
	if err != nil {
		_ = c.Close() // nothing was sent
		return nil, err
	}
	return c, nil
}

// dialAddress connects to an address that was checked.
func dialAddress(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "tcp", to.String())
}

func resolveHost(ctx context.Context, host string) ([]netip.Addr, error) {
	if host == policy.HostName {
		return []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()}, nil
	}
	return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
}
