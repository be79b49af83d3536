package vfs

import (
	"io/fs"
	"slices"
)

const rootIno = 1

// epoch is the mark of an owner: who holds the pointer may write in place to
// what carries it. It must not be of size zero, or all would be equal.
type epoch struct{ _ byte }

// inode is one file, directory, link or device of a tree.
type inode struct {
	atime int64  // nanoseconds since 1970; atomic while only read-locked, so first
	owner *epoch // who may change it in place
	payer *epoch // whose charges paid and bytes are

	ino    uint64
	parent uint64 // where its name is; 0 when it may have more than one
	mode   fs.FileMode
	nlink  uint32
	uid    uint32
	gid    uint32
	rdev   uint32
	paid   uint32 // names of it that are charged
	native bool   // made by the payer, not found in its base
	bytes  int64  // bytes of it that are charged
	size   int64

	mtime int64
	ctime int64
	btime int64

	blocks []*block // of a file; nil is a hole, as is all behind the last
	dir    *dir     // of a directory
	target string   // of a symbolic link
}

func (in *inode) isDir() bool     { return in.mode.IsDir() }
func (in *inode) isFile() bool    { return in.mode.IsRegular() }
func (in *inode) isSymlink() bool { return in.mode&fs.ModeSymlink != 0 }

// stamp sets all times of a new inode.
func (in *inode) stamp(now int64) {
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

// handle is an inode that is open. It outlives the inode's last name.
type handle struct {
	ino    uint64
	refs   int
	orphan *inode // set when the last name is gone
}

// tree is the state of a file system between two Restores.
type tree struct {
	owner *epoch // the present epoch
	payer *epoch // the account of this line of snapshots
	table table
	used  Usage // of what has a name; without Quota
	lost  Usage // of what is open without one, so that no snapshot has it

	open    map[uint64]*handle // open inodes that have a name
	orphans map[uint64]*handle // open inodes without one
	dead    bool               // replaced by Restore

	wake   chan struct{}     // closed at the next change; nil while nobody observes
	mounts map[uint64]*mount // by the inode of the target; nil where there are none
}

// inode returns the inode behind a handle.
func (t *tree) inode(h *handle) *inode {
	if h.orphan != nil {
		return h.orphan
	}
	return t.table.get(h.ino)
}

// own returns the inode as one that may be changed in place, copying it when
// a snapshot shares it.
func (t *tree) own(in *inode) *inode {
	if in.owner == t.owner {
		return in
	}
	in = t.table.get(in.ino) // the caller's may be older than the last copy
	if in.owner == t.owner {
		return in
	}
	c := t.private(in)
	t.table.put(t.owner, c)
	if t.wake != nil {
		t.stir()
	}
	return c
}

// ownHandle is own for an open inode, which may have lost its name.
func (t *tree) ownHandle(h *handle) *inode {
	if h.orphan == nil {
		return t.own(t.table.get(h.ino))
	}
	if h.orphan.owner != t.owner {
		h.orphan = t.private(h.orphan)
	}
	return h.orphan
}

func (t *tree) private(in *inode) *inode {
	c := in.clone(t.owner)
	if c.payer != t.payer {
		c.payer, c.native, c.paid, c.bytes = t.payer, false, 0, 0
	}
	return c
}

// charged returns the bytes of an inode that this tree has paid for.
func (t *tree) charged(in *inode) int64 {
	if in.payer != t.payer {
		return 0
	}
	return in.bytes
}

// counters returns those that an inode is charged to.
func (t *tree) counters(in *inode) *Usage {
	if in.nlink == 0 {
		return &t.lost
	}
	return &t.used
}

// charge sets what the tree pays for an inode that it owns.
func (t *tree) charge(in *inode, bytes int64) {
	t.counters(in).Bytes += bytes - in.bytes
	in.bytes = bytes
}

// add counts what is charged for an inode, or takes it off for sign -1.
func (t *tree) add(u *Usage, in *inode, sign int) {
	if in.payer != t.payer {
		return
	}
	u.Bytes += int64(sign) * in.bytes
	u.Nodes += sign * int(in.paid)
	if !in.native || in.ino == rootIno {
		return
	}
	switch {
	case in.isDir():
		u.Dirs += sign
	case in.isFile():
		u.Files += sign
	}
}

// bytes and nodes return all that is charged.
func (t *tree) bytes() int64 { return t.used.Bytes + t.lost.Bytes }
func (t *tree) nodes() int   { return t.used.Nodes + t.lost.Nodes }

// acquire registers one more user of an inode.
func (t *tree) acquire(in *inode) *handle {
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

// release drops a user; the last one of a nameless inode frees it.
func (t *tree) release(h *handle) {
	h.refs--
	if h.refs > 0 {
		return
	}
	if h.orphan == nil {
		delete(t.open, h.ino)
		return
	}
	delete(t.orphans, h.ino)
	t.add(&t.lost, h.orphan, -1)
}
