package policy

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/atoll-sandbox/atoll"
)

// rule is one entry of a list.
type rule struct {
	text    string
	methods []string     // empty: any
	scheme  string       // "http", "https"; empty: any protocol
	host    string       // a name, or "*." and a name; empty if prefix is set
	prefix  netip.Prefix // one address, or a range
	port    uint16       // 0: any
	path    string       // path prefix; empty: any
	leadsTo netip.Prefix // of NAME=ADDRESS: addresses to which the name may lead
	until   time.Time    // of an entry of allow: it ends then; zero: never
}

// parse parses an entry:
//
//	example.com  *.example.com:443  192.0.2.7:8080  10.0.0.0/8  [2001:db8::/32]:443
//	https://example.com/api/  GET,HEAD https://example.com/api/
//	registry.corp=10.1.2.3  *.corp:443=10.0.0.0/8
func parse(text string) (rule, error) {
	bad := func(why string) (rule, error) {
		return rule{}, fmt.Errorf("%w: %q: %s", atoll.ErrInvalid, truncate(text), why)
	}
	if len(text) > 2048 {
		return bad("too long")
	}
	r := rule{text: text}
	rest := text
	if methods, after, ok := strings.Cut(text, " "); ok {
		r.methods, rest = strings.Split(methods, ","), after
		if slices.ContainsFunc(r.methods, func(m string) bool { return m == "" || strings.Trim(m, "ABCDEFGHIJKLMNOPQRSTUVWXYZ-") != "" }) {
			return bad("only methods such as GET,HEAD can precede the URL")
		}
	}
	if scheme, after, ok := strings.Cut(rest, "://"); ok {
		u, err := url.Parse(rest)
		if err != nil || (scheme != "http" && scheme != "https") || u.User != nil || strings.ContainsAny(rest, "?#") {
			return bad("a URL must be http(s)://HOST[:PORT][/PATH]")
		}
		r.scheme = scheme
		var path string
		if rest, path, ok = strings.Cut(after, "/"); ok && path != "" {
			r.path = "/" + path
			if isAmbiguousPath(r.path) {
				return bad("the path must not have dot segments, or doubled or encoded slashes")
			}
		}
		if r.port = 80; scheme == "https" {
			r.port = 443
		}
	} else if r.methods != nil {
		return bad("methods must precede a URL")
	}
	host, target, mapped := strings.Cut(rest, "=")
	if mapped && r.scheme != "" {
		return bad("a URL can't have =ADDRESS: write NAME=ADDRESS or NAME:PORT=ADDRESS")
	}
	if why := r.parseHostPort(host); why != "" {
		return bad(why)
	}
	if !mapped {
		return r, nil
	}
	if why := r.parseTarget(target); why != "" {
		return bad(why)
	}
	return r, nil
}

// parseTarget parses the ADDRESS or ADDRESS/BITS of NAME=ADDRESS. It returns what is wrong, or "".
func (r *rule) parseTarget(text string) string {
	switch {
	case r.prefix.IsValid():
		return "only a name can lead to an address: write NAME=ADDRESS"
	case r.host == HostName:
		return HostName + " has its own addresses"
	}
	bare := text
	if strings.HasPrefix(text, "[") && strings.HasSuffix(text, "]") {
		bare = text[1 : len(text)-1]
	}
	if a, err := netip.ParseAddr(bare); err == nil && a.Zone() == "" {
		a = UnwrapNAT64(a)
		r.leadsTo = netip.PrefixFrom(a, a.BitLen())
		return ""
	}
	p, err := netip.ParsePrefix(bare)
	switch {
	case err != nil && strings.Contains(text, "."):
		return "after '=' must be ADDRESS or ADDRESS/BITS; a port belongs to the name, as in NAME:443=ADDRESS"
	case err != nil:
		return "after '=' must be ADDRESS or ADDRESS/BITS"
	case p.Masked() != p:
		return "the range must begin at " + p.Masked().String()
	case p.Addr().Is4In6():
		return "write it as an IPv4 range"
	case !isReserved(p):
		return "the range must be one of private addresses, such as 10.0.0.0/8: public ones need no '='"
	}
	r.leadsTo = p
	return ""
}

// isReserved reports whether a range contains no public address.
func isReserved(prefix netip.Prefix) bool {
	return slices.ContainsFunc(reservedRanges, func(p netip.Prefix) bool {
		return p.Bits() <= prefix.Bits() && p.Contains(prefix.Addr())
	})
}

// parseHostPort parses HOST[:PORT]. It returns what is wrong, or "".
func (r *rule) parseHostPort(text string) string {
	host, port := text, ""
	if h, p, err := net.SplitHostPort(text); err == nil {
		host, port = h, p
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 || port[0] == '0' || port[0] == '+' {
			return "the port must be 1 to 65535"
		}
		r.port = uint16(n)
	}
	if strings.Contains(host, "/") {
		p, err := netip.ParsePrefix(strings.Trim(host, "[]"))
		switch {
		case err != nil:
			return "must be HOST, HOST:PORT, ADDRESS/BITS or a URL"
		case p.Masked() != p:
			return "the range must begin at " + p.Masked().String()
		case p.Addr().Is4In6():
			return "write it as an IPv4 range"
		}
		r.prefix = p
		return ""
	}
	name, wild := strings.CutPrefix(host, "*.")
	h, err := CanonicalHost(name)
	if err != nil {
		return "the host must be a name, *.NAME or an address"
	}
	if h == HostName && !strings.EqualFold(strings.TrimSuffix(name, "."), HostName) {
		return "write " + HostName + " literally" // other code searches rules for it
	}
	if a, err := netip.ParseAddr(h); err == nil {
		if wild {
			return "an address can't have a wildcard"
		}
		r.prefix = netip.PrefixFrom(a, a.BitLen())
		return ""
	}
	if r.host = h; wild {
		r.host = "*." + h
	}
	return ""
}

// matchesHost reports whether the rule applies to a host, which must be in the form of Host.
func (r *rule) matchesHost(host string) bool {
	if r.prefix.IsValid() {
		a, err := netip.ParseAddr(host)
		return err == nil && r.prefix.Contains(UnwrapNAT64(a))
	}
	if suffix, ok := strings.CutPrefix(r.host, "*"); ok {
		return strings.HasSuffix(host, suffix) && len(host) > len(suffix)
	}
	return host == r.host
}

// isNarrow reports whether the rule applies only to some requests.
func (r *rule) isNarrow() bool { return r.path != "" || r.methods != nil }

// namesAddress reports whether the rule explicitly names an address that is not public: the address
// itself, or a range of only such addresses.
func (r *rule) namesAddress(a netip.Addr) bool {
	if !r.prefix.IsValid() || !r.prefix.Contains(a) {
		return false
	}
	return r.prefix.IsSingleIP() || isReserved(r.prefix)
}

// allowsRequest reports whether a request matches the rule as the server will read its path. An
// ambiguous path does not match.
func (r *rule) allowsRequest(method, path string) bool {
	if r.methods != nil && !slices.Contains(r.methods, method) {
		return false
	}
	return r.path == "" || !isAmbiguousPath(path) && isBeneath(path, r.path)
}

// deniesRequest reports whether a request could match the rule.
func (r *rule) deniesRequest(method, path string) bool {
	if r.methods != nil && !slices.Contains(r.methods, strings.ToUpper(method)) {
		return false
	}
	if r.path == "" || isAmbiguousPath(path) {
		return true
	}
	own, asked := splitPath(r.path), splitPath(path)
	return len(asked) >= len(own) && slices.Equal(own, asked[:len(own)])
}

func isBeneath(path, prefix string) bool {
	return path == prefix || strings.HasPrefix(path, strings.TrimSuffix(prefix, "/")+"/")
}

// splitPath returns the parts of a path that is not ambiguous, as the most lenient server reads them:
// decoded, in lower case, without parameters (";x"), empty parts, and what Windows ignores at the end.
func splitPath(path string) []string {
	var parts []string
	for part := range strings.SplitSeq(path, "/") {
		part, _, _ = strings.Cut(part, ";")
		if plain, err := url.PathUnescape(part); err == nil {
			part = plain
		}
		part, _, _ = strings.Cut(part, "::$")
		if part = strings.TrimRight(strings.ToLower(part), " ."); part != "" {
			parts = append(parts, part)
		}
	}
	return parts
}

// isAmbiguousPath reports whether servers could read a path differently.
func isAmbiguousPath(p string) bool {
	if !strings.HasPrefix(p, "/") || strings.Contains(p, "//") {
		return true
	}
	plain, err := url.PathUnescape(p)
	if err != nil || !utf8.ValidString(plain) || strings.ContainsFunc(plain, isAmbiguousRune) {
		return true
	}
	lower := strings.ToLower(p)
	for _, code := range []string{"%2e", "%2f", "%5c", "%25", "%3b", "%3f", "%23"} {
		if strings.Contains(lower, code) {
			return true
		}
	}
	for part := range strings.SplitSeq(plain, "/") {
		part, _, _ = strings.Cut(part, ";")
		if part != "" && strings.Trim(part, " .") == "" {
			return true
		}
	}
	return false
}

// isAmbiguousRune reports whether servers could read a character of a decoded path as another one, or
// as the end of the path: control characters, backslashes, and variants of ASCII characters.
func isAmbiguousRune(c rune) bool {
	return c < ' ' || c == 0x7f || c == '\\' || unicode.Is(unicode.Cc, c) || unicode.Is(unicode.Cf, c) ||
		c >= 0xff00 && c <= 0xffef || c >= 0xfe50 && c <= 0xfe6f || strings.ContainsRune("\u2024\u2025\u2026\u2044\u2215\u29f5\u29f8\u29f9\u2216", c)
}
