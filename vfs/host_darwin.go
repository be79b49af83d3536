package vfs

import (
	"syscall"
	"time"
)

const omitTime = -2 // UTIME_OMIT

func hostTimes(s *syscall.Stat_t) (atime, ctime time.Time) {
	return time.Unix(s.Atimespec.Unix()), time.Unix(s.Ctimespec.Unix())
}
