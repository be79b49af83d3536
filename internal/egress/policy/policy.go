package policy

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/atoll-sandbox/atoll"
)

// Rules are the compiled rules of a network. They are immutable, so their methods may be called
// concurrently.
type Rules struct {
	mode        atoll.NetworkMode
	allow, deny []rule
	headers     []header
	inspect     bool

	ends bool             // an entry of allow has an end
	now  func() time.Time // for the ends
}

// header is a header that is set on matching requests.
type header struct {
	rule
	name, value string
}

// Limits of the rules.
const (
	maxRules       = 4096
	maxHeaders     = 256
	maxHeaderValue = 16 << 10
)

// New compiles the rules of a network. Its error names every mistake and matches ErrInvalid.
func New(n atoll.Network) (*Rules, error) {
	r := &Rules{mode: n.Mode, inspect: n.Inspect, now: time.Now}
	var errs []error
	bad := func(format string, a ...any) {
		errs = append(errs, fmt.Errorf("%w: "+format, append([]any{atoll.ErrInvalid}, a...)...))
	}
	switch n.Mode {
	case "":
		r.mode = atoll.NetworkNone
	case atoll.NetworkNone, atoll.NetworkNAT, atoll.NetworkBridge, atoll.NetworkOpen:
	default:
		bad("network mode %q: must be none, nat, bridge or open", n.Mode)
	}
	if len(n.Allow)+len(n.Deny) > maxRules || len(n.Headers) > maxHeaders {
		bad("network: at most %d rules and %d headers", maxRules, maxHeaders)
		return nil, errors.Join(errs...)
	}
	list := func(of string, entries []string) (rules []rule) {
		for i, text := range entries {
			one, err := parse(text)
			if err != nil {
				errs = append(errs, fmt.Errorf("network %s[%d] %w", of, i, err))
			}
			rules = append(rules, one)
		}
		return rules
	}
	r.allow, r.deny = list("allow", n.Allow), list("deny", n.Deny)
	for i := range r.allow {
		if end, ok := n.Until[n.Allow[i]]; ok {
			r.allow[i].until, r.ends = end, true
		}
	}
	for i := range r.deny {
		if r.deny[i].leadsTo.IsValid() {
			bad("network deny[%d] %q: only allow can have NAME=ADDRESS: deny the name or the address", i, truncate(r.deny[i].text))
		}
	}
	for i, h := range n.Headers {
		one, err := parse(h.Host)
		if err == nil && one.leadsTo.IsValid() {
			err = fmt.Errorf("%w: %q: a header is for a host, without =ADDRESS", atoll.ErrInvalid, truncate(h.Host))
		}
		if err == nil {
			err = checkHeader(h)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("network headers[%d] %w", i, err))
		}
		r.headers = append(r.headers, header{one, h.Name, h.Value})
	}
	if n.Rate < 0 || n.Bytes < 0 {
		bad("network rate %d, bytes %d: must not be negative", n.Rate, n.Bytes)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return r, nil
}

// allowed returns the rules of allow that have not ended.
func (r *Rules) allowed() []rule {
	if !r.ends {
		return r.allow
	}
	now := r.now()
	return slices.DeleteFunc(slices.Clone(r.allow), func(x rule) bool { return !x.until.IsZero() && !now.Before(x.until) })
}

// framingHeaders determine how a message is read, and can't be set.
var framingHeaders = []string{
	"connection", "content-length", "expect", "host", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade",
}

// checkHeader reports a header that can't be set.
func checkHeader(h atoll.Header) error {
	switch {
	case !httpguts.ValidHeaderFieldName(h.Name):
		return fmt.Errorf("%w: %q is not a valid header name", atoll.ErrInvalid, truncate(h.Name))
	case slices.Contains(framingHeaders, strings.ToLower(h.Name)):
		return fmt.Errorf("%w: %s determines how a request is read and can't be set", atoll.ErrInvalid, h.Name)
	case len(h.Value) > maxHeaderValue || !httpguts.ValidHeaderFieldValue(h.Value):
		return fmt.Errorf("%w: the value of %s has line breaks or is too long", atoll.ErrInvalid, h.Name) // without the value
	}
	return nil
}

// Check reports every mistake in the rules for an egress proxy. Rules about paths of https need
// Inspect, since otherwise the proxy sees only encrypted data.
func Check(n atoll.Network) error {
	r, err := New(n)
	if err != nil || n.Inspect {
		return err
	}
	var errs []error
	for of, list := range map[string][]rule{"allow": r.allow, "deny": r.deny} {
		for i := range list {
			if list[i].scheme == "https" && list[i].isNarrow() {
				errs = append(errs, fmt.Errorf("%w: network %s[%d] %q: rules with paths or methods of https need inspect", atoll.ErrInvalid, of, i, list[i].text))
			}
		}
	}
	for i := range r.headers {
		if h := &r.headers[i]; h.scheme != HTTP && (h.scheme != "" || h.port != 80) {
			errs = append(errs, fmt.Errorf("%w: network headers[%d] %q: headers of https need inspect; for plain http only, write http://HOST", atoll.ErrInvalid, i, h.text))
		}
	}
	return errors.Join(errs...)
}

// AllowsNothing reports whether the rules allow nothing.
func (r *Rules) AllowsNothing() bool { return r.mode == atoll.NetworkNone && len(r.allow) == 0 }

// Inspects reports whether the egress proxy may decrypt TLS.
func (r *Rules) Inspects() bool { return r.inspect }

// Verdict is a decision of the rules.
type Verdict struct {
	Allowed bool
	Rule    string // entry that decided; empty: the mode
	Reason  string // why it is denied, with the rule that would allow it if there is one

	Suggestion string // that rule alone
}

// Err returns nil if the verdict allows, else a *Denial.
func (v Verdict) Err() error {
	if v.Allowed {
		return nil
	}
	return &Denial{v}
}

// Denial is a verdict as an error. It matches ErrDenied.
type Denial struct{ Verdict }

func (d *Denial) Error() string { return atoll.ErrDenied.Error() + ": " + d.Reason }

// Unwrap returns ErrDenied.
func (d *Denial) Unwrap() error { return atoll.ErrDenied }

func newDenial(rule, format string, a ...any) Verdict {
	return Verdict{Rule: rule, Reason: fmt.Sprintf(format, a...)}
}

// suggest appends the rule that would allow what a verdict denies.
func suggest(v Verdict, rule string) Verdict {
	v.Reason += fmt.Sprintf("; the rule %q would allow it", rule)
	v.Suggestion = rule
	return v
}

// Name returns the verdict on looking up a name, in the form of Host. If it is denied, nothing of
// this name can be reached.
func (r *Rules) Name(host string) Verdict {
	for i := range r.deny {
		if d := &r.deny[i]; d.matchesHost(host) && d.port == 0 && d.scheme == "" {
			return newDenial(d.text, "%s is denied by %q", host, d.text)
		}
	}
	allow := r.allowed()
	for i := range allow {
		if allow[i].matchesHost(host) {
			return Verdict{Allowed: true, Rule: allow[i].text}
		}
	}
	return r.decideByMode(host, "")
}

// decideByMode returns the verdict of the mode on a host that no rule matches.
func (r *Rules) decideByMode(host, port string) Verdict {
	place := joinHostPort(host, port)
	if host == HostName && r.mode != atoll.NetworkOpen {
		return suggest(newDenial("", "%s is not on this sandbox's list of allowed hosts", place), place)
	}
	a, err := netip.ParseAddr(host)
	a = UnwrapNAT64(a)
	switch {
	case r.mode == atoll.NetworkNAT && (err != nil || IsPublic(a)):
		return Verdict{Allowed: true}
	case (r.mode == atoll.NetworkOpen || r.mode == atoll.NetworkBridge) && (err != nil || !containsAddr(metadataRanges, a)):
		return Verdict{Allowed: true}
	case r.mode != atoll.NetworkNone:
		return suggest(newDenial("", "%s is not a public address, and no rule names it", place), place)
	}
	return suggest(newDenial("", "%s is not on this sandbox's list of allowed hosts", place), place)
}

func joinHostPort(host, port string) string {
	if port == "" {
		return host
	}
	return net.JoinHostPort(host, port)
}

// CheckConnect returns the verdict on a connection to a port of a host before its protocol is known.
func (r *Rules) CheckConnect(host string, port uint16) Verdict {
	text := strconv.Itoa(int(port))
	for i := range r.deny {
		if d := &r.deny[i]; d.matches(host, port) && d.scheme == "" {
			return newDenial(d.text, "%s is denied by %q", joinHostPort(host, text), d.text)
		}
	}
	allow := r.allowed()
	for i := range allow {
		if allow[i].matches(host, port) {
			return Verdict{Allowed: true, Rule: allow[i].text}
		}
	}
	return r.decideByMode(host, text)
}

func (r *rule) matches(host string, port uint16) bool {
	return (r.port == 0 || r.port == port) && r.matchesHost(host)
}

// Protocols of a connection.
const (
	HTTP  = "http"
	HTTPS = "https"
	Other = "other" // a protocol that the egress proxy does not parse
)

// CheckOpaque returns the verdict on a connection whose content is not parsed: https without inspection,
// or another protocol.
func (r *Rules) CheckOpaque(scheme, host string, port uint16) Verdict {
	place := joinHostPort(host, strconv.Itoa(int(port)))
	for i := range r.deny {
		d := &r.deny[i]
		if d.matches(host, port) && (d.scheme == "" || d.scheme == scheme || scheme == Other) {
			return newDenial(d.text, "%s is denied by %q", place, d.text)
		}
	}
	var near string
	allow := r.allowed()
	for i := range allow {
		a := &allow[i]
		if !a.matches(host, port) {
			continue
		}
		if (a.scheme == "" || a.scheme == scheme) && !a.isNarrow() {
			return Verdict{Allowed: true, Rule: a.text}
		}
		near = a.text
	}
	if v := r.decideByMode(host, strconv.Itoa(int(port))); v.Allowed || near == "" {
		return v
	}
	if scheme == HTTPS {
		return suggest(newDenial(near, "%s is allowed only as %q, which the egress proxy can't check in TLS: it needs inspect", place, near), place)
	}
	return suggest(newDenial(near, "%s is allowed only as %q, which is another protocol", place, near), place)
}

// CheckRequest returns the verdict on an HTTP request. path is the path as sent, without the query.
func (r *Rules) CheckRequest(scheme, host string, port uint16, method, path string) Verdict {
	what := method + " " + scheme + "://" + joinHostPort(host, strconv.Itoa(int(port))) + truncate(path)
	for i := range r.deny {
		if d := &r.deny[i]; d.matches(host, port) && (d.scheme == "" || d.scheme == scheme) && d.deniesRequest(method, path) {
			return newDenial(d.text, "%s is denied by %q", what, d.text)
		}
	}
	var near string
	allow := r.allowed()
	for i := range allow {
		a := &allow[i]
		if !a.matches(host, port) || a.scheme != "" && a.scheme != scheme {
			continue
		}
		if a.allowsRequest(method, path) {
			return Verdict{Allowed: true, Rule: a.text}
		}
		near = a.text
	}
	v := r.decideByMode(host, strconv.Itoa(int(port)))
	if !v.Allowed && near != "" {
		v = newDenial(near, "%s: only %q is allowed on this host", what, near)
		if rule := method + " " + scheme + "://" + joinHostPort(host, strconv.Itoa(int(port))) + path; isRule(rule) {
			return suggest(v, rule)
		}
	}
	return v
}

// isRule reports whether a text is a rule.
func isRule(text string) bool {
	_, err := parse(text)
	return err == nil
}

// ShouldInspect reports whether https to a host is to be inspected, because of headers or of rules about some
// requests only.
func (r *Rules) ShouldInspect(host string, port uint16) bool {
	if !r.inspect {
		return false
	}
	about := func(x *rule) bool { return x.matches(host, port) && x.scheme != HTTP }
	return slices.ContainsFunc(r.headers, func(h header) bool { return about(&h.rule) && h.appliesToPort(HTTPS, port) }) ||
		slices.ContainsFunc(r.allowed(), func(x rule) bool { return x.isNarrow() && about(&x) }) ||
		slices.ContainsFunc(r.deny, func(x rule) bool { return x.isNarrow() && about(&x) })
}

// Headers returns the headers to set on a request. If https is inspected, a header is sent over plain
// http only if its rule says http. Without a port in its rule it is sent to the default port of the
// scheme only, since another port may belong to another service.
func (r *Rules) Headers(scheme, host string, port uint16, method, path string) []atoll.Header {
	var list []atoll.Header
	for i := range r.headers {
		h := &r.headers[i]
		plain := h.scheme == "" && (scheme == HTTPS || !r.inspect)
		if (plain || h.scheme == scheme) && h.matches(host, port) && h.appliesToPort(scheme, port) && h.allowsRequest(method, path) {
			list = append(list, atoll.Header{Host: host, Name: h.name, Value: h.value})
		}
	}
	return list
}

// appliesToPort reports whether a header may be sent to a port of its host.
func (h *header) appliesToPort(scheme string, port uint16) bool {
	return h.port != 0 || scheme == HTTP && port == 80 || scheme == HTTPS && port == 443
}

// CheckAddress returns the verdict on dialling an address of an allowed host. This is the last step, after
// name resolution.
func (r *Rules) CheckAddress(host string, a netip.Addr, port uint16) Verdict {
	if a.Zone() != "" {
		return newDenial("", "%s has a zone", a)
	}
	a = UnwrapNAT64(a)
	for i := range r.deny {
		if d := &r.deny[i]; d.prefix.IsValid() && d.prefix.Contains(a) && (d.port == 0 || d.port == port) && !d.isNarrow() {
			return newDenial(d.text, "%s leads to %s, which is denied by %q", host, a, d.text)
		}
	}
	if IsPublic(a) {
		return Verdict{Allowed: true}
	}
	literal, err := netip.ParseAddr(host)
	itself := err == nil && UnwrapNAT64(literal) == a
	// A rule about an address is about requests to it by address. A name that leads there needs a
	// rule of its own: its mode alone does not open the private network to it.
	listed := itself || r.Lists(host, port)
	allow := r.allowed()
	for i := range allow {
		x := &allow[i]
		if x.leadsTo.IsValid() && x.leadsTo.Contains(a) && x.matches(host, port) {
			return Verdict{Allowed: true, Rule: x.text}
		}
		if (x.port == 0 || x.port == port) && (listed && x.namesAddress(a) && (itself || x.scheme == "" && !x.isNarrow()) || x.host == HostName && host == HostName && a.IsLoopback()) {
			return Verdict{Allowed: true, Rule: x.text}
		}
	}
	if (r.mode == atoll.NetworkOpen || r.mode == atoll.NetworkBridge) && !containsAddr(metadataRanges, a) {
		return Verdict{Allowed: true}
	}
	place := joinHostPort(host, strconv.Itoa(int(port)))
	if itself {
		return suggest(newDenial("", "%s is not a public address, and no rule names it", a), place)
	}
	return suggest(newDenial("", "%s has no address that this sandbox may connect to: %s is not a public one", host, a), place+"="+a.String())
}

// Lists reports whether a rule allows a host itself, and not only the mode.
func (r *Rules) Lists(host string, port uint16) bool {
	return slices.ContainsFunc(r.allowed(), func(x rule) bool { return x.matches(host, port) })
}

// Addresses returns the addresses that rules of the form NAME=ADDRESS assign to a name, which then is
// not resolved; nil: there are none.
func (r *Rules) Addresses(host string, port uint16) []netip.Addr {
	var list []netip.Addr
	allow := r.allowed()
	for i := range allow {
		if x := &allow[i]; x.leadsTo.IsValid() && x.leadsTo.IsSingleIP() && x.matches(host, port) {
			list = append(list, x.leadsTo.Addr())
		}
	}
	return list
}

// Ports returns the ports for which a check of a host without a port stands: those of https and http,
// and those in the rules that allow it.
func (r *Rules) Ports(host string) []uint16 {
	list := []uint16{443, 80}
	allow := r.allowed()
	for i := range allow {
		if x := &allow[i]; x.port != 0 && x.matchesHost(host) {
			list = append(list, x.port)
		}
	}
	return list
}

// CheckServerName returns the verdict on a connection to an address whose content names another host:
// the server name of TLS, or the Host of HTTP. The rules about the address do not apply to that host;
// it needs to be allowed itself, and allowed to lead to the address.
func (r *Rules) CheckServerName(scheme, host string, a netip.Addr, port uint16) Verdict {
	if v := r.CheckOpaque(scheme, host, port); !v.Allowed {
		return v
	}
	return r.CheckAddress(host, a, port)
}

// CheckHostField returns the verdict on an HTTP request to an address whose Host is another one; see
// CheckServerName.
func (r *Rules) CheckHostField(scheme, host string, a netip.Addr, port uint16, method, path string) Verdict {
	if v := r.CheckRequest(scheme, host, port, method, path); !v.Allowed {
		return v
	}
	return r.CheckAddress(host, a, port)
}

// Redact hides the values of headers in a text.
func (r *Rules) Redact(text string) string {
	for i := range r.headers {
		for _, v := range append(strings.Fields(r.headers[i].value), r.headers[i].value) { // also the credential alone in "Bearer …"
			if len(v) >= 4 && !strings.EqualFold(v, "bearer") && !strings.EqualFold(v, "basic") {
				text = strings.ReplaceAll(text, v, "***")
			}
		}
	}
	return text
}

// CheckTarget returns the verdict on a target as users write it: a host, a host and a port, or a URL.
func CheckTarget(r *Rules, target string) (atoll.Connection, error) {
	one, err := parse(target)
	if err != nil || one.host != "" && strings.HasPrefix(one.host, "*") || one.prefix.IsValid() && !one.prefix.IsSingleIP() {
		return atoll.Connection{}, fmt.Errorf("%w: target %q: must be HOST, HOST:PORT or a URL", atoll.ErrInvalid, truncate(target))
	}
	host := one.host
	if one.prefix.IsValid() {
		host = one.prefix.Addr().String()
	}
	c := atoll.Connection{Protocol: "tcp", Host: host, Port: int(one.port)}
	var v Verdict
	switch {
	case one.scheme != "":
		c.Protocol, c.Method, c.Path = one.scheme, "GET", one.path
		if one.methods != nil {
			c.Method = one.methods[0]
		}
		if c.Path == "" {
			c.Path = "/"
		}
		v = r.CheckRequest(one.scheme, host, one.port, c.Method, c.Path)
		if v.Allowed && one.scheme == HTTPS && !r.ShouldInspect(host, one.port) {
			v = r.CheckOpaque(HTTPS, host, one.port)
		}
	case one.port != 0:
		v = r.CheckConnect(host, one.port)
	default:
		v = r.Name(host)
	}
	if a, err := netip.ParseAddr(host); err == nil && v.Allowed && one.port != 0 {
		v = r.CheckAddress(host, a, one.port)
	}
	c.Allowed, c.Rule, c.Reason, c.Suggestion = v.Allowed, v.Rule, v.Reason, v.Suggestion
	return c, nil
}
