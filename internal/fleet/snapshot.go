package fleet

import (
	"context"
	"database/sql"
	"errors"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet/registry"
)

// Snapshot takes a snapshot of the present state. The name may be empty.
func (s *Sandbox) Snapshot(ctx context.Context, name string) (info atoll.SnapshotInfo, err error) {
	if err := s.checkRecreate("snapshot"); err != nil {
		return info, s.wrapError("snapshot", err)
	}
	noted := s.startAudit("snapshot", name)
	err = callInner(ctx, s, "snapshot", func(ctx context.Context, t atoll.Snapshotter) (err error) {
		if name != "" {
			if err := atoll.CheckName(name); err != nil {
				return err
			}
		}
		if info, err = t.Snapshot(ctx, name); err != nil {
			return err
		}
		return s.f.registry.Write(context.WithoutCancel(ctx), func(tx *sql.Tx) error {
			return errors.Join(insertSnapshot(ctx, tx, info), s.emitSnapshotEvent(ctx, tx, "sandbox.snapshot", info))
		})
	})
	noted(err)
	return info, err
}

// Restore restores the sandbox to a snapshot, by id or name.
func (s *Sandbox) Restore(ctx context.Context, snapshot string) error {
	if err := s.checkRecreate("restore"); err != nil {
		return s.wrapError("restore", err)
	}
	noted := s.startAudit("restore", snapshot)
	err := callInner(ctx, s, "restore", func(ctx context.Context, t atoll.Snapshotter) error {
		if err := t.Restore(ctx, snapshot); err != nil {
			return err
		}
		return s.f.registry.Write(context.WithoutCancel(ctx), func(tx *sql.Tx) error {
			return s.emitSnapshotEvent(ctx, tx, "sandbox.restored", atoll.SnapshotInfo{Name: snapshot})
		})
	})
	noted(err)
	return err
}

// Snapshots lists the snapshots, oldest first.
func (s *Sandbox) Snapshots(ctx context.Context) (list []atoll.SnapshotInfo, err error) {
	err = callInner(ctx, s, "list snapshots", func(ctx context.Context, t atoll.SnapshotKeeper) (err error) {
		if list, err = t.Snapshots(ctx); err != nil {
			return err
		}
		return s.f.registry.Write(ctx, func(tx *sql.Tx) error { return replaceSnapshots(ctx, tx, s.b.id, list) })
	})
	return list, err
}

// RemoveSnapshot removes a snapshot, by id or name.
func (s *Sandbox) RemoveSnapshot(ctx context.Context, snapshot string) error {
	noted := s.startAudit("remove snapshot", snapshot)
	err := callInner(ctx, s, "remove snapshot", func(ctx context.Context, t atoll.SnapshotKeeper) error {
		if err := t.RemoveSnapshot(ctx, snapshot); err != nil {
			return err
		}
		return s.f.registry.Write(context.WithoutCancel(ctx), func(tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, "delete from snapshots where sandbox = ? and (id = ? or name = ? and name <> '')", s.b.id, snapshot, snapshot)
			return err
		})
	})
	noted(err)
	return err
}

// emitSnapshotEvent emits an event about a snapshot of the sandbox.
func (s *Sandbox) emitSnapshotEvent(ctx context.Context, tx *sql.Tx, what string, info atoll.SnapshotInfo) error {
	r := s.b.cachedRow()
	return s.f.events.Emit(ctx, tx, atoll.Event{
		Time: s.f.now(), Type: what, Owner: r.owner, Object: r.id, Name: r.name, Data: map[string]string{"snapshot": info.Name, "id": info.ID},
	})
}

// insertSnapshot adds a snapshot to the registry.
func insertSnapshot(ctx context.Context, tx *sql.Tx, i atoll.SnapshotInfo) error {
	_, err := tx.ExecContext(ctx, "insert into snapshots (id, sandbox, name, created, size, files) values (?, ?, ?, ?, ?, ?) on conflict do nothing",
		i.ID, i.Sandbox, i.Name, registry.Timestamp(i.Created), i.Size, i.Files)
	return err
}

// replaceSnapshots replaces the recorded snapshots of a sandbox by the driver's.
func replaceSnapshots(ctx context.Context, tx *sql.Tx, sandbox string, list []atoll.SnapshotInfo) error {
	if _, err := tx.ExecContext(ctx, "delete from snapshots where sandbox = ?", sandbox); err != nil {
		return err
	}
	for _, i := range list {
		if err := insertSnapshot(ctx, tx, i); err != nil {
			return err
		}
	}
	return nil
}

// Snapshots returns the snapshots of all the owner's sandboxes, oldest first.
func (a *Account) Snapshots(ctx context.Context) ([]atoll.SnapshotInfo, error) {
	if err := errors.Join(a.checkOwnerOp("list snapshots"), a.checkScope("list snapshots", atoll.ScopeRead)); err != nil {
		return nil, err
	}
	list, err := a.f.listSnapshots(ctx, a.caller.Owner)
	if err != nil {
		return nil, &atoll.Error{Op: "list snapshots", Err: err}
	}
	return list, nil
}

func (f *Fleet) listSnapshots(ctx context.Context, o atoll.Owner) ([]atoll.SnapshotInfo, error) {
	rows, err := f.registry.DB.QueryContext(ctx, `select s.id, s.name, s.sandbox, s.created, s.size, s.files from snapshots s join sandboxes b on b.id = s.sandbox
		where b.app = ? and b.user = ? and b.state <> 'destroyed' order by s.created, s.id`, o.App, o.User)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	list := []atoll.SnapshotInfo{}
	for rows.Next() {
		var i atoll.SnapshotInfo
		var created int64
		if err := rows.Scan(&i.ID, &i.Name, &i.Sandbox, &created, &i.Size, &i.Files); err != nil {
			return nil, err
		}
		i.Created = registry.Time(created)
		list = append(list, i)
	}
	return list, rows.Err()
}
