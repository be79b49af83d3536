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
)

// useExact is how exact the registry knows when a workspace was last used.
const useExact = time.Minute

// workspaceRow is what the registry says of a workspace.
type workspaceRow struct {
	place
	labels        map[string]string
	created, used time.Time
	keep          time.Duration
}

const workspaceColumns = `app, user, name, labels, created, used, keep`

func (w *workspaceRow) scan(from scanner) error {
	var labels []byte
	var created, used int64
	if err := from.Scan(&w.owner.App, &w.owner.User, &w.name, &labels, &created, &used, &w.keep); err != nil {
		return err
	}
	w.created, w.used = when(created), when(used)
	if err := json.Unmarshal(labels, &w.labels); err != nil {
		return fmt.Errorf("registry: labels of workspace %s: %w", w.name, err)
	}
	return nil
}

// workspaceRows returns the workspaces that a condition names; it may go on with
// "order by".
func workspaceRows(ctx context.Context, q querier, where string, args ...any) ([]workspaceRow, error) {
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

// lookUp returns the row of a workspace, or ErrNotFound.
func lookUp(ctx context.Context, q querier, p place) (workspaceRow, error) {
	list, err := workspaceRows(ctx, q, "app = ? and user = ? and name = ?", p.owner.App, p.owner.User, p.name)
	if err == nil && len(list) == 0 {
		err = atoll.ErrNotFound
	}
	if err != nil {
		return workspaceRow{}, err
	}
	return list[0], nil
}

// mounting returns the sandboxes that mount a workspace, by name or else id.
func mounting(ctx context.Context, q querier, p place) ([]string, error) {
	rows, err := q.QueryContext(ctx, `select distinct case s.name when '' then s.id else s.name end from mounts m join sandboxes s on s.id = m.sandbox
		where m.app = ? and m.user = ? and m.workspace = ? and s.state <> 'destroyed' order by 1`, p.owner.App, p.owner.User, p.name)
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

// CreateWorkspace makes a workspace; of w, the name, labels and keep count.
func (a *Account) CreateWorkspace(ctx context.Context, w atoll.Workspace) (atoll.Workspace, error) {
	const op = "workspace create"
	if err := a.need(op, atoll.ScopeRun); err != nil {
		return atoll.Workspace{}, err
	}
	noted := a.audited(op, clip(w.Name, 100), "")
	p := place{a.caller.Owner, w.Name}
	err := a.f.createWorkspace(ctx, p, w.Labels, w.Keep)
	if err == nil {
		w, err = a.f.describe(ctx, p)
	}
	noted(err)
	if err != nil {
		return atoll.Workspace{}, &atoll.Error{Op: op, ID: clip(p.name, 100), Err: err}
	}
	return w, nil
}

func (f *Fleet) createWorkspace(ctx context.Context, p place, labels map[string]string, keep time.Duration) error {
	spec := atoll.Spec{Labels: labels}
	if err := errors.Join(p.check(), spec.Check()); err != nil {
		return err
	}
	ctx, leave, err := f.operate(ctx)
	if err != nil {
		return err
	}
	defer leave()
	return f.store.write(ctx, func(tx *sql.Tx) error {
		_, err := lookUp(ctx, tx, p)
		if err == nil {
			return atoll.ErrExists
		}
		if !errors.Is(err, atoll.ErrNotFound) {
			return err
		}
		return f.addWorkspace(ctx, tx, p, labels, keep)
	})
}

// addWorkspace makes a workspace that is not there, if its owner may have one
// more.
func (f *Fleet) addWorkspace(ctx context.Context, tx *sql.Tx, p place, labels map[string]string, keep time.Duration) error {
	q, err := f.quota(ctx, tx, p.owner)
	if err != nil {
		return err
	}
	var n int
	if err := tx.QueryRowContext(ctx, "select count(*) from workspaces where app = ? and user = ?", p.owner.App, p.owner.User).Scan(&n); err != nil {
		return err
	}
	if q.Workspaces >= 0 && n >= q.Workspaces {
		return fmt.Errorf("%w: %d of %d workspaces are there; remove one", atoll.ErrQuota, n, q.Workspaces)
	}
	if err := f.shelf.make(p); err != nil {
		return err
	}
	return f.enterWorkspace(ctx, tx, workspaceRow{place: p, labels: labels, created: f.now(), used: f.now(), keep: keep})
}

// enterWorkspace adds a row.
func (f *Fleet) enterWorkspace(ctx context.Context, tx *sql.Tx, w workspaceRow) error {
	if w.labels == nil {
		w.labels = map[string]string{}
	}
	labels, err := json.Marshal(w.labels)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, "insert into workspaces (app, user, name, labels, created, used, keep) values (?, ?, ?, ?, ?, ?, ?)",
		w.owner.App, w.owner.User, w.name, string(labels), stamp(w.created), stamp(w.used), w.keep)
	if err != nil {
		return err
	}
	return f.emit(ctx, tx, atoll.Event{Time: f.now(), Type: "workspace.created", Owner: w.owner, Object: w.name, Name: w.name})
}

// Workspace returns all about a workspace.
func (a *Account) Workspace(ctx context.Context, name string) (atoll.Workspace, error) {
	const op = "workspace"
	if err := a.need(op, atoll.ScopeRead); err != nil {
		return atoll.Workspace{}, err
	}
	w, err := a.f.describe(ctx, place{a.caller.Owner, name})
	if err != nil {
		return w, &atoll.Error{Op: op, ID: clip(name, 100), Err: err}
	}
	return w, nil
}

func (f *Fleet) describe(ctx context.Context, p place) (atoll.Workspace, error) {
	w, err := lookUp(ctx, f.store.db, p)
	if err != nil {
		return atoll.Workspace{}, err
	}
	return f.full(ctx, &w, time.Now().Add(countTime))
}

// full adds to a row what is found out about the workspace, counting as far as it
// gets in time.
func (f *Fleet) full(ctx context.Context, w *workspaceRow, until time.Time) (atoll.Workspace, error) {
	out := atoll.Workspace{Name: w.name, Owner: w.owner, Labels: w.labels, Created: w.created, Used: w.used, Keep: w.keep}
	if len(out.Labels) == 0 {
		out.Labels = nil
	}
	var err error
	if out.Sandboxes, err = mounting(ctx, f.store.db, w.place); err != nil {
		return out, err
	}
	if len(out.Sandboxes) == 0 {
		out.Expires = f.expiry(w)
	}
	held, err := f.shelf.sizeBefore(ctx, w.place, until)
	out.Bytes, out.Files = held.bytes, held.files
	return out, err
}

// listTime is how long a list of workspaces may take to measure them.
const listTime = 5 * time.Second

// Workspaces returns the owner's workspaces in the order of names.
func (a *Account) Workspaces(ctx context.Context) ([]atoll.Workspace, error) {
	const op = "workspaces"
	if err := a.need(op, atoll.ScopeRead); err != nil {
		return nil, err
	}
	o := a.caller.Owner
	rows, err := workspaceRows(ctx, a.f.store.db, "app = ? and user = ? order by name", o.App, o.User)
	if err != nil {
		return nil, &atoll.Error{Op: op, Err: err}
	}
	until := time.Now().Add(listTime)
	list := make([]atoll.Workspace, 0, len(rows))
	for i := range rows {
		w, err := a.f.full(ctx, &rows[i], until)
		if err != nil {
			return nil, &atoll.Error{Op: op, Err: err}
		}
		list = append(list, w)
	}
	return list, nil
}

// RemoveWorkspace removes a workspace and its files. One that a sandbox mounts
// is ErrState.
func (a *Account) RemoveWorkspace(ctx context.Context, name string) error {
	const op = "workspace remove"
	if err := a.need(op, atoll.ScopeRun); err != nil {
		return err
	}
	noted := a.audited(op, clip(name, 100), "")
	_, err := a.f.removeWorkspace(ctx, place{a.caller.Owner, name}, "", nil)
	noted(err)
	if err != nil {
		return &atoll.Error{Op: op, ID: clip(name, 100), Err: err}
	}
	return nil
}

// removeWorkspace removes a workspace that no sandbox mounts, if may agrees, who
// is asked when nobody can mount it any more. It reports whether it did.
func (f *Fleet) removeWorkspace(ctx context.Context, p place, why string, may func(*workspaceRow) bool) (removed bool, err error) {
	ctx, leave, err := f.operate(ctx)
	if err != nil {
		return false, err
	}
	defer leave()
	var d *desk
	err = f.store.write(ctx, func(tx *sql.Tx) error {
		w, err := lookUp(ctx, tx, p)
		if err != nil {
			return err
		}
		if may != nil && !may(&w) {
			return nil
		}
		users, err := mounting(ctx, tx, p)
		if err != nil {
			return err
		}
		if len(users) > 0 {
			return fmt.Errorf("%w: mounted by %s; destroy what mounts it first", atoll.ErrState, strings.Join(users, ", "))
		}
		if err := f.strike(ctx, tx, p, why); err != nil {
			return err
		}
		d, err = f.shelf.setAside(p) // last: only a commit that fails comes after
		return err
	})
	if d == nil {
		return false, err
	}
	if err != nil {
		return false, errors.Join(err, d.putBack(p), d.leave())
	}
	f.tidy(ctx, d)
	return true, nil
}

// strike takes a workspace out of the registry.
func (f *Fleet) strike(ctx context.Context, tx *sql.Tx, p place, why string) error {
	for _, s := range []struct{ what, name string }{
		{"delete from workspaces where app = ? and user = ? and name = ?", p.name},
		{"delete from mounts where app = ? and user = ? and workspace = ?", p.name}, // of sandboxes that are destroyed
		{"delete from prepared where app = ? and user = ? and place = ?", preparedIn(p.name)},
	} {
		if _, err := tx.ExecContext(ctx, s.what, p.owner.App, p.owner.User, s.name); err != nil {
			return err
		}
	}
	return f.emit(ctx, tx, atoll.Event{Time: f.now(), Type: "workspace.removed", Owner: p.owner, Object: p.name, Name: p.name, Message: why})
}

// reach makes sure that a workspace and its directory are there, and returns
// when it was last used.
func (f *Fleet) reach(ctx context.Context, p place) (time.Time, error) {
	w, err := lookUp(ctx, f.store.db, p)
	if err != nil {
		return time.Time{}, err
	}
	if ok, err := f.shelf.has(p); ok || err != nil {
		return w.used, err
	}
	return w.used, f.store.write(ctx, func(tx *sql.Tx) error {
		if w, err = lookUp(ctx, tx, p); err != nil {
			return err
		}
		return f.restore(p)
	})
}

// restore makes the directory of a workspace that the registry knows: of what a
// process that died before it had removed it has left, or an empty one. The
// caller keeps others from changing the registry.
func (f *Fleet) restore(p place) error {
	if ok, err := f.shelf.has(p); ok || err != nil {
		return err
	}
	desks, err := f.shelf.left(goneDir)
	for _, d := range desks {
		if found, ok, ferr := d.find(); ferr == nil && ok && found == p && err == nil {
			err = d.putBack(p)
		}
		err = errors.Join(err, d.leave())
	}
	if err != nil {
		return err
	}
	return f.shelf.make(p)
}

// markUsed notes that a workspace is in use.
func (f *Fleet) markUsed(ctx context.Context, p place) error {
	return f.store.write(ctx, func(tx *sql.Tx) error { return f.markUsedIn(ctx, tx, p) })
}

func (f *Fleet) markUsedIn(ctx context.Context, tx *sql.Tx, p place) error {
	_, err := tx.ExecContext(ctx, "update workspaces set used = case when used < ?1 then ?1 else used end where app = ?2 and user = ?3 and name = ?4",
		stamp(f.now()), p.owner.App, p.owner.User, p.name)
	return err
}

// mountsFor makes the workspaces of a configuration that are missing, notes in
// the registry that the sandbox has them, whose row must be there, and returns
// where they are on the host, if they are to be mounted and not carried.
func (f *Fleet) mountsFor(ctx context.Context, tx *sql.Tx, owner atoll.Owner, sandbox string, cfg atoll.Config, carried bool) ([]atoll.Mount, error) {
	for _, m := range cfg.Workspaces {
		p := place{owner, m.Workspace}
		err := f.mount(ctx, tx, p, sandbox, m)
		if err == nil {
			err = f.reserveFor(ctx, tx, p, sandbox, m, carried)
		}
		if err != nil {
			return nil, fmt.Errorf("workspace %s: %w", m.Workspace, err)
		}
	}
	if carried {
		return nil, nil
	}
	limit, used, err := f.diskUsed(ctx, tx, owner)
	if err != nil {
		return nil, fmt.Errorf("workspaces: %w", err)
	}
	share := max(0, limit-used) / max(1, writable(cfg.Workspaces))
	var list []atoll.Mount
	for _, m := range cfg.Workspaces {
		p := place{owner, m.Workspace}
		mount := atoll.Mount{Source: f.shelf.host(p), Target: m.At(), ReadOnly: m.ReadOnly}
		if limit >= 0 {
			if mount.Limit, err = f.room(ctx, p, share); err != nil {
				return nil, fmt.Errorf("workspace %s: %w", m.Workspace, err)
			}
		}
		list = append(list, mount)
	}
	return list, nil
}

// writable counts mounts that something can be written through, each of which
// counts for itself, though two may be of one workspace.
func writable(mounts []atoll.WorkspaceMount) (n int64) {
	for i := range mounts {
		if !mounts[i].ReadOnly {
			n++
		}
	}
	return n
}

func (f *Fleet) mount(ctx context.Context, tx *sql.Tx, p place, sandbox string, m atoll.WorkspaceMount) error {
	_, err := lookUp(ctx, tx, p)
	switch {
	case errors.Is(err, atoll.ErrNotFound):
		err = f.addWorkspace(ctx, tx, p, nil, 0)
	case err == nil:
		err = f.restore(p)
	}
	if err == nil {
		err = f.markUsedIn(ctx, tx, p)
	}
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, "insert into mounts (sandbox, app, user, workspace, target, read_only) values (?, ?, ?, ?, ?, ?)",
		sandbox, p.owner.App, p.owner.User, p.name, m.At(), m.ReadOnly)
	return err
}

// room returns how many bytes a workspace may hold while a sandbox mounts it:
// what it holds and its share of what is left of its owner's disk. Sandboxes
// that are created later don't make it smaller.
func (f *Fleet) room(ctx context.Context, p place, share int64) (int64, error) {
	held, err := f.shelf.size(ctx, p)
	return max(1, held.bytes+min(share, math.MaxInt64-held.bytes)), err
}

// unmount notes that a sandbox mounts nothing any more, and forgets which steps
// were done in it.
func (f *Fleet) unmount(ctx context.Context, tx *sql.Tx, sandbox string) error {
	_, err := tx.ExecContext(ctx, `update workspaces set used = case when used < ?1 then ?1 else used end where exists
		(select 1 from mounts m where m.sandbox = ?2 and m.app = workspaces.app and m.user = workspaces.user and m.workspace = workspaces.name)`,
		stamp(f.now()), sandbox)
	if err == nil {
		_, err = tx.ExecContext(ctx, "delete from mounts where sandbox = ?", sandbox)
	}
	if err == nil {
		_, err = tx.ExecContext(ctx, "delete from prepared where place = ?", preparedBy(sandbox))
	}
	return err
}

// workspaceUsage returns how many workspaces an owner has, and the bytes in them.
func (f *Fleet) workspaceUsage(ctx context.Context, tx *sql.Tx, owner atoll.Owner) (n int, bytes int64, err error) {
	n, held, err := f.held(ctx, tx, owner)
	return n, held.bytes, err
}

// held returns what all workspaces of an owner hold, as far as it can be counted
// in time.
func (f *Fleet) held(ctx context.Context, q querier, owner atoll.Owner) (n int, all size, err error) {
	list, err := workspaceRows(ctx, q, "app = ? and user = ?", owner.App, owner.User)
	if err != nil {
		return 0, all, err
	}
	all.whole = true
	until := time.Now().Add(countTime)
	for i := range list {
		s, err := f.shelf.sizeBefore(ctx, list[i].place, until)
		if err != nil {
			return 0, all, err
		}
		all.bytes, all.files = all.bytes+s.bytes, all.files+s.files
		all.whole, all.deep = all.whole && s.whole, all.deep || s.deep
	}
	return len(list), all, nil
}

// weigh counts what an owner's workspaces hold, if that will be asked for, so that
// it need not be counted while the registry waits.
func (f *Fleet) weigh(ctx context.Context, o atoll.Owner) error {
	q, err := f.quota(ctx, f.store.db, o)
	if err == nil && q.Disk >= 0 {
		_, _, err = f.held(ctx, f.store.db, o)
	}
	return err
}

// diskUsage returns an owner's limit of the disk, negative for none, and what of
// it is used.
func (f *Fleet) diskUsage(ctx context.Context, o atoll.Owner) (limit, used int64, err error) {
	return f.diskUsed(ctx, f.store.db, o)
}

func (f *Fleet) diskUsed(ctx context.Context, q querier, o atoll.Owner) (limit, used int64, err error) {
	quota, err := f.quota(ctx, q, o)
	if err != nil || quota.Disk < 0 {
		return -1, 0, err
	}
	u, err := f.usage(ctx, q, o)
	if err != nil {
		return 0, 0, err
	}
	_, held, err := f.held(ctx, q, o)
	if err == nil && held.deep {
		err = fmt.Errorf("%w: a workspace has more than %d directories in each other, too many to count what is in them; remove those", atoll.ErrQuota, deepest)
	}
	return quota.Disk, u.Disk + held.bytes, err
}
