package fleet

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet/registry"
	"github.com/atoll-sandbox/atoll/internal/fleet/workspace"
)

// workspaceUsePrecision is the precision of the recorded last use of a workspace.
const workspaceUsePrecision = time.Minute

// workspaceRow is the registry's row of a workspace.
type workspaceRow struct {
	workspace.Key
	labels        map[string]string
	created, used time.Time
	keep          time.Duration
}

const workspaceColumns = `app, user, name, labels, created, used, keep`

func (w *workspaceRow) scan(from registry.Scanner) error {
	var labels []byte
	var created, used int64
	if err := from.Scan(&w.Owner.App, &w.Owner.User, &w.Name, &labels, &created, &used, &w.keep); err != nil {
		return err
	}
	w.created, w.used = registry.Time(created), registry.Time(used)
	if err := json.Unmarshal(labels, &w.labels); err != nil {
		return fmt.Errorf("registry: labels of workspace %s: %w", w.Name, err)
	}
	return nil
}

// workspaceRows returns the workspaces that match a condition. The condition may end with "order
// by".
func workspaceRows(ctx context.Context, q registry.Querier, where string, args ...any) ([]workspaceRow, error) {
	rows, err := q.QueryContext(ctx, "select "+workspaceColumns+" from workspaces where "+where, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []workspaceRow
	for rows.Next() {
		var w workspaceRow
		if err := w.scan(rows); err != nil {
			return nil, err
		}
		list = append(list, w)
	}
	return list, rows.Err()
}

// queryWorkspace returns the row of a workspace, or ErrNotFound.
func queryWorkspace(ctx context.Context, q registry.Querier, p workspace.Key) (workspaceRow, error) {
	list, err := workspaceRows(ctx, q, "app = ? and user = ? and name = ?", p.Owner.App, p.Owner.User, p.Name)
	if err == nil && len(list) == 0 {
		err = atoll.ErrNotFound
	}
	if err != nil {
		return workspaceRow{}, err
	}
	return list[0], nil
}

// mountingSandboxes returns the sandboxes that mount a workspace, by name or else id.
func mountingSandboxes(ctx context.Context, q registry.Querier, p workspace.Key) ([]string, error) {
	rows, err := q.QueryContext(ctx, `select distinct case s.name when '' then s.id else s.name end from mounts m join sandboxes s on s.id = m.sandbox
		where m.app = ? and m.user = ? and m.workspace = ? and s.state <> 'destroyed' order by 1`, p.Owner.App, p.Owner.User, p.Name)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, err
		}
		list = append(list, name)
	}
	return list, rows.Err()
}

// CreateWorkspace creates a workspace. The name, labels and keep of w are used.
func (a *Account) CreateWorkspace(ctx context.Context, w atoll.Workspace) (atoll.Workspace, error) {
	const op = "workspace create"
	if err := a.checkScope(op, atoll.ScopeRun); err != nil {
		return atoll.Workspace{}, err
	}
	noted := a.startAudit(op, truncate(w.Name, 100), "")
	p := workspace.Key{Owner: a.caller.Owner, Name: w.Name}
	err := a.f.createWorkspace(ctx, p, w.Labels, w.Keep)
	if err == nil {
		w, err = a.f.describeWorkspace(ctx, p)
	}
	noted(err)
	if err != nil {
		return atoll.Workspace{}, &atoll.Error{Op: op, ID: truncate(p.Name, 100), Err: err}
	}
	return w, nil
}

func (f *Fleet) createWorkspace(ctx context.Context, p workspace.Key, labels map[string]string, keep time.Duration) error {
	spec := atoll.Spec{Labels: labels}
	if err := errors.Join(p.Check(), spec.Check()); err != nil {
		return err
	}
	ctx, leave, err := f.beginOperation(ctx)
	if err != nil {
		return err
	}
	defer leave()
	return f.registry.Write(ctx, func(tx *sql.Tx) error {
		_, err := queryWorkspace(ctx, tx, p)
		if err == nil {
			return atoll.ErrExists
		}
		if !errors.Is(err, atoll.ErrNotFound) {
			return err
		}
		return f.addWorkspace(ctx, tx, p, labels, keep)
	})
}

// addWorkspace creates a workspace within its owner's quota.
func (f *Fleet) addWorkspace(ctx context.Context, tx *sql.Tx, p workspace.Key, labels map[string]string, keep time.Duration) error {
	q, err := f.quotaOf(ctx, tx, p.Owner)
	if err != nil {
		return err
	}
	var n int
	if err := tx.QueryRowContext(ctx, "select count(*) from workspaces where app = ? and user = ?", p.Owner.App, p.Owner.User).Scan(&n); err != nil {
		return err
	}
	if q.Workspaces >= 0 && n >= q.Workspaces {
		return fmt.Errorf("%w: %d of %d workspaces exist; remove one", atoll.ErrQuota, n, q.Workspaces)
	}
	if err := f.workspaces.Create(p); err != nil {
		return err
	}
	return f.insertWorkspace(ctx, tx, workspaceRow{Key: p, labels: labels, created: f.now(), used: f.now(), keep: keep})
}

// insertWorkspace inserts a row.
func (f *Fleet) insertWorkspace(ctx context.Context, tx *sql.Tx, w workspaceRow) error {
	if w.labels == nil {
		w.labels = map[string]string{}
	}
	labels, err := json.Marshal(w.labels)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, "insert into workspaces (app, user, name, labels, created, used, keep) values (?, ?, ?, ?, ?, ?, ?)",
		w.Owner.App, w.Owner.User, w.Name, string(labels), registry.Timestamp(w.created), registry.Timestamp(w.used), w.keep)
	if err != nil {
		return err
	}
	return f.events.Emit(ctx, tx, atoll.Event{Time: f.now(), Type: "workspace.created", Owner: w.Owner, Object: w.Name, Name: w.Name})
}

// Workspace describes a workspace.
func (a *Account) Workspace(ctx context.Context, name string) (atoll.Workspace, error) {
	const op = "workspace"
	if err := a.checkScope(op, atoll.ScopeRead); err != nil {
		return atoll.Workspace{}, err
	}
	w, err := a.f.describeWorkspace(ctx, workspace.Key{Owner: a.caller.Owner, Name: name})
	if err != nil {
		return w, &atoll.Error{Op: op, ID: truncate(name, 100), Err: err}
	}
	return w, nil
}

func (f *Fleet) describeWorkspace(ctx context.Context, p workspace.Key) (atoll.Workspace, error) {
	w, err := queryWorkspace(ctx, f.registry.DB, p)
	if err != nil {
		return atoll.Workspace{}, err
	}
	return f.completeWorkspace(ctx, &w, time.Now().Add(workspace.MeasureTimeout))
}

// completeWorkspace adds the mounts, expiry and size to a row. The size is measured as far as
// possible until a time.
func (f *Fleet) completeWorkspace(ctx context.Context, w *workspaceRow, until time.Time) (atoll.Workspace, error) {
	out := atoll.Workspace{Name: w.Name, Owner: w.Owner, Labels: w.labels, Created: w.created, Used: w.used, Keep: w.keep}
	if len(out.Labels) == 0 {
		out.Labels = nil
	}
	var err error
	if out.Sandboxes, err = mountingSandboxes(ctx, f.registry.DB, w.Key); err != nil {
		return out, err
	}
	if len(out.Sandboxes) == 0 {
		out.Expires = f.workspaceExpiry(w)
	}
	held, err := f.workspaces.MeasureUntil(ctx, w.Key, until)
	out.Bytes, out.Files = held.Bytes, held.Files
	return out, err
}

// listTime bounds the measuring of all workspaces of a list.
const listTime = 5 * time.Second

// Workspaces returns the owner's workspaces, sorted by name.
func (a *Account) Workspaces(ctx context.Context) ([]atoll.Workspace, error) {
	const op = "workspaces"
	if err := a.checkScope(op, atoll.ScopeRead); err != nil {
		return nil, err
	}
	o := a.caller.Owner
	rows, err := workspaceRows(ctx, a.f.registry.DB, "app = ? and user = ? order by name", o.App, o.User)
	if err != nil {
		return nil, &atoll.Error{Op: op, Err: err}
	}
	until := time.Now().Add(listTime)
	list := make([]atoll.Workspace, 0, len(rows))
	for i := range rows {
		w, err := a.f.completeWorkspace(ctx, &rows[i], until)
		if err != nil {
			return nil, &atoll.Error{Op: op, Err: err}
		}
		list = append(list, w)
	}
	return list, nil
}

// RemoveWorkspace removes a workspace and its files. A mounted one is ErrState.
func (a *Account) RemoveWorkspace(ctx context.Context, name string) error {
	const op = "workspace remove"
	if err := a.checkScope(op, atoll.ScopeRun); err != nil {
		return err
	}
	noted := a.startAudit(op, truncate(name, 100), "")
	_, err := a.f.removeWorkspace(ctx, workspace.Key{Owner: a.caller.Owner, Name: name}, "", nil)
	noted(err)
	if err != nil {
		return &atoll.Error{Op: op, ID: truncate(name, 100), Err: err}
	}
	return nil
}

// removeWorkspace removes a workspace that no sandbox mounts, if may, called when none can mount
// it any more, agrees. It reports whether the workspace was removed.
func (f *Fleet) removeWorkspace(ctx context.Context, p workspace.Key, why string, may func(*workspaceRow) bool) (removed bool, err error) {
	ctx, leave, err := f.beginOperation(ctx)
	if err != nil {
		return false, err
	}
	defer leave()
	var d *workspace.Staging
	err = f.registry.Write(ctx, func(tx *sql.Tx) error {
		w, err := queryWorkspace(ctx, tx, p)
		if err != nil {
			return err
		}
		if may != nil && !may(&w) {
			return nil
		}
		users, err := mountingSandboxes(ctx, tx, p)
		if err != nil {
			return err
		}
		if len(users) > 0 {
			return fmt.Errorf("%w: mounted by %s; destroy that first", atoll.ErrState, strings.Join(users, ", "))
		}
		if err := f.deleteWorkspaceRow(ctx, tx, p, why); err != nil {
			return err
		}
		d, err = f.workspaces.SetAside(p) // last: only a failing commit can follow
		return err
	})
	if d == nil {
		return false, err
	}
	if err != nil {
		return false, errors.Join(err, d.PutBack(p), d.Release())
	}
	f.removeStaging(ctx, d)
	return true, nil
}

// deleteWorkspaceRow deletes a workspace from the registry.
func (f *Fleet) deleteWorkspaceRow(ctx context.Context, tx *sql.Tx, p workspace.Key, why string) error {
	for _, s := range []struct{ what, name string }{
		{"delete from workspaces where app = ? and user = ? and name = ?", p.Name},
		{"delete from mounts where app = ? and user = ? and workspace = ?", p.Name}, // mounts of destroyed sandboxes
		{"delete from prepared where app = ? and user = ? and place = ?", workspaceScope(p.Name)},
	} {
		if _, err := tx.ExecContext(ctx, s.what, p.Owner.App, p.Owner.User, s.name); err != nil {
			return err
		}
	}
	return f.events.Emit(ctx, tx, atoll.Event{Time: f.now(), Type: "workspace.removed", Owner: p.Owner, Object: p.Name, Name: p.Name, Message: why})
}

// ensureDirectory ensures that a registered workspace has its directory, and returns when it was
// last used.
func (f *Fleet) ensureDirectory(ctx context.Context, p workspace.Key) (time.Time, error) {
	w, err := queryWorkspace(ctx, f.registry.DB, p)
	if err != nil {
		return time.Time{}, err
	}
	if ok, err := f.workspaces.Exists(p); ok || err != nil {
		return w.used, err
	}
	return w.used, f.registry.Write(ctx, func(tx *sql.Tx) error {
		if w, err = queryWorkspace(ctx, tx, p); err != nil {
			return err
		}
		return f.restoreDirectory(p)
	})
}

// restoreDirectory creates the directory of a registered workspace: it restores one that a process
// that died was removing, or creates an empty one. The caller runs in a write of the registry.
func (f *Fleet) restoreDirectory(p workspace.Key) error {
	if ok, err := f.workspaces.Exists(p); ok || err != nil {
		return err
	}
	dirs, err := f.workspaces.AbandonedStagings(workspace.RemovedDir)
	for _, d := range dirs {
		if found, ok, ferr := d.RemovedKey(); ferr == nil && ok && found == p && err == nil {
			err = d.PutBack(p)
		}
		err = errors.Join(err, d.Release())
	}
	if err != nil {
		return err
	}
	return f.workspaces.Create(p)
}

// markUsed records that a workspace is in use.
func (f *Fleet) markUsed(ctx context.Context, p workspace.Key) error {
	return f.registry.Write(ctx, func(tx *sql.Tx) error { return f.markUsedIn(ctx, tx, p) })
}

func (f *Fleet) markUsedIn(ctx context.Context, tx *sql.Tx, p workspace.Key) error {
	_, err := tx.ExecContext(ctx, "update workspaces set used = case when used < ?1 then ?1 else used end where app = ?2 and user = ?3 and name = ?4",
		registry.Timestamp(f.now()), p.Owner.App, p.Owner.User, p.Name)
	return err
}

// prepareMounts creates the missing workspaces of a configuration, records the mounts of the
// sandbox, whose row must exist, and returns the mounts, unless the workspaces are copied.
func (f *Fleet) prepareMounts(ctx context.Context, tx *sql.Tx, owner atoll.Owner, sandbox string, cfg atoll.Config, copied bool) ([]atoll.Mount, error) {
	for _, m := range cfg.Workspaces {
		p := workspace.Key{Owner: owner, Name: m.Workspace}
		err := f.mountWorkspace(ctx, tx, p, sandbox, m)
		if err == nil {
			err = f.reserveCopy(ctx, tx, p, sandbox, m, copied)
		}
		if err != nil {
			return nil, fmt.Errorf("workspace %s: %w", m.Workspace, err)
		}
	}
	if copied {
		return nil, nil
	}
	return f.mountsOf(ctx, tx, owner, &cfg)
}

// mountsOf returns the mounts of the workspaces of a configuration, which must exist.
func (f *Fleet) mountsOf(ctx context.Context, tx *sql.Tx, owner atoll.Owner, cfg *atoll.Config) ([]atoll.Mount, error) {
	limit, used, err := f.queryDiskUsage(ctx, tx, owner)
	if err != nil {
		return nil, fmt.Errorf("workspaces: %w", err)
	}
	share := max(0, limit-used) / max(1, countWritable(cfg.Workspaces))
	var list []atoll.Mount
	for _, m := range cfg.Workspaces {
		p := workspace.Key{Owner: owner, Name: m.Workspace}
		mount := atoll.Mount{Source: f.workspaces.HostPath(p), Target: m.At(), ReadOnly: m.ReadOnly}
		if limit >= 0 {
			if mount.Limit, err = f.mountLimit(ctx, p, share); err != nil {
				return nil, fmt.Errorf("workspace %s: %w", m.Workspace, err)
			}
		}
		list = append(list, mount)
	}
	return list, nil
}

// countWritable counts the writable mounts. Two of one workspace count twice.
func countWritable(mounts []atoll.WorkspaceMount) (n int64) {
	for i := range mounts {
		if !mounts[i].ReadOnly {
			n++
		}
	}
	return n
}

func (f *Fleet) mountWorkspace(ctx context.Context, tx *sql.Tx, p workspace.Key, sandbox string, m atoll.WorkspaceMount) error {
	_, err := queryWorkspace(ctx, tx, p)
	switch {
	case errors.Is(err, atoll.ErrNotFound):
		err = f.addWorkspace(ctx, tx, p, nil, 0)
	case err == nil:
		err = f.restoreDirectory(p)
	}
	if err == nil {
		err = f.markUsedIn(ctx, tx, p)
	}
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, "insert into mounts (sandbox, app, user, workspace, target, read_only) values (?, ?, ?, ?, ?, ?)",
		sandbox, p.Owner.App, p.Owner.User, p.Name, m.At(), m.ReadOnly)
	return err
}

// mountLimit returns how many bytes a workspace may hold while a sandbox mounts it: its present
// size and a share of the owner's free disk quota. Later sandboxes don't reduce it.
func (f *Fleet) mountLimit(ctx context.Context, p workspace.Key, share int64) (int64, error) {
	held, err := f.workspaces.Measure(ctx, p)
	return max(1, held.Bytes+min(share, math.MaxInt64-held.Bytes)), err
}

// unmountAll records that a sandbox mounts nothing any more, and deletes the records of its
// prepare steps.
func (f *Fleet) unmountAll(ctx context.Context, tx *sql.Tx, sandbox string) error {
	_, err := tx.ExecContext(ctx, `update workspaces set used = case when used < ?1 then ?1 else used end where exists
		(select 1 from mounts m where m.sandbox = ?2 and m.app = workspaces.app and m.user = workspaces.user and m.workspace = workspaces.name)`,
		registry.Timestamp(f.now()), sandbox)
	if err == nil {
		_, err = tx.ExecContext(ctx, "delete from mounts where sandbox = ?", sandbox)
	}
	if err == nil {
		_, err = tx.ExecContext(ctx, "delete from prepared where place = ?", sandboxScope(sandbox))
	}
	return err
}

// workspaceUsage returns the number and total size of an owner's workspaces.
func (f *Fleet) workspaceUsage(ctx context.Context, tx *sql.Tx, owner atoll.Owner) (n int, bytes int64, err error) {
	n, held, err := f.workspaceSize(ctx, tx, owner)
	return n, held.Bytes, err
}

// workspaceSize returns the number and total size of an owner's workspaces, as far as they can be
// measured in time.
func (f *Fleet) workspaceSize(ctx context.Context, q registry.Querier, owner atoll.Owner) (n int, all workspace.Size, err error) {
	list, err := workspaceRows(ctx, q, "app = ? and user = ?", owner.App, owner.User)
	if err != nil {
		return 0, all, err
	}
	all.Complete = true
	until := time.Now().Add(workspace.MeasureTimeout)
	for i := range list {
		s, err := f.workspaces.MeasureUntil(ctx, list[i].Key, until)
		if err != nil {
			return 0, all, err
		}
		all.Bytes, all.Files = all.Bytes+s.Bytes, all.Files+s.Files
		all.Complete, all.TooDeep = all.Complete && s.Complete, all.TooDeep || s.TooDeep
	}
	return len(list), all, nil
}

// measureAhead measures an owner's workspaces, if the quota needs that, before a write of the
// registry holds others up.
func (f *Fleet) measureAhead(ctx context.Context, o atoll.Owner) error {
	q, err := f.quotaOf(ctx, f.registry.DB, o)
	if err == nil && q.Disk >= 0 {
		_, _, err = f.workspaceSize(ctx, f.registry.DB, o)
	}
	return err
}

// diskUsage returns an owner's disk limit, negative for none, and the usage.
func (f *Fleet) diskUsage(ctx context.Context, o atoll.Owner) (limit, used int64, err error) {
	return f.queryDiskUsage(ctx, f.registry.DB, o)
}

func (f *Fleet) queryDiskUsage(ctx context.Context, q registry.Querier, o atoll.Owner) (limit, used int64, err error) {
	quota, err := f.quotaOf(ctx, q, o)
	if err != nil || quota.Disk < 0 {
		return -1, 0, err
	}
	u, err := f.sandboxUsage(ctx, q, o)
	if err != nil {
		return 0, 0, err
	}
	_, held, err := f.workspaceSize(ctx, q, o)
	if err == nil && held.TooDeep {
		err = fmt.Errorf("%w: a workspace has directories nested more than %d deep, too deep to measure; remove those", atoll.ErrQuota, workspace.MaxDepth)
	}
	return quota.Disk, u.Disk + held.Bytes, err
}
