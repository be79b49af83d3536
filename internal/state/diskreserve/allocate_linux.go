package diskreserve

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// allocateSpace allocates the space of a file.
func allocateSpace(f *os.File, size int64) error {
	err := unix.Fallocate(int(f.Fd()), 0, 0, size)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
		return writeZeros(f, size)
	}
	return err
}
