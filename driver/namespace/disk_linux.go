package namespace

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/disk"
	"github.com/atoll-sandbox/atoll/internal/jail"
)

// diskFile holds the file system of a sandbox whose files are limited. It is
// there in the place of rootDir.
const diskFile = "disk.img"

// limited tells whether the files of a sandbox are on a disk of their own.
func limited(spec *atoll.Spec) bool { return spec.Limits.Disk > 0 || spec.Limits.Files > 0 }

// holder names what holds the own files of a sandbox, in its directory.
func holder(r *record) string {
	if limited(&r.Spec) {
		return diskFile
	}
	return rootDir
}

// systemFiles are the directories and files that a root file system has before
// anyone made one: they don't count for the limit of files.
const systemFiles = 64

func diskSize(spec *atoll.Spec) disk.Size {
	s := disk.Size{Bytes: max(spec.Limits.Disk, 0)}
	if spec.Limits.Files > 0 {
		s.Files = spec.Limits.Files + systemFiles
	}
	return s
}

// diskMissing says why this process can't limit files; empty: it can.
func diskMissing() string {
	err := disk.Missing()
	if err == nil {
		return ""
	}
	return strings.TrimPrefix(err.Error(), atoll.ErrUnsupported.Error()+": ")
}

// checkDisk reports which limits of files can't be held.
func checkDisk(spec *atoll.Spec) error {
	if !limited(spec) {
		return nil
	}
	err := disk.Missing()
	if err == nil && spec.Runtime == runtimeRunsc {
		err = fmt.Errorf("%w with the runtime runsc: its files are in a directory of the host", atoll.ErrUnsupported)
	}
	if err == nil {
		err = diskSize(spec).Check()
	}
	if err != nil {
		return fmt.Errorf("limits.disk and limits.files: %w", err)
	}
	return nil
}

// checkDisks says whether files can be limited.
func checkDisks() atoll.Check {
	c := atoll.Check{Name: "limit of files", OK: true, Detail: "a sandbox with such a limit has a disk of its own"}
	if why := diskMissing(); why != "" {
		c.OK, c.Detail, c.Fix = false, why, "run atoll as root, with e2fsprogs installed and the kernel's module loop"
	}
	return c
}

// newPrivate makes the directory of a sandbox's own files, and returns a path to
// it that is good until leaveDisk.
func (d *Driver) newPrivate(ctx context.Context, r *record) (string, error) {
	private := filepath.Join(d.dir(r.ID), holder(r))
	if limited(&r.Spec) {
		if err := disk.Make(ctx, private, diskSize(&r.Spec), r.Base); err != nil {
			return "", err
		}
		var err error
		r.mount, err = disk.Mount(ctx, private)
		if err != nil {
			return "", err
		}
		return within(r.mount), nil
	}
	if err := os.Mkdir(private, 0o755); err != nil {
		return "", err
	}
	if r.Base == 0 {
		return private, nil
	}
	return private, os.Lchown(private, r.Base, r.Base)
}

// leaveDisk closes the mount of a disk that was just made. Its sandbox has one.
func (r *record) leaveDisk() {
	if r.mount != nil {
		_ = r.mount.Close() // it is only a handle
		r.mount = nil
	}
}

// within is a path to the root of a mount that is nowhere to be seen.
func within(mount *os.File) string { return fmt.Sprintf("/proc/self/fd/%d/.", mount.Fd()) }

// private returns a path to the own files of a sandbox, which is good until done
// is called.
func (d *Driver) private(ctx context.Context, r *record) (path string, done func(), err error) {
	path = filepath.Join(d.dir(r.ID), holder(r))
	if !limited(&r.Spec) {
		return path, func() {}, nil
	}
	m, err := disk.Mount(ctx, path)
	if err != nil {
		return "", nil, err
	}
	return within(m), func() { _ = m.Close() }, nil // it was only a handle
}

// privateSource plans the own files of a sandbox.
func (d *Driver) privateSource(ctx context.Context, p *plan, r *record) (jail.Source, error) {
	path := filepath.Join(d.dir(r.ID), holder(r))
	if !limited(&r.Spec) {
		return p.source(path, jail.Step{})
	}
	if r.mount != nil {
		fd, err := unix.FcntlInt(r.mount.Fd(), unix.F_DUPFD_CLOEXEC, 3)
		if err != nil {
			return jail.Source{}, os.NewSyscallError("dup", err)
		}
		return jail.Source{File: p.file(os.NewFile(uintptr(fd), path))}, nil
	}
	m, err := disk.Mount(ctx, path)
	if err != nil {
		return jail.Source{}, err
	}
	return jail.Source{File: p.file(m)}, nil
}

// refill makes what holds the own files of a sandbox anew, with the files of a
// directory.
func (d *Driver) refill(ctx context.Context, r *record, from, fresh string, shift int) error {
	if !limited(&r.Spec) {
		_, _, err := copyTree(ctx, from, fresh, shift, scratch(r))
		return err
	}
	if err := disk.Make(ctx, fresh, diskSize(&r.Spec), r.Base); err != nil {
		return err
	}
	m, err := disk.Mount(ctx, fresh)
	if err != nil {
		return err
	}
	_, _, err = copyInto(ctx, from, within(m), shift, scratch(r))
	return quota(errors.Join(err, m.Close()))
}

// scratch names the directory among the own files of a sandbox that only the kernel
// uses: who is not root may not look into it, and nobody needs what is in it.
func scratch(r *record) string {
	if r.Spec.Image == "" {
		return ""
	}
	return "/work" // of the overlay; see jail.Inside
}

// quota says of a disk that is full that this is a limit.
func quota(err error) error {
	if errors.Is(err, unix.ENOSPC) {
		return fmt.Errorf("%w: %w", atoll.ErrQuota, err)
	}
	return err
}
