package policy

import (
	"fmt"
	"net/netip"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"

	"github.com/atoll-sandbox/atoll"
)

// HostName is the name under which a sandbox reaches the loopback addresses of
// the host that its gate runs on, where a rule names it.
const HostName = "host.atoll.internal"

// names maps and checks internationalised names as browsers do.
var names = idna.New(idna.MapForLookup(), idna.BidiRule(), idna.StrictDomainName(false))

// Host returns the one way to write a host: an address, or a name in lower case
// and ASCII without a dot at its end. What could be read in two ways, such as
// "127.1" or "a%2eb", is ErrInvalid.
func Host(text string) (string, error) {
	bad := func(why string) (string, error) {
		return "", fmt.Errorf("%w: host %q: %s", atoll.ErrInvalid, clip(text), why)
	}
	if len(text) > 1024 || !utf8.ValidString(text) {
		return bad("too long, or not text")
	}
	bare := text
	if strings.HasPrefix(bare, "[") && strings.HasSuffix(bare, "]") {
		if bare = bare[1 : len(bare)-1]; !strings.Contains(bare, ":") {
			return bad("only an IPv6 address stands in brackets")
		}
	}
	if strings.Contains(bare, ":") || !strings.ContainsFunc(bare, func(r rune) bool { return r != '.' && (r < '0' || r > '9') }) {
		a, err := netip.ParseAddr(strings.TrimSuffix(bare, "."))
		if err != nil || a.Zone() != "" {
			return bad("not an address, and not a name")
		}
		return a.Unmap().String(), nil
	}
	name := strings.TrimSuffix(text, ".")
	for i := range len(name) {
		if c := name[i]; c <= ' ' || c == 0x7f || strings.IndexByte(`%/\@:?#[]*"<>^|{}`+"`", c) >= 0 {
			return bad("a name is made of letters, digits, '-', '_' and '.'")
		}
	}
	ascii, err := names.ToASCII(name)
	if err != nil {
		return bad(err.Error())
	}
	if why := nameFault(ascii); why != "" {
		return bad(why)
	}
	if again, err := names.ToASCII(ascii); err != nil || again != ascii {
		return bad("not the one way to write it")
	}
	return ascii, nil
}

// nameFault says why a name in ASCII is none.
func nameFault(name string) string {
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
				return "a name is made of letters, digits, '-', '_' and '.'"
			}
		}
	}
	last := labels[len(labels)-1]
	if last[0] >= '0' && last[0] <= '9' && !strings.ContainsFunc(strings.TrimPrefix(last, "0x"), func(r rune) bool {
		return (r < '0' || r > '9') && (!strings.HasPrefix(last, "0x") || r < 'a' || r > 'f')
	}) {
		return "some would read it as an address"
	}
	return ""
}

// clip keeps what foreign text shows short.
func clip(s string) string {
	if len(s) > 100 {
		return s[:100] + "…"
	}
	return s
}

// reserved are the ranges that a rule can name as such: what is not the public
// internet.
var reserved = prefixes(
	"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24",
	"192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4", "168.63.129.16/32",
	"::/96", "64:ff9b:1::/48", "100::/64", "2001::/23", "2001:db8::/32", "2002::/16", "fc00::/7", "fe80::/10", "fec0::/10", "ff00::/8",
)

// machine are addresses where clouds hand out credentials and the like to who
// asks from the machine: not even an open network reaches them unnamed.
var machine = prefixes(
	"169.254.0.0/16", "fe80::/10", "100.100.100.200/32", "168.63.129.16/32", "192.0.0.192/32", "fd00:ec2::/32", "fd20:ce::/32",
	"0.0.0.0/8", "::/128", "224.0.0.0/4", "ff00::/8", "255.255.255.255/32",
)

func prefixes(list ...string) []netip.Prefix {
	var out []netip.Prefix
	for _, s := range list {
		out = append(out, netip.MustParsePrefix(s))
	}
	return out
}

func within(list []netip.Prefix, a netip.Addr) bool {
	for _, p := range list {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// nat64 is where IPv4 addresses stand in networks that only speak IPv6.
var nat64 = netip.MustParsePrefix("64:ff9b::/96")

// real returns the address that a connection to a really ends at: the IPv4
// address in one that only holds it.
func real(a netip.Addr) netip.Addr {
	a = a.Unmap().WithZone("")
	if nat64.Contains(a) {
		b := a.As16()
		return netip.AddrFrom4([4]byte(b[12:]))
	}
	return a
}

// public reports whether an address is of the public internet.
func public(a netip.Addr) bool { return atoll.PublicAddress(a) && !within(machine, a) }
