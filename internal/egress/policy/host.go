package policy

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"

	"github.com/atoll-sandbox/atoll"
)

// HostName is the name of the host's loopback addresses inside a sandbox, if a rule allows it.
const HostName = "host.atoll.internal"

// idnaProfile maps and checks internationalised names like browsers.
var idnaProfile = idna.New(idna.MapForLookup(), idna.BidiRule(), idna.StrictDomainName(false))

// CanonicalHost returns the canonical form of a host: an address, or a name in lower-case ASCII without a
// trailing dot. Ambiguous texts such as "127.1" or "a%2eb" are ErrInvalid.
func CanonicalHost(text string) (string, error) {
	bad := func(why string) (string, error) {
		return "", fmt.Errorf("%w: host %q: %s", atoll.ErrInvalid, truncate(text), why)
	}
	if len(text) > 1024 || !utf8.ValidString(text) {
		return bad("too long, or not text")
	}
	bare := text
	if strings.HasPrefix(bare, "[") && strings.HasSuffix(bare, "]") {
		if bare = bare[1 : len(bare)-1]; !strings.Contains(bare, ":") {
			return bad("only an IPv6 address can stand in brackets")
		}
	}
	if strings.Contains(bare, ":") || !strings.ContainsFunc(bare, func(r rune) bool { return r != '.' && (r < '0' || r > '9') }) {
		a, err := netip.ParseAddr(strings.TrimSuffix(bare, "."))
		if err != nil || a.Zone() != "" {
			return bad("neither an address nor a name")
		}
		return a.Unmap().String(), nil
	}
	name := strings.TrimSuffix(text, ".")
	for i := range len(name) {
		if c := name[i]; c <= ' ' || c == 0x7f || strings.IndexByte(`%/\@:?#[]*"<>^|{}`+"`", c) >= 0 {
			return bad("a name consists of letters, digits, '-', '_' and '.'")
		}
	}
	ascii, err := idnaProfile.ToASCII(name)
	if err != nil {
		return bad(err.Error())
	}
	if why := checkHostName(ascii); why != "" {
		return bad(why)
	}
	if again, err := idnaProfile.ToASCII(ascii); err != nil || again != ascii {
		return bad("not in canonical form")
	}
	return ascii, nil
}

// checkHostName returns what is wrong with an ASCII name, or "".
func checkHostName(name string) string {
	if name == "" || len(name) > 253 {
		return "a name has 1 to 253 characters"
	}
	labels := strings.Split(name, ".")
	for _, l := range labels {
		if l == "" || len(l) > 63 {
			return "each part of a name has 1 to 63 characters"
		}
		for i := range len(l) {
			if c := l[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' {
				return "a name consists of letters, digits, '-', '_' and '.'"
			}
		}
	}
	last := labels[len(labels)-1]
	if last[0] >= '0' && last[0] <= '9' && !strings.ContainsFunc(strings.TrimPrefix(last, "0x"), func(r rune) bool {
		return (r < '0' || r > '9') && (!strings.HasPrefix(last, "0x") || r < 'a' || r > 'f')
	}) {
		return "it could be read as an address"
	}
	return ""
}

// truncate shortens text of others for display.
func truncate(s string) string {
	if len(s) > 100 {
		return s[:100] + "…"
	}
	return s
}

// ReservedRanges returns the ranges that are not part of the public internet, for a firewall that
// cannot ask [IsPublic].
func ReservedRanges() []netip.Prefix { return append(slices.Clone(reservedRanges), nat64) }

// reservedRanges are the ranges that are not part of the public internet. A rule can name them as
// such.
var reservedRanges = parsePrefixes(
	"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24",
	"192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4", "168.63.129.16/32",
	"::/96", "64:ff9b:1::/48", "100::/64", "2001::/23", "2001:db8::/32", "2002::/16", "fc00::/7", "fe80::/10", "fec0::/10", "ff00::/8",
)

// metadataRanges are addresses at which clouds provide credentials to processes of the machine, and
// similar ones. Even an open network reaches them only by a rule.
var metadataRanges = parsePrefixes(
	"169.254.0.0/16", "fe80::/10", "100.100.100.200/32", "168.63.129.16/32", "192.0.0.192/32", "fd00:ec2::/32", "fd20:ce::/32",
	"0.0.0.0/8", "::/128", "224.0.0.0/4", "ff00::/8", "255.255.255.255/32",
)

func parsePrefixes(list ...string) []netip.Prefix {
	var out []netip.Prefix
	for _, s := range list {
		out = append(out, netip.MustParsePrefix(s))
	}
	return out
}

func containsAddr(list []netip.Prefix, a netip.Addr) bool {
	for _, p := range list {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// nat64 is the range of IPv4 addresses in networks that only have IPv6.
var nat64 = netip.MustParsePrefix("64:ff9b::/96")

// UnwrapNAT64 returns the address at which a connection to a really ends: the embedded IPv4 address
// if there is one. The result has no zone.
func UnwrapNAT64(a netip.Addr) netip.Addr {
	a = a.Unmap().WithZone("")
	if nat64.Contains(a) {
		b := a.As16()
		return netip.AddrFrom4([4]byte(b[12:]))
	}
	return a
}

// IsPublic reports whether an address that UnwrapNAT64 returned belongs to the public internet.
func IsPublic(a netip.Addr) bool { return atoll.PublicAddress(a) && !containsAddr(metadataRanges, a) }
