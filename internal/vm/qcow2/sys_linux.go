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

// diskUsage returns the bytes of the host's disk that a file uses.
func diskUsage(info fs.FileInfo) int64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return st.Blocks * 512
	}
	return info.Size()
}

// cloneFile makes a file a reflink of another; false if that is not possible.
func cloneFile(to, from *os.File) bool {
	return unix.IoctlFileClone(int(to.Fd()), int(from.Fd())) == nil
}

// nextData returns the next range of a file with data; after the last one it is (size, size).
func nextData(f *os.File, at, size int64) (from, to int64, err error) {
	from, err = unix.Seek(int(f.Fd()), at, unix.SEEK_DATA)
	if errors.Is(err, unix.ENXIO) || err == nil && from >= size {
		return size, size, nil
	}
	if err == nil {
		to, err = unix.Seek(int(f.Fd()), from, unix.SEEK_HOLE)
	}
	return from, min(to, size), os.NewSyscallError("lseek", err)
}

// wrapDiskFull adds ErrQuota to the error of a full disk.
func wrapDiskFull(err error) error {
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		return fmt.Errorf("%w: the host's disk is full: %w", atoll.ErrQuota, err)
	}
	return err
}
