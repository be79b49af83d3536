package microvm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/image"
	"github.com/atoll-sandbox/atoll/internal/machine"
	"github.com/atoll-sandbox/atoll/internal/rootdisk"
)

// The serials by which a guest finds its disks.
const (
	rootSerial = "root"
	workSerial = "workspace"
)

// The user of a sandbox's commands where none is named.
const (
	userID   = 1000
	userName = "atoll"
	userHome = "/home/atoll"
)

var _ atoll.DiskStore = (*Driver)(nil)

// disks keeps what machines have for disks.
func (d *Driver) disks() *rootdisk.Store { return &rootdisk.Store{Dir: d.Dir} }

// source is what the root disk of a sandbox is made of.
func (d *Driver) source(spec *atoll.Spec) rootdisk.Source {
	ref := d.imageOf(spec)
	if filepath.IsAbs(ref) {
		return rootdisk.Source{Dir: ref}
	}
	return rootdisk.Source{Images: d.store(), Ref: ref}
}

// imageOf is the image of a sandbox.
func (d *Driver) imageOf(spec *atoll.Spec) string {
	for _, ref := range []string{spec.Image, d.Image} {
		if ref != "" {
			return ref
		}
	}
	return atoll.DefaultImage
}

// checkImage reports a directory of the host that nobody has offered.
func (d *Driver) checkImage(spec *atoll.Spec) error {
	if !filepath.IsAbs(spec.Image) || slices.Contains(d.Roots, spec.Image) || spec.Image == d.Image {
		return nil
	}
	return &atoll.FieldError{Field: "image", Err: fmt.Errorf("image %s: %w: root disks are made of images, and of those directories of the host that whoever runs atoll has named for it", spec.Image, atoll.ErrDenied)}
}

// makeDisks makes the disks of a new sandbox.
func (d *Driver) makeDisks(ctx context.Context, r *record) error {
	from := d.source(&r.Spec)
	if from.Images != nil {
		if _, err := d.store().Ensure(ctx, from.Ref, r.Spec.Progress); err != nil {
			return fmt.Errorf("image %s: %w", from.Ref, err)
		}
		if _, err := d.store().Use(ctx, from.Ref, r.ID); err != nil { // so that nobody removes it
			return fmt.Errorf("image %s: %w", from.Ref, err)
		}
	}
	if _, err := d.disks().Use(ctx, r.ID, from, r.Spec.Progress); err != nil {
		return fmt.Errorf("root disk of %s: %w", d.imageOf(&r.Spec), err)
	}
	return d.fillDisks(ctx, r)
}

// fillDisks makes the root disk over its base, and that of the working
// directory, unless a kept one is that.
func (d *Driver) fillDisks(ctx context.Context, r *record) error {
	base, err := d.disks().Used(r.ID)
	if err != nil {
		return err
	}
	r.DiskSize = max(r.Spec.Limits.Disk, 0)
	if err := d.disks().Overlay(filepath.Join(d.dir(r.ID), rootFile), base, r.DiskSize); err != nil {
		return err
	}
	if m := r.Spec.Machine; m != nil && m.Disk != "" {
		if _, err := d.disks().Take(ctx, m.Disk, r.ID); err != nil {
			return fmt.Errorf("disk %s: %w", m.Disk, err)
		}
		r.Kept = m.Disk
		return d.save(r)
	}
	r.untouched = true
	return d.disks().Workspace(filepath.Join(d.dir(r.ID), workFile), r.DiskSize, userID, userID)
}

// freshDisks discards what a sandbox has written since it was made, and its
// snapshots.
func (d *Driver) freshDisks(ctx context.Context, r *record) error {
	if r.Kept != "" {
		return fmt.Errorf("%w: its working directory is the kept disk %s, which is not discarded: remove the sandbox and make one without it", atoll.ErrState, r.Kept)
	}
	if err := os.RemoveAll(filepath.Join(d.dir(r.ID), snapshotDir)); err != nil {
		return err
	}
	return d.emptyDisks(ctx, r)
}

// emptyDisks makes the disks of a sandbox anew, which has no kept one.
func (d *Driver) emptyDisks(ctx context.Context, r *record) error {
	for _, name := range []string{rootFile, workFile} {
		if err := os.RemoveAll(filepath.Join(d.dir(r.ID), name)); err != nil {
			return err
		}
	}
	return d.fillDisks(ctx, r)
}

// workDisk returns the file of a sandbox's working directory.
func (d *Driver) workDisk(ctx context.Context, r *record) (string, error) {
	if r.Kept == "" {
		return filepath.Join(d.dir(r.ID), workFile), nil
	}
	k, err := d.disks().Take(ctx, r.Kept, r.ID)
	return k.Path, err
}

// devices returns the disks of a sandbox as its machine sees them.
func (d *Driver) devices(ctx context.Context, r *record) ([]machine.Disk, error) {
	work, err := d.workDisk(ctx, r)
	if err != nil {
		return nil, err
	}
	var list []machine.Disk
	for _, f := range []struct{ serial, path string }{{rootSerial, filepath.Join(d.dir(r.ID), rootFile)}, {workSerial, work}} {
		chain, err := d.disks().Chain(f.path)
		if err != nil {
			return nil, fmt.Errorf("disk %s: %w", f.serial, err)
		}
		disk := machine.Disk{File: chain[0].File, Format: chain[0].Format, Serial: f.serial}
		for _, l := range chain[1:] {
			disk.Backing = append(disk.Backing, machine.Backing{File: l.File, Format: l.Format})
		}
		list = append(list, disk)
	}
	return list, nil
}

// leaveDisks gives back what a sandbox that is cleared in a directory has of the
// disks of all, and keeps its working directory if that is to be.
func (d *Driver) leaveDisks(ctx context.Context, dir string, r *record) error {
	var err error
	switch {
	case r.Kept != "":
		err = d.disks().GiveBack(ctx, r.Kept, r.ID, r.Keep)
		if errors.Is(err, atoll.ErrNotFound) {
			err = nil // nobody has it any more
		}
	case r.Keep != "":
		err = d.disks().Keep(ctx, r.Keep, filepath.Join(dir, workFile), rootdisk.Kept{From: r.ID, Size: r.DiskSize})
	}
	if err != nil {
		return err
	}
	return errors.Join(d.disks().Release(r.ID), d.store().Release(r.ID))
}

// DestroyKeeping removes the sandbox, but keeps its working directory's disk
// under a name.
func (s *Sandbox) DestroyKeeping(ctx context.Context, name string) error {
	err := s.change(ctx, "keep disk", func(r *record) error {
		if wantsFresh(r) {
			return fmt.Errorf("%w: it was made with persist off: its disks are discarded", atoll.ErrState)
		}
		if name != r.Kept {
			if err := s.d.freeName(ctx, name); err != nil {
				return err
			}
		}
		if err := s.switchOff(ctx, r); err != nil { // so that its files are on the disk
			return err
		}
		r.State, r.Keep = atoll.Stopped, name
		if err := s.d.save(r); err != nil {
			return err
		}
		return s.d.home().Erase(s.id, r)
	})
	s.HangUp()
	if errors.Is(err, atoll.ErrNotFound) && s.d.keptFrom(ctx, name, s.id) {
		return nil
	}
	return err
}

// freeName reports a name of a kept disk that is taken.
func (d *Driver) freeName(ctx context.Context, name string) error {
	if err := atoll.CheckName(name); err != nil {
		return err
	}
	list, err := d.disks().Disks(ctx)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(list, func(k rootdisk.Kept) bool { return k.Name == name }) {
		return fmt.Errorf("disk %s: %w", name, atoll.ErrExists)
	}
	return nil
}

// keptFrom tells whether a disk of a name was kept of a sandbox.
func (d *Driver) keptFrom(ctx context.Context, name, id string) bool {
	list, err := d.disks().Disks(ctx)
	return err == nil && slices.ContainsFunc(list, func(k rootdisk.Kept) bool { return k.Name == name && k.From == id })
}

// Disks returns the kept disks, by name.
func (d *Driver) Disks(ctx context.Context) ([]atoll.Disk, error) {
	list, err := d.disks().Disks(ctx)
	if err != nil {
		return nil, &atoll.Error{Op: "list disks", Err: err}
	}
	disks := make([]atoll.Disk, len(list))
	for i, k := range list {
		disks[i] = atoll.Disk{Name: k.Name, Size: k.Size, Used: k.Used, Created: k.Created, From: k.From, Sandbox: k.User}
	}
	return disks, nil
}

// RemoveDisk forgets a kept disk and all on it.
func (d *Driver) RemoveDisk(ctx context.Context, name string) error {
	if err := d.disks().RemoveDisk(ctx, name); err != nil {
		return &atoll.Error{Op: "remove disk", ID: name, Err: err}
	}
	return nil
}

// imageConfig returns what the image of a sandbox says of its programs.
func (d *Driver) imageConfig(r *record) (image.Config, error) {
	base, err := d.disks().Used(r.ID)
	return base.Config, err
}

// taken returns how many bytes of the host a file takes.
func taken(name string) (int64, error) {
	var st unix.Stat_t
	if err := unix.Stat(name, &st); err != nil {
		return 0, &os.PathError{Op: "stat", Path: name, Err: err}
	}
	return st.Blocks * 512, nil
}

// quota says of an error that a disk of the host is full, if nobody has.
func quota(err error) error {
	if !errors.Is(err, atoll.ErrQuota) && (errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT)) {
		return fmt.Errorf("%w: the host's disk is full: %w", atoll.ErrQuota, err)
	}
	return err
}
