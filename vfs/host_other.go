//go:build !linux && !darwin

package vfs

import (
	"io/fs"
	"os"
	"time"
)

// hostMounts is false where files have no numbers, by which commands know
// that two names lead to one file, and where opening a pipe may block.
const hostMounts = false

const openFlags = 0

func hostReason(err error) Errno {
	if err == nil {
		return 0
	}
	return reason(err)
}

// hostAttr is what only the host's own description of a file says.
type hostAttr struct {
	id       fileID
	nlink    uint64
	uid, gid uint32
	rdev     uint32
	blocks   int64

	atime, ctime time.Time
}

func hostStat(fs.FileInfo) hostAttr { return hostAttr{nlink: 1} }

func linkTimes(*os.Root, string, time.Time, time.Time) error { return ENOTSUP }

func (h *Host) space() (total, free int64, err error) { return 0, 0, ENOTSUP }
