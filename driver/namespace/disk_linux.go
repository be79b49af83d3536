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
	"github.com/atoll-sandbox/atoll/internal/isolation/jail"
	"github.com/atoll-sandbox/atoll/internal/isolation/quotadisk"
)

// diskFile is the name of the file system of a sandbox whose files are limited. It replaces rootDir.
const diskFile = "disk.img"

// hasOwnDisk reports whether the files of a sandbox are on a file system of their own.
func hasOwnDisk(spec *atoll.Spec) bool { return spec.Limits.Disk > 0 || spec.Limits.Files > 0 }

// filesName returns the name of the directory or disk with a sandbox's own files.
func filesName(r *record) string {
	if hasOwnDisk(&r.Spec) {
		return diskFile
	}
	return rootDir
}

// systemFiles is the number of files and directories of an empty root file system. They don't count
// for the limit of files.
const systemFiles = 64

func diskSize(spec *atoll.Spec) quotadisk.Size {
	s := quotadisk.Size{Bytes: max(spec.Limits.Disk, 0)}
	if spec.Limits.Files > 0 {
		s.Files = spec.Limits.Files + systemFiles
	}
	return s
}

// whyNoDisks returns why this process can't limit files; empty: it can.
func whyNoDisks() string {
	err := quotadisk.CheckSupport()
	if err == nil {
		return ""
	}
	return strings.TrimPrefix(err.Error(), atoll.ErrUnsupported.Error()+": ")
}

// checkDisk reports limits of files that can't be enforced.
func checkDisk(spec *atoll.Spec) error {
	if !hasOwnDisk(spec) {
		return nil
	}
	err := quotadisk.CheckSupport()
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

// checkDisks reports whether files can be limited.
func checkDisks() atoll.Check {
	c := atoll.Check{Name: "limit of files", OK: true, Detail: "a sandbox with such a limit has a disk of its own"}
	if why := whyNoDisks(); why != "" {
		c.OK, c.Detail, c.Fix = false, why, "run atoll as root, with e2fsprogs installed and the kernel's module loop"
	}
	return c
}

// makePrivate creates the directory or disk of a sandbox's own files, and returns a path to it that
// is valid until closeMount.
func (d *Driver) makePrivate(ctx context.Context, r *record) (string, error) {
	private := filepath.Join(d.sandboxDir(r.ID), filesName(r))
	if hasOwnDisk(&r.Spec) {
		if err := quotadisk.Create(ctx, private, diskSize(&r.Spec), r.Base); err != nil {
			return "", err
		}
		var err error
		r.mount, err = quotadisk.Mount(ctx, private)
		if err != nil {
			return "", err
		}
		return mountPath(r.mount), nil
	}
	if err := os.Mkdir(private, 0o755); err != nil {
		return "", err
	}
	if r.Base == 0 {
		return private, nil
	}
	return private, os.Lchown(private, r.Base, r.Base)
}

// closeMount closes the mount of a disk that was just made. The sandbox has its own.
func (r *record) closeMount() {
	if r.mount != nil {
		_ = r.mount.Close() // it is only a handle
		r.mount = nil
	}
}

// mountPath returns a path to the root of a mount that has no place in the file system.
func mountPath(mount *os.File) string { return fmt.Sprintf("/proc/self/fd/%d/.", mount.Fd()) }

// openPrivate returns a path to the own files of a sandbox, which is valid until done is called.
func (d *Driver) openPrivate(ctx context.Context, r *record) (path string, done func(), err error) {
	path = filepath.Join(d.sandboxDir(r.ID), filesName(r))
	if !hasOwnDisk(&r.Spec) {
		return path, func() {}, nil
	}
	m, err := quotadisk.Mount(ctx, path)
	if err != nil {
		return "", nil, err
	}
	return mountPath(m), func() { _ = m.Close() }, nil // it was only a handle
}

// privateSource plans the mount of the own files of a sandbox.
func (d *Driver) privateSource(ctx context.Context, p *plan, r *record) (jail.Source, error) {
	path := filepath.Join(d.sandboxDir(r.ID), filesName(r))
	if !hasOwnDisk(&r.Spec) {
		return p.openDir(path, jail.Step{})
	}
	if r.mount != nil {
		fd, err := unix.FcntlInt(r.mount.Fd(), unix.F_DUPFD_CLOEXEC, 3)
		if err != nil {
			return jail.Source{}, os.NewSyscallError("dup", err)
		}
		return jail.Source{File: p.addFile(os.NewFile(uintptr(fd), path))}, nil
	}
	m, err := quotadisk.Mount(ctx, path)
	if err != nil {
		return jail.Source{}, err
	}
	return jail.Source{File: p.addFile(m)}, nil
}

// fillPrivate creates the directory or disk fresh with a copy of the files of a directory.
func (d *Driver) fillPrivate(ctx context.Context, r *record, from, fresh string, shift int) error {
	if !hasOwnDisk(&r.Spec) {
		_, _, err := copyTree(ctx, from, fresh, shift, overlayWorkDir(r))
		return err
	}
	if err := quotadisk.Create(ctx, fresh, diskSize(&r.Spec), r.Base); err != nil {
		return err
	}
	m, err := quotadisk.Mount(ctx, fresh)
	if err != nil {
		return err
	}
	_, _, err = copyInto(ctx, from, mountPath(m), shift, overlayWorkDir(r))
	return wrapDiskFull(errors.Join(err, m.Close()))
}

// overlayWorkDir names the directory among the own files of a sandbox that only the kernel uses.
// Users other than root may not read it, and its content is not needed.
func overlayWorkDir(r *record) string {
	if r.Spec.Image == "" {
		return ""
	}
	return "/work" // of the overlay; see jail.Inside
}

// wrapDiskFull makes the error of a full disk match atoll.ErrQuota.
func wrapDiskFull(err error) error {
	if errors.Is(err, unix.ENOSPC) {
		return fmt.Errorf("%w: %w", atoll.ErrQuota, err)
	}
	return err
}
