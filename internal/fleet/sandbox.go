package fleet

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"

	"github.com/atoll-sandbox/atoll"
)

// Change is a change of a sandbox's name, labels or lifecycle.
type Change = atoll.Change

// DriverInfo is a driver with its features on this host.
type DriverInfo = atoll.DriverInfo

// describeSandbox returns everything that the registry and this process know about a sandbox.
func (f *Fleet) describeSandbox(ctx context.Context, r *row) atoll.Info {
	info := atoll.Info{Owner: r.owner, Config: f.redactedConfig(r), Started: r.started}
	if b := f.findHandle(r.id); b != nil {
		info.Commands = int(b.commands.Load())
		if t := b.lastActive(f.now()); t.After(r.active) {
			r.active = t
		}
	}
	if b := f.findDriver(r.driver); b != nil {
		info.Features, _ = b.probe(ctx) // after an error it has none
		info.Features.Stop = canStop(r.cfg.Pod, info.Features.Stop)
		info.Features.Archive = info.Features.Archive && info.Features.Stop
	}
	info.Status = r.buildStatus()
	info.Isolation = info.Features.Isolation
	if b := f.findDriver(r.driver); b != nil {
		if n, ok := b.impl.(atoll.IsolationNamer); ok {
			info.Isolation = cmp.Or(n.NameIsolation(r.cfg.Runtime, r.owner), info.Isolation)
		}
	}
	if what, at := r.nextExpiry(); r.state != atoll.Destroyed && what != expireRetry {
		info.Expires = at
	}
	return info
}

// canStop reports whether a sandbox can be stopped, given its pod settings and the usual ability
// of its driver.
func canStop(p *atoll.Pod, usual bool) bool {
	if p == nil || p.StorageClass == "" && p.Template == "" {
		return usual
	}
	return p.Template != "" || p.StorageClass != "none" && p.StorageClass != "memory"
}

// buildStatus returns the status of a sandbox as the registry records it.
func (r *row) buildStatus() atoll.Status {
	ready := atoll.Condition{Type: "ready", True: r.state == atoll.Running && r.goal == "", Reason: string(r.state), Since: r.changed}
	switch {
	case r.reason != "":
		ready.Reason, ready.Message = r.reason, r.message
	case r.state == atoll.Stopped:
		ready.Message = "start it first"
	case r.state == atoll.Archived:
		ready.Message = "its files are in the archive storage; start or use it to bring it back"
	case r.state == atoll.Paused:
		ready.Message = "resume it first"
	}
	return atoll.Status{
		ID: r.id, Name: r.name, Driver: r.driver, State: r.state, Conditions: []atoll.Condition{ready}, Labels: r.cfg.Labels,
		Created: r.created, Active: r.active,
	}
}

// Info returns the recorded description of the sandbox. The driver is not asked.
func (s *Sandbox) Info(ctx context.Context) (atoll.Info, error) {
	if err := s.checkAccess("info", atoll.ScopeRead); err != nil {
		return atoll.Info{}, err
	}
	r, err := s.f.loadRow(ctx, s.b.id)
	if err == nil && r.state == atoll.Destroyed {
		err = errDestroyed
	}
	if err != nil {
		return atoll.Info{}, s.wrapError("info", err)
	}
	s.f.updateHandle(r)
	return s.f.describeSandbox(ctx, &r), nil
}

// Status returns the present status. Unless the sandbox is being changed, the driver is asked, and
// the registry updated if it reports another state.
func (s *Sandbox) Status(ctx context.Context) (atoll.Status, error) {
	if err := s.checkAccess("status", atoll.ScopeRead); err != nil {
		return atoll.Status{}, err
	}
	st, err := s.queryStatus(ctx)
	return st, s.wrapError("status", err)
}

func (s *Sandbox) queryStatus(ctx context.Context) (atoll.Status, error) {
	r, err := s.f.loadRow(ctx, s.b.id)
	if err == nil && r.state == atoll.Destroyed {
		err = errDestroyed
	}
	if err != nil {
		return atoll.Status{}, err
	}
	s.f.updateHandle(r)
	var facts atoll.Status
	if r.goal == "" && r.state != atoll.Failed && r.state != atoll.Archived {
		var sb atoll.Sandbox
		if sb, err = s.b.openInner(ctx); err == nil {
			facts, err = sb.Status(ctx)
		}
		if to, _, _ := stateFromStatus(facts); errors.Is(err, atoll.ErrNotFound) || err == nil && to != r.state {
			if err = s.f.reconcileRow(ctx, r, nil); err == nil {
				r, err = s.f.loadRow(ctx, s.b.id)
			}
		}
	}
	if err != nil {
		return atoll.Status{}, err
	}
	info := s.f.describeSandbox(ctx, &r)
	if facts.Active.After(info.Active) {
		info.Active = facts.Active
	}
	return info.Status, nil
}

// Update changes the name, labels, lifecycle or public ports of a sandbox.
func (a *Account) Update(ctx context.Context, key string, c Change) (atoll.Info, error) {
	if err := a.checkScope("update", atoll.ScopeRun); err != nil {
		return atoll.Info{}, err
	}
	r, err := a.findSandbox(ctx, key)
	if err != nil {
		return atoll.Info{}, &atoll.Error{Op: "update", ID: key, Err: err}
	}
	if err := a.checkClosed("update", r); err != nil {
		return atoll.Info{}, err
	}
	if c.Labels != nil {
		if err := a.checkReservedLabels("update", c.Labels, r.cfg.Labels); err != nil {
			return atoll.Info{}, wrapOpError("update", r.id, err)
		}
	}
	noted := a.startAudit("update", r.id, "")
	r, err = a.f.updateSandbox(ctx, r.id, c)
	noted(err)
	if err != nil {
		return atoll.Info{}, wrapOpError("update", r.id, err)
	}
	return a.f.describeSandbox(ctx, &r), nil
}

func (f *Fleet) updateSandbox(ctx context.Context, id string, c Change) (row, error) {
	return f.changeRow(ctx, id, func(tx *sql.Tx, r *row) error {
		if r.state == atoll.Destroyed {
			return errDestroyed
		}
		cfg := r.cfg
		if c.Name != nil {
			cfg.Name = *c.Name
		}
		if c.Labels != nil {
			cfg.Labels = c.Labels
		}
		if c.Lifecycle != nil {
			cfg.Lifecycle = *c.Lifecycle
			if err := f.checkArchiveTime(f.findDriver(r.driver), cfg.Lifecycle); err != nil {
				return err
			}
			f.bindToProcess(r, cfg.Lifecycle.Policy)
		}
		if c.PublicPorts != nil {
			cfg.PublicPorts = *c.PublicPorts
		}
		if err := cfg.Check(); err != nil {
			return err
		}
		if err := f.checkNameFree(ctx, tx, r.owner, cfg.Name, id); err != nil {
			return err
		}
		r.name, r.cfg = cfg.Name, cfg
		if err := f.saveRow(ctx, tx, r); err != nil {
			return err
		}
		return f.events.Emit(ctx, tx, atoll.Event{Time: f.now(), Type: "sandbox.updated", Owner: r.owner, Object: id, Name: r.name})
	})
}

// bindToProcess binds a sandbox to this process, with which it ends, or releases it, as the policy
// demands. A sandbox in a process's memory stays bound.
func (f *Fleet) bindToProcess(r *row, p atoll.Policy) {
	if b := f.findDriver(r.driver); b == nil {
		return
	} else if ft, ok := b.cachedFeatures(); !ok || !ft.Persist {
		return
	}
	switch {
	case p != atoll.PolicyOneshot:
		r.process = ""
	case r.process == "":
		r.process = f.member.ID()
	}
}

// checkNameFree refuses a name that another sandbox of the owner has. It runs in the transaction
// that assigns the name.
func (f *Fleet) checkNameFree(ctx context.Context, tx *sql.Tx, o atoll.Owner, name, but string) error {
	if name == "" {
		return nil
	}
	var id string
	err := tx.QueryRowContext(ctx, "select id from sandboxes where app = ? and user = ? and name = ? and state <> 'destroyed' and pool = '' and id <> ?",
		o.App, o.User, name, but).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	return fmt.Errorf("name %q: %w: sandbox %s has it", name, atoll.ErrExists, id)
}

// missingSandbox takes the place of a sandbox that its driver does not have.
type missingSandbox struct{ id string }

func (a missingSandbox) ID() string { return a.id }

func (a missingSandbox) Status(context.Context) (atoll.Status, error) {
	return atoll.Status{}, errDestroyed
}

func (a missingSandbox) Exec(context.Context, atoll.Cmd) (atoll.Exit, error) {
	return atoll.Exit{}, errDestroyed
}

func (a missingSandbox) Import(context.Context, string, io.Reader) error { return errDestroyed }

func (a missingSandbox) Export(context.Context, string) (io.ReadCloser, error) {
	return nil, errDestroyed
}

func (a missingSandbox) Destroy(context.Context) error { return nil }

// Sandbox is a sandbox of the fleet as one caller may use it. It enforces states, quotas and
// scopes, and records commands and the audit. Its methods may be called concurrently.
type Sandbox struct {
	a *Account
	f *Fleet
	b *handle

	madeForTurn bool // this value belongs to the turn that the sandbox was made for
}
