package vfs

import (
	"io/fs"
	"time"
)

// Special describes a file that is in no tree: a pipe or what a kernel shows
// of itself. Its ino should be one that no tree uses.
func Special(name string, mode fs.FileMode, size int64, ino uint64, when time.Time) Info {
	at := timeStamp(when)
	return Info{name: name, mode: mode, size: size, ino: ino, nlink: 1, atime: at, mtime: at, ctime: at, btime: at}
}

// ForkQuota is Fork with a quota of its own. What is there already stays,
// also where it is more than the quota allows; it can then only shrink.
func (f *FS) ForkQuota(q Quota) *FS {
	n := f.Fork()
	n.quota = q.effective()
	return n
}
