package atoll

import (
	"net"
	"net/netip"
	"strings"
)

// special are the ranges that are not the public internet and that netip has
// no word for (IANA special-purpose registries).
var special = func() []netip.Prefix {
	var list []netip.Prefix
	for _, s := range []string{
		"0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "240.0.0.0/4",
		"168.63.129.16/32", // of a cloud's host, although it is no special range
		"64:ff9b::/96", "64:ff9b:1::/48", "100::/64", "2001::/23", "2001:db8::/32", "2002::/16", "fec0::/10", "::/96",
	} {
		list = append(list, netip.MustParsePrefix(s))
	}
	return list
}()

// PublicAddress reports whether an address is of the public internet: not of
// this machine, a private network, a cloud's metadata or anything special.
func PublicAddress(a netip.Addr) bool {
	if !a.IsGlobalUnicast() || a.IsPrivate() || a.Is4In6() {
		return false
	}
	for _, p := range special {
		if p.Contains(a) {
			return false
		}
	}
	return true
}

// Private returns what of the network's rules reaches further than the public
// internet: the mode, or an entry of Allow that names a host's own or a private
// address. Who may use it uses the network of the host that sandboxes run on.
// Empty: nothing.
func (n *Network) Private() string {
	if n.Mode == NetworkBridge || n.Mode == NetworkOpen {
		return "mode " + string(n.Mode)
	}
	for _, entry := range n.Allow {
		host := ruleHost(entry)
		if a, err := netip.ParseAddr(host); err == nil && !PublicAddress(a.Unmap()) {
			return "allow " + entry
		}
		if host == "localhost" || strings.HasSuffix(host, ".localhost") || host == "host.atoll.internal" {
			return "allow " + entry
		}
	}
	return ""
}

// ruleHost is the host of an entry of Allow, or the first address of its range.
func ruleHost(entry string) string {
	entry = entry[strings.LastIndexByte(entry, ' ')+1:] // after methods
	if _, rest, ok := strings.Cut(entry, "://"); ok {
		entry, _, _ = strings.Cut(rest, "/")
	}
	if host, _, err := net.SplitHostPort(entry); err == nil {
		entry = host
	}
	entry, _, _ = strings.Cut(entry, "/")
	entry = strings.Trim(entry, "[]")
	if i := strings.IndexByte(entry, '%'); i >= 0 { // a zone
		entry = entry[:i]
	}
	return strings.ToLower(strings.TrimSuffix(entry, "."))
}
