package vfs

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const omitTime = unix.UTIME_OMIT

func hostTimes(s *syscall.Stat_t) (atime, ctime time.Time) {
	return time.Unix(s.Atim.Unix()), time.Unix(s.Ctim.Unix())
}
