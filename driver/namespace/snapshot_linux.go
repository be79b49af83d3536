package namespace

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/state/journal"
	"github.com/atoll-sandbox/atoll/internal/state/statedir"
)

// withFrozenCommands calls f while the commands of the sandbox are frozen, if this host can do that.
func (d *Driver) withFrozenCommands(ctx context.Context, r *record, f func() error) error {
	if r.State != atoll.Running {
		return f()
	}
	fr, err := d.openFreezer(r)
	if errors.Is(err, atoll.ErrUnsupported) {
		return f()
	}
	if err != nil {
		return err
	}
	if err := fr.freezeCommands(ctx); err != nil {
		return err
	}
	return errors.Join(f(), fr.thawCommands())
}

// Snapshot copies the sandbox's own files as they are now.
func (s *Sandbox) Snapshot(ctx context.Context, name string) (atoll.SnapshotInfo, error) {
	var k statedir.Snapshot
	err := s.withLock(ctx, "snapshot", func(r *record) (err error) {
		return s.d.stateHome().RunAct(s.id, r, actSnapshot, nil, func(*journal.Act) (err error) {
			if k, err = s.d.stateHome().Snapshots(s.id).New(name); err != nil {
				return err
			}
			k.FirstUID = r.Base
			return s.d.copySnapshot(ctx, r, &k)
		})
	})
	return k.SnapshotInfo, err
}

// copySnapshot copies the own files of a sandbox to a snapshot whose directory exists.
func (d *Driver) copySnapshot(ctx context.Context, r *record, k *statedir.Snapshot) error {
	private, done, err := d.openPrivate(ctx, r)
	if err != nil {
		return err
	}
	defer done()
	err = d.withFrozenCommands(ctx, r, func() (err error) {
		k.Files, k.Size, err = copyTree(ctx, private, d.snapshotRoot(r.ID, k), 0, overlayWorkDir(r))
		return err
	})
	if err != nil {
		return err
	}
	return d.stateHome().Snapshots(r.ID).Save(k)
}

// snapshotRoot returns the directory of the files of a snapshot.
func (d *Driver) snapshotRoot(id string, k *statedir.Snapshot) string {
	return filepath.Join(d.stateHome().Snapshots(id).Path(k.ID), rootDir)
}

// Restore replaces the sandbox's own files with those of a snapshot. Its processes end; if it ran,
// it is started again.
func (s *Sandbox) Restore(ctx context.Context, snapshot string) error {
	err := s.withLock(ctx, "restore", func(r *record) error {
		k, err := s.d.stateHome().Snapshots(s.id).Find(snapshot)
		if err != nil {
			return err
		}
		return s.d.restoreSnapshot(ctx, r, &k)
	})
	s.Disconnect()
	return err
}

func (d *Driver) restoreSnapshot(ctx context.Context, r *record, k *statedir.Snapshot) error {
	return d.stateHome().RunAct(r.ID, r, actRestore, restoreArgs{}, func(act *journal.Act) error {
		if err := d.fillPrivate(ctx, r, d.snapshotRoot(r.ID, k), d.restoredFiles(r), r.Base-k.FirstUID); err != nil {
			return err
		}
		ran := isActive(r)
		if err := act.Update(restoreArgs{Filled: true, Start: ran}); err != nil {
			return err
		}
		err := d.finishRestore(ctx, r, ran)
		if r.Failure != "" { // it is not to be started a second time
			err = errors.Join(err, act.Update(restoreArgs{Filled: true}))
		}
		return err
	})
}

// Snapshots returns the snapshots, oldest first.
func (s *Sandbox) Snapshots(context.Context) ([]atoll.SnapshotInfo, error) {
	if _, err := s.d.load(s.id); err != nil {
		return nil, s.wrapError("list snapshots", err)
	}
	infos, err := s.d.stateHome().Snapshots(s.id).Infos()
	return infos, s.wrapError("list snapshots", err)
}

// RemoveSnapshot removes a snapshot.
func (s *Sandbox) RemoveSnapshot(ctx context.Context, snapshot string) error {
	return s.withLock(ctx, "remove snapshot", func(r *record) error {
		snapshots := s.d.stateHome().Snapshots(s.id)
		k, err := snapshots.Find(snapshot)
		if err != nil {
			return err
		}
		return s.d.stateHome().RunAct(s.id, r, actRemoveSnapshot, nil, func(*journal.Act) error {
			if err := snapshots.RemoveRecord(&k); err != nil {
				return err
			}
			return removeAll(snapshots.Path(k.ID))
		})
	})
}

// Fork creates a sandbox that starts with the files of this one, as they are or were at a snapshot.
func (s *Sandbox) Fork(ctx context.Context, snapshot string, spec atoll.Spec) (atoll.Sandbox, error) {
	if len(spec.Mounts) > 0 || spec.Image != "" || spec.Runtime != "" {
		return nil, s.wrapError("fork", fmt.Errorf("%w: a fork has the mounts, image and runtime of its first", atoll.ErrInvalid))
	}
	var fork *Sandbox
	err := s.withLock(ctx, "fork", func(r *record) (err error) {
		from, base := "", r.Base
		if snapshot == "" {
			var done func()
			if from, done, err = s.d.openPrivate(ctx, r); err != nil {
				return err
			}
			defer done()
		} else {
			k, err := s.d.stateHome().Snapshots(s.id).Find(snapshot)
			if err != nil {
				return err
			}
			from, base = s.d.snapshotRoot(s.id, &k), k.FirstUID
		}
		merged := forkSpec(r.Spec, spec)
		if err := s.d.check(&merged); err != nil {
			return err
		}
		fork, err = s.d.newSandbox(ctx, merged, func(n *record, private string) error {
			if r.Spec.Image != "" {
				if _, err := s.d.imageStore().Share(ctx, r.ID, n.ID); err != nil {
					return err
				}
			}
			fill := func() error {
				_, _, err := copyInto(ctx, from, private, n.Base-base, overlayWorkDir(r))
				return wrapDiskFull(err)
			}
			if snapshot != "" {
				return fill()
			}
			return s.d.stateHome().RunAct(s.id, r, actFork, nil, func(*journal.Act) error { return s.d.withFrozenCommands(ctx, r, fill) })
		})
		return err
	})
	if err != nil {
		return nil, err
	}
	return fork, nil
}

// forkSpec returns the spec of a fork. Name, labels, environment and limits are those that were
// asked for, where they are set.
func forkSpec(of, asked atoll.Spec) atoll.Spec {
	of.ID, of.Name = asked.ID, asked.Name
	if asked.Labels != nil {
		of.Labels = asked.Labels
	}
	if asked.Env != nil {
		of.Env = asked.Env
	}
	if asked.Limits != (atoll.Resources{}) {
		of.Limits = asked.Limits
	}
	return of
}
