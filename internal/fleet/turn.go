package fleet

import (
	"context"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/atoll-sandbox/atoll"
)

// Order is a sandbox for a turn: partly as its owner asks for it, partly as
// whoever runs the fleet wants it.
type Order struct {
	Config  atoll.Config  // all of it, but for Program
	Asked   atoll.Config  // what of Config the owner has chosen; his scopes must allow it
	Program []atoll.Mount // of an agent's program, read-only: anybody may see it
}

// CreateFor makes a sandbox for a turn. If it has mounts, networks or secrets
// that its owner did not ask for, it is closed: only what is returned here, and
// who has ScopeHost, may do more with it than look at its state, stop and
// destroy it.
func (a *Account) CreateFor(ctx context.Context, o Order) (*Sandbox, error) {
	if err := a.mayCreate("create", &o.Asked); err != nil {
		return nil, err
	}
	if o.Asked.Driver = o.Config.Driver; o.Asked.Driver == "" {
		o.Asked.Driver = a.f.opts.Default
	}
	if a.f.bay(o.Asked.Driver) != nil { // else there is nothing that could be made
		if err := a.mayUse(ctx, &o.Asked); err != nil {
			return nil, failed("create", o.Config.Name, err)
		}
	}
	host := *a
	host.caller.Scopes = []atoll.Scope{atoll.ScopeRead, atoll.ScopeRun, atoll.ScopeHost}
	r := row{owner: a.caller.Owner, cfg: o.Config, closed: o.exceeds()}
	if carried, err := a.f.carriedFor(ctx, &o); err != nil {
		return nil, failed("create", o.Config.Name, err)
	} else if carried {
		r.bring, o.Program = o.Program, nil
	}
	r.cfg.Mounts = slices.Concat(o.Config.Mounts, o.Program)
	sb, err := host.make(ctx, r)
	if err != nil {
		return nil, err
	}
	sb.a, sb.own = a, true // what is done in it is the caller's again
	return sb, nil
}

// carriedFor reports whether an agent's program has to be copied into the sandbox
// that is ordered.
func (f *Fleet) carriedFor(ctx context.Context, o *Order) (bool, error) {
	if len(o.Program) == 0 {
		return false, nil
	}
	driver := o.Asked.Driver
	if o.Config.Pool != "" {
		all, err := f.fromPool(ctx, o.Config)
		if err != nil {
			return false, nil // making it says what is wrong
		}
		driver = all.Driver
	}
	b := f.bay(driver)
	if b == nil {
		return false, nil // likewise
	}
	ft, err := b.probe(ctx)
	return carries(&ft), err
}

// exceeds reports whether more is ordered than what the owner asked for, of what
// he would need a scope for or is not shown.
func (o *Order) exceeds() bool {
	c, asked := &o.Config, &o.Asked
	private := func(n atoll.Network) bool { return n.Private() != "" || len(n.Headers) > 0 }
	return slices.ContainsFunc(c.Mounts, func(m atoll.Mount) bool { return !slices.Contains(asked.Mounts, m) }) ||
		slices.ContainsFunc(o.Program, func(m atoll.Mount) bool { return !m.ReadOnly }) ||
		c.ID != asked.ID || !reflect.DeepEqual(c.Project, asked.Project) ||
		private(c.Network) && !reflect.DeepEqual(c.Network, asked.Network) ||
		!maps.Equal(c.Secrets, asked.Secrets) ||
		slices.ContainsFunc(c.Env, func(e string) bool {
			name, _, _ := strings.Cut(e, "=")
			return secretName(name) && !slices.Contains(asked.Env, e)
		})
}

// Note begins a call that is not the fleet's own, such as a turn, in the audit;
// the function that it returns notes how the call ended, and is called once.
// Detail must hold no secrets.
func (a *Account) Note(action, object, detail string) func(error) {
	return a.audited(action, object, detail)
}

// Caller returns who uses the fleet.
func (a *Account) Caller() Caller { return a.caller }

// May refuses an operation that the caller has no scope for, with an entry in
// the audit.
func (a *Account) May(op string, s atoll.Scope) error { return a.need(op, s) }
