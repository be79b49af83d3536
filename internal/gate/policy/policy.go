package policy

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/atoll-sandbox/atoll"
)

// Rules are those of a network, ready to decide. They don't change; their
// methods may be called at once from many goroutines.
type Rules struct {
	mode        atoll.NetworkMode
	allow, deny []rule
	headers     []header
	inspect     bool
}

// header is a header that is set on some requests.
type header struct {
	rule
	name, value string
}

// Bounds of what is believed to be rules.
const (
	mostRules   = 4096
	mostHeaders = 256
	mostValue   = 16 << 10
)

// New reads the rules of a network. Every mistake is named; the error matches
// ErrInvalid.
func New(n atoll.Network) (*Rules, error) {
	r := &Rules{mode: n.Mode, inspect: n.Inspect}
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
	if len(n.Allow)+len(n.Deny) > mostRules || len(n.Headers) > mostHeaders {
		bad("network: at most %d rules and %d headers", mostRules, mostHeaders)
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
	for i, h := range n.Headers {
		one, err := parse(h.Host)
		if err == nil {
			err = headerFault(h)
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

// framing are headers that say how a message is to be read.
var framing = []string{
	"connection", "content-length", "expect", "host", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade",
}

// headerFault reports a header that can't be set.
func headerFault(h atoll.Header) error {
	switch {
	case !httpguts.ValidHeaderFieldName(h.Name):
		return fmt.Errorf("%w: %q is no name of a header", atoll.ErrInvalid, clip(h.Name))
	case slices.Contains(framing, strings.ToLower(h.Name)):
		return fmt.Errorf("%w: %s says how a request is read, and is not set", atoll.ErrInvalid, h.Name)
	case len(h.Value) > mostValue || !httpguts.ValidHeaderFieldValue(h.Value):
		return fmt.Errorf("%w: the value of %s holds line breaks or is too long", atoll.ErrInvalid, h.Name) // never the value
	}
	return nil
}

// Check reports every mistake in a network for a gate, which sees only what
// comes along: what is about paths of https needs Inspect.
func Check(n atoll.Network) error {
	r, err := New(n)
	if err != nil || n.Inspect {
		return err
	}
	var errs []error
	for of, list := range map[string][]rule{"allow": r.allow, "deny": r.deny} {
		for i := range list {
			if list[i].scheme == "https" && list[i].narrow() {
				errs = append(errs, fmt.Errorf("%w: network %s[%d] %q: paths and methods of https are seen only with inspect", atoll.ErrInvalid, of, i, list[i].text))
			}
		}
	}
	for i := range r.headers {
		if r.headers[i].scheme == "https" {
			errs = append(errs, fmt.Errorf("%w: network headers[%d] %q: headers of https are set only with inspect", atoll.ErrInvalid, i, r.headers[i].text))
		}
	}
	return errors.Join(errs...)
}

// Nothing reports rules that allow nothing.
func (r *Rules) Nothing() bool { return r.mode == atoll.NetworkNone && len(r.allow) == 0 }

// Inspects reports whether the gate may look into TLS.
func (r *Rules) Inspects() bool { return r.inspect }

// Verdict is what the rules say.
type Verdict struct {
	Allowed bool
	Rule    string // the entry that decided; empty: the mode
	Reason  string // why not
}

// Err returns nil for what is allowed, else a *Denial.
func (v Verdict) Err() error {
	if v.Allowed {
		return nil
	}
	return &Denial{v}
}

// Denial is a verdict as an error; it matches ErrDenied.
type Denial struct{ Verdict }

func (d *Denial) Error() string { return atoll.ErrDenied.Error() + ": " + d.Reason }

// Unwrap returns ErrDenied.
func (d *Denial) Unwrap() error { return atoll.ErrDenied }

func denied(rule, format string, a ...any) Verdict {
	return Verdict{Rule: rule, Reason: fmt.Sprintf(format, a...)}
}

// Name says whether anything of a name, in the form of Host, may be reached: if
// not, it has no address either.
func (r *Rules) Name(host string) Verdict {
	for i := range r.deny {
		if d := &r.deny[i]; d.of(host) && d.port == 0 && d.scheme == "" {
			return denied(d.text, "%s is denied by %q", host, d.text)
		}
	}
	for i := range r.allow {
		if r.allow[i].of(host) {
			return Verdict{Allowed: true, Rule: r.allow[i].text}
		}
	}
	return r.rest(host, "")
}

// rest is what the mode says of a host that no rule is about.
func (r *Rules) rest(host, port string) Verdict {
	if host == HostName && r.mode != atoll.NetworkOpen {
		return denied("", "%s is not on this sandbox's list of allowed hosts", joined(host, port))
	}
	a, err := netip.ParseAddr(host)
	a = real(a)
	switch {
	case r.mode == atoll.NetworkNAT && (err != nil || public(a)):
		return Verdict{Allowed: true}
	case (r.mode == atoll.NetworkOpen || r.mode == atoll.NetworkBridge) && (err != nil || !within(machine, a)):
		return Verdict{Allowed: true}
	case r.mode != atoll.NetworkNone:
		return denied("", "%s is not a public address, and no rule names it", joined(host, port))
	}
	return denied("", "%s is not on this sandbox's list of allowed hosts", joined(host, port))
}

func joined(host, port string) string {
	if port == "" {
		return host
	}
	return net.JoinHostPort(host, port)
}

// Connect says whether any connection to a port of a host may be allowed,
// whatever goes over it.
func (r *Rules) Connect(host string, port uint16) Verdict {
	text := strconv.Itoa(int(port))
	for i := range r.deny {
		if d := &r.deny[i]; d.at(host, port) && d.scheme == "" {
			return denied(d.text, "%s is denied by %q", joined(host, text), d.text)
		}
	}
	for i := range r.allow {
		if r.allow[i].at(host, port) {
			return Verdict{Allowed: true, Rule: r.allow[i].text}
		}
	}
	return r.rest(host, text)
}

func (r *rule) at(host string, port uint16) bool {
	return (r.port == 0 || r.port == port) && r.of(host)
}

// Schemes of what goes over a connection.
const (
	HTTP  = "http"
	HTTPS = "https"
	Other = "other" // no protocol that the gate reads
)

// Opaque says whether a connection whose content is not looked at may be made:
// https that is not inspected, or another protocol.
func (r *Rules) Opaque(scheme, host string, port uint16) Verdict {
	place := joined(host, strconv.Itoa(int(port)))
	for i := range r.deny {
		d := &r.deny[i]
		if d.at(host, port) && (d.scheme == "" || d.scheme == scheme || scheme == Other) {
			return denied(d.text, "%s is denied by %q", place, d.text)
		}
	}
	var near string
	for i := range r.allow {
		a := &r.allow[i]
		if !a.at(host, port) {
			continue
		}
		if (a.scheme == "" || a.scheme == scheme) && !a.narrow() {
			return Verdict{Allowed: true, Rule: a.text}
		}
		near = a.text
	}
	if v := r.rest(host, strconv.Itoa(int(port))); v.Allowed || near == "" {
		return v
	}
	if scheme == HTTPS {
		return denied(near, "%s is allowed only as %q, which the gate can't see in TLS: it needs inspect", place, near)
	}
	return denied(near, "%s is allowed only as %q, and this is not that protocol", place, near)
}

// Request says whether a request may be made. The path is as it is sent,
// without a query.
func (r *Rules) Request(scheme, host string, port uint16, method, path string) Verdict {
	what := method + " " + scheme + "://" + joined(host, strconv.Itoa(int(port))) + clip(path)
	for i := range r.deny {
		if d := &r.deny[i]; d.at(host, port) && (d.scheme == "" || d.scheme == scheme) && d.denies(method, path) {
			return denied(d.text, "%s is denied by %q", what, d.text)
		}
	}
	var near string
	for i := range r.allow {
		a := &r.allow[i]
		if !a.at(host, port) || a.scheme != "" && a.scheme != scheme {
			continue
		}
		if a.allows(method, path) {
			return Verdict{Allowed: true, Rule: a.text}
		}
		near = a.text
	}
	v := r.rest(host, strconv.Itoa(int(port)))
	if !v.Allowed && near != "" {
		return denied(near, "%s: only %q is allowed of this host", what, near)
	}
	return v
}

// Look says whether https of a host is to be inspected: it has headers, or
// rules about some requests only.
func (r *Rules) Look(host string, port uint16) bool {
	if !r.inspect {
		return false
	}
	about := func(x *rule) bool { return x.at(host, port) && x.scheme != HTTP }
	return slices.ContainsFunc(r.headers, func(h header) bool { return about(&h.rule) && h.meant(HTTPS, port) }) ||
		slices.ContainsFunc(r.allow, func(x rule) bool { return x.narrow() && about(&x) }) ||
		slices.ContainsFunc(r.deny, func(x rule) bool { return x.narrow() && about(&x) })
}

// Headers returns what is set on a request. Where https is inspected, a header
// goes over plain http only if its rule says so. Without a port it goes to that of
// the scheme only: what listens on another may be somebody else's.
func (r *Rules) Headers(scheme, host string, port uint16, method, path string) []atoll.Header {
	var list []atoll.Header
	for i := range r.headers {
		h := &r.headers[i]
		plain := h.scheme == "" && (scheme == HTTPS || !r.inspect)
		if (plain || h.scheme == scheme) && h.at(host, port) && h.meant(scheme, port) && h.allows(method, path) {
			list = append(list, atoll.Header{Host: host, Name: h.name, Value: h.value})
		}
	}
	return list
}

// meant reports whether a header is for a port of a host.
func (h *header) meant(scheme string, port uint16) bool {
	return h.port != 0 || scheme == HTTP && port == 80 || scheme == HTTPS && port == 443
}

// Address says whether an address may be dialled for a host that was allowed:
// the last question, about what a name has led to.
func (r *Rules) Address(host string, a netip.Addr, port uint16) Verdict {
	if a.Zone() != "" {
		return denied("", "%s has a zone", a)
	}
	a = real(a)
	for i := range r.deny {
		if d := &r.deny[i]; d.prefix.IsValid() && d.prefix.Contains(a) && (d.port == 0 || d.port == port) && !d.narrow() {
			return denied(d.text, "%s leads to %s, which is denied by %q", host, a, d.text)
		}
	}
	if public(a) {
		return Verdict{Allowed: true}
	}
	literal, err := netip.ParseAddr(host)
	itself := err == nil && real(literal) == a
	for i := range r.allow {
		x := &r.allow[i]
		if (x.port == 0 || x.port == port) && (x.named(a) && (itself || x.scheme == "" && !x.narrow()) || x.host == HostName && host == HostName && a.IsLoopback()) {
			return Verdict{Allowed: true, Rule: x.text}
		}
	}
	if (r.mode == atoll.NetworkOpen || r.mode == atoll.NetworkBridge) && !within(machine, a) {
		return Verdict{Allowed: true}
	}
	if itself {
		return denied("", "%s is not a public address, and no rule names it", a)
	}
	return denied("", "%s has no address that this sandbox may connect to: %s is not a public one", host, a)
}

// Redact hides the values of headers in a text.
func (r *Rules) Redact(text string) string {
	for i := range r.headers {
		for _, v := range append(strings.Fields(r.headers[i].value), r.headers[i].value) { // "Bearer …": the credential alone, too
			if len(v) >= 4 && !strings.EqualFold(v, "bearer") && !strings.EqualFold(v, "basic") {
				text = strings.ReplaceAll(text, v, "***")
			}
		}
	}
	return text
}

// Ask says what the rules say of a target, as a person writes it: a host, a host
// and a port, or a URL.
func Ask(r *Rules, target string) (atoll.Connection, error) {
	one, err := parse(target)
	if err != nil || one.host != "" && strings.HasPrefix(one.host, "*") || one.prefix.IsValid() && !one.prefix.IsSingleIP() {
		return atoll.Connection{}, fmt.Errorf("%w: target %q: must be HOST, HOST:PORT or a URL", atoll.ErrInvalid, clip(target))
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
		v = r.Request(one.scheme, host, one.port, c.Method, c.Path)
		if v.Allowed && one.scheme == HTTPS && !r.Look(host, one.port) {
			v = r.Opaque(HTTPS, host, one.port)
		}
	case one.port != 0:
		v = r.Connect(host, one.port)
	default:
		v = r.Name(host)
	}
	if a, err := netip.ParseAddr(host); err == nil && v.Allowed && one.port != 0 {
		v = r.Address(host, a, one.port)
	}
	c.Allowed, c.Rule, c.Reason = v.Allowed, v.Rule, v.Reason
	return c, nil
}
