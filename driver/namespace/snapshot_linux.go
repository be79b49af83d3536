package namespace

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
)

// snapshotDir holds a sandbox's snapshots: each a directory of its id, with what
// it is and its files.
const (
	snapshotDir  = "snapshots"
	snapshotFile = "snapshot.json"
)

// kept is what is known of a snapshot.
type kept struct {
	atoll.SnapshotInfo

	Base int `json:"base,omitempty"` // of its files' owners
}

func (d *Driver) snapshots(id string) ([]kept, error) {
	dir := filepath.Join(d.dir(id), snapshotDir)
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var list []kept
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(dir, e.Name(), snapshotFile))
		if errors.Is(err, os.ErrNotExist) {
			continue // on its way in or out
		}
		var k kept
		if err == nil {
			err = json.Unmarshal(b, &k)
		}
		if err != nil {
			return nil, err
		}
		list = append(list, k)
	}
	slices.SortFunc(list, func(a, b kept) int { return a.Created.Compare(b.Created) })
	return list, nil
}

// snapshot finds one by id or name.
func (d *Driver) snapshot(id, name string) (kept, error) {
	list, err := d.snapshots(id)
	if err != nil {
		return kept{}, err
	}
	for _, k := range list {
		if name != "" && (k.ID == name || k.Name == name) {
			return k, nil
		}
	}
	return kept{}, fmt.Errorf("snapshot %q: %w", name, atoll.ErrNotFound)
}

// still runs f while no command of the sandbox runs, as far as they can be
// frozen here.
func (d *Driver) still(ctx context.Context, r *record, f func() error) error {
	if r.State != atoll.Running {
		return f()
	}
	fr, err := d.freezer(r)
	if errors.Is(err, atoll.ErrUnsupported) {
		return f()
	}
	if err != nil {
		return err
	}
	if err := fr.freeze(ctx); err != nil {
		return err
	}
	return errors.Join(f(), fr.thaw())
}

// Snapshot keeps the sandbox's own files as they are now.
func (s *Sandbox) Snapshot(ctx context.Context, name string) (atoll.SnapshotInfo, error) {
	var k kept
	err := s.change("snapshot", func(r *record) error {
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
		k = kept{SnapshotInfo: atoll.SnapshotInfo{ID: atoll.NewID(), Name: name, Sandbox: s.id, Created: time.Now()}, Base: r.Base}
		dir := filepath.Join(s.d.dir(s.id), snapshotDir, k.ID)
		err = s.d.keep(ctx, r, &k, dir)
		if err != nil {
			err = errors.Join(err, removeAll(dir))
		}
		return err
	})
	return k.SnapshotInfo, err
}

func (d *Driver) keep(ctx context.Context, r *record, k *kept, dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	private, done, err := d.private(ctx, r)
	if err != nil {
		return err
	}
	defer done()
	err = d.still(ctx, r, func() (err error) {
		k.Files, k.Size, err = copyTree(ctx, private, filepath.Join(dir, rootDir), 0, scratch(r))
		return err
	})
	if err != nil {
		return err
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

// Restore gives the sandbox the files of a snapshot. What runs in it ends.
func (s *Sandbox) Restore(ctx context.Context, snapshot string) error {
	err := s.change("restore", func(r *record) error {
		k, err := s.d.snapshot(s.id, snapshot)
		if err != nil {
			return err
		}
		return s.d.restore(ctx, r, k)
	})
	s.HangUp()
	return err
}

func (d *Driver) restore(ctx context.Context, r *record, k kept) error {
	dir := d.dir(r.ID)
	root := filepath.Join(dir, holder(r))
	fresh, old := root+".new", root+".old"
	if err := errors.Join(removeAll(fresh), removeAll(old)); err != nil {
		return err
	}
	if err := d.refill(ctx, r, filepath.Join(dir, snapshotDir, k.ID, rootDir), fresh, r.Base-k.Base); err != nil {
		return errors.Join(err, removeAll(fresh))
	}
	ran := r.State == atoll.Running || r.State == atoll.Paused
	if err := d.end(r); err != nil {
		return err
	}
	if err := errors.Join(os.Rename(root, old), os.Rename(fresh, root)); err != nil {
		return err
	}
	if ran {
		if err := d.boot(ctx, r); err != nil {
			return err
		}
	}
	return removeAll(old)
}

// Snapshots returns the snapshots, oldest first.
func (s *Sandbox) Snapshots(context.Context) ([]atoll.SnapshotInfo, error) {
	if _, err := s.d.load(s.id); err != nil {
		return nil, s.fail("list snapshots", err)
	}
	list, err := s.d.snapshots(s.id)
	infos := make([]atoll.SnapshotInfo, len(list))
	for i, k := range list {
		infos[i] = k.SnapshotInfo
	}
	return infos, s.fail("list snapshots", err)
}

// RemoveSnapshot forgets a snapshot.
func (s *Sandbox) RemoveSnapshot(_ context.Context, snapshot string) error {
	return s.change("remove snapshot", func(*record) error {
		k, err := s.d.snapshot(s.id, snapshot)
		if err != nil {
			return err
		}
		dir := filepath.Join(s.d.dir(s.id), snapshotDir, k.ID)
		if err := os.Remove(filepath.Join(dir, snapshotFile)); err != nil {
			return err
		}
		return removeAll(dir)
	})
}

// Fork makes a sandbox that starts with the files of this one, as they are or
// were at a snapshot.
func (s *Sandbox) Fork(ctx context.Context, snapshot string, spec atoll.Spec) (atoll.Sandbox, error) {
	if len(spec.Mounts) > 0 || spec.Image != "" || spec.Runtime != "" {
		return nil, s.fail("fork", fmt.Errorf("%w: a fork has the mounts, image and runtime of its first", atoll.ErrInvalid))
	}
	var fork *Sandbox
	err := s.change("fork", func(r *record) (err error) {
		from, base := "", r.Base
		if snapshot == "" {
			var done func()
			if from, done, err = s.d.private(ctx, r); err != nil {
				return err
			}
			defer done()
		} else {
			k, err := s.d.snapshot(s.id, snapshot)
			if err != nil {
				return err
			}
			from, base = filepath.Join(s.d.dir(s.id), snapshotDir, k.ID, rootDir), k.Base
		}
		merged := forked(r.Spec, spec)
		if err := s.d.check(&merged); err != nil {
			return err
		}
		fork, err = s.d.make(ctx, merged, func(n *record, private string) error {
			if r.Spec.Image != "" {
				if _, err := s.d.store().Share(ctx, r.ID, n.ID); err != nil {
					return err
				}
			}
			fill := func() error {
				_, _, err := copyInto(ctx, from, private, n.Base-base, scratch(r))
				return quota(err)
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

// forked is the spec of a fork: of what is asked for, the name, labels,
// environment and limits count where they are set.
func forked(of, asked atoll.Spec) atoll.Spec {
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
