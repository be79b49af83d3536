//go:build unix

package api

import (
	"math"

	"golang.org/x/sys/unix"
)

// maxDescriptors returns how many descriptors this process may have, or 0 if there is no limit.
func maxDescriptors() int {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil || uint64(l.Cur) > math.MaxInt32 {
		return 0
	}
	return int(l.Cur)
}
