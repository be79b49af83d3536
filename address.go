package atoll

import (
	"net"
	"net/netip"
	"strings"
)

// specialRanges are the address ranges that do not belong to the public internet and that
// netip has no method for (IANA special-purpose address registries).
var specialRanges = func() []netip.Prefix {
	var list []netip.Prefix
	for _, s := range []string{
		"0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "240.0.0.0/4",
		"168.63.129.16/32", // Azure's host agent; not in a special range
		"64:ff9b::/96", "64:ff9b:1::/48", "100::/64", "2001::/23", "2001:db8::/32", "2002::/16", "fec0::/10", "::/96",
	} {
		list = append(list, netip.MustParsePrefix(s))
	}
	return list
}()

// PublicAddress reports whether an address belongs to the public internet. Loopback, private,
// link-local, cloud metadata and other special-purpose addresses do not.
func PublicAddress(a netip.Addr) bool {
	if !a.IsGlobalUnicast() || a.IsPrivate() || a.Is4In6() {
		return false
	}
	for _, p := range specialRanges {
		if p.Contains(a) {
			return false
		}
	}
	return true
}

// PrivateRule returns the first part of the rules that reaches beyond the public internet: the
// mode, or an entry of Allow that names a private address or one of the host itself. A caller
// that may use it can reach the network of the host. It returns "" if there is none.
func (n *Network) PrivateRule() string {
	if n.Mode == NetworkBridge || n.Mode == NetworkOpen {
		return "mode " + string(n.Mode)
	}
	for _, rule := range n.Allow {
		entry := rule
		name, target, mapped := strings.Cut(entry, "=")
		if mapped && !strings.Contains(name, "/") { // NAME=ADDRESS, not the path of a URL
			entry = target
		}
		host := parseRuleHost(entry)
		if a, err := netip.ParseAddr(host); err == nil && !PublicAddress(a.Unmap()) {
			return "allow " + rule
		}
		if host == "localhost" || strings.HasSuffix(host, ".localhost") || host == "host.atoll.internal" {
			return "allow " + rule
		}
	}
	return ""
}

// parseRuleHost returns the host of an entry of Allow, or the first address of its range.
func parseRuleHost(entry string) string {
	entry = entry[strings.LastIndexByte(entry, ' ')+1:] // skip the methods
	if _, rest, ok := strings.Cut(entry, "://"); ok {
		entry, _, _ = strings.Cut(rest, "/")
	}
	if host, _, err := net.SplitHostPort(entry); err == nil {
		entry = host
	}
	entry, _, _ = strings.Cut(entry, "/")
	entry = strings.Trim(entry, "[]")
	if i := strings.IndexByte(entry, '%'); i >= 0 { // IPv6 zone
		entry = entry[:i]
	}
	return strings.ToLower(strings.TrimSuffix(entry, "."))
}
