package fleet

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/atoll-sandbox/atoll"
)

// The retention of a fleet that says nothing.
const (
	defaultKeep = 7 * 24 * time.Hour
	defaultCron = "0 3 * * *"
)

// timetable reads the cron expression of a retention.
func (r *Retention) timetable() (cron.Schedule, error) {
	text := r.Cron
	if text == "" {
		text = defaultCron
	}
	bad := func(why error) error {
		return fmt.Errorf("%w: retention: cron %q: %w; it must be minute, hour, day of month, month and day of week, such as %q", atoll.ErrInvalid, text, why, defaultCron)
	}
	if strings.Contains(text, "=") {
		return nil, bad(errors.New("it is in the time zone of this machine"))
	}
	s, err := cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow).Parse(text)
	if err != nil {
		return nil, bad(err)
	}
	if s.Next(time.Now()).IsZero() {
		return nil, bad(errors.New("no day is such a day"))
	}
	return s, nil
}

// expiry returns when retention may remove a workspace that no sandbox mounts;
// zero for never.
func (f *Fleet) expiry(w *workspaceRow) time.Time {
	keep := w.keep
	if keep == 0 {
		keep = f.opts.Retention.Keep
	}
	if keep == 0 {
		keep = defaultKeep
	}
	if keep < 0 {
		return time.Time{}
	}
	return w.used.Add(keep + useExact)
}

// PruneOptions say what to prune.
type PruneOptions struct {
	DryRun    bool
	AllOwners bool // needs ScopeAdmin
}

// Prune removes the workspaces whose time is over; with dry it only says which.
// Those of all owners need ScopeAdmin.
func (a *Account) Prune(ctx context.Context, p PruneOptions) (atoll.Pruned, error) {
	const op = "workspace prune"
	scope := atoll.ScopeRun
	if p.DryRun {
		scope = atoll.ScopeRead
	}
	if p.AllOwners {
		scope = atoll.ScopeAdmin
	}
	if err := a.need(op, scope); err != nil {
		return atoll.Pruned{}, err
	}
	where, args := "app = ? and user = ?", []any{a.caller.Owner.App, a.caller.Owner.User}
	if p.AllOwners {
		where, args = "true", nil
	}
	noted := a.audited(op, "", "")
	pruned, err := a.f.prune(ctx, p.DryRun, where, args...)
	if !p.DryRun || err != nil {
		noted(err)
	}
	if err != nil {
		return pruned, &atoll.Error{Op: op, Err: err}
	}
	return pruned, nil
}

// prune removes the workspaces whose time is over among those that a condition
// names, or says which it would. What it could not remove it returns as an error,
// after all others.
func (f *Fleet) prune(ctx context.Context, dry bool, where string, args ...any) (atoll.Pruned, error) {
	out := atoll.Pruned{Workspaces: []atoll.Workspace{}, DryRun: dry}
	rows, err := workspaceRows(ctx, f.store.db, where+" order by app, user, name", args...)
	if err != nil {
		return out, err
	}
	var errs []error
	for i := range rows {
		if err := context.Cause(ctx); err != nil {
			return out, errors.Join(append(errs, late(err))...)
		}
		if !f.timeUp(&rows[i]) {
			continue
		}
		w, err := f.full(ctx, &rows[i], time.Now().Add(countTime))
		if err == nil && len(w.Sandboxes) > 0 {
			continue
		}
		ok := dry
		if err == nil && !dry {
			ok, err = f.removeWorkspace(ctx, rows[i].place, "not used since "+rows[i].used.Format(time.RFC3339), f.timeUp)
		}
		switch {
		case errors.Is(err, atoll.ErrState), errors.Is(err, atoll.ErrNotFound): // somebody was quicker
		case err != nil:
			errs = append(errs, fmt.Errorf("workspace %s of %s: %w", w.Name, w.Owner, err))
		case ok:
			out.Workspaces = append(out.Workspaces, w)
			out.Bytes += w.Bytes
		}
	}
	return out, errors.Join(errs...)
}

// timeUp reports whether a workspace's time is over.
func (f *Fleet) timeUp(w *workspaceRow) bool {
	e := f.expiry(w)
	return !e.IsZero() && !f.now().Before(e)
}

// retentionRun is the retention's name in the table of runs.
const retentionRun = "retention"

// longestNap is how long retain sleeps at most: a machine that was suspended, or
// whose clock was set, is noticed.
const longestNap = 10 * time.Minute

// retain removes workspaces whose time is over, when the fleet's cron expression
// says so, until ctx is done. A run that was missed while nobody looked is made
// up for at the start.
func (f *Fleet) retain(ctx context.Context) error {
	table, err := f.opts.Retention.timetable()
	if err != nil {
		return err
	}
	if err := f.tidyShelf(ctx); err != nil && ctx.Err() == nil {
		f.log.Error("workspaces not put in order", "error", err)
	}
	last, err := f.lastRun(ctx)
	if err != nil {
		return err
	}
	for {
		now := f.now()
		next := table.Next(last.Local()) // cron looks at the time's own zone
		if !next.After(now) {
			f.retainOnce(ctx)
			if err := f.noteRun(ctx, now); err != nil {
				return err
			}
			last = now
			continue
		}
		nap := time.NewTimer(min(next.Sub(now), longestNap))
		select {
		case <-nap.C:
		case <-ctx.Done():
			nap.Stop()
			return nil
		}
	}
}

// retainOnce is one run of the retention.
func (f *Fleet) retainOnce(ctx context.Context) {
	start := f.now()
	pruned, err := f.prune(ctx, false, "true")
	if err != nil {
		f.log.Error("workspaces not removed", "error", err)
	}
	f.log.Info("retention", "removed", len(pruned.Workspaces), "bytes", pruned.Bytes)
	detail := make([]string, len(pruned.Workspaces))
	for i, w := range pruned.Workspaces {
		detail[i] = w.Owner.String() + " " + w.Name
	}
	f.note(atoll.Audit{
		Time: start, Owner: fleetOwner, Action: "workspace prune", Detail: strings.Join(detail, ", "),
		Outcome: outcomeOf(err), Duration: f.now().Sub(start),
	})
	if err := f.tidyShelf(ctx); err != nil && ctx.Err() == nil {
		f.log.Error("workspaces not put in order", "error", err)
	}
}

// lastRun returns when the retention last ran. One that never did begins now.
func (f *Fleet) lastRun(ctx context.Context) (time.Time, error) {
	var at int64
	err := f.store.db.QueryRowContext(ctx, "select time from runs where name = ?", retentionRun).Scan(&at)
	if errors.Is(err, sql.ErrNoRows) {
		now := f.now()
		return now, f.noteRun(ctx, now)
	}
	return when(at), err
}

func (f *Fleet) noteRun(ctx context.Context, at time.Time) error {
	return f.store.write(context.WithoutCancel(ctx), func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "insert into runs (name, time) values (?, ?) on conflict (name) do update set time = excluded.time", retentionRun, stamp(at))
		return err
	})
}

// tidyShelf settles what processes that died have left of workspaces: what was
// being removed is put back, if the registry still has it, or deleted; what was
// being written is deleted; a directory that the registry does not know is
// entered, or deleted if there is nothing in it.
func (f *Fleet) tidyShelf(ctx context.Context) error {
	errs := []error{f.sweep(ctx, goneDir), f.sweep(ctx, newDir)}
	errs = append(errs, f.shelf.each(func(p place) error {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		_, err := lookUp(ctx, f.store.db, p)
		if !errors.Is(err, atoll.ErrNotFound) {
			return err
		}
		return f.adoptWorkspace(ctx, p)
	}))
	return errors.Join(errs...)
}

// settleTime is how long opening a fleet may take for what is left of others.
const settleTime = 200 * time.Millisecond

// settleShelf does the part of tidyShelf that costs nothing when nothing is left.
func (f *Fleet) settleShelf(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(f.opts.settle, settleTime))
	defer cancel()
	if err := errors.Join(f.sweep(ctx, goneDir), f.sweep(ctx, newDir)); err != nil && ctx.Err() == nil {
		f.log.Error("workspaces not put in order", "error", err)
	}
}

// sweep settles what processes that died have left in .new or .gone.
func (f *Fleet) sweep(ctx context.Context, in string) error {
	desks, err := f.shelf.left(in)
	errs := []error{err}
	for _, d := range desks {
		errs = append(errs, f.sweepOne(ctx, in, d))
	}
	return errors.Join(errs...)
}

func (f *Fleet) sweepOne(ctx context.Context, in string, d *desk) error {
	if in == goneDir {
		p, ok, err := d.find()
		if err == nil && ok {
			err = f.store.write(ctx, func(tx *sql.Tx) error {
				if _, err := lookUp(ctx, tx, p); err != nil {
					return err
				}
				if there, err := f.shelf.has(p); there || err != nil {
					return err
				}
				return d.putBack(p) // its removal was never written down
			})
		}
		if err != nil && !errors.Is(err, atoll.ErrNotFound) {
			return errors.Join(err, d.leave())
		}
	}
	return d.clear(ctx)
}

// adoptWorkspace enters a workspace that the registry does not know.
func (f *Fleet) adoptWorkspace(ctx context.Context, p place) error {
	return f.store.write(ctx, func(tx *sql.Tx) error {
		if _, err := lookUp(ctx, tx, p); !errors.Is(err, atoll.ErrNotFound) {
			return err
		}
		if f.shelf.root.Remove(p.path()) == nil {
			return nil // it was empty
		}
		f.log.Warn("workspace found that the registry did not know", "owner", p.owner.String(), "name", p.name)
		return f.enterWorkspace(ctx, tx, workspaceRow{place: p, created: f.now(), used: f.now()})
	})
}
