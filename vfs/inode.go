package vfs

import (
	"io/fs"
	"slices"
	"sync/atomic"
)

const rootIno = 1

// epoch marks an owner: only the holder of the pointer may write in place to
// inodes, pages and blocks that carry it. Its size must not be zero, or all
// epochs would be equal.
type epoch struct{ _ byte }

// inode is one file, directory, link or device of a tree.
type inode struct {
	atime int64  // nanoseconds since 1970; atomic while only read-locked, so first
	owner *epoch // may change the inode in place
	payer *epoch // paid and bytes are its charges

	ino    uint64
	parent uint64 // directory of its name; 0 when it may have more than one name
	mode   fs.FileMode
	nlink  uint32
	uid    uint32
	gid    uint32
	rdev   uint32
	paid   uint32 // number of its names that are charged
	native bool   // created by the payer, not found in its base
	bytes  int64  // charged bytes
	size   int64

	mtime int64
	ctime int64
	btime int64

	blocks []*block // of a file; nil is a hole, as is everything after the last
	dir    *dir     // of a directory
	target string   // of a symbolic link
}

func (in *inode) isDir() bool     { return in.mode.IsDir() }
func (in *inode) isFile() bool    { return in.mode.IsRegular() }
func (in *inode) isSymlink() bool { return in.mode&fs.ModeSymlink != 0 }

// setTimes sets all times of a new inode.
func (in *inode) setTimes(now int64) {
	in.atime, in.mtime, in.ctime, in.btime = now, now, now, now
}

// clone returns a copy that e may change in place.
// Blocks and the leaves of directories stay shared until they are written.
func (in *inode) clone(e *epoch) *inode {
	c := new(inode)
	*c = *in
	c.owner = e
	c.blocks = slices.Clone(in.blocks)
	if in.dir != nil {
		c.dir = in.dir.clone()
	}
	return c
}

// handle is an open inode. It outlives the inode's last name.
type handle struct {
	ino    uint64
	refs   int
	orphan *inode // set when the last name was removed
}

// tree is the state of a file system between two Restores.
type tree struct {
	owner *epoch // the current epoch
	payer *epoch // the account of this line of snapshots
	table table
	used  Usage // of inodes with a name; without Quota
	lost  Usage // of open inodes without a name, which no snapshot contains

	open    map[uint64]*handle // open inodes that have a name
	orphans map[uint64]*handle // open inodes without one
	dead    bool               // replaced by Restore

	wake   chan struct{}     // closed at the next change; nil when nothing observes the tree
	mounts map[uint64]*mount // by the inode number of the target; nil when there are none

	linkBytes atomic.Int64 // length of the targets of all links that were followed
}

// inodeOf returns the inode of a handle.
func (t *tree) inodeOf(h *handle) *inode {
	if h.orphan != nil {
		return h.orphan
	}
	return t.table.get(h.ino)
}

// ownInode returns the inode as one that may be changed in place. It copies
// the inode when a snapshot shares it.
func (t *tree) ownInode(in *inode) *inode {
	if in.owner == t.owner {
		return in
	}
	in = t.table.get(in.ino) // the caller's may be older than the last copy
	if in.owner == t.owner {
		return in
	}
	c := t.copyInode(in)
	t.table.put(t.owner, c)
	if t.wake != nil {
		t.wakeObservers()
	}
	return c
}

// ownHandle is ownInode for an open inode, which may have lost its name.
func (t *tree) ownHandle(h *handle) *inode {
	if h.orphan == nil {
		return t.ownInode(t.table.get(h.ino))
	}
	if h.orphan.owner != t.owner {
		h.orphan = t.copyInode(h.orphan)
	}
	return h.orphan
}

// copyInode returns a copy of an inode that the tree may change in place.
func (t *tree) copyInode(in *inode) *inode {
	c := in.clone(t.owner)
	if c.payer != t.payer {
		c.payer, c.native, c.paid, c.bytes = t.payer, false, 0, 0
	}
	return c
}

// totalBytes and totalNodes return everything that is charged.
func (t *tree) totalBytes() int64 { return t.used.Bytes + t.lost.Bytes }
func (t *tree) totalNodes() int   { return t.used.Nodes + t.lost.Nodes }

// openHandle returns the handle of an inode with one more reference.
func (t *tree) openHandle(in *inode) *handle {
	h := t.open[in.ino]
	if h == nil {
		if t.open == nil {
			t.open = make(map[uint64]*handle)
		}
		h = &handle{ino: in.ino}
		t.open[in.ino] = h
	}
	h.refs++
	return h
}

// closeHandle drops a reference; the last one frees an inode without a name.
func (t *tree) closeHandle(h *handle) {
	h.refs--
	if h.refs > 0 {
		return
	}
	if h.orphan == nil {
		delete(t.open, h.ino)
		return
	}
	delete(t.orphans, h.ino)
	t.countInode(&t.lost, h.orphan, -1)
}
