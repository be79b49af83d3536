package virtual

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// network is the way out of a sandbox: an HTTP transport that asks the rules
// at every request and, once the name is resolved, at every dial.
type network struct {
	mode  atoll.NetworkMode
	rules []rule
	http  *http.Transport
}

// rule is one entry of Spec.Network.Allow.
type rule struct {
	scheme string     // empty: any
	host   string     // "example.com", "*.example.com" or an address
	addr   netip.Addr // set where host is an address
	port   string     // empty: any
	path   string     // prefix; empty: any
}

// newNetwork returns nil where the spec allows nothing.
func newNetwork(n atoll.Network) (*network, error) {
	mode := n.Mode
	switch mode {
	case "":
		mode = atoll.NetworkNone
	case atoll.NetworkNone, atoll.NetworkNAT, atoll.NetworkOpen:
	default:
		return nil, fmt.Errorf("network mode %q: %w by the virtual driver, which knows none, nat and open", mode, atoll.ErrUnsupported)
	}
	net := &network{mode: mode}
	var errs []error
	for _, text := range n.Allow {
		r, err := parseRule(text)
		errs = append(errs, err)
		net.rules = append(net.rules, r)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if mode == atoll.NetworkNone && len(net.rules) == 0 {
		return nil, nil
	}
	net.http = &http.Transport{
		DialContext: net.dial, MaxIdleConns: 4, IdleConnTimeout: 5 * time.Second, DisableKeepAlives: true, DisableCompression: true,
		TLSHandshakeTimeout: 10 * time.Second, ResponseHeaderTimeout: 30 * time.Second, MaxResponseHeaderBytes: 256 << 10,
	}
	return net, nil
}

func parseRule(text string) (rule, error) {
	bad := func(why string) (rule, error) {
		return rule{}, fmt.Errorf("%w: network allow %q: %s", atoll.ErrInvalid, text, why)
	}
	var r rule
	rest := text
	if scheme, after, ok := strings.Cut(text, "://"); ok {
		u, err := url.Parse(text)
		if err != nil || (scheme != "http" && scheme != "https") || u.User != nil || u.RawQuery != "" {
			return bad("as a URL it must be http(s)://HOST[:PORT][/PATH]")
		}
		r.scheme = scheme
		rest, r.path, _ = strings.Cut(after, "/")
		if r.path != "" {
			r.path = "/" + r.path
		}
	}
	if host, port, err := net.SplitHostPort(rest); err == nil {
		rest, r.port = host, port
	}
	r.host = strings.ToLower(strings.TrimSuffix(strings.Trim(rest, "[]"), "."))
	if r.host == "" || strings.ContainsAny(r.host, "/ @") || strings.Contains(strings.TrimPrefix(r.host, "*."), "*") {
		return bad("the host must be a name, *.NAME or an address")
	}
	r.addr, _ = netip.ParseAddr(r.host)
	return r, nil
}

func (r rule) matchesHost(host string) bool {
	if suffix, ok := strings.CutPrefix(r.host, "*"); ok {
		return strings.HasSuffix(host, suffix) && len(host) > len(suffix)
	}
	if r.addr.IsValid() {
		a, err := netip.ParseAddr(host)
		return err == nil && a.Unmap() == r.addr.Unmap()
	}
	return host == r.host
}

func (r rule) matches(u *url.URL, host, port string) bool {
	return r.matchesHost(host) && (r.port == "" || r.port == port) && (r.scheme == "" || r.scheme == u.Scheme) && underPath(u, r.path)
}

// underPath reports whether a URL's path lies under prefix, as the server
// will read it: a path that could be read in two ways is not under anything.
func underPath(u *url.URL, prefix string) bool {
	if prefix == "" {
		return true
	}
	p := u.EscapedPath()
	if lower := strings.ToLower(p); strings.Contains(lower, "%2e") || strings.Contains(lower, "%2f") || strings.Contains(lower, "%5c") ||
		strings.Contains(p, "/../") || strings.HasSuffix(p, "/..") || strings.Contains(p, "//") || strings.Contains(p, `\`) {
		return false
	}
	return p == prefix || strings.HasPrefix(p, strings.TrimSuffix(prefix, "/")+"/")
}

func portOf(u *url.URL) string {
	if p := u.Port(); p != "" {
		return p
	}
	if u.Scheme == "https" {
		return "443"
	}
	return "80"
}

// allowed reports whether a request may be made, as far as its URL tells.
func (n *network) allowed(u *url.URL) error {
	if u.Scheme != "http" && u.Scheme != "https" {
		return fmt.Errorf("%w: protocol %q: only http and https leave this sandbox", atoll.ErrDenied, u.Scheme)
	}
	host := strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
	for _, r := range n.rules {
		if r.matches(u, host, portOf(u)) {
			return nil
		}
	}
	a, err := netip.ParseAddr(host)
	if n.mode == atoll.NetworkOpen || n.mode == atoll.NetworkNAT && (err != nil || atoll.PublicAddress(a.Unmap())) {
		return nil
	}
	return fmt.Errorf("%w: %s is not on this sandbox's list of allowed hosts", atoll.ErrDenied, u.Host)
}

// RoundTrip makes one request; redirects are the caller's, which come here
// again.
func (n *network) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := n.allowed(req.URL); err != nil {
		return nil, err
	}
	if req.Host != "" && !strings.EqualFold(req.Host, req.URL.Host) {
		// What the server is asked for must be what the rules have seen.
		other := *req.URL
		other.Host = req.Host
		if err := n.allowed(&other); err != nil {
			return nil, err
		}
	}
	return n.http.RoundTrip(req)
}

// dial resolves the name and connects to the first address that the rules
// let pass. The address that was looked at is the one that is dialled.
func (n *network) dial(ctx context.Context, proto, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, err
	}
	err = fmt.Errorf("%w: %s has no address that this sandbox may connect to", atoll.ErrDenied, host)
	var d net.Dialer
	for _, a := range addrs {
		if !n.mayDial(host, a.Unmap(), port) {
			continue
		}
		var c net.Conn
		if c, err = d.DialContext(ctx, proto, net.JoinHostPort(a.String(), port)); err == nil {
			return c, nil
		}
	}
	return nil, err
}

// mayDial decides about an address: public ones pass, any other only where
// a rule names it as an address.
func (n *network) mayDial(host string, a netip.Addr, port string) bool {
	if n.mode == atoll.NetworkOpen || atoll.PublicAddress(a) {
		return true
	}
	if literal, err := netip.ParseAddr(host); err != nil || literal.Unmap() != a {
		return false // a name that leads to a private address
	}
	for _, r := range n.rules {
		if r.addr.IsValid() && r.addr.Unmap() == a && (r.port == "" || r.port == port) {
			return true
		}
	}
	return false
}
