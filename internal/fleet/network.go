package fleet

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// SetNetwork replaces the rules of the sandbox's network, for later starts too.
// The mode can't be changed. A header whose value is "***", as it is shown, keeps
// the one that it has.
func (s *Sandbox) SetNetwork(ctx context.Context, n atoll.Network) error {
	return s.regulate(ctx, networkText(n), func(now *atoll.Network) error {
		if n.Mode != "" && n.Mode != now.Mode && (now.Mode != "" || n.Mode != atoll.NetworkNone) {
			return fmt.Errorf("%w: network mode %s: a sandbox keeps the mode that it was created with", atoll.ErrInvalid, n.Mode)
		}
		headers, err := unveil(n.Headers, now.Headers)
		if err != nil {
			return err
		}
		n.Mode, n.Headers = now.Mode, headers
		*now = n
		return nil
	})
}

// ChangeNetwork adds entries to the rules of the sandbox's network, and takes
// some away. What is added to one list leaves the other.
func (s *Sandbox) ChangeNetwork(ctx context.Context, c wire.NetworkChange) (atoll.Network, error) {
	var after atoll.Network
	err := s.regulate(ctx, changeText(c), func(now *atoll.Network) error {
		defer func() { after = *now }()
		return applyChange(now, c)
	})
	if err != nil {
		return atoll.Network{}, err
	}
	return shownNetwork(after), nil
}

// applyChange makes of rules what a change says.
func applyChange(now *atoll.Network, c wire.NetworkChange) error {
	n := *now
	for _, entry := range c.Remove {
		was := len(n.Allow) + len(n.Deny)
		n.Allow, n.Deny = without(n.Allow, entry), without(n.Deny, entry)
		if was == len(n.Allow)+len(n.Deny) {
			return fmt.Errorf("%w: %q is no entry of its rules", atoll.ErrNotFound, entry)
		}
	}
	for _, entry := range c.Allow {
		n.Allow, n.Deny = append(without(n.Allow, entry), entry), without(n.Deny, entry)
	}
	for _, entry := range c.Deny {
		n.Deny, n.Allow = append(without(n.Deny, entry), entry), without(n.Allow, entry)
	}
	*now = n
	return nil
}

// without returns a copy of a list without an entry.
func without(list []string, entry string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(e string) bool { return strings.EqualFold(e, entry) })
}

// unveil gives headers whose value is hidden the value that they have.
func unveil(headers, now []atoll.Header) ([]atoll.Header, error) {
	headers = slices.Clone(headers)
	for i := range headers {
		h := &headers[i]
		if h.Value != hidden {
			continue
		}
		at := slices.IndexFunc(now, func(o atoll.Header) bool { return o.Host == h.Host && strings.EqualFold(o.Name, h.Name) })
		if at < 0 {
			return nil, fmt.Errorf("%w: network.headers[%d]: %s for %s has no value yet that could stay", atoll.ErrInvalid, i, h.Name, h.Host)
		}
		h.Value = now[at].Value
	}
	return headers, nil
}

// regulate changes the rules of the sandbox's network: those in force first,
// then those that the registry has. Nobody else moves it meanwhile.
func (s *Sandbox) regulate(ctx context.Context, detail string, change func(*atoll.Network) error) error {
	const op = "set network"
	if err := s.need(op, atoll.ScopeRun); err != nil {
		return err
	}
	noted := s.audited(op, detail)
	err := s.setRules(ctx, op, change)
	noted(err)
	return s.fail(op, err)
}

func (s *Sandbox) setRules(ctx context.Context, op string, change func(*atoll.Network) error) error {
	ctx, leave, err := s.f.operate(ctx)
	if err != nil {
		return err
	}
	defer leave()
	release, err := s.b.take(ctx)
	if err != nil {
		return err
	}
	defer release()
	r, err := s.f.loadRow(ctx, s.b.id)
	if err != nil {
		return err
	}
	s.f.learn(r)
	next := r.cfg
	if err := change(&next.Network); err != nil {
		return err
	}
	if err := s.mayReach(&r.cfg.Network, &next.Network); err != nil {
		return err
	}
	if err := errors.Join(next.Check(), checkNetwork(&next)); err != nil {
		return err
	}
	err = with(ctx, s, op, func(ctx context.Context, g atoll.Gated) error { return g.SetNetwork(ctx, networkOf(&next)) })
	if err != nil {
		return err
	}
	_, err = s.f.change(ctx, r.id, func(tx *sql.Tx, now *row) error {
		now.cfg.Network = next.Network
		if err := s.f.save(ctx, tx, now); err != nil {
			return err
		}
		return s.f.emit(ctx, tx, atoll.Event{
			Time: s.f.now(), Type: "sandbox.network", Owner: r.owner, Object: r.id, Name: r.name, Message: networkText(next.Network),
		})
	})
	return err
}

// mayReach refuses rules that reach further into the host's network than those
// of now, unless the caller could have created such a sandbox.
func (s *Sandbox) mayReach(now, next *atoll.Network) error {
	for _, entry := range next.Allow {
		one := atoll.Network{Allow: []string{entry}}
		if one.Private() == "" || slices.Contains(now.Allow, entry) || s.a.caller.can(atoll.ScopeHost) {
			continue
		}
		return fmt.Errorf("%w: network allow %s reaches this host or its network: that needs the scope %q", atoll.ErrDenied, entry, atoll.ScopeHost)
	}
	return nil
}

// Network returns the rules of the sandbox's network, as they may be shown.
func (s *Sandbox) Network(ctx context.Context) (atoll.Network, error) {
	info, err := s.Info(ctx)
	return info.Config.Network, err
}

// Connections returns what was tried to reach from inside, oldest first.
func (s *Sandbox) Connections(ctx context.Context) (list []atoll.Connection, err error) {
	err = with(ctx, s, "network log", func(ctx context.Context, g atoll.Gated) (err error) {
		list, err = g.Connections(ctx)
		return err
	})
	m := s.mask(nil)
	for i := range list {
		c := &list[i]
		c.Host, c.Path, c.Reason = m.text(c.Host), m.text(c.Path), m.text(c.Reason)
	}
	return list, err
}

// AskNetwork says what the rules say of a target.
func (s *Sandbox) AskNetwork(ctx context.Context, target string) (c atoll.Connection, err error) {
	err = with(ctx, s, "network test", func(ctx context.Context, g atoll.Gated) (err error) {
		c, err = g.AskNetwork(ctx, target)
		return err
	})
	return c, err
}

// enforce puts the rules that the registry has into force, of a sandbox that was
// just started: they may have been changed while its driver did not know.
func (f *Fleet) enforce(ctx context.Context, b *box, sb atoll.Sandbox) error {
	g, ok := atoll.As[atoll.Gated](sb)
	if !ok {
		return nil
	}
	cfg := b.known().cfg
	err := g.SetNetwork(ctx, networkOf(&cfg))
	if reflect.ValueOf(cfg.Network).IsZero() && (errors.Is(err, atoll.ErrUnsupported) || errors.Is(err, atoll.ErrUnavailable)) {
		return nil // there is no way out that rules could be for
	}
	return err
}

// checkNetwork reports headers that refer to secrets that there are not.
func checkNetwork(cfg *atoll.Config) error {
	var errs []error
	for i, h := range cfg.Network.Headers {
		for _, name := range references(h.Value) {
			if _, ok := cfg.Secrets[name]; !ok {
				field := fmt.Sprintf("network.headers[%d].value", i)
				errs = append(errs, &atoll.FieldError{Field: field, Err: fmt.Errorf("%w: %s: there is no secret %s", atoll.ErrInvalid, field, name)})
			}
		}
	}
	return errors.Join(errs...)
}

// networkOf returns the rules as the driver gets them: headers with the values
// of the secrets that they refer to.
func networkOf(cfg *atoll.Config) atoll.Network {
	n := cfg.Network
	n.Headers = slices.Clone(n.Headers)
	for i := range n.Headers {
		n.Headers[i].Value = resolve(n.Headers[i].Value, cfg.Secrets)
	}
	return n
}

// resolve puts secrets in the place of "${NAME}".
func resolve(value string, secrets map[string]string) string {
	var b strings.Builder
	eachPart(value, func(text, name string) {
		v, ok := secrets[name]
		if name != "" && !ok {
			text = "${" + name + "}"
		}
		b.WriteString(text)
		b.WriteString(v)
	})
	return b.String()
}

// references returns the names of the secrets that a value refers to.
func references(value string) []string {
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

// gated returns the names of the secrets that only the gate gets: headers refer
// to them.
func gated(cfg *atoll.Config) map[string]bool {
	names := make(map[string]bool)
	for _, h := range cfg.Network.Headers {
		for _, name := range references(h.Value) {
			names[name] = true
		}
	}
	return names
}

// headerSecrets returns what of the values of headers is to be hidden in texts.
func headerSecrets(cfg *atoll.Config) []string {
	var values []string
	for _, h := range networkOf(cfg).Headers {
		values = append(values, h.Value)
		if _, credential, ok := strings.Cut(h.Value, " "); ok { // "Bearer …"
			values = append(values, credential)
		}
	}
	return values
}

// shownNetwork returns rules as they may be shown: without the values of
// headers.
func shownNetwork(n atoll.Network) atoll.Network {
	n.Headers = slices.Clone(n.Headers)
	for i := range n.Headers {
		n.Headers[i].Value = hidden
	}
	return n
}

// networkText is rules in a line, for the audit.
func networkText(n atoll.Network) string {
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

// changeText is a change in a line, for the audit.
func changeText(c wire.NetworkChange) string {
	text := networkText(atoll.Network{Allow: c.Allow, Deny: c.Deny})
	if len(c.Remove) > 0 {
		text += "; remove " + strings.Join(c.Remove, " ")
	}
	return strings.TrimPrefix(text, "no rules; ")
}
