package qcow2

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll"
)

const noFollow = unix.O_NOFOLLOW | unix.O_NONBLOCK

// used is how much of the host's disk a file takes.
func used(info fs.FileInfo) int64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return st.Blocks * 512
	}
	return info.Size()
}

// clone makes a file a reference to another's content, if it can be one.
func clone(to, from *os.File) bool {
	return unix.IoctlFileClone(int(to.Fd()), int(from.Fd())) == nil
}

// data finds the next part of a file that is no hole; behind the last one it is
// (size, size).
func data(f *os.File, at, size int64) (from, to int64, err error) {
	from, err = unix.Seek(int(f.Fd()), at, unix.SEEK_DATA)
	if errors.Is(err, unix.ENXIO) || err == nil && from >= size {
		return size, size, nil
	}
	if err == nil {
		to, err = unix.Seek(int(f.Fd()), from, unix.SEEK_HOLE)
	}
	return from, min(to, size), os.NewSyscallError("lseek", err)
}

// full says that a full disk is one.
func full(err error) error {
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		return fmt.Errorf("%w: the host's disk is full: %w", atoll.ErrQuota, err)
	}
	return err
}
