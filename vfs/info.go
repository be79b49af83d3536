package vfs

import (
	"io/fs"
	"math"
	"sync/atomic"
	"time"
)

// Info describes a file. It implements [fs.FileInfo].
type Info struct {
	name                       string
	mode                       fs.FileMode
	fixed                      bool // in a mount that is read-only
	size                       int64
	ino                        uint64
	nlink, uid, gid, rdev      uint32
	atime, mtime, ctime, btime int64
	blocks                     int64
	target                     string
}

var _ fs.FileInfo = Info{}

// toInfo describes an inode under a name. The caller holds the lock.
func (in *inode) toInfo(name string) Info {
	i := Info{
		name: name, mode: in.mode, size: in.size, ino: in.ino,
		nlink: in.nlink, uid: in.uid, gid: in.gid, rdev: in.rdev,
		atime: atomic.LoadInt64(&in.atime), mtime: in.mtime, ctime: in.ctime, btime: in.btime,
	}
	switch {
	case in.isDir():
		i.nlink += min(in.nlink, 1) + uint32(in.dir.subdirs)
		i.size = 4096
		i.blocks = 8
	case in.isSymlink():
		i.size, i.target = int64(len(in.target)), in.target
	case in.isFile():
		i.blocks = (in.allocatedBytes() + 4095) / 4096 * 8
	}
	return i
}

// Name returns the last name of the path that was described.
func (i Info) Name() string { return i.name }

// Size returns the length of a file or of a link's target.
func (i Info) Size() int64 { return i.size }

// Mode returns the file type and the permissions.
func (i Info) Mode() fs.FileMode { return i.mode }

// ModTime returns when the content was last changed.
func (i Info) ModTime() time.Time { return fromNanos(i.mtime) }

// IsDir reports whether the file is a directory.
func (i Info) IsDir() bool { return i.mode.IsDir() }

// ReadOnly reports whether the file is in a read-only mount.
func (i Info) ReadOnly() bool { return i.fixed }

// Linkname returns the target of a symbolic link.
func (i Info) Linkname() string { return i.target }

// Sys returns the Info itself.
func (i Info) Sys() any { return i }

// Ino returns the inode number. Numbers of removed files are reused.
func (i Info) Ino() uint64 { return i.ino }

// Nlink returns the number of hard links; a directory has one for each
// subdirectory and two of its own.
func (i Info) Nlink() int { return int(i.nlink) }

// Uid returns the user id of the owner.
func (i Info) Uid() int { return int(i.uid) }

// Gid returns the group id.
func (i Info) Gid() int { return int(i.gid) }

// Rdev returns the device number of a device.
func (i Info) Rdev() uint32 { return i.rdev }

// Blocks returns how many units of 512 bytes the content occupies, without
// holes.
func (i Info) Blocks() int64 { return i.blocks }

// Atime returns when the content was first read after its last change, or the
// time set by Chtimes. Reads of a file that a snapshot shares don't update it.
func (i Info) Atime() time.Time { return fromNanos(i.atime) }

// Ctime returns when the inode was last changed.
func (i Info) Ctime() time.Time { return fromNanos(i.ctime) }

// BirthTime returns when the inode was created.
func (i Info) BirthTime() time.Time { return fromNanos(i.btime) }

func fromNanos(ns int64) time.Time { return time.Unix(0, ns).UTC() }

// toNanos converts a time to nanoseconds since 1970, clamped to what int64
// holds.
func toNanos(t time.Time) int64 {
	const maxSec = math.MaxInt64 / 1_000_000_000
	switch sec := t.Unix(); {
	case sec >= maxSec:
		return math.MaxInt64
	case sec <= -maxSec:
		return math.MinInt64
	}
	return t.UnixNano()
}

// dirEntry is an entry that ReadDir returns.
type dirEntry struct{ info Info }

func (d *dirEntry) Name() string               { return d.info.name }
func (d *dirEntry) IsDir() bool                { return d.info.IsDir() }
func (d *dirEntry) Type() fs.FileMode          { return d.info.mode.Type() }
func (d *dirEntry) Info() (fs.FileInfo, error) { return d.info, nil }
func (d *dirEntry) String() string             { return fs.FormatDirEntry(d) }

// mountEntry is a directory entry that is a mount point.
type mountEntry struct {
	dirEntry
	m *mount
}

// Info describes the top directory of the mount.
func (d *mountEntry) Info() (fs.FileInfo, error) {
	info, err := d.m.host.rootDir().Lstat(".")
	if err != nil {
		return nil, pathError("lstat", d.m.path, hostErrno(err))
	}
	return hostInfo(info, d.info.name), nil
}

// list describes the entries of a directory. The caller holds the lock.
func (t *tree) list(entries []entry) []fs.DirEntry {
	infos := make([]dirEntry, len(entries))
	out := make([]fs.DirEntry, len(entries))
	for i, it := range entries {
		infos[i].info = t.table.get(it.ino).toInfo(it.name)
		out[i] = &infos[i]
		if t.mounts != nil && t.mounts[it.ino] != nil {
			out[i] = &mountEntry{infos[i], t.mounts[it.ino]}
		}
	}
	return out
}

// NewInfo describes a file that is in no tree, such as a pipe or a file that
// a kernel generates. Its ino should be one that no tree uses.
func NewInfo(name string, mode fs.FileMode, size int64, ino uint64, when time.Time) Info {
	at := toNanos(when)
	return Info{name: name, mode: mode, size: size, ino: ino, nlink: 1, atime: at, mtime: at, ctime: at, btime: at}
}
