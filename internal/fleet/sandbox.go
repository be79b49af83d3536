package fleet

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/atoll-sandbox/atoll"
)

// Filter says which sandboxes to list. The zero Filter means all that are not
// destroyed.
type Filter struct {
	States    []atoll.State
	Labels    map[string]string
	Name      string
	All       bool // destroyed ones too, as long as they are remembered
	AllOwners bool // needs ScopeAdmin
}

// Change is what can be changed of a sandbox later.
type Change = atoll.Change

// DriverInfo is a driver and what it does on this machine.
type DriverInfo = atoll.DriverInfo

// List returns sandboxes, oldest first.
func (a *Account) List(ctx context.Context, filter Filter) ([]atoll.Info, error) {
	scope := atoll.ScopeRead
	if filter.AllOwners {
		scope = atoll.ScopeAdmin
	}
	if err := a.need("list", scope); err != nil {
		return nil, err
	}
	if err := filter.check(); err != nil {
		return nil, &atoll.Error{Op: "list", Err: err}
	}
	a.f.patrol(ctx)
	where, args := filter.where(a.caller.Owner)
	rows, err := allRows(ctx, a.f.store.db, where+" order by created, id", args...)
	if err != nil {
		return nil, &atoll.Error{Op: "list", Err: err}
	}
	infos := make([]atoll.Info, 0, len(rows))
	for i := range rows {
		if filter.matches(rows[i].cfg.Labels) {
			infos = append(infos, a.f.info(ctx, &rows[i]))
		}
	}
	return infos, nil
}

func (f *Filter) check() error {
	var errs []error
	for i, s := range f.States {
		if !slices.Contains(states, s) {
			errs = append(errs, fmt.Errorf("%w: states[%d] %q: must be one of %s", atoll.ErrInvalid, i, s, enumerate(states)))
		}
	}
	return errors.Join(errs...)
}

// where returns the condition of a filter, but for labels.
func (f *Filter) where(o atoll.Owner) (string, []any) {
	conds, args := []string{"pool = ''"}, []any(nil)
	add := func(cond string, a ...any) { conds, args = append(conds, cond), append(args, a...) }
	if !f.AllOwners {
		add("app = ? and user = ?", o.App, o.User)
	}
	if f.Name != "" {
		add("name = ?", f.Name)
	}
	if len(f.States) > 0 {
		marks := make([]string, len(f.States))
		for i, s := range f.States {
			marks[i] = "?"
			args = append(args, s)
		}
		conds = append(conds, "state in ("+strings.Join(marks, ", ")+")")
	} else if !f.All {
		add("state <> 'destroyed'")
	}
	return strings.Join(conds, " and "), args
}

func (f *Filter) matches(labels map[string]string) bool {
	for k, v := range f.Labels {
		if have, ok := labels[k]; !ok || have != v {
			return false
		}
	}
	return true
}

// info is all about a sandbox that the registry and this process know.
func (f *Fleet) info(ctx context.Context, r *row) atoll.Info {
	info := atoll.Info{Owner: r.owner, Config: f.shown(r), Started: r.started}
	if b := f.lookup(r.id); b != nil {
		info.Commands = int(b.commands.Load())
		if t := b.lastActive(f.now()); t.After(r.active) {
			r.active = t
		}
	}
	if b := f.bay(r.driver); b != nil {
		info.Features, _ = b.probe(ctx) // one that can't be asked has none
		info.Features.Stop = stops(r.cfg.Pod, info.Features.Stop)
	}
	info.Status = r.status()
	info.Isolation = info.Features.Isolation
	if what, at := r.fate(); r.state != atoll.Destroyed && what != goesOn {
		info.Expires = at
	}
	return info
}

// stops reports whether a sandbox can be stopped, where its driver's usual ones
// can or can't.
func stops(p *atoll.Pod, usual bool) bool {
	if p == nil || p.StorageClass == "" && p.Template == "" {
		return usual
	}
	return p.Template != "" || p.StorageClass != "none" && p.StorageClass != "memory"
}

// status is what the registry says of a sandbox.
func (r *row) status() atoll.Status {
	ready := atoll.Condition{Type: "ready", True: r.state == atoll.Running && r.goal == "", Reason: string(r.state), Since: r.changed}
	switch {
	case r.reason != "":
		ready.Reason, ready.Message = r.reason, r.message
	case r.state == atoll.Stopped:
		ready.Message = "start it first"
	case r.state == atoll.Paused:
		ready.Message = "resume it first"
	}
	return atoll.Status{
		ID: r.id, Name: r.name, Driver: r.driver, State: r.state, Conditions: []atoll.Condition{ready}, Labels: r.cfg.Labels,
		Created: r.created, Active: r.active,
	}
}

// Info returns all about the sandbox.
func (s *Sandbox) Info(ctx context.Context) (atoll.Info, error) {
	if err := s.need("info", atoll.ScopeRead); err != nil {
		return atoll.Info{}, err
	}
	r, err := s.f.loadRow(ctx, s.b.id)
	if err == nil && r.state == atoll.Destroyed {
		err = errDestroyed
	}
	if err != nil {
		return atoll.Info{}, s.fail("info", err)
	}
	s.f.learn(r)
	return s.f.info(ctx, &r), nil
}

// Status returns the facts of this moment: of a sandbox that nobody is moving,
// what its driver says, which the registry learns if it is news.
func (s *Sandbox) Status(ctx context.Context) (atoll.Status, error) {
	if err := s.need("status", atoll.ScopeRead); err != nil {
		return atoll.Status{}, err
	}
	st, err := s.status(ctx)
	return st, s.fail("status", err)
}

func (s *Sandbox) status(ctx context.Context) (atoll.Status, error) {
	r, err := s.f.loadRow(ctx, s.b.id)
	if err == nil && r.state == atoll.Destroyed {
		err = errDestroyed
	}
	if err != nil {
		return atoll.Status{}, err
	}
	s.f.learn(r)
	var facts atoll.Status
	if r.goal == "" && r.state != atoll.Failed {
		var sb atoll.Sandbox
		if sb, err = s.b.inner(ctx); err == nil {
			facts, err = sb.Status(ctx)
		}
		if to, _, _ := truthOf(facts); errors.Is(err, atoll.ErrNotFound) || err == nil && to != r.state {
			if err = s.f.settleRow(ctx, r, nil); err == nil {
				r, err = s.f.loadRow(ctx, s.b.id)
			}
		}
	}
	if err != nil {
		return atoll.Status{}, err
	}
	info := s.f.info(ctx, &r)
	if facts.Active.After(info.Active) {
		info.Active = facts.Active
	}
	return info.Status, nil
}

// Update changes the name, labels or lifecycle of a sandbox.
func (a *Account) Update(ctx context.Context, key string, c Change) (atoll.Info, error) {
	if err := a.need("update", atoll.ScopeRun); err != nil {
		return atoll.Info{}, err
	}
	r, err := a.find(ctx, key)
	if err != nil {
		return atoll.Info{}, &atoll.Error{Op: "update", ID: key, Err: err}
	}
	if err := a.mayEnter("update", r); err != nil {
		return atoll.Info{}, err
	}
	noted := a.audited("update", r.id, "")
	r, err = a.f.update(ctx, r.id, c)
	noted(err)
	if err != nil {
		return atoll.Info{}, failed("update", r.id, err)
	}
	return a.f.info(ctx, &r), nil
}

func (f *Fleet) update(ctx context.Context, id string, c Change) (row, error) {
	return f.change(ctx, id, func(tx *sql.Tx, r *row) error {
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
			f.bind(r, cfg.Lifecycle.Policy)
		}
		if err := cfg.Check(); err != nil {
			return err
		}
		if err := f.freeOf(ctx, tx, r.owner, cfg.Name, id); err != nil {
			return err
		}
		r.name, r.cfg = cfg.Name, cfg
		if err := f.save(ctx, tx, r); err != nil {
			return err
		}
		return f.emit(ctx, tx, atoll.Event{Time: f.now(), Type: "sandbox.updated", Owner: r.owner, Object: id, Name: r.name})
	})
}

// bind makes a process the one whose end is the sandbox's end, or none, as the
// policy says. What lives in a process's memory stays bound to it.
func (f *Fleet) bind(r *row, p atoll.Policy) {
	if b := f.bay(r.driver); b == nil {
		return
	} else if ft, ok := b.asked(); !ok || !ft.Persist {
		return
	}
	switch {
	case p != atoll.PolicyOneshot:
		r.host = ""
	case r.host == "":
		r.host = f.instance.id
	}
}

// freeOf refuses a name that another sandbox of the owner has. It is asked in
// the transaction that gives the name, so that nobody comes between.
func (f *Fleet) freeOf(ctx context.Context, tx *sql.Tx, o atoll.Owner, name, but string) error {
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

// absent stands for a sandbox that its driver does not have.
type absent struct{ id string }

func (a absent) ID() string { return a.id }

func (a absent) Status(context.Context) (atoll.Status, error) { return atoll.Status{}, errDestroyed }

func (a absent) Exec(context.Context, atoll.Cmd) (atoll.Exit, error) {
	return atoll.Exit{}, errDestroyed
}

func (a absent) Import(context.Context, string, io.Reader) error { return errDestroyed }

func (a absent) Export(context.Context, string) (io.ReadCloser, error) { return nil, errDestroyed }

func (a absent) Destroy(context.Context) error { return nil }
