package policy

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll"
)

// rule is one entry of a list.
type rule struct {
	text    string
	methods []string     // empty: any
	scheme  string       // "http", "https"; empty: any protocol
	host    string       // a name, or "*." and a name; empty where prefix is set
	prefix  netip.Prefix // one address, or a range
	port    uint16       // 0: any
	path    string       // prefix; empty: any
}

// parse reads an entry:
//
//	example.com  *.example.com:443  192.0.2.7:8080  10.0.0.0/8  [2001:db8::/32]:443
//	https://example.com/api/  GET,HEAD https://example.com/api/
func parse(text string) (rule, error) {
	bad := func(why string) (rule, error) {
		return rule{}, fmt.Errorf("%w: %q: %s", atoll.ErrInvalid, clip(text), why)
	}
	if len(text) > 2048 {
		return bad("too long")
	}
	r := rule{text: text}
	rest := text
	if methods, after, ok := strings.Cut(text, " "); ok {
		r.methods, rest = strings.Split(methods, ","), after
		if slices.ContainsFunc(r.methods, func(m string) bool { return m == "" || strings.Trim(m, "ABCDEFGHIJKLMNOPQRSTUVWXYZ-") != "" }) {
			return bad("before the URL stand methods, such as GET,HEAD")
		}
	}
	if scheme, after, ok := strings.Cut(rest, "://"); ok {
		u, err := url.Parse(rest)
		if err != nil || (scheme != "http" && scheme != "https") || u.User != nil || strings.ContainsAny(rest, "?#") {
			return bad("as a URL it must be http(s)://HOST[:PORT][/PATH]")
		}
		r.scheme = scheme
		var path string
		if rest, path, ok = strings.Cut(after, "/"); ok && path != "" {
			r.path = "/" + path
			if odd(r.path) {
				return bad("the path must be a plain one: no dots, doubled or encoded slashes")
			}
		}
		if r.port = 80; scheme == "https" {
			r.port = 443
		}
	} else if r.methods != nil {
		return bad("methods stand before a URL")
	}
	if why := r.place(rest); why != "" {
		return bad(why)
	}
	return r, nil
}

// place reads HOST[:PORT]; it returns what is wrong.
func (r *rule) place(text string) string {
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
			return "the range begins at " + p.Masked().String()
		case p.Addr().Is4In6():
			return "write the IPv4 range"
		}
		r.prefix = p
		return ""
	}
	name, wild := strings.CutPrefix(host, "*.")
	h, err := Host(name)
	if err != nil {
		return "the host must be a name, *.NAME or an address"
	}
	if h == HostName && !strings.EqualFold(strings.TrimSuffix(name, "."), HostName) {
		return "write " + HostName + " as it is" // others look for it in rules, too
	}
	if a, err := netip.ParseAddr(h); err == nil {
		if wild {
			return "an address has no names beneath it"
		}
		r.prefix = netip.PrefixFrom(a, a.BitLen())
		return ""
	}
	if r.host = h; wild {
		r.host = "*." + h
	}
	return ""
}

// of reports whether the rule is about a host, in the form of Host.
func (r *rule) of(host string) bool {
	if r.prefix.IsValid() {
		a, err := netip.ParseAddr(host)
		return err == nil && r.prefix.Contains(real(a))
	}
	if suffix, ok := strings.CutPrefix(r.host, "*"); ok {
		return strings.HasSuffix(host, suffix) && len(host) > len(suffix)
	}
	return host == r.host
}

// narrow reports whether the rule is only about some requests.
func (r *rule) narrow() bool { return r.path != "" || r.methods != nil }

// named reports whether the rule names an address that is not of the public
// internet as such: it, or a range of only such ones.
func (r *rule) named(a netip.Addr) bool {
	if !r.prefix.IsValid() || !r.prefix.Contains(a) {
		return false
	}
	return r.prefix.IsSingleIP() || slices.ContainsFunc(reserved, func(p netip.Prefix) bool {
		return p.Bits() <= r.prefix.Bits() && p.Contains(r.prefix.Addr())
	})
}

// allows reports whether a request is one of the rule's, as the server will
// read its path: one that could be read in two ways is not.
func (r *rule) allows(method, path string) bool {
	if r.methods != nil && !slices.Contains(r.methods, method) {
		return false
	}
	return r.path == "" || !odd(path) && beneath(path, r.path)
}

// denies reports whether a request may be one of the rule's.
func (r *rule) denies(method, path string) bool {
	if r.methods != nil && !slices.Contains(r.methods, strings.ToUpper(method)) {
		return false
	}
	if r.path == "" || odd(path) {
		return true
	}
	plain, err := url.PathUnescape(path)
	if err != nil {
		return true
	}
	own, err := url.PathUnescape(r.path)
	if err != nil {
		own = r.path
	}
	return beneath(path, r.path) || beneath(strings.ToLower(plain), strings.ToLower(own))
}

func beneath(path, prefix string) bool {
	return path == prefix || strings.HasPrefix(path, strings.TrimSuffix(prefix, "/")+"/")
}

// odd reports a path that servers read in different ways.
func odd(p string) bool {
	if !strings.HasPrefix(p, "/") || strings.Contains(p, "//") || strings.ContainsAny(p, "\\\x00") {
		return true
	}
	lower := strings.ToLower(p)
	for _, code := range []string{"%2e", "%2f", "%5c", "%25", "%00", "%3b", "%u"} {
		if strings.Contains(lower, code) {
			return true
		}
	}
	for part := range strings.SplitSeq(p, "/") {
		if part, _, _ = strings.Cut(part, ";"); part == "." || part == ".." {
			return true
		}
	}
	return false
}
