package microvm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/qcow2"
)

// snapshotFile says what a snapshot is, in its directory, beside its disks; it is
// written last.
const snapshotFile = "snapshot.json"

func (d *Driver) snapshotPath(id, snapshot string) string {
	return filepath.Join(d.dir(id), snapshotDir, snapshot)
}

func (d *Driver) snapshots(id string) ([]atoll.SnapshotInfo, error) {
	entries, err := os.ReadDir(filepath.Join(d.dir(id), snapshotDir))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var list []atoll.SnapshotInfo
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(d.snapshotPath(id, e.Name()), snapshotFile))
		if errors.Is(err, os.ErrNotExist) {
			continue // on its way in or out
		}
		var k atoll.SnapshotInfo
		if err == nil {
			err = json.Unmarshal(b, &k)
		}
		if err != nil {
			return nil, err
		}
		list = append(list, k)
	}
	slices.SortFunc(list, func(a, b atoll.SnapshotInfo) int { return a.Created.Compare(b.Created) })
	return list, nil
}

// snapshot finds one by id or name.
func (d *Driver) snapshot(id, name string) (atoll.SnapshotInfo, error) {
	list, err := d.snapshots(id)
	if err != nil {
		return atoll.SnapshotInfo{}, err
	}
	for _, k := range list {
		if name != "" && (k.ID == name || k.Name == name) {
			return k, nil
		}
	}
	return atoll.SnapshotInfo{}, fmt.Errorf("snapshot %q: %w", name, atoll.ErrNotFound)
}

// still runs f while nothing in a sandbox writes to its disks, and what was
// written is on them.
func (d *Driver) still(ctx context.Context, r *record, f func() error) error {
	if r.State != atoll.Running && r.State != atoll.Paused {
		return f()
	}
	l := d.direct(r)
	defer l.HangUp()
	return l.Still(ctx, []string{"/", atoll.DefaultDir}, f)
}

// copyDisks copies both disks; what is half copied is removed.
func copyDisks(ctx context.Context, toRoot, root, toWork, work string) error {
	err := qcow2.Copy(ctx, toRoot, root)
	if err == nil {
		if err = qcow2.Copy(ctx, toWork, work); err != nil {
			err = errors.Join(err, os.Remove(toRoot))
		}
	}
	return err
}

// Snapshot keeps the sandbox's disks as they are now.
func (s *Sandbox) Snapshot(ctx context.Context, name string) (atoll.SnapshotInfo, error) {
	k := atoll.SnapshotInfo{ID: atoll.NewID(), Name: name, Sandbox: s.id, Created: time.Now()}
	err := s.change(ctx, "snapshot", func(r *record) error {
		if name != "" {
			if err := atoll.CheckName(name); err != nil {
				return err
			}
		}
		list, err := s.d.snapshots(s.id)
		if err != nil {
			return err
		}
		for _, o := range list {
			if name != "" && (o.Name == name || o.ID == name) {
				return fmt.Errorf("snapshot %q: %w", name, atoll.ErrExists)
			}
		}
		dir := s.d.snapshotPath(s.id, k.ID)
		if err = s.d.keep(ctx, r, &k, dir); err != nil {
			err = errors.Join(err, os.RemoveAll(dir))
		}
		return err
	})
	return k, err
}

func (d *Driver) keep(ctx context.Context, r *record, k *atoll.SnapshotInfo, dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	work, err := d.workDisk(ctx, r)
	if err != nil {
		return err
	}
	if k.Files, err = d.files(ctx, r); err != nil {
		return err
	}
	root := filepath.Join(d.dir(r.ID), rootFile)
	err = d.still(ctx, r, func() error {
		return copyDisks(ctx, filepath.Join(dir, rootFile), root, filepath.Join(dir, workFile), work)
	})
	if err != nil {
		return err
	}
	for _, name := range []string{rootFile, workFile} {
		n, err := taken(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		k.Size += n
	}
	b, err := json.Marshal(k)
	if err != nil {
		return err
	}
	tmp := filepath.Join(dir, snapshotFile+".new")
	if err := os.WriteFile(tmp, b, 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, filepath.Join(dir, snapshotFile))
}

// files counts the files of a sandbox that runs; of others it is not known.
func (d *Driver) files(ctx context.Context, r *record) (int, error) {
	if r.State != atoll.Running && r.State != atoll.Paused {
		return 0, nil
	}
	l := d.direct(r)
	l.Counted = counted()
	defer l.HangUp()
	st, err := l.Stats(ctx)
	return st.Files, err
}

// Restore gives the sandbox the disks of a snapshot. What runs in it ends.
func (s *Sandbox) Restore(ctx context.Context, snapshot string) error {
	err := s.change(ctx, "restore", func(r *record) error {
		k, err := s.d.snapshot(s.id, snapshot)
		if err != nil {
			return err
		}
		return s.d.restore(ctx, r, k)
	})
	s.HangUp()
	return err
}

func (d *Driver) restore(ctx context.Context, r *record, k atoll.SnapshotInfo) error {
	ran := r.State == atoll.Running || r.State == atoll.Paused
	if err := d.end(r); err != nil {
		return err
	}
	r.State, r.Restoring = atoll.Stopped, k.ID // who comes after a crash finishes it
	if err := d.save(r); err != nil {
		return err
	}
	if err := d.finishRestore(ctx, r); err != nil {
		return err
	}
	if !ran {
		return nil
	}
	return d.boot(ctx, r)
}

// finishRestore puts the disks of a snapshot into place, if that was begun.
func (d *Driver) finishRestore(ctx context.Context, r *record) error {
	if r.Restoring == "" {
		return nil
	}
	work, err := d.workDisk(ctx, r)
	if err != nil {
		return err
	}
	from, root := d.snapshotPath(r.ID, r.Restoring), filepath.Join(d.dir(r.ID), rootFile)
	for _, fresh := range []string{root + ".new", work + ".new"} {
		if err := os.Remove(fresh); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	if err := copyDisks(ctx, root+".new", filepath.Join(from, rootFile), work+".new", filepath.Join(from, workFile)); err != nil {
		return err
	}
	if err := errors.Join(os.Rename(root+".new", root), os.Rename(work+".new", work)); err != nil {
		return err
	}
	r.Restoring = ""
	return d.save(r)
}

// Snapshots returns the snapshots, oldest first.
func (s *Sandbox) Snapshots(context.Context) ([]atoll.SnapshotInfo, error) {
	if _, err := s.d.load(s.id); err != nil {
		return nil, s.fail("list snapshots", err)
	}
	list, err := s.d.snapshots(s.id)
	return list, s.fail("list snapshots", err)
}

// RemoveSnapshot forgets a snapshot.
func (s *Sandbox) RemoveSnapshot(ctx context.Context, snapshot string) error {
	return s.change(ctx, "remove snapshot", func(r *record) error {
		k, err := s.d.snapshot(s.id, snapshot)
		if err != nil {
			return err
		}
		if k.ID == r.Restoring {
			return fmt.Errorf("%w: a restore of it broke off: start the sandbox, or restore it again", atoll.ErrState)
		}
		dir := s.d.snapshotPath(s.id, k.ID)
		if err := os.Remove(filepath.Join(dir, snapshotFile)); err != nil {
			return err
		}
		return os.RemoveAll(dir)
	})
}

// Fork makes a sandbox that starts with the disks of this one, as they are or
// were at a snapshot. It is a machine of its own: nothing of what runs goes along.
func (s *Sandbox) Fork(ctx context.Context, snapshot string, spec atoll.Spec) (atoll.Sandbox, error) {
	if len(spec.Mounts) > 0 || spec.Image != "" || spec.Runtime != "" || spec.Machine != nil {
		return nil, s.fail("fork", fmt.Errorf("%w: a fork has the mounts, image and kind of machine of its first", atoll.ErrInvalid))
	}
	var fork *Sandbox
	err := s.change(ctx, "fork", func(r *record) error {
		root, work, err := s.d.forkFrom(ctx, r, snapshot)
		if err != nil {
			return err
		}
		merged, err := forked(r, spec)
		if err == nil {
			err = s.d.check(ctx, &merged)
		}
		if err != nil {
			return err
		}
		fork, err = s.d.make(ctx, merged, func(ctx context.Context, n *record) error {
			if err := s.d.shareBase(ctx, r, n); err != nil {
				return err
			}
			fill := func() error {
				return copyDisks(ctx, filepath.Join(s.d.dir(n.ID), rootFile), root, filepath.Join(s.d.dir(n.ID), workFile), work)
			}
			if snapshot != "" {
				return fill()
			}
			return s.d.still(ctx, r, fill)
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
		return filepath.Join(d.dir(r.ID), rootFile), work, err
	}
	k, err := d.snapshot(r.ID, snapshot)
	if err != nil {
		return "", "", err
	}
	dir := d.snapshotPath(r.ID, k.ID)
	return filepath.Join(dir, rootFile), filepath.Join(dir, workFile), nil
}

// shareBase lets a fork use what its first uses.
func (d *Driver) shareBase(ctx context.Context, of, fork *record) error {
	fork.DiskSize = of.DiskSize
	if _, err := d.disks().Share(ctx, of.ID, fork.ID); err != nil {
		return err
	}
	if d.source(&of.Spec).Images == nil {
		return nil
	}
	_, err := d.store().Share(ctx, of.ID, fork.ID)
	return err
}

// forked is the spec of a fork: of what is asked for, the name, labels,
// environment and limits count where they are set.
func forked(r *record, asked atoll.Spec) (atoll.Spec, error) {
	of := r.Spec
	of.ID, of.Name, of.Progress, of.Owner = asked.ID, asked.Name, asked.Progress, asked.Owner
	if of.Machine != nil && of.Machine.Disk != "" { // that is its first's; the fork has a copy
		m := *of.Machine
		m.Disk = ""
		of.Machine = &m
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
		return of, fmt.Errorf("limits.disk %d: %w by the microvm driver: the disks of a fork are as large as those of its first: %d bytes (0: no limit)", of.Limits.Disk, atoll.ErrUnsupported, r.DiskSize)
	}
	return of, nil
}
