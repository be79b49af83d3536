package microvm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/state/journal"
	"github.com/atoll-sandbox/atoll/internal/state/statedir"
	"github.com/atoll-sandbox/atoll/internal/vm/qcow2"
)

// withStillDisks calls f while nothing in a sandbox writes to its disks, and all that was written is
// on them.
func (d *Driver) withStillDisks(ctx context.Context, r *record, f func() error) error {
	if !isActive(r) {
		return f()
	}
	l := d.directLink(r)
	defer l.Disconnect()
	return l.RunFrozen(ctx, []string{"/", atoll.DefaultDir}, f)
}

// copyDisks copies both disks; incomplete copies are removed.
func copyDisks(ctx context.Context, toRoot, root, toWork, work string) error {
	err := qcow2.Copy(ctx, toRoot, root)
	if err == nil {
		if err = qcow2.Copy(ctx, toWork, work); err != nil {
			err = errors.Join(err, os.Remove(toRoot))
		}
	}
	return err
}

// Snapshot copies the sandbox's disks as they are now.
func (s *Sandbox) Snapshot(ctx context.Context, name string) (atoll.SnapshotInfo, error) {
	var k statedir.Snapshot
	err := s.withLock(ctx, "snapshot", func(r *record) (err error) {
		return s.d.runAct(r, actSnapshot, nil, func(*journal.Act) (err error) {
			if k, err = s.d.stateHome().Snapshots(s.id).New(name); err != nil {
				return err
			}
			return s.d.copySnapshot(ctx, r, &k)
		})
	})
	return k.SnapshotInfo, err
}

// copySnapshot copies the disks of a sandbox to a snapshot whose directory exists.
func (d *Driver) copySnapshot(ctx context.Context, r *record, k *statedir.Snapshot) error {
	dir := d.stateHome().Snapshots(r.ID).Path(k.ID)
	work, err := d.workDisk(ctx, r)
	if err != nil {
		return err
	}
	if k.Files, err = d.countFiles(ctx, r); err != nil {
		return err
	}
	root := filepath.Join(d.sandboxDir(r.ID), rootFile)
	err = d.withStillDisks(ctx, r, func() error {
		return copyDisks(ctx, filepath.Join(dir, rootFile), root, filepath.Join(dir, workFile), work)
	})
	if err != nil {
		return err
	}
	for _, name := range []string{rootFile, workFile} {
		n, err := allocatedBytes(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		k.Size += n
	}
	return d.stateHome().Snapshots(r.ID).Save(k)
}

// countFiles returns the number of files of a running sandbox; 0 for others.
func (d *Driver) countFiles(ctx context.Context, r *record) (int, error) {
	if !isActive(r) {
		return 0, nil
	}
	l := d.directLink(r)
	l.CountedDirs = countedDirs()
	defer l.Disconnect()
	st, err := l.Stats(ctx)
	return st.Files, err
}

// Restore replaces the sandbox's disks with those of a snapshot. Its processes end; if it ran, it is
// started again.
func (s *Sandbox) Restore(ctx context.Context, snapshot string) error {
	err := s.withLock(ctx, "restore", func(r *record) error {
		k, err := s.d.stateHome().Snapshots(s.id).Find(snapshot)
		if err != nil {
			return err
		}
		return s.d.restoreSnapshot(ctx, r, k)
	})
	s.Disconnect()
	return err
}

func (d *Driver) restoreSnapshot(ctx context.Context, r *record, k statedir.Snapshot) error {
	return d.runAct(r, actRestore, restoreArgs{}, func(act *journal.Act) error {
		root, work, err := d.restoredDisks(ctx, r)
		if err != nil {
			return err
		}
		if err := d.removeRestoredDisks(ctx, r); err != nil { // of a time before the host was restarted
			return err
		}
		from := d.stateHome().Snapshots(r.ID).Path(k.ID)
		if err := copyDisks(ctx, root+restoredSuffix, filepath.Join(from, rootFile), work+restoredSuffix, filepath.Join(from, workFile)); err != nil {
			return err
		}
		start := isActive(r)
		if err := act.Update(restoreArgs{Filled: true, Start: start}); err != nil {
			return err
		}
		err = d.finishRestore(ctx, r, start)
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
	list, err := s.d.stateHome().Snapshots(s.id).Infos()
	return list, s.wrapError("list snapshots", err)
}

// RemoveSnapshot removes a snapshot.
func (s *Sandbox) RemoveSnapshot(ctx context.Context, snapshot string) error {
	return s.withLock(ctx, "remove snapshot", func(r *record) error {
		snapshots := s.d.stateHome().Snapshots(s.id)
		k, err := snapshots.Find(snapshot)
		if err != nil {
			return err
		}
		return s.d.runAct(r, actRemoveSnapshot, nil, func(*journal.Act) error {
			if err := snapshots.RemoveRecord(&k); err != nil {
				return err
			}
			return os.RemoveAll(snapshots.Path(k.ID))
		})
	})
}

// Fork creates a sandbox that starts with the disks of this one, as they are or were at a snapshot.
// It is a new VM: the running processes are not copied.
func (s *Sandbox) Fork(ctx context.Context, snapshot string, spec atoll.Spec) (atoll.Sandbox, error) {
	if len(spec.Mounts) > 0 || spec.Image != "" || spec.Runtime != "" || spec.VM != nil {
		return nil, s.wrapError("fork", fmt.Errorf("%w: a fork has the mounts, image and machine settings of its origin", atoll.ErrInvalid))
	}
	var fork *Sandbox
	err := s.withLock(ctx, "fork", func(r *record) error {
		root, work, err := s.d.forkFrom(ctx, r, snapshot)
		if err != nil {
			return err
		}
		merged, err := forkSpec(r, spec)
		if err == nil {
			err = s.d.check(ctx, &merged)
		}
		if err != nil {
			return err
		}
		fork, err = s.d.newSandbox(ctx, merged, func(ctx context.Context, n *record) error {
			if err := s.d.shareBase(ctx, r, n); err != nil {
				return err
			}
			fill := func() error {
				return copyDisks(ctx, filepath.Join(s.d.sandboxDir(n.ID), rootFile), root, filepath.Join(s.d.sandboxDir(n.ID), workFile), work)
			}
			if snapshot != "" {
				return fill()
			}
			return s.d.runAct(r, actFork, nil, func(*journal.Act) error { return s.d.withStillDisks(ctx, r, fill) })
		})
		return err
	})
	if err != nil {
		return nil, err
	}
	return fork, nil
}

// forkFrom returns the disks that a fork starts with.
func (d *Driver) forkFrom(ctx context.Context, r *record, snapshot string) (root, work string, err error) {
	if snapshot == "" {
		work, err = d.workDisk(ctx, r)
		return filepath.Join(d.sandboxDir(r.ID), rootFile), work, err
	}
	k, err := d.stateHome().Snapshots(r.ID).Find(snapshot)
	if err != nil {
		return "", "", err
	}
	dir := d.stateHome().Snapshots(r.ID).Path(k.ID)
	return filepath.Join(dir, rootFile), filepath.Join(dir, workFile), nil
}

// shareBase lets a fork use the base disk and the image of its origin.
func (d *Driver) shareBase(ctx context.Context, of, fork *record) error {
	fork.DiskSize = of.DiskSize
	if _, err := d.diskStore().Share(ctx, of.ID, fork.ID); err != nil {
		return err
	}
	if d.rootSource(&of.Spec).Images == nil {
		return nil
	}
	_, err := d.imageStore().Share(ctx, of.ID, fork.ID)
	return err
}

// forkSpec returns the spec of a fork. Name, labels, environment and limits are those that were
// asked for, where they are set.
func forkSpec(r *record, asked atoll.Spec) (atoll.Spec, error) {
	of := r.Spec
	of.ID, of.Name, of.Progress, of.Owner = asked.ID, asked.Name, asked.Progress, asked.Owner
	if of.VM != nil && of.VM.Disk != "" { // the origin has that disk; the fork has a copy
		m := *of.VM
		m.Disk = ""
		of.VM = &m
	}
	if asked.Labels != nil {
		of.Labels = asked.Labels
	}
	if asked.Env != nil {
		of.Env = asked.Env
	}
	if asked.Limits == (atoll.Resources{}) {
		return of, nil
	}
	of.Limits = asked.Limits
	if of.Limits.Disk == 0 {
		of.Limits.Disk = r.DiskSize
	}
	if max(of.Limits.Disk, 0) != r.DiskSize {
		return of, fmt.Errorf("limits.disk %d: %w by the microvm driver: the disks of a fork are as large as those of its origin: %d bytes (0: no limit)", of.Limits.Disk, atoll.ErrUnsupported, r.DiskSize)
	}
	return of, nil
}
