//go:build linux || darwin

package vfs

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const hostMounts = true

// openFlags let no open follow a link or wait for the other end of a pipe.
const openFlags = syscall.O_NOFOLLOW | syscall.O_NONBLOCK

// hostErrnos maps error numbers of the host to those of this package.
var hostErrnos = map[syscall.Errno]Errno{
	syscall.ENOENT: ENOENT, syscall.EEXIST: EEXIST, syscall.ENOTDIR: ENOTDIR, syscall.EISDIR: EISDIR, syscall.ENOTEMPTY: ENOTEMPTY,
	syscall.EACCES: EACCES, syscall.EPERM: EPERM, syscall.EINVAL: EINVAL, syscall.ELOOP: ELOOP, syscall.ENAMETOOLONG: ENAMETOOLONG,
	syscall.ENOSPC: ENOSPC, syscall.EFBIG: EFBIG, syscall.EDQUOT: EDQUOT, syscall.EROFS: EROFS, syscall.EXDEV: EXDEV, syscall.EMLINK: EMLINK,
	syscall.ENXIO: ENXIO, syscall.EBUSY: EBUSY, syscall.ENODEV: ENODEV, syscall.EMFILE: EMFILE, syscall.ENFILE: ENFILE, syscall.ENOMEM: ENOMEM,
	syscall.ETXTBSY: ETXTBSY, syscall.EBADF: EBADF, syscall.ENOTSUP: ENOTSUP,
}

// hostErrno returns the reason for an error of the host; EIO where this
// package has none, such as for a link that leads out of the mount.
func hostErrno(err error) Errno {
	if err == nil {
		return 0
	}
	if no, ok := errors.AsType[syscall.Errno](err); ok {
		if e := hostErrnos[no]; e != 0 {
			return e
		}
	}
	return errnoOf(err)
}

// hostAttr holds the attributes that only the host's own description has.
type hostAttr struct {
	id       fileID
	nlink    uint64
	uid, gid uint32
	rdev     uint32
	blocks   int64

	atime, ctime time.Time
}

func hostStat(info fs.FileInfo) hostAttr {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return hostAttr{nlink: 1}
	}
	a := hostAttr{
		id: fileID{uint64(s.Dev), s.Ino}, nlink: uint64(s.Nlink), uid: s.Uid, gid: s.Gid, rdev: uint32(s.Rdev), blocks: s.Blocks,
	}
	a.atime, a.ctime = hostTimes(s)
	return a
}

// setLinkTimes sets the times of a symbolic link in an open directory.
func setLinkTimes(dir *os.Root, name string, atime, mtime time.Time) error {
	f, err := dir.Open(".")
	if err != nil {
		return err
	}
	defer f.Close() // it was only looked at
	c, err := f.SyscallConn()
	if err != nil {
		return err
	}
	ts := []unix.Timespec{linkTimespec(atime), linkTimespec(mtime)}
	cerr := c.Control(func(fd uintptr) {
		err = unix.UtimesNanoAt(int(fd), name, ts, unix.AT_SYMLINK_NOFOLLOW)
	})
	return errors.Join(cerr, err)
}

func linkTimespec(t time.Time) unix.Timespec {
	if t.IsZero() {
		return unix.Timespec{Nsec: omitTime}
	}
	return unix.NsecToTimespec(toNanos(t))
}

// diskSpace returns the size of the directory's file system and its free
// space, in bytes.
func (h *Host) diskSpace() (total, free int64, err error) {
	f, err := h.rootDir().Open(".")
	if err != nil {
		return 0, 0, err
	}
	defer f.Close() // it was only looked at
	c, err := f.SyscallConn()
	if err != nil {
		return 0, 0, err
	}
	var s unix.Statfs_t
	cerr := c.Control(func(fd uintptr) { err = unix.Fstatfs(int(fd), &s) })
	return int64(s.Blocks) * int64(s.Bsize), int64(s.Bavail) * int64(s.Bsize), errors.Join(cerr, err)
}
