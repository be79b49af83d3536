//go:build linux || darwin

package fleet

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll"
)

// noWait lets no open wait for the other end of a pipe, or for a device.
const noWait = syscall.O_NONBLOCK

// moveAt gives a name of one directory to what has a name in another, in one
// step. Neither name is followed.
func moveAt(from *os.File, name string, to *os.File, newName string) error {
	return descriptor(from, func(a int) error {
		return descriptor(to, func(b int) error { return unix.Renameat(a, name, b, newName) })
	})
}

// makePipe makes a named pipe.
func makePipe(name string) error { return unix.Mkfifo(name, 0o600) }

// setTime gives a name its time; a link is not followed.
func setTime(name string, at time.Time) error {
	ts := unix.NsecToTimespec(at.UnixNano())
	return unix.UtimesNanoAt(unix.AT_FDCWD, name, []unix.Timespec{ts, ts}, unix.AT_SYMLINK_NOFOLLOW)
}

// descriptor calls f with the descriptor of an open file.
func descriptor(file *os.File, f func(fd int) error) error {
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

// fileID tells files apart.
type fileID struct{ dev, ino uint64 }

// links says which file it is that info describes, and how many names it has.
func links(info fs.FileInfo) (fileID, int64) {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fileID{}, 1
	}
	return fileID{uint64(s.Dev), s.Ino}, int64(s.Nlink) //nolint:unconvert // their types differ between systems
}

// reasons are what the host's errors mean, where package io/fs has no word.
var reasons = map[syscall.Errno]error{
	syscall.ENOSPC: atoll.ErrQuota, syscall.EDQUOT: atoll.ErrQuota, syscall.EFBIG: atoll.ErrQuota, syscall.EMLINK: atoll.ErrQuota,
	syscall.ENOTDIR: atoll.ErrInvalid, syscall.EISDIR: atoll.ErrInvalid, syscall.ELOOP: atoll.ErrInvalid, syscall.EINVAL: atoll.ErrInvalid,
	syscall.ENAMETOOLONG: atoll.ErrInvalid, syscall.ENXIO: atoll.ErrInvalid, syscall.EXDEV: atoll.ErrInvalid, syscall.EILSEQ: atoll.ErrInvalid,
	syscall.EMFILE: atoll.ErrUnavailable, syscall.ENFILE: atoll.ErrUnavailable, syscall.ENOMEM: atoll.ErrUnavailable,
	syscall.EBUSY: atoll.ErrUnavailable, syscall.EROFS: atoll.ErrDenied,
}

// reasonOf returns the word for an error of the host; nil if it is not one.
func reasonOf(err error) error {
	if no, ok := errors.AsType[syscall.Errno](err); ok {
		return reasons[no]
	}
	return nil
}
