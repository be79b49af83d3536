package fleet

import (
	"context"
	"database/sql"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/atoll-sandbox/atoll"
)

// TurnSandbox describes a sandbox for a turn: partly the wishes of its owner, partly those of the
// operator.
type TurnSandbox struct {
	Config        atoll.Config  // complete, but for Program
	OwnerConfig   atoll.Config  // the part of Config chosen by the owner, whose scopes must allow it
	ProgramMounts []atoll.Mount // mounts of an agent's programs, read-only; any owner may read them
}

// CreateForTurn creates a sandbox for a turn. If it has mounts, networks or secrets that its owner did
// not ask for, it is closed: except through the returned value, and for callers with ScopeHost,
// only its state can be read, and it can be stopped and destroyed.
func (a *Account) CreateForTurn(ctx context.Context, o TurnSandbox) (*Sandbox, error) {
	if err := a.checkCreate("create", &o.OwnerConfig); err != nil {
		return nil, err
	}
	// A hook or a manifest may have put a value of the request into a secret: the owner needs the right to a reference.
	if err := a.checkReferences(&o.Config); err != nil {
		return nil, wrapOpError("create", o.Config.Name, err)
	}
	if o.OwnerConfig.Driver = o.Config.Driver; o.OwnerConfig.Driver == "" {
		o.OwnerConfig.Driver = a.f.opts.Default
	}
	if a.f.findDriver(o.OwnerConfig.Driver) != nil { // an unknown driver fails below
		if err := a.checkImage(ctx, &o.OwnerConfig); err != nil {
			return nil, wrapOpError("create", o.Config.Name, err)
		}
	}
	host := *a
	host.caller.Scopes = []atoll.Scope{atoll.ScopeRead, atoll.ScopeRun, atoll.ScopeHost}
	r := row{owner: a.caller.Owner, cfg: o.Config, closed: o.exceedsAsked()}
	if copied, err := a.f.copiesProgram(ctx, &o); err != nil {
		return nil, wrapOpError("create", o.Config.Name, err)
	} else if copied {
		r.imports, o.ProgramMounts = o.ProgramMounts, nil
	}
	r.cfg.Mounts = slices.Concat(o.Config.Mounts, o.ProgramMounts)
	sb, err := host.createAudited(ctx, r)
	if err != nil {
		return nil, err
	}
	sb.a, sb.madeForTurn = a, true // calls on it have the caller's rights again
	return sb, nil
}

// OpenForTurn opens a sandbox that CreateForTurn returned to a process that has ended.
func (a *Account) OpenForTurn(ctx context.Context, id string) (*Sandbox, error) {
	sb, err := a.Open(ctx, id)
	if err != nil {
		return nil, err
	}
	sb.madeForTurn = true
	return sb, nil
}

// OutliveProcess makes a sandbox outlive the process that it was created for. Whoever continues or
// ends its turn removes it; its maximum lifetime stays.
func (s *Sandbox) OutliveProcess(ctx context.Context) error {
	_, err := s.f.changeRow(ctx, s.b.id, func(tx *sql.Tx, r *row) error {
		if r.process == "" {
			return nil
		}
		r.process = ""
		return s.f.saveRow(ctx, tx, r)
	})
	return s.wrapError("keep for its turn", err)
}

// copiesProgram reports whether the agent's program has to be copied into the sandbox.
func (f *Fleet) copiesProgram(ctx context.Context, o *TurnSandbox) (bool, error) {
	if len(o.ProgramMounts) == 0 {
		return false, nil
	}
	driver := o.OwnerConfig.Driver
	if o.Config.Pool != "" {
		all, err := f.poolConfig(ctx, o.Config)
		if err != nil {
			return false, nil // createAudited returns the error
		}
		driver = all.Driver
	}
	b := f.findDriver(driver)
	if b == nil {
		return false, nil // createAudited returns the error
	}
	ft, err := b.probe(ctx)
	return copiesWorkspaces(&ft), err
}

// exceedsAsked reports whether the order has more than its owner asked for that needs a scope or
// is secret.
func (o *TurnSandbox) exceedsAsked() bool {
	c, asked := &o.Config, &o.OwnerConfig
	private := func(n atoll.Network) bool { return n.PrivateRule() != "" || len(n.Headers) > 0 }
	return slices.ContainsFunc(c.Mounts, func(m atoll.Mount) bool { return !slices.Contains(asked.Mounts, m) }) ||
		slices.ContainsFunc(o.ProgramMounts, func(m atoll.Mount) bool { return !m.ReadOnly }) ||
		c.ID != asked.ID || !reflect.DeepEqual(c.Project, asked.Project) ||
		private(c.Network) && !reflect.DeepEqual(c.Network, asked.Network) ||
		!maps.Equal(c.Secrets, asked.Secrets) ||
		slices.ContainsFunc(c.Env, func(e string) bool {
			name, _, _ := strings.Cut(e, "=")
			return secretName(name) && !slices.Contains(asked.Env, e)
		})
}

// BeginAudit begins an audited call that is not one of the fleet, such as a turn. The returned function
// records how the call ended and is called exactly once. Detail must hold no secrets.
func (a *Account) BeginAudit(action, object, detail string) func(error) {
	return a.startAudit(action, object, detail)
}

// Caller returns the user of the account.
func (a *Account) Caller() Caller { return a.caller }

// RequireScope refuses, with an audit entry, an operation that the caller has no scope for.
func (a *Account) RequireScope(op string, s atoll.Scope) error { return a.checkScope(op, s) }
