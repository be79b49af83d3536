package api

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// maxForwarded is the number of addresses of X-Forwarded-For that are read: longer chains of proxies do not exist.
const maxForwarded = 32

// clientNetwork returns the address of a client, or for IPv6 its /64 network, which one client has whole. It is the peer of
// the connection; if that is a trusted proxy, it is the last address of X-Forwarded-For that is not a trusted proxy. Earlier
// addresses come from the client, who may write anything there. Invalid: a socket without addresses.
func clientNetwork(r *http.Request, trusted []netip.Prefix) netip.Prefix {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Prefix{}
	}
	client := peer.Addr()
	if isTrusted(client, trusted) {
		client = forwardedFor(r, client, trusted)
	}
	return networkOf(client)
}

// forwardedFor returns the client of a request that came from a trusted proxy. What is no address ends the search: the proxy
// that wrote it is the client then.
func forwardedFor(r *http.Request, proxy netip.Addr, trusted []netip.Prefix) netip.Addr {
	chain := strings.Split(strings.Join(r.Header["X-Forwarded-For"], ","), ",")
	slices.Reverse(chain)
	for _, text := range chain[:min(len(chain), maxForwarded)] {
		addr, err := parseForwarded(strings.TrimSpace(text))
		if err != nil {
			return proxy
		}
		if !isTrusted(addr, trusted) {
			return addr
		}
		proxy = addr
	}
	return proxy
}

// parseForwarded parses an address of X-Forwarded-For, which some proxies write with a port.
func parseForwarded(text string) (netip.Addr, error) {
	if host, _, err := net.SplitHostPort(text); err == nil {
		text = host
	}
	return netip.ParseAddr(strings.Trim(text, "[]"))
}

func isTrusted(a netip.Addr, trusted []netip.Prefix) bool {
	a = a.Unmap().WithZone("")
	return slices.ContainsFunc(trusted, func(p netip.Prefix) bool { return p.Contains(a) })
}

// networkOf returns the network of an address that counts as one client.
func networkOf(a netip.Addr) netip.Prefix {
	a = a.Unmap().WithZone("")
	p, _ := a.Prefix(min(a.BitLen(), 64)) // the length is valid
	return p
}
