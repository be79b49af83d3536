package fdpass

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// firstExtra is the first descriptor besides the standard streams.
const firstExtra = 3

// SealInherited sets close-on-exec for all descriptors of this process besides the standard
// streams. It must be called before a helper process is started: Go opens its own files that way,
// and this does the same for those that this process has inherited. ExtraFiles are not affected.
func SealInherited() error {
	err := unix.CloseRange(firstExtra, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC)
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EPERM) { // before Linux 5.11, or filtered
		err = sealListed()
	}
	return os.NewSyscallError("close_range", err)
}

// sealListed is SealInherited for kernels without close_range.
func sealListed() error {
	list, err := filepath.Glob("/proc/self/fd/[0-9]*")
	if err != nil {
		return err
	}
	if len(list) == 0 {
		return unix.ENOSYS
	}
	for _, name := range list {
		fd, err := strconv.Atoi(filepath.Base(name))
		if err != nil || fd < firstExtra {
			continue
		}
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFD, unix.FD_CLOEXEC); err != nil && !errors.Is(err, unix.EBADF) { // closed meanwhile
			return err
		}
	}
	return nil
}
