package microvm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/guest"
	"github.com/atoll-sandbox/atoll/internal/image"
	"github.com/atoll-sandbox/atoll/internal/state/journal"
	"github.com/atoll-sandbox/atoll/internal/vm/hypervisor"
	"github.com/atoll-sandbox/atoll/internal/vm/rootdisk"
)

// The serial numbers by which a guest finds its disks.
const (
	rootSerial = "root"
	workSerial = "workspace"
)

var _ atoll.DiskStore = (*Driver)(nil)

// diskStore returns the store of base disks and persistent disks.
func (d *Driver) diskStore() *rootdisk.Store { return &rootdisk.Store{Dir: d.Dir} }

// rootSource returns what the root disk of a sandbox is made from. Its Ref is empty if neither the
// sandbox nor the configuration names an image.
func (d *Driver) rootSource(spec *atoll.Spec) rootdisk.Source {
	ref := cmp.Or(spec.Image, d.Image)
	if filepath.IsAbs(ref) {
		return rootdisk.Source{Dir: ref}
	}
	return rootdisk.Source{Images: d.imageStore(), Ref: ref}
}

// checkImage refuses a directory of the host that is not configured as a root.
func (d *Driver) checkImage(spec *atoll.Spec) error {
	if !filepath.IsAbs(spec.Image) || slices.Contains(d.Roots, spec.Image) || spec.Image == d.Image {
		return nil
	}
	return &atoll.FieldError{Field: "image", Err: fmt.Errorf("image %s: %w: root disks are made of images, or of directories of the host that are configured for it", spec.Image, atoll.ErrDenied)}
}

// makeDisks creates the disks of a new sandbox.
func (d *Driver) makeDisks(ctx context.Context, r *record) error {
	from := d.rootSource(&r.Spec)
	if from.Images != nil {
		if err := d.ensureImage(ctx, &from, r.Spec.Progress); err != nil {
			return fmt.Errorf("image %s: %w", cmp.Or(from.Ref, atoll.DefaultImage), err)
		}
		if _, err := d.imageStore().Acquire(ctx, from.Ref, r.ID); err != nil { // so that it is not removed
			return fmt.Errorf("image %s: %w", from.Ref, err)
		}
	}
	if _, err := d.diskStore().AcquireBase(ctx, r.ID, from, r.Spec.Progress); err != nil {
		return fmt.Errorf("root disk of %s: %w", from.Ref, err)
	}
	return d.createDisks(ctx, r)
}

// ensureImage installs the image of a root disk. If neither the sandbox nor the configuration names
// one, it chooses one that is at hand.
func (d *Driver) ensureImage(ctx context.Context, from *rootdisk.Source, progress func(atoll.Progress)) error {
	if from.Ref != "" {
		_, err := d.imageStore().Ensure(ctx, from.Ref, progress)
		return err
	}
	ref, err := d.imageStore().EnsureDefault(ctx, progress)
	if err != nil {
		return err
	}
	from.Ref = ref
	return nil
}

// createDisks creates the root disk over its base, and the disk of the working directory, unless
// that is a persistent disk.
func (d *Driver) createDisks(ctx context.Context, r *record) error {
	base, err := d.diskStore().BaseOf(r.ID)
	if err != nil {
		return err
	}
	r.DiskSize = max(r.Spec.Limits.Disk, 0)
	if err := d.diskStore().CreateRootDisk(filepath.Join(d.sandboxDir(r.ID), rootFile), base, r.DiskSize); err != nil {
		return err
	}
	if m := r.Spec.VM; m != nil && m.Disk != "" {
		if _, err := d.diskStore().ClaimDisk(ctx, m.Disk, r.ID); err != nil {
			return fmt.Errorf("disk %s: %w", m.Disk, err)
		}
		r.Kept = m.Disk
		return d.save(r)
	}
	r.newDisks = true
	return d.diskStore().CreateWorkspaceDisk(filepath.Join(d.sandboxDir(r.ID), workFile), r.DiskSize, guest.UserID, guest.UserID)
}

// checkResettable reports why the disks of a sandbox can't be discarded.
func checkResettable(r *record) error {
	if r.Kept != "" {
		return fmt.Errorf("%w: its working directory is the persistent disk %s, which is not discarded: remove the sandbox and create one without it", atoll.ErrState, r.Kept)
	}
	return nil
}

// resetDisks discards everything that a sandbox has written since its creation, and its snapshots.
func (d *Driver) resetDisks(ctx context.Context, r *record) error {
	if err := os.RemoveAll(d.stateHome().Snapshots(r.ID).Dir); err != nil {
		return err
	}
	return d.recreateDisks(ctx, r)
}

// recreateDisks creates the disks of a sandbox without a persistent disk again.
func (d *Driver) recreateDisks(ctx context.Context, r *record) error {
	for _, name := range []string{rootFile, workFile} {
		if err := os.RemoveAll(filepath.Join(d.sandboxDir(r.ID), name)); err != nil {
			return err
		}
	}
	return d.createDisks(ctx, r)
}

// workDisk returns the file of a sandbox's working directory.
func (d *Driver) workDisk(ctx context.Context, r *record) (string, error) {
	if r.Kept == "" {
		return filepath.Join(d.sandboxDir(r.ID), workFile), nil
	}
	k, err := d.diskStore().ClaimDisk(ctx, r.Kept, r.ID)
	return k.Path, err
}

// diskDevices returns the disks of a sandbox as its VM sees them.
func (d *Driver) diskDevices(ctx context.Context, r *record) ([]hypervisor.Disk, error) {
	work, err := d.workDisk(ctx, r)
	if err != nil {
		return nil, err
	}
	var list []hypervisor.Disk
	for _, f := range []struct{ serial, path string }{{rootSerial, filepath.Join(d.sandboxDir(r.ID), rootFile)}, {workSerial, work}} {
		chain, err := d.diskStore().Chain(f.path)
		if err != nil {
			return nil, fmt.Errorf("disk %s: %w", f.serial, err)
		}
		disk := hypervisor.Disk{File: chain[0].File, Format: chain[0].Format, Serial: f.serial}
		for _, l := range chain[1:] {
			disk.Backing = append(disk.Backing, hypervisor.Backing{File: l.File, Format: l.Format})
		}
		list = append(list, disk)
	}
	return list, nil
}

// releaseDisks releases the base disk and persistent disk of a sandbox that is being removed, whose
// directory is now dir, and keeps its working directory if the record says so.
func (d *Driver) releaseDisks(ctx context.Context, dir string, r *record) error {
	var err error
	switch {
	case r.Kept != "":
		err = d.diskStore().ReleaseDisk(ctx, r.Kept, r.ID, r.Keep)
		if errors.Is(err, atoll.ErrNotFound) {
			err = nil // it was released already
		}
	case r.Keep != "":
		err = d.diskStore().KeepDisk(ctx, r.Keep, filepath.Join(dir, workFile), rootdisk.KeptDisk{CreatedFor: r.ID, Size: r.DiskSize})
	}
	if err != nil {
		return err
	}
	return errors.Join(d.diskStore().Release(r.ID), d.imageStore().Release(r.ID))
}

// DestroyKeepDisk removes the sandbox, but keeps the disk of its working directory under a name.
func (s *Sandbox) DestroyKeepDisk(ctx context.Context, name string) error {
	err := s.withLock(ctx, "keep disk", func(r *record) error {
		if discardsDisks(r) {
			return fmt.Errorf("%w: it was created with persist off: its disks are discarded", atoll.ErrState)
		}
		if name != r.Kept {
			if err := s.d.checkFreeName(ctx, name); err != nil {
				return err
			}
		}
		return s.d.runAct(r, actKeepDisk, keepDiskArgs{Name: name}, func(*journal.Act) error { return s.d.removeKeepingDisk(ctx, r, name) })
	})
	s.Disconnect()
	if errors.Is(err, atoll.ErrNotFound) && s.d.isKeptFrom(ctx, name, s.id) {
		return nil
	}
	return err
}

// removeKeepingDisk removes a sandbox, but keeps the disk of its working directory under a name.
func (d *Driver) removeKeepingDisk(ctx context.Context, r *record, name string) error {
	if err := d.powerOff(ctx, r); err != nil { // so that its files are on the disk
		return err
	}
	r.State, r.Keep = atoll.Stopped, name
	if err := d.save(r); err != nil {
		return err
	}
	return d.stateHome().Remove(r.ID, r)
}

// checkFreeName reports an error if a persistent disk has a name already.
func (d *Driver) checkFreeName(ctx context.Context, name string) error {
	if err := atoll.CheckName(name); err != nil {
		return err
	}
	list, err := d.diskStore().Disks(ctx)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(list, func(k rootdisk.KeptDisk) bool { return k.Name == name }) {
		return fmt.Errorf("disk %s: %w", name, atoll.ErrExists)
	}
	return nil
}

// isKeptFrom reports whether the persistent disk with a name is from a sandbox.
func (d *Driver) isKeptFrom(ctx context.Context, name, id string) bool {
	list, err := d.diskStore().Disks(ctx)
	return err == nil && slices.ContainsFunc(list, func(k rootdisk.KeptDisk) bool { return k.Name == name && k.CreatedFor == id })
}

// Disks returns the persistent disks, sorted by name.
func (d *Driver) Disks(ctx context.Context) ([]atoll.Disk, error) {
	list, err := d.diskStore().Disks(ctx)
	if err != nil {
		return nil, &atoll.Error{Op: "list disks", Err: err}
	}
	disks := make([]atoll.Disk, len(list))
	for i, k := range list {
		disks[i] = atoll.Disk{Name: k.Name, Size: k.Size, Used: k.Used, Created: k.Created, CreatedFor: k.CreatedFor, Sandbox: k.User}
	}
	return disks, nil
}

// RemoveDisk removes a persistent disk and all its data.
func (d *Driver) RemoveDisk(ctx context.Context, name string) error {
	if err := d.diskStore().RemoveDisk(ctx, name); err != nil {
		return &atoll.Error{Op: "remove disk", ID: name, Err: err}
	}
	return nil
}

// imageConfig returns the configuration of a sandbox's image.
func (d *Driver) imageConfig(r *record) (image.Config, error) {
	base, err := d.diskStore().BaseOf(r.ID)
	return base.Config, err
}

// allocatedBytes returns how many bytes a file occupies on the host.
func allocatedBytes(name string) (int64, error) {
	var st unix.Stat_t
	if err := unix.Stat(name, &st); err != nil {
		return 0, &os.PathError{Op: "stat", Path: name, Err: err}
	}
	return st.Blocks * 512, nil
}

// wrapDiskFull makes the error of a full disk of the host match atoll.ErrQuota.
func wrapDiskFull(err error) error {
	if !errors.Is(err, atoll.ErrQuota) && (errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT)) {
		return fmt.Errorf("%w: the host's disk is full: %w", atoll.ErrQuota, err)
	}
	return err
}
