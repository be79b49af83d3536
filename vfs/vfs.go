// Package vfs is a file system in memory: files, directories, links, modes
// and times as on Unix, with quotas that nothing can pass and snapshots that
// cost the same whatever their size.
//
// Nothing in it touches the host, but for the directories that [FS.Mount]
// makes seen. All paths are absolute and slash separated;
// they need not be clean and are walked as the kernel of a Unix does, link by
// link: the ".." of a linked directory is the parent of what it leads to.
//
// # Quotas
//
// A tree is charged for the logical size of its files and the length of its
// link targets (Bytes), and for each name in it (Nodes): a second hard link
// counts again, the root does not count. A hole is charged as if it had been
// written, so a charge bounds the memory behind it. A file that is unlinked
// while open stays charged until its last Close. What comes from
// [Options.Base] is free until a file's content is changed; from then on the
// whole file is charged.
//
// An operation that would pass a quota fails with an error for which
// errors.Is(err, atoll.ErrQuota) holds, and changes nothing: there are no
// short writes.
//
// # Snapshots
//
// Inodes and data blocks carry the epoch they were written in. A snapshot
// only starts a new epoch; what is older is copied when it is next written.
// Bytes that only snapshots hold are not charged to the tree: each kept
// snapshot holds at most its own Usage().Bytes, and [Held] measures what a
// set of them really keeps alive.
package vfs

import (
	"io/fs"
	"math"
	"sync"
	"time"
)

// The limits that a zero [Quota] stands for.
const (
	DefaultBytes = 100 << 20 // all files together
	DefaultFile  = 10 << 20  // one file
	DefaultNodes = 10_000    // names
	DefaultName  = 255       // bytes of one name
	DefaultPath  = 4096      // bytes of one path, as PATH_MAX counts them
	DefaultLinks = 40        // symbolic links followed for one path
)

// maxFile bounds a file even where no quota does: its block list stays small.
const maxFile = 1 << 36

// Quota limits what a file system may hold.
// A zero field means the default, a negative one no limit.
type Quota struct {
	Bytes int64 // sizes of all files and link targets
	File  int64 // size of one file
	Nodes int   // names of files, directories and links
	Name  int   // length of one name
	Path  int   // length of one path; a path must be shorter
	Links int   // symbolic links followed on the way along one path
}

func limit[T int | int64](v, def, none T) T {
	switch {
	case v == 0:
		return def
	case v < 0:
		return none
	}
	return v
}

// effective returns the quota with defaults filled in.
func (q Quota) effective() Quota {
	return Quota{
		Bytes: limit(q.Bytes, DefaultBytes, math.MaxInt64),
		File:  min(limit(q.File, DefaultFile, maxFile), maxFile),
		Nodes: limit(q.Nodes, DefaultNodes, math.MaxInt),
		Name:  limit(q.Name, DefaultName, math.MaxInt),
		Path:  limit(q.Path, DefaultPath, math.MaxInt),
		Links: limit(q.Links, DefaultLinks, math.MaxInt32),
	}
}

// Options say how a new file system begins. The zero value is an empty one
// with the default quota.
type Options struct {
	Quota Quota
	Base  *Snapshot        // what the tree starts with, shared and not charged
	Store Store            // where Save(nil) keeps the tree
	Now   func() time.Time // the clock; nil is time.Now. It must not use the file system.

	Uid, Gid int // owner of what is created
}

// Usage is what a file system holds, without what came from its base.
type Usage struct {
	Bytes int64 // charged bytes
	Nodes int   // charged names
	Files int   // regular files
	Dirs  int   // directories, without the root
	Quota Quota // the limits in force
}

// FS is a file system. It is safe for concurrent use; each call is atomic.
type FS struct {
	quota    Quota // effective
	now      func() time.Time
	store    Store
	base     *Snapshot
	uid, gid uint32

	mu   sync.RWMutex
	tree *tree // guarded by mu, and all that it leads to

	mounts []*mount // guarded by mu
}

// New returns a file system that holds what opts.Base holds, or only an
// empty root directory. It costs the same whatever the size of the base.
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
		f.tree = opts.Base.grow(new(epoch), Usage{})
		return f
	}
	f.tree = newTree(f.now().UnixNano(), f.uid, f.gid)
	return f
}

// newTree returns a tree that is only a root.
func newTree(now int64, uid, gid uint32) *tree {
	t := &tree{owner: new(epoch), payer: new(epoch)}
	root := &inode{
		owner: t.owner, payer: t.payer, ino: rootIno, mode: fs.ModeDir | 0o755,
		nlink: 1, uid: uid, gid: gid, parent: rootIno, dir: &dir{},
	}
	root.stamp(now)
	t.table.put(t.owner, root)
	return t
}

// Usage returns what is held and the limits for it. It only reads counters.
func (f *FS) Usage() Usage {
	f.mu.RLock()
	defer f.mu.RUnlock()
	t := f.tree
	return Usage{
		Bytes: t.bytes(), Nodes: t.nodes(),
		Files: t.used.Files + t.lost.Files, Dirs: t.used.Dirs + t.lost.Dirs,
		Quota: f.quota,
	}
}
