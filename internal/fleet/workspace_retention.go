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
	"github.com/atoll-sandbox/atoll/internal/fleet/registry"
	"github.com/atoll-sandbox/atoll/internal/fleet/workspace"
)

// The retention defaults.
const (
	defaultKeep = 7 * 24 * time.Hour
	defaultCron = "0 3 * * *"
)

// parseSchedule parses the cron expression.
func (r *Retention) parseSchedule() (cron.Schedule, error) {
	text := r.Cron
	if text == "" {
		text = defaultCron
	}
	bad := func(why error) error {
		return fmt.Errorf("%w: retention: cron %q: %w; it must be minute, hour, day of month, month and day of week, such as %q", atoll.ErrInvalid, text, why, defaultCron)
	}
	if strings.Contains(text, "=") {
		return nil, bad(errors.New("the time zone is always that of this host"))
	}
	s, err := cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow).Parse(text)
	if err != nil {
		return nil, bad(err)
	}
	if s.Next(time.Now()).IsZero() {
		return nil, bad(errors.New("it matches no day"))
	}
	return s, nil
}

// workspaceExpiry returns when retention may remove an unmounted workspace; zero for never.
func (f *Fleet) workspaceExpiry(w *workspaceRow) time.Time {
	keep := w.keep
	if keep == 0 {
		keep = f.opts.Retention.Keep
	}
	if keep < 0 {
		return time.Time{}
	}
	return w.used.Add(keep + workspaceUsePrecision)
}

// PruneOptions configure Prune.
type PruneOptions struct {
	DryRun    bool
	AllOwners bool // needs ScopeOperate
}

// Prune removes the expired workspaces, or with DryRun only returns them. AllOwners needs
// ScopeOperate.
func (a *Account) Prune(ctx context.Context, p PruneOptions) (atoll.PruneResult, error) {
	const op = "workspace prune"
	scope := atoll.ScopeRun
	if p.DryRun {
		scope = atoll.ScopeRead
	}
	if p.AllOwners {
		scope = atoll.ScopeOperate
	}
	if err := a.checkScope(op, scope); err != nil {
		return atoll.PruneResult{}, err
	}
	where, args := "app = ? and user = ?", []any{a.caller.Owner.App, a.caller.Owner.User}
	if p.AllOwners {
		where, args = "true", nil
	}
	noted := a.startAudit(op, "", "")
	pruned, err := a.f.pruneWorkspaces(ctx, p.DryRun, where, args...)
	if !p.DryRun || err != nil {
		noted(err)
	}
	if err != nil {
		return pruned, &atoll.Error{Op: op, Err: err}
	}
	return pruned, nil
}

// pruneWorkspaces removes the expired workspaces that match a condition, or with dry only returns
// them. Failures are joined into the error after all others were handled.
func (f *Fleet) pruneWorkspaces(ctx context.Context, dry bool, where string, args ...any) (atoll.PruneResult, error) {
	out := atoll.PruneResult{Workspaces: []atoll.Workspace{}, DryRun: dry}
	rows, err := workspaceRows(ctx, f.registry.DB, where+" order by app, user, name", args...)
	if err != nil {
		return out, err
	}
	var errs []error
	for i := range rows {
		if err := context.Cause(ctx); err != nil {
			return out, errors.Join(append(errs, timeoutError(err))...)
		}
		if !f.isExpired(&rows[i]) {
			continue
		}
		w, err := f.completeWorkspace(ctx, &rows[i], time.Now().Add(workspace.MeasureTimeout))
		if err == nil && len(w.Sandboxes) > 0 {
			continue
		}
		ok := dry
		if err == nil && !dry {
			ok, err = f.removeWorkspace(ctx, rows[i].Key, "not used since "+rows[i].used.Format(time.RFC3339), f.isExpired)
		}
		switch {
		case errors.Is(err, atoll.ErrState), errors.Is(err, atoll.ErrNotFound): // it was mounted or removed meanwhile
		case err != nil:
			errs = append(errs, fmt.Errorf("workspace %s of %s: %w", w.Name, w.Owner, err))
		case ok:
			out.Workspaces = append(out.Workspaces, w)
			out.Bytes += w.Bytes
		}
	}
	return out, errors.Join(errs...)
}

// isExpired reports whether a workspace may be removed.
func (f *Fleet) isExpired(w *workspaceRow) bool {
	e := f.workspaceExpiry(w)
	return !e.IsZero() && !f.now().Before(e)
}

// retentionRun is the name of the retention in the table runs.
const retentionRun = "retention"

// maxRetentionSleep bounds the sleep of the retention, so that a suspended host or a changed clock
// is noticed.
const maxRetentionSleep = 10 * time.Minute

// runRetention prunes workspaces on the fleet's cron schedule until ctx is done. A run that was
// missed is made up for at the start.
func (f *Fleet) runRetention(ctx context.Context) error {
	table, err := f.opts.Retention.parseSchedule()
	if err != nil {
		return err
	}
	if err := f.tidyWorkspaces(ctx); err != nil && ctx.Err() == nil {
		f.log.Error("tidy workspaces", "error", err)
	}
	last, err := f.lastRun(ctx)
	if err != nil {
		return err
	}
	for {
		now := f.now()
		next := table.Next(last.Local()) // cron uses the time zone of its argument
		if !next.After(now) {
			f.runRetentionOnce(ctx)
			if err := f.noteRun(ctx, now); err != nil {
				return err
			}
			last = now
			continue
		}
		nap := time.NewTimer(min(next.Sub(now), maxRetentionSleep))
		select {
		case <-nap.C:
		case <-ctx.Done():
			nap.Stop()
			return nil
		}
	}
}

// runRetentionOnce prunes all workspaces once, with an audit entry.
func (f *Fleet) runRetentionOnce(ctx context.Context) {
	start := f.now()
	pruned, err := f.pruneWorkspaces(ctx, false, "true")
	if err != nil {
		f.log.Error("prune workspaces", "error", err)
	}
	f.log.Info("retention", "removed", len(pruned.Workspaces), "bytes", pruned.Bytes)
	detail := make([]string, len(pruned.Workspaces))
	for i, w := range pruned.Workspaces {
		detail[i] = w.Owner.String() + " " + w.Name
	}
	f.recordAudit(atoll.Audit{
		Time: start, Owner: fleetOwner, Action: "workspace prune", Detail: strings.Join(detail, ", "),
		Outcome: outcomeName(err), Duration: f.now().Sub(start),
	})
	if err := f.tidyWorkspaces(ctx); err != nil && ctx.Err() == nil {
		f.log.Error("tidy workspaces", "error", err)
	}
}

// lastRun returns when the retention last ran. The first call records the present time.
func (f *Fleet) lastRun(ctx context.Context) (time.Time, error) {
	var at int64
	err := f.registry.DB.QueryRowContext(ctx, "select time from runs where name = ?", retentionRun).Scan(&at)
	if errors.Is(err, sql.ErrNoRows) {
		now := f.now()
		return now, f.noteRun(ctx, now)
	}
	return registry.Time(at), err
}

func (f *Fleet) noteRun(ctx context.Context, at time.Time) error {
	return f.registry.Write(context.WithoutCancel(ctx), func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "insert into runs (name, time) values (?, ?) on conflict (name) do update set time = excluded.time", retentionRun, registry.Timestamp(at))
		return err
	})
}

// tidyWorkspaces cleans up after processes that died: directories being removed are restored if
// the registry still has the workspace, or deleted; staged files are deleted; unregistered
// directories are registered, or deleted if they are empty.
func (f *Fleet) tidyWorkspaces(ctx context.Context) error {
	errs := []error{f.sweepStaging(ctx, workspace.RemovedDir), f.sweepStaging(ctx, workspace.IncomingDir)}
	errs = append(errs, f.workspaces.ForEach(func(p workspace.Key) error {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		_, err := queryWorkspace(ctx, f.registry.DB, p)
		if !errors.Is(err, atoll.ErrNotFound) {
			return err
		}
		return f.adoptWorkspace(ctx, p)
	}))
	return errors.Join(errs...)
}

// tidyTimeout bounds the cleaning up when a fleet is opened.
const tidyTimeout = 200 * time.Millisecond

// tidyAbandoned does the part of tidyWorkspaces that costs nothing when nothing is left.
func (f *Fleet) tidyAbandoned(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(f.opts.tidyTimeout, tidyTimeout))
	defer cancel()
	if err := errors.Join(f.sweepStaging(ctx, workspace.RemovedDir), f.sweepStaging(ctx, workspace.IncomingDir)); err != nil && ctx.Err() == nil {
		f.log.Error("tidy workspaces", "error", err)
	}
}

// sweepStaging handles the staging directories that processes that died have left.
func (f *Fleet) sweepStaging(ctx context.Context, in string) error {
	dirs, err := f.workspaces.AbandonedStagings(in)
	errs := []error{err}
	for _, d := range dirs {
		errs = append(errs, f.sweepStagingDir(ctx, in, d))
	}
	return errors.Join(errs...)
}

func (f *Fleet) sweepStagingDir(ctx context.Context, in string, d *workspace.Staging) error {
	if in == workspace.RemovedDir {
		p, ok, err := d.RemovedKey()
		if err == nil && ok {
			err = f.registry.Write(ctx, func(tx *sql.Tx) error {
				if _, err := queryWorkspace(ctx, tx, p); err != nil {
					return err
				}
				if there, err := f.workspaces.Exists(p); there || err != nil {
					return err
				}
				return d.PutBack(p) // its removal was never committed
			})
		}
		if err != nil && !errors.Is(err, atoll.ErrNotFound) {
			return errors.Join(err, d.Release())
		}
	}
	return d.Remove(ctx)
}

// adoptWorkspace registers a directory that the registry does not know.
func (f *Fleet) adoptWorkspace(ctx context.Context, p workspace.Key) error {
	return f.registry.Write(ctx, func(tx *sql.Tx) error {
		if _, err := queryWorkspace(ctx, tx, p); !errors.Is(err, atoll.ErrNotFound) {
			return err
		}
		if f.workspaces.Root.Remove(p.Path()) == nil {
			return nil // it was empty
		}
		f.log.Warn("unregistered workspace adopted", "owner", p.Owner.String(), "name", p.Name)
		return f.insertWorkspace(ctx, tx, workspaceRow{Key: p, created: f.now(), used: f.now()})
	})
}
