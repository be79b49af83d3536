package fleet

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet/registry"
	"github.com/atoll-sandbox/atoll/internal/fleet/workspace"
)

// Kept disks belong to an owner, who names them. The driver knows each disk by an id only.

// diskRow is the registry's row of a persistent disk.
type diskRow struct {
	workspace.Key
	id, driver, origin, held string
	created                  time.Time
	size                     int64
	keeping                  bool // its sandbox is being destroyed; then it is kept
}

// diskRows returns the persistent disks that match a condition. The condition may end with "order by".
func diskRows(ctx context.Context, q registry.Querier, where string, args ...any) ([]diskRow, error) {
	rows, err := q.QueryContext(ctx, "select id, app, user, name, driver, origin, created, size, keeping, held from disks where "+where, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []diskRow
	for rows.Next() {
		var d diskRow
		var created, keeping int64
		if err := rows.Scan(&d.id, &d.Owner.App, &d.Owner.User, &d.Name, &d.driver, &d.origin, &created, &d.size, &keeping, &d.held); err != nil {
			return nil, err
		}
		d.created, d.keeping = registry.Time(created), keeping != 0
		list = append(list, d)
	}
	return list, rows.Err()
}

// findDisk returns the disk of an owner by name, or ErrNotFound.
func findDisk(ctx context.Context, q registry.Querier, p workspace.Key) (diskRow, error) {
	list, err := diskRows(ctx, q, "app = ? and user = ? and name = ?", p.Owner.App, p.Owner.User, p.Name)
	if err == nil && len(list) == 0 {
		err = fmt.Errorf("disk %q: %w; 'atoll disk ls' lists the persistent disks", truncate(p.Name, 63), atoll.ErrNotFound)
	}
	if err != nil {
		return diskRow{}, err
	}
	return list[0], nil
}

// attachDisk assigns a persistent disk to the new sandbox that names it, and sets the driver's name of
// it.
func (f *Fleet) attachDisk(ctx context.Context, tx *sql.Tx, r *row) error {
	m := r.cfg.VM
	if m == nil || m.Disk == "" {
		return nil
	}
	d, err := findDisk(ctx, tx, workspace.Key{Owner: r.owner, Name: m.Disk})
	switch {
	case err != nil:
		return &atoll.FieldError{Field: "machine.disk", Err: err}
	case d.keeping:
		return fmt.Errorf("disk %q: %w: its sandbox %s is being destroyed; wait for the end of that", d.Name, atoll.ErrState, d.origin)
	case d.held != "":
		return fmt.Errorf("disk %q: %w: sandbox %s uses it", d.Name, atoll.ErrState, d.held)
	case d.driver != r.driver:
		return fmt.Errorf("disk %q: %w: it belongs to driver %s, but the sandbox uses driver %s", d.Name, atoll.ErrUnsupported, d.driver, r.driver)
	}
	r.disk = d.id
	_, err = tx.ExecContext(ctx, "update disks set held = ? where id = ?", r.id, d.id)
	return err
}

// releaseDisk releases the disk of a destroyed sandbox. A disk to be kept of it becomes available.
func (f *Fleet) releaseDisk(ctx context.Context, tx *sql.Tx, r *row) error {
	if !f.hasDisks(r.driver) {
		return nil
	}
	list, err := diskRows(ctx, tx, "origin = ? and keeping = 1", r.id)
	if err != nil {
		return err
	}
	for _, d := range list {
		if err := f.events.Emit(ctx, tx, atoll.Event{Time: f.now(), Type: "disk.kept", Owner: d.Owner, Object: d.Name, Name: d.Name, Data: map[string]string{"sandbox": r.id}}); err != nil {
			return err
		}
	}
	if _, err := tx.ExecContext(ctx, "update disks set keeping = 0, created = ? where origin = ? and keeping = 1", registry.Timestamp(f.now()), r.id); err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, "update disks set held = '' where held = ?", r.id)
	return err
}

// StartFresh starts a stopped sandbox, or one in error, as it was created: its disks are discarded and
// its prepare steps run again.
func (s *Sandbox) StartFresh(ctx context.Context) error {
	if m := s.b.cachedRow().cfg.VM; m != nil && m.Disk != "" {
		return s.wrapError("start", fmt.Errorf("%w: it uses the persistent disk %q, which is not discarded: start it without fresh, or create a sandbox without that disk", atoll.ErrState, m.Disk))
	}
	return runStateChange(ctx, s, freshChange, func(t atoll.FreshStarter, ctx context.Context) error {
		if err := t.StartFresh(ctx); err != nil {
			return err
		}
		return s.f.registry.Write(context.WithoutCancel(ctx), func(tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, "delete from snapshots where sandbox = ?", s.b.id)
			if err == nil {
				_, err = tx.ExecContext(ctx, "delete from prepared where place = ?", sandboxScope(s.b.id))
			}
			return err
		})
	})
}

// DestroyKeepDisk removes the sandbox, but its owner keeps the disk of its working directory under
// a name. A sandbox that was created with a persistent disk releases it under this name.
func (s *Sandbox) DestroyKeepDisk(ctx context.Context, name string) error {
	const op = "destroy"
	if err := s.checkAccess(op, atoll.ScopeRun); err != nil {
		return err
	}
	noted := s.startAudit(op, "keep disk "+truncate(name, 63))
	err := s.f.destroyKeeping(ctx, s.b, name)
	noted(err)
	return s.wrapError(op, err)
}

func (f *Fleet) destroyKeeping(ctx context.Context, b *handle, name string) error {
	if err := atoll.CheckName(name); err != nil {
		return &atoll.FieldError{Field: "keep_disk", Err: fmt.Errorf("name of the disk: %w", err)}
	}
	ctx, leave, err := f.beginOperation(ctx)
	if err != nil {
		return err
	}
	defer leave()
	r, err := f.loadRow(ctx, b.id)
	if err != nil {
		return err
	}
	if r.state == atoll.Destroyed {
		return errDestroyed
	}
	if err := b.checkKeepsDisk(&r); err != nil {
		return err
	}
	b = f.ensureHandle(r)
	release, err := b.acquireTurn(ctx)
	if err != nil {
		return err
	}
	defer release()
	return f.destroyHeldWith(ctx, b, "", nil, func(tx *sql.Tx, r *row) error { return f.reserveDiskName(ctx, tx, r, name) })
}

// checkKeepsDisk refuses to keep the disk of a sandbox that has none to keep.
func (b *handle) checkKeepsDisk(r *row) error {
	if b.driver == nil {
		return fmt.Errorf("%w: its driver %q is not set up", errNotHere, r.driver)
	}
	if ft, ok := b.driver.cachedFeatures(); ok && !ft.Disks {
		return fmt.Errorf("%w by driver %s: its sandboxes have no disks to keep; use a workspace for files that outlive a sandbox", atoll.ErrUnsupported, r.driver)
	}
	if m := r.cfg.VM; m != nil && m.Persist != nil && !*m.Persist {
		return fmt.Errorf("%w: it was created with persist false: its disks can't be kept", atoll.ErrState)
	}
	return nil
}

// reserveDiskName records the name under which the disk of a sandbox is kept that is about to be
// destroyed.
func (f *Fleet) reserveDiskName(ctx context.Context, tx *sql.Tx, r *row, name string) error {
	taken, err := findDisk(ctx, tx, workspace.Key{Owner: r.owner, Name: name})
	switch {
	case err == nil && taken.held != r.id && !(taken.keeping && taken.origin == r.id):
		return fmt.Errorf("disk %q: %w; remove it with 'atoll disk rm %s', or choose another name", name, atoll.ErrExists, name)
	case err != nil && !errors.Is(err, atoll.ErrNotFound):
		return err
	}
	has, err := diskRows(ctx, tx, "held = ? or origin = ? and keeping = 1", r.id, r.id)
	if err != nil {
		return err
	}
	if len(has) > 0 { // it was created with a disk, or an earlier attempt has recorded the name
		_, err = tx.ExecContext(ctx, "update disks set name = ? where id = ?", name, has[0].id)
		return err
	}
	_, err = tx.ExecContext(ctx, "insert into disks (id, app, user, name, driver, origin, created, size, keeping) values (?, ?, ?, ?, ?, ?, ?, ?, 1)",
		"d"+atoll.NewID()[1:], r.owner.App, r.owner.User, name, r.driver, r.id, registry.Timestamp(f.now()), max(r.cfg.Limits.Disk, 0))
	return err
}

// destroyInnerKeeping destroys the driver's sandbox, but for a disk to be kept. An earlier attempt
// may have done so wholly or in part.
func (f *Fleet) destroyInnerKeeping(ctx context.Context, b *handle) error {
	if !f.hasDisks(b.cachedRow().driver) {
		return b.destroyInner(ctx)
	}
	list, err := diskRows(ctx, f.registry.DB, "origin = ? and keeping = 1", b.id)
	if err != nil {
		return err
	}
	if len(list) == 0 {
		return b.destroyInner(ctx)
	}
	sb, err := b.openInner(ctx)
	if err == nil {
		err = atoll.DestroyKeepDisk(ctx, sb, list[0].id)
	}
	return ignoreError(err, atoll.ErrNotFound)
}

// cancelKeep undoes reserveDiskName after the driver has refused. The sandbox stays as it was.
func (f *Fleet) cancelKeep(ctx context.Context, b *handle) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), backgroundTimeout)
	defer cancel()
	_, err := f.changeRow(ctx, b.id, func(tx *sql.Tx, r *row) error {
		if _, err := tx.ExecContext(ctx, "delete from disks where origin = ? and keeping = 1", r.id); err != nil {
			return err
		}
		r.goal = "" // not being changed any more: the driver reports its state
		return f.saveRow(ctx, tx, r)
	})
	if err == nil {
		_, err = f.reconcileHeld(ctx, b.id, nil)
	}
	b.calls.open()
	return err
}

// Disks returns the owner's persistent disks, sorted by name.
func (a *Account) Disks(ctx context.Context) ([]atoll.Disk, error) {
	const op = "disks"
	if err := a.checkScope(op, atoll.ScopeRead); err != nil {
		return nil, err
	}
	list, err := a.f.listDisks(ctx, a.caller.Owner)
	if err != nil {
		return nil, &atoll.Error{Op: op, Err: err}
	}
	return list, nil
}

func (f *Fleet) listDisks(ctx context.Context, o atoll.Owner) ([]atoll.Disk, error) {
	rows, err := diskRows(ctx, f.registry.DB, "app = ? and user = ? order by name", o.App, o.User)
	if err != nil {
		return nil, err
	}
	held := make(map[string][]atoll.Disk) // by driver
	list := make([]atoll.Disk, 0, len(rows))
	for _, d := range rows {
		disk := atoll.Disk{Name: d.Name, Owner: d.Owner, Driver: d.driver, Size: d.size, Created: d.created, CreatedFor: d.origin, Sandbox: d.held}
		if d.keeping {
			disk.Sandbox = d.origin
		}
		there, asked := held[d.driver]
		if store, err := f.diskStore(d.driver); !asked && err == nil {
			if there, err = store.Disks(ctx); err != nil {
				return nil, fmt.Errorf("driver %s: %w", d.driver, err)
			}
			held[d.driver] = there
		}
		if i := slices.IndexFunc(there, func(t atoll.Disk) bool { return t.Name == d.id }); i >= 0 {
			disk.Size, disk.Used = there[i].Size, there[i].Used
		}
		list = append(list, disk)
	}
	return list, nil
}

// hasDisks reports whether sandboxes of a driver may have persistent disks.
func (f *Fleet) hasDisks(driver string) bool {
	b := f.findDriver(driver)
	if b == nil {
		return true // another process has that driver
	}
	ft, asked := b.cachedFeatures()
	return !asked || ft.Disks
}

// diskStore returns a driver as a DiskStore, or an error if it is none.
func (f *Fleet) diskStore(driver string) (atoll.DiskStore, error) {
	b := f.findDriver(driver)
	if b == nil {
		return nil, fmt.Errorf("%w: driver %q is not set up", errNotHere, driver)
	}
	s, ok := b.impl.(atoll.DiskStore)
	if !ok {
		return nil, fmt.Errorf("%w by driver %s", atoll.ErrUnsupported, driver)
	}
	return s, nil
}

// RemoveDisk removes a persistent disk and its content. A disk in use is ErrState.
func (a *Account) RemoveDisk(ctx context.Context, name string) error {
	const op = "disk remove"
	if err := a.checkScope(op, atoll.ScopeRun); err != nil {
		return err
	}
	noted := a.startAudit(op, truncate(name, 100), "")
	err := a.f.removeDisk(ctx, workspace.Key{Owner: a.caller.Owner, Name: name})
	noted(err)
	if err != nil {
		return &atoll.Error{Op: op, ID: truncate(name, 100), Err: err}
	}
	return nil
}

func (f *Fleet) removeDisk(ctx context.Context, p workspace.Key) error {
	ctx, leave, err := f.beginOperation(ctx)
	if err != nil {
		return err
	}
	defer leave()
	return f.registry.Write(ctx, func(tx *sql.Tx) error { // within a write: no sandbox acquires it meanwhile
		d, err := findDisk(ctx, tx, p)
		if err != nil {
			return err
		}
		if d.keeping || d.held != "" {
			user := d.held
			if d.keeping {
				user = d.origin
			}
			return fmt.Errorf("%w: sandbox %s uses it; destroy that first", atoll.ErrState, user)
		}
		store, err := f.diskStore(d.driver)
		if err == nil {
			err = ignoreError(store.RemoveDisk(ctx, d.id), atoll.ErrNotFound)
		}
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, "delete from disks where id = ?", d.id); err != nil {
			return err
		}
		return f.events.Emit(ctx, tx, atoll.Event{Time: f.now(), Type: "disk.removed", Owner: d.Owner, Object: d.Name, Name: d.Name})
	})
}

// keptDiskBytes returns the size of an owner's disks that no sandbox uses. Disks in use count with
// the limits of their sandboxes.
func keptDiskBytes(ctx context.Context, q registry.Querier, o atoll.Owner) (bytes int64, err error) {
	var sum float64
	err = q.QueryRowContext(ctx, "select cast(coalesce(sum(size), 0) as double precision) from disks where app = ? and user = ? and keeping = 0 and held = ''", o.App, o.User).Scan(&sum)
	return int64(min(sum, maxUsage)), err
}
