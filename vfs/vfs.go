// Package vfs implements an in-memory file system with the semantics of Unix:
// files, directories, hard and symbolic links, modes and times. Quotas bound
// what a tree may hold, and a snapshot takes constant time whatever the size
// of the tree.
//
// The package does not touch the host, except for the directories that
// [FS.Mount] makes visible. All paths are absolute and slash separated. They
// need not be clean: they are walked link by link, as a Unix kernel does, so
// ".." after a symbolic link to a directory is the parent of the link's
// target.
//
// # Quotas
//
// A tree is charged for the logical size of its files and the length of its
// link targets (Bytes), and for each name in it (Nodes): a second hard link
// counts again, the root does not count. A hole is charged as if it had been
// written, so a charge bounds the memory behind it. A file that is unlinked
// while open stays charged until its last Close. Files that come from
// [Options.Base] are free until their content is changed; from then on the
// whole file is charged.
//
// An operation that would exceed a quota fails with an error for which
// errors.Is(err, atoll.ErrQuota) holds, and changes nothing: there are no
// short writes.
//
// # Snapshots
//
// Inodes and data blocks carry the epoch they were written in. A snapshot
// only starts a new epoch; inodes and blocks of an older epoch are copied
// when they are next written. Bytes that only snapshots hold are not charged
// to the tree: each snapshot holds at most its own Usage().Bytes, and
// [HeldBytes] measures how many bytes a set of snapshots keeps alive.
package vfs

import (
	"io/fs"
	"math"
	"sync"
	"time"
)

// Defaults for the zero fields of a [Quota].
const (
	DefaultBytes = 100 << 20 // all files together
	DefaultFile  = 10 << 20  // one file
	DefaultNodes = 10_000    // names
	DefaultName  = 255       // bytes of one name
	DefaultPath  = 4096      // bytes of one path, as PATH_MAX counts them
	DefaultLinks = 40        // symbolic links followed for one path
)

// maxFile limits the size of a file even where no quota does: it keeps the
// block list small.
const maxFile = 1 << 36

// Quota limits what a file system may hold. A zero field means the default, a
// negative one means no limit.
type Quota struct {
	Bytes int64 // sizes of all files and link targets
	File  int64 // size of one file
	Nodes int   // names of files, directories and links
	Name  int   // length of one name
	Path  int   // length of one path; a path must be shorter
	Links int   // symbolic links followed on the way along one path
}

// limitOrDefault returns def for a zero v, none for a negative one, else v.
func limitOrDefault[T int | int64](v, def, none T) T {
	switch {
	case v == 0:
		return def
	case v < 0:
		return none
	}
	return v
}

// effective returns the quota with the defaults filled in.
func (q Quota) effective() Quota {
	return Quota{
		Bytes: limitOrDefault(q.Bytes, DefaultBytes, math.MaxInt64),
		File:  min(limitOrDefault(q.File, DefaultFile, maxFile), maxFile),
		Nodes: limitOrDefault(q.Nodes, DefaultNodes, math.MaxInt),
		Name:  limitOrDefault(q.Name, DefaultName, math.MaxInt),
		Path:  limitOrDefault(q.Path, DefaultPath, math.MaxInt),
		Links: limitOrDefault(q.Links, DefaultLinks, math.MaxInt32),
	}
}

// Options configure a new file system. The zero value is an empty file system
// with the default quota.
type Options struct {
	Quota Quota
	Base  *Snapshot        // initial content, shared and not charged; nil is an empty tree
	Store Store            // default store of [FS.Save]
	Now   func() time.Time // clock; nil is time.Now. It must not use the file system.

	Uid, Gid int // owner of new files
}

// Usage counts what a file system holds, without what came from its base.
type Usage struct {
	Bytes int64 // charged bytes
	Nodes int   // charged names
	Files int   // regular files
	Dirs  int   // directories, without the root
	Quota Quota // the limits in force
}

// FS is an in-memory file system. It is safe for concurrent use; each call is
// atomic.
type FS struct {
	quota    Quota // effective
	now      func() time.Time
	store    Store
	base     *Snapshot
	uid, gid uint32

	mu   sync.RWMutex
	tree *tree // guarded by mu, with everything reachable from it

	mounts []*mount // guarded by mu
}

// New returns a file system with the content of opts.Base, or with only an
// empty root directory. It takes constant time whatever the size of the base.
func New(opts Options) *FS {
	f := &FS{
		quota: opts.Quota.effective(),
		now:   opts.Now,
		store: opts.Store,
		base:  opts.Base,
		uid:   uint32(opts.Uid),
		gid:   uint32(opts.Gid),
	}
	if f.now == nil {
		f.now = time.Now
	}
	if opts.Base != nil {
		f.tree = opts.Base.toTree(new(epoch), Usage{})
		return f
	}
	f.tree = newTree(f.now().UnixNano(), f.uid, f.gid)
	return f
}

// newTree returns a tree that contains only the root directory.
func newTree(now int64, uid, gid uint32) *tree {
	t := &tree{owner: new(epoch), payer: new(epoch)}
	root := &inode{
		owner: t.owner, payer: t.payer, ino: rootIno, mode: fs.ModeDir | 0o755,
		nlink: 1, uid: uid, gid: gid, parent: rootIno, dir: &dir{},
	}
	root.setTimes(now)
	t.table.put(t.owner, root)
	return t
}

// LinkBytes returns the length of the targets of all symbolic links that were followed: a measure of the work that short paths
// can make.
func (f *FS) LinkBytes() int64 {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.tree.linkBytes.Load()
}

// Usage returns the current usage and its limits. It only reads counters.
func (f *FS) Usage() Usage {
	f.mu.RLock()
	defer f.mu.RUnlock()
	t := f.tree
	return Usage{
		Bytes: t.totalBytes(), Nodes: t.totalNodes(),
		Files: t.used.Files + t.lost.Files, Dirs: t.used.Dirs + t.lost.Dirs,
		Quota: f.quota,
	}
}
