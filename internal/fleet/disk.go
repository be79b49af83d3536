package fleet

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// Kept disks are their owner's, under names of his own. Their driver, which knows
// of no owners, has each under an id.

// diskRow is what the registry says of a kept disk.
type diskRow struct {
	place
	id, driver, origin, held string
	created                  time.Time
	size                     int64
	keeping                  bool // the sandbox that it is to be kept of is being destroyed
}

// diskRows returns the kept disks that a condition names; it may go on with
// "order by".
func diskRows(ctx context.Context, q querier, where string, args ...any) ([]diskRow, error) {
	rows, err := q.QueryContext(ctx, "select id, app, user, name, driver, origin, created, size, keeping, held from disks where "+where, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []diskRow
	for rows.Next() {
		var d diskRow
		var created, keeping int64
		if err := rows.Scan(&d.id, &d.owner.App, &d.owner.User, &d.name, &d.driver, &d.origin, &created, &d.size, &keeping, &d.held); err != nil {
			return nil, err
		}
		d.created, d.keeping = when(created), keeping != 0
		list = append(list, d)
	}
	return list, rows.Err()
}

// findDisk returns an owner's disk, or ErrNotFound.
func findDisk(ctx context.Context, q querier, p place) (diskRow, error) {
	list, err := diskRows(ctx, q, "app = ? and user = ? and name = ?", p.owner.App, p.owner.User, p.name)
	if err == nil && len(list) == 0 {
		err = fmt.Errorf("disk %q: %w; 'atoll disk ls' shows what is kept", clip(p.name, 63), atoll.ErrNotFound)
	}
	if err != nil {
		return diskRow{}, err
	}
	return list[0], nil
}

// takeDisk gives a new sandbox the kept disk that its configuration names, and
// notes what the driver calls it.
func (f *Fleet) takeDisk(ctx context.Context, tx *sql.Tx, r *row) error {
	m := r.cfg.Machine
	if m == nil || m.Disk == "" {
		return nil
	}
	d, err := findDisk(ctx, tx, place{r.owner, m.Disk})
	switch {
	case err != nil:
		return &atoll.FieldError{Field: "machine.disk", Err: err}
	case d.keeping:
		return fmt.Errorf("disk %q: %w: the sandbox %s that has it is being destroyed; wait for that", d.name, atoll.ErrState, d.origin)
	case d.held != "":
		return fmt.Errorf("disk %q: %w: sandbox %s uses it", d.name, atoll.ErrState, d.held)
	case d.driver != r.driver:
		return fmt.Errorf("disk %q: %w: driver %s has it, and the sandbox is of driver %s", d.name, atoll.ErrUnsupported, d.driver, r.driver)
	}
	r.disk = d.id
	_, err = tx.ExecContext(ctx, "update disks set held = ? where id = ?", r.id, d.id)
	return err
}

// dropDisk gives back the disk of a sandbox that is gone, and makes one that was
// to be kept of it a kept one.
func (f *Fleet) dropDisk(ctx context.Context, tx *sql.Tx, r *row) error {
	if !f.hasDisks(r.driver) {
		return nil
	}
	list, err := diskRows(ctx, tx, "origin = ? and keeping = 1", r.id)
	if err != nil {
		return err
	}
	for _, d := range list {
		if err := f.emit(ctx, tx, atoll.Event{Time: f.now(), Type: "disk.kept", Owner: d.owner, Object: d.name, Name: d.name, Data: map[string]string{"sandbox": r.id}}); err != nil {
			return err
		}
	}
	if _, err := tx.ExecContext(ctx, "update disks set keeping = 0, created = ? where origin = ? and keeping = 1", stamp(f.now()), r.id); err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, "update disks set held = '' where held = ?", r.id)
	return err
}

// Fresh starts a stopped sandbox, or one in error, as it was when it was created:
// its disks are discarded, and the steps that prepare it are done again.
func (s *Sandbox) Fresh(ctx context.Context) error {
	if m := s.b.known().cfg.Machine; m != nil && m.Disk != "" {
		return s.fail("start", fmt.Errorf("%w: it works on the kept disk %q, which is not discarded: start it as it is, or remove it and make one without that disk", atoll.ErrState, m.Disk))
	}
	return move(ctx, s, freshening, func(t atoll.Fresher, ctx context.Context) error {
		if err := t.Fresh(ctx); err != nil {
			return err
		}
		return s.f.store.write(context.WithoutCancel(ctx), func(tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, "delete from snapshots where sandbox = ?", s.b.id)
			if err == nil {
				_, err = tx.ExecContext(ctx, "delete from prepared where place = ?", preparedBy(s.b.id))
			}
			return err
		})
	})
}

// DestroyKeeping removes the sandbox, but for the disk of its working directory,
// which its owner keeps under a name. A sandbox that came with a kept disk gives
// it back under this name.
func (s *Sandbox) DestroyKeeping(ctx context.Context, name string) error {
	const op = "destroy"
	if err := s.need(op, atoll.ScopeRun); err != nil {
		return err
	}
	noted := s.audited(op, "keep disk "+clip(name, 63))
	err := s.f.destroyKeeping(ctx, s.b, name)
	noted(err)
	return s.fail(op, err)
}

func (f *Fleet) destroyKeeping(ctx context.Context, b *box, name string) error {
	if err := atoll.CheckName(name); err != nil {
		return &atoll.FieldError{Field: "keep_disk", Err: fmt.Errorf("name of the disk: %w", err)}
	}
	ctx, leave, err := f.operate(ctx)
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
	if err := b.keepsDisk(&r); err != nil {
		return err
	}
	b = f.enter(r)
	release, err := b.take(ctx)
	if err != nil {
		return err
	}
	defer release()
	return f.demolishAs(ctx, b, "", func(tx *sql.Tx, r *row) error { return f.claimName(ctx, tx, r, name) })
}

// keepsDisk refuses what has no disk that could be kept.
func (b *box) keepsDisk(r *row) error {
	if b.bay == nil {
		return fmt.Errorf("%w: its driver %q is not set up", errNotHere, r.driver)
	}
	if ft, ok := b.bay.asked(); ok && !ft.Disks {
		return fmt.Errorf("%w by driver %s: its sandboxes have no disks that could be kept; files outlive sandboxes in a workspace", atoll.ErrUnsupported, r.driver)
	}
	if m := r.cfg.Machine; m != nil && m.Persist != nil && !*m.Persist {
		return fmt.Errorf("%w: it was made with persist false: its disks are not kept", atoll.ErrState)
	}
	return nil
}

// claimName takes down under which name the disk of a sandbox, that is about to be
// destroyed, is kept.
func (f *Fleet) claimName(ctx context.Context, tx *sql.Tx, r *row, name string) error {
	taken, err := findDisk(ctx, tx, place{r.owner, name})
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
	if len(has) > 0 { // it came with one, or this was begun before
		_, err = tx.ExecContext(ctx, "update disks set name = ? where id = ?", name, has[0].id)
		return err
	}
	_, err = tx.ExecContext(ctx, "insert into disks (id, app, user, name, driver, origin, created, size, keeping) values (?, ?, ?, ?, ?, ?, ?, ?, 1)",
		"d"+atoll.NewID()[1:], r.owner.App, r.owner.User, name, r.driver, r.id, stamp(f.now()), max(r.cfg.Limits.Disk, 0))
	return err
}

// razeKeeping removes what the driver has of a sandbox, but for the disk that is
// to be kept of it, if one is. It may be done already, or in part.
func (f *Fleet) razeKeeping(ctx context.Context, b *box) error {
	if !f.hasDisks(b.known().driver) {
		return b.raze(ctx)
	}
	list, err := diskRows(ctx, f.store.db, "origin = ? and keeping = 1", b.id)
	if err != nil {
		return err
	}
	if len(list) == 0 {
		return b.raze(ctx)
	}
	sb, err := b.inner(ctx)
	if err == nil {
		err = atoll.DestroyKeeping(ctx, sb, list[0].id)
	}
	return ignore(err, atoll.ErrNotFound)
}

// unkeep takes back that a disk is to be kept of a sandbox, which its driver can't
// do: the sandbox is as it was.
func (f *Fleet) unkeep(ctx context.Context, b *box) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endurance)
	defer cancel()
	_, err := f.change(ctx, b.id, func(tx *sql.Tx, r *row) error {
		if _, err := tx.ExecContext(ctx, "delete from disks where origin = ? and keeping = 1", r.id); err != nil {
			return err
		}
		r.goal = "" // it goes nowhere: its driver says how it is
		return f.save(ctx, tx, r)
	})
	if err == nil {
		_, err = f.settle(ctx, b.id, nil)
	}
	b.calls.open()
	return err
}

// Disks returns the owner's kept disks in the order of names.
func (a *Account) Disks(ctx context.Context) ([]atoll.Disk, error) {
	const op = "disks"
	if err := a.need(op, atoll.ScopeRead); err != nil {
		return nil, err
	}
	list, err := a.f.disks(ctx, a.caller.Owner)
	if err != nil {
		return nil, &atoll.Error{Op: op, Err: err}
	}
	return list, nil
}

func (f *Fleet) disks(ctx context.Context, o atoll.Owner) ([]atoll.Disk, error) {
	rows, err := diskRows(ctx, f.store.db, "app = ? and user = ? order by name", o.App, o.User)
	if err != nil {
		return nil, err
	}
	held := make(map[string][]atoll.Disk) // by driver
	list := make([]atoll.Disk, 0, len(rows))
	for _, d := range rows {
		disk := atoll.Disk{Name: d.name, Owner: d.owner, Driver: d.driver, Size: d.size, Created: d.created, From: d.origin, Sandbox: d.held}
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

// hasDisks reports whether sandboxes of a driver may have disks that are kept.
func (f *Fleet) hasDisks(driver string) bool {
	b := f.bay(driver)
	if b == nil {
		return true // who has it knows
	}
	ft, asked := b.asked()
	return !asked || ft.Disks
}

// diskStore returns the driver that has disks.
func (f *Fleet) diskStore(driver string) (atoll.DiskStore, error) {
	b := f.bay(driver)
	if b == nil {
		return nil, fmt.Errorf("%w: driver %q is not set up", errNotHere, driver)
	}
	s, ok := b.driver.(atoll.DiskStore)
	if !ok {
		return nil, fmt.Errorf("%w by driver %s", atoll.ErrUnsupported, driver)
	}
	return s, nil
}

// RemoveDisk forgets a kept disk and all on it. One that a sandbox uses is
// ErrState.
func (a *Account) RemoveDisk(ctx context.Context, name string) error {
	const op = "disk remove"
	if err := a.need(op, atoll.ScopeRun); err != nil {
		return err
	}
	noted := a.audited(op, clip(name, 100), "")
	err := a.f.removeDisk(ctx, place{a.caller.Owner, name})
	noted(err)
	if err != nil {
		return &atoll.Error{Op: op, ID: clip(name, 100), Err: err}
	}
	return nil
}

func (f *Fleet) removeDisk(ctx context.Context, p place) error {
	ctx, leave, err := f.operate(ctx)
	if err != nil {
		return err
	}
	defer leave()
	return f.store.write(ctx, func(tx *sql.Tx) error { // nobody takes it meanwhile
		d, err := findDisk(ctx, tx, p)
		if err != nil {
			return err
		}
		if d.keeping || d.held != "" {
			user := d.held
			if d.keeping {
				user = d.origin
			}
			return fmt.Errorf("%w: sandbox %s has it; remove that first", atoll.ErrState, user)
		}
		store, err := f.diskStore(d.driver)
		if err == nil {
			err = ignore(store.RemoveDisk(ctx, d.id), atoll.ErrNotFound)
		}
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, "delete from disks where id = ?", d.id); err != nil {
			return err
		}
		return f.emit(ctx, tx, atoll.Event{Time: f.now(), Type: "disk.removed", Owner: d.owner, Object: d.name, Name: d.name})
	})
}

// diskUsage returns what the files of an owner's disks that no sandbox has may
// take; the limits of sandboxes have the others.
func diskUsage(ctx context.Context, q querier, o atoll.Owner) (bytes int64, err error) {
	var sum float64
	err = q.QueryRowContext(ctx, "select cast(coalesce(sum(size), 0) as double precision) from disks where app = ? and user = ? and keeping = 0 and held = ''", o.App, o.User).Scan(&sum)
	return int64(min(sum, mostUsage)), err
}
