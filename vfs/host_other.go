//go:build !linux && !darwin

package vfs

import (
	"io/fs"
	"os"
	"time"
)

// hostMounts is false on systems without inode numbers, by which commands
// recognize two names of one file, and where opening a pipe may block.
const hostMounts = false

const openFlags = 0

func hostErrno(err error) Errno {
	if err == nil {
		return 0
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

func hostStat(fs.FileInfo) hostAttr { return hostAttr{nlink: 1} }

func setLinkTimes(*os.Root, string, time.Time, time.Time) error { return ENOTSUP }

func (h *Host) diskSpace() (total, free int64, err error) { return 0, 0, ENOTSUP }
