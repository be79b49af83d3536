//go:build linux || darwin

package workspace

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll"
)

// openNonblock keeps open from waiting for the other end of a pipe, or for a device.
const openNonblock = syscall.O_NONBLOCK

// moveAt moves a name of one directory to a name of another, in one step. Neither name is
// followed.
func moveAt(from *os.File, name string, to *os.File, newName string) error {
	return withDescriptor(from, func(a int) error {
		return withDescriptor(to, func(b int) error { return unix.Renameat(a, name, b, newName) })
	})
}

// makePipe creates a named pipe.
func makePipe(name string) error { return unix.Mkfifo(name, 0o600) }

// setTime sets the modification time of a name. A link is not followed.
func setTime(name string, at time.Time) error {
	ts := unix.NsecToTimespec(at.UnixNano())
	return unix.UtimesNanoAt(unix.AT_FDCWD, name, []unix.Timespec{ts, ts}, unix.AT_SYMLINK_NOFOLLOW)
}

// withDescriptor calls f with the descriptor of an open file.
func withDescriptor(file *os.File, f func(fd int) error) error {
	c, err := file.SyscallConn()
	if err != nil {
		return err
	}
	var ferr error
	err = c.Control(func(fd uintptr) {
		for {
			if ferr = f(int(fd)); !errors.Is(ferr, unix.EINTR) {
				return
			}
		}
	})
	return errors.Join(err, ferr)
}

// fileID identifies a file.
type fileID struct{ dev, ino uint64 }

// linkInfo returns the identity of a file and its number of names.
func linkInfo(info fs.FileInfo) (fileID, int64) {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fileID{}, 1
	}
	return fileID{uint64(s.Dev), s.Ino}, int64(s.Nlink) //nolint:unconvert // their types differ between systems
}

// errnoReasons are the errors of package atoll for host errors that package io/fs has none for.
var errnoReasons = map[syscall.Errno]error{
	syscall.ENOSPC: atoll.ErrQuota, syscall.EDQUOT: atoll.ErrQuota, syscall.EFBIG: atoll.ErrQuota, syscall.EMLINK: atoll.ErrQuota,
	syscall.ENOTDIR: atoll.ErrInvalid, syscall.EISDIR: atoll.ErrInvalid, syscall.ELOOP: atoll.ErrInvalid, syscall.EINVAL: atoll.ErrInvalid,
	syscall.ENAMETOOLONG: atoll.ErrInvalid, syscall.ENXIO: atoll.ErrInvalid, syscall.EXDEV: atoll.ErrInvalid, syscall.EILSEQ: atoll.ErrInvalid,
	syscall.EMFILE: atoll.ErrUnavailable, syscall.ENFILE: atoll.ErrUnavailable, syscall.ENOMEM: atoll.ErrUnavailable,
	syscall.EBUSY: atoll.ErrUnavailable, syscall.EROFS: atoll.ErrDenied,
}

// errnoReason returns the error of package atoll for a host error; nil if there is none.
func errnoReason(err error) error {
	if no, ok := errors.AsType[syscall.Errno](err); ok {
		return errnoReasons[no]
	}
	return nil
}
