package fleet

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// SetNetwork replaces the network rules of the sandbox, also for later starts. The mode can be changed
// between none and nat; an empty one stays. A header with the redacted value "***" keeps its value.
func (s *Sandbox) SetNetwork(ctx context.Context, n atoll.Network) error {
	return s.changeRules(ctx, describeNetwork(n), func(now *atoll.Network) error {
		was := cmp.Or(now.Mode, atoll.NetworkNone)
		next := cmp.Or(n.Mode, was)
		if switchable := []atoll.NetworkMode{atoll.NetworkNone, atoll.NetworkNAT}; next != was && !(slices.Contains(switchable, next) && slices.Contains(switchable, was)) {
			return fmt.Errorf("%w: network mode %s: the mode can't be changed after creation", atoll.ErrInvalid, n.Mode)
		}
		headers, err := keepHeaderValues(n.Headers, now.Headers)
		if err != nil {
			return err
		}
		if n.Headers = headers; next == was {
			next = now.Mode
		}
		n.Mode = next
		*now = n
		return nil
	})
}

// ChangeNetwork adds entries to the network rules and removes some. An entry added to one list is
// removed from the other.
func (s *Sandbox) ChangeNetwork(ctx context.Context, c wire.NetworkChange) (atoll.Network, error) {
	var after atoll.Network
	err := s.changeRules(ctx, describeChange(c), func(now *atoll.Network) error {
		defer func() { after = *now }()
		return applyChange(now, c, s.f.now())
	})
	if err != nil {
		return atoll.Network{}, err
	}
	return redactNetwork(after), nil
}

// applyChange applies a change to rules. Entries that have ended are removed.
func applyChange(now *atoll.Network, c wire.NetworkChange, at time.Time) error {
	n := *now
	n.Until = maps.Clone(n.Until)
	for _, entry := range c.Remove {
		was := len(n.Allow) + len(n.Deny)
		n.Allow, n.Deny = removeEntry(n.Allow, entry), removeEntry(n.Deny, entry)
		if was == len(n.Allow)+len(n.Deny) {
			return fmt.Errorf("%w: %q is not in its rules", atoll.ErrNotFound, entry)
		}
	}
	n.Allow = slices.DeleteFunc(slices.Clone(n.Allow), func(e string) bool { end, ends := n.Until[e]; return ends && !at.Before(end) })
	for _, entry := range c.Allow {
		end, known := endOf(&n, entry)
		n.Allow, n.Deny = append(removeEntry(n.Allow, entry), entry), removeEntry(n.Deny, entry)
		next := at.Add(time.Duration(c.Seconds) * time.Second)
		switch {
		case c.Seconds == 0 || known && end.IsZero():
			delete(n.Until, entry)
		case known && end.After(next):
			setEnd(&n, entry, end)
		default:
			setEnd(&n, entry, next)
		}
	}
	for _, entry := range c.Deny {
		n.Deny, n.Allow = append(removeEntry(n.Deny, entry), entry), removeEntry(n.Allow, entry)
	}
	maps.DeleteFunc(n.Until, func(e string, _ time.Time) bool { return !slices.Contains(n.Allow, e) })
	if len(n.Until) == 0 {
		n.Until = nil
	}
	*now = n
	return nil
}

// endOf returns the end of an entry of n.Allow, regardless of case; zero: it has none. known is false if
// there is no such entry.
func endOf(n *atoll.Network, entry string) (end time.Time, known bool) {
	i := slices.IndexFunc(n.Allow, func(e string) bool { return strings.EqualFold(e, entry) })
	if i < 0 {
		return time.Time{}, false
	}
	return n.Until[n.Allow[i]], true
}

// setEnd sets the end of an entry of n.Allow.
func setEnd(n *atoll.Network, entry string, end time.Time) {
	if n.Until == nil {
		n.Until = make(map[string]time.Time)
	}
	n.Until[entry] = end
}

// removeEntry returns a copy of a list without an entry.
func removeEntry(list []string, entry string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(e string) bool { return strings.EqualFold(e, entry) })
}

// keepHeaderValues gives headers with a redacted value their present value.
func keepHeaderValues(headers, now []atoll.Header) ([]atoll.Header, error) {
	headers = slices.Clone(headers)
	for i := range headers {
		h := &headers[i]
		if h.Value != hidden {
			continue
		}
		at := slices.IndexFunc(now, func(o atoll.Header) bool { return o.Host == h.Host && strings.EqualFold(o.Name, h.Name) })
		if at < 0 {
			return nil, fmt.Errorf("%w: network.headers[%d]: %s for %s has no value to keep", atoll.ErrInvalid, i, h.Name, h.Host)
		}
		h.Value = now[at].Value
	}
	return headers, nil
}

// changeRules changes the network rules of the sandbox: first the ones in force, then those in the
// registry. It holds the sandbox's turn.
func (s *Sandbox) changeRules(ctx context.Context, detail string, change func(*atoll.Network) error) error {
	const op = "set network"
	if err := s.checkAccess(op, atoll.ScopeRun); err != nil {
		return err
	}
	noted := s.startAudit(op, detail)
	err := s.applyRules(ctx, op, change)
	noted(err)
	return s.wrapError(op, err)
}

func (s *Sandbox) applyRules(ctx context.Context, op string, change func(*atoll.Network) error) error {
	ctx, leave, err := s.f.beginOperation(ctx)
	if err != nil {
		return err
	}
	defer leave()
	release, err := s.b.acquireTurn(ctx)
	if err != nil {
		return err
	}
	defer release()
	r, err := s.f.loadRow(ctx, s.b.id)
	if err != nil {
		return err
	}
	s.f.updateHandle(r)
	next := r.cfg
	if err := change(&next.Network); err != nil {
		return err
	}
	if err := s.checkReach(&r.cfg.Network, &next.Network); err != nil {
		return err
	}
	if err := errors.Join(next.Check(), checkNetwork(&next), s.f.checkIdentityReferences(&next)); err != nil {
		return err
	}
	err = callInner(ctx, s, op, func(ctx context.Context, g atoll.NetworkController) error {
		n, err := s.f.driverNetwork(ctx, &next)
		if err != nil {
			return err
		}
		return g.SetNetwork(ctx, n)
	})
	if err != nil {
		return err
	}
	_, err = s.f.changeRow(ctx, r.id, func(tx *sql.Tx, now *row) error {
		now.cfg.Network = next.Network
		if err := s.f.saveRow(ctx, tx, now); err != nil {
			return err
		}
		return s.f.events.Emit(ctx, tx, atoll.Event{
			Time: s.f.now(), Type: "sandbox.network", Owner: r.owner, Object: r.id, Name: r.name, Message: describeNetwork(next.Network),
		})
	})
	return err
}

// checkReach refuses rules that reach further into the host's network than the present ones,
// unless the caller could have created such a sandbox.
func (s *Sandbox) checkReach(now, next *atoll.Network) error {
	for _, entry := range next.Allow {
		one := atoll.Network{Allow: []string{entry}}
		if one.PrivateRule() == "" || slices.Contains(now.Allow, entry) || s.a.caller.hasScope(atoll.ScopeHost) {
			continue
		}
		return fmt.Errorf("%w: network allow %s reaches this host or its network: that needs the scope %q", atoll.ErrDenied, entry, atoll.ScopeHost)
	}
	return nil
}

// Network returns the network rules with secrets hidden.
func (s *Sandbox) Network(ctx context.Context) (atoll.Network, error) {
	info, err := s.Info(ctx)
	return info.Config.Network, err
}

// Connections returns the connections that programs inside have tried, oldest first.
func (s *Sandbox) Connections(ctx context.Context) (list []atoll.Connection, err error) {
	err = callInner(ctx, s, "network log", func(ctx context.Context, g atoll.NetworkController) (err error) {
		list, err = g.Connections(ctx)
		return err
	})
	m := s.secretMask(nil)
	for i := range list {
		c := &list[i]
		c.Host, c.Path, c.Reason, c.Suggestion = m.redact(c.Host), m.redact(c.Path), m.redact(c.Reason), m.redact(c.Suggestion)
	}
	return list, err
}

// CheckNetwork reports what the rules decide for a target.
func (s *Sandbox) CheckNetwork(ctx context.Context, target string) (c atoll.Connection, err error) {
	err = callInner(ctx, s, "network test", func(ctx context.Context, g atoll.NetworkController) (err error) {
		c, err = g.CheckNetwork(ctx, target)
		return err
	})
	return c, err
}

// enforceNetwork applies the recorded rules to a sandbox that was just started: they may have been
// changed while it was stopped.
func (f *Fleet) enforceNetwork(ctx context.Context, b *handle, sb atoll.Sandbox) error {
	g, ok := atoll.As[atoll.NetworkController](sb)
	if !ok {
		return nil
	}
	cfg := b.cachedRow().cfg
	n, err := f.driverNetwork(ctx, &cfg)
	if err != nil {
		return err
	}
	err = g.SetNetwork(ctx, n)
	if reflect.ValueOf(cfg.Network).IsZero() && (errors.Is(err, atoll.ErrUnsupported) || errors.Is(err, atoll.ErrUnavailable)) {
		return nil // without an egress proxy there is nothing to apply rules to
	}
	return err
}

// Limits of headers, those of the egress proxy. They are checked before a value is expanded: one of a megabyte that
// names a large secret again and again would need all memory of the host.
const (
	maxHeaders     = 256
	maxHeaderValue = 16 << 10 // with the values of secrets
)

// checkNetwork reports headers that are too large, or refer to secrets that don't exist.
func checkNetwork(cfg *atoll.Config) error {
	if n := len(cfg.Network.Headers); n > maxHeaders {
		return &atoll.FieldError{Field: "network.headers", Err: fmt.Errorf("%w: network.headers: there are %d, must be at most %d", atoll.ErrInvalid, n, maxHeaders)}
	}
	var errs []error
	for i, h := range cfg.Network.Headers {
		if len(h.Value) > maxHeaderValue || len(expandSecrets(h.Value, cfg.Secrets)) > maxHeaderValue {
			field := fmt.Sprintf("network.headers[%d].value", i)
			errs = append(errs, &atoll.FieldError{Field: field, Err: fmt.Errorf("%w: %s: must have at most %d bytes, secrets included", atoll.ErrInvalid, field, maxHeaderValue)})
			continue
		}
		for _, name := range secretNames(h.Value) {
			if _, ok := cfg.Secrets[name]; !ok {
				field := fmt.Sprintf("network.headers[%d].value", i)
				errs = append(errs, &atoll.FieldError{Field: field, Err: fmt.Errorf("%w: %s: no such secret: %s", atoll.ErrInvalid, field, name)})
			}
		}
	}
	return errors.Join(errs...)
}

// driverNetwork returns the rules for the driver: headers have the values of the secrets that they
// refer to.
func (f *Fleet) driverNetwork(ctx context.Context, cfg *atoll.Config) (atoll.Network, error) {
	used := proxyOnlySecrets(cfg)
	only := *cfg
	only.Secrets = maps.Clone(cfg.Secrets)
	maps.DeleteFunc(only.Secrets, func(name, _ string) bool { return !used[name] })
	if err := f.checkIdentityReferences(&only); err != nil { // a claim brings secrets for headers of the pool
		return atoll.Network{}, err
	}
	resolved, err := f.resolveSecrets(ctx, &only)
	if err != nil {
		return atoll.Network{}, err
	}
	return expandNetwork(resolved), nil
}

// expandNetwork returns the rules with the values of secrets, or their references, in headers.
func expandNetwork(cfg *atoll.Config) atoll.Network {
	n := cfg.Network
	n.Headers = slices.Clone(n.Headers)
	for i := range n.Headers {
		n.Headers[i].Value = expandSecrets(n.Headers[i].Value, cfg.Secrets)
	}
	return n
}

// expandSecrets replaces each "${NAME}" by the secret of that name. A value that becomes longer than maxHeaderValue is
// cut one byte after, which no egress proxy accepts.
func expandSecrets(value string, secrets map[string]string) string {
	var b strings.Builder
	eachPart(value, func(text, name string) {
		if b.Len() > maxHeaderValue {
			return
		}
		v, ok := secrets[name]
		if name != "" && !ok {
			text = "${" + name + "}"
		}
		b.WriteString(text)
		b.WriteString(v)
	})
	return b.String()[:min(b.Len(), maxHeaderValue+1)]
}

// secretNames returns the names of the secrets that a value refers to.
func secretNames(value string) []string {
	var names []string
	eachPart(value, func(_, name string) {
		if name != "" {
			names = append(names, name)
		}
	})
	return names
}

// eachPart calls f for each piece of a value: text, or the name of a "${NAME}".
func eachPart(value string, f func(text, name string)) {
	for {
		before, rest, ok := strings.Cut(value, "${")
		name, after, closed := strings.Cut(rest, "}")
		if !ok || !closed {
			f(value, "")
			return
		}
		f(before, "")
		if name == "" {
			f("${}", "")
		} else {
			f("", name)
		}
		value = after
	}
}

// proxyOnlySecrets returns the names of the secrets that headers refer to: only the egress proxy
// gets them.
func proxyOnlySecrets(cfg *atoll.Config) map[string]bool {
	names := make(map[string]bool)
	for _, h := range cfg.Network.Headers {
		for _, name := range secretNames(h.Value) {
			names[name] = true
		}
	}
	return names
}

// headerSecrets returns the header values, and their parts, that texts must not show.
func headerSecrets(cfg *atoll.Config) []string {
	var values []string
	for _, h := range expandNetwork(cfg).Headers {
		values = append(values, h.Value)
		if _, credential, ok := strings.Cut(h.Value, " "); ok { // "Bearer …"
			values = append(values, credential)
		}
	}
	return values
}

// redactNetwork returns rules without the values of headers.
func redactNetwork(n atoll.Network) atoll.Network {
	n.Headers = slices.Clone(n.Headers)
	for i := range n.Headers {
		n.Headers[i].Value = hidden
	}
	return n
}

// describeNetwork returns rules in one line, for the audit.
func describeNetwork(n atoll.Network) string {
	var words []string
	for _, l := range []struct {
		word string
		list []string
	}{{"allow", n.Allow}, {"deny", n.Deny}} {
		if len(l.list) > 0 {
			words = append(words, l.word+" "+strings.Join(l.list, " "))
		}
	}
	for _, h := range n.Headers {
		words = append(words, "header "+h.Name+"@"+h.Host)
	}
	if len(words) == 0 {
		return "no rules"
	}
	return strings.Join(words, "; ")
}

// describeChange returns a change in one line, for the audit.
func describeChange(c wire.NetworkChange) string {
	text := describeNetwork(atoll.Network{Allow: c.Allow, Deny: c.Deny})
	if len(c.Allow) > 0 && c.Seconds > 0 {
		text += fmt.Sprintf(" for %d s", c.Seconds)
	}
	if len(c.Remove) > 0 {
		text += "; remove " + strings.Join(c.Remove, " ")
	}
	return strings.TrimPrefix(text, "no rules; ")
}
