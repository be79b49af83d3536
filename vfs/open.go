package vfs

import (
	"io/fs"
	"os"
	"strings"
)

// base returns the last name of a path; "/" for the root.
func base(path string) string {
	path = strings.TrimRight(path, "/")
	if path == "" {
		return "/"
	}
	return path[strings.LastIndexByte(path, '/')+1:]
}

// OpenFile opens a file or directory. flag is made of os.O_* and of this
// package's; perm is what a new file gets, as it stands. Permissions are not
// checked: that is the business of who knows the user. Devices and pipes
// can't be opened here: ENXIO.
func (f *FS) OpenFile(path string, flag int, perm fs.FileMode) (*File, error) {
	file, e := f.tryOpen(path, flag, perm)
	if e == eCross {
		file, e = f.openAcross(path, flag, perm)
	}
	if e != 0 {
		return nil, pathError("open", path, e)
	}
	return file, nil
}

func (f *FS) tryOpen(path string, flag int, perm fs.FileMode) (*File, Errno) {
	now := f.now().UnixNano()
	f.mu.Lock()
	defer f.mu.Unlock()
	in, e := f.openInode(path, flag, perm, now)
	if e != 0 {
		return nil, e
	}
	return &File{fs: f, tree: f.tree, handle: f.tree.acquire(in), name: path, flag: flag}, 0
}

// Open opens a file or directory for reading.
func (f *FS) Open(path string) (*File, error) { return f.OpenFile(path, os.O_RDONLY, 0) }

// Create opens a file for reading and writing; it is empty afterwards.
func (f *FS) Create(path string) (*File, error) {
	return f.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o666)
}

func (f *FS) openInode(path string, flag int, perm fs.FileMode, now int64) (*inode, Errno) {
	t := f.tree
	create, excl := flag&os.O_CREATE != 0, flag&(os.O_CREATE|os.O_EXCL) == os.O_CREATE|os.O_EXCL
	if create && flag&O_DIRECTORY != 0 {
		return nil, EINVAL
	}
	pl, e := t.walk(&f.quota, path, flag&O_NOFOLLOW == 0 && !excl, !create)
	if e != 0 {
		return nil, e
	}
	if create && pl.last == lastName && pl.slash {
		return nil, EISDIR
	}
	if pl.bad != 0 {
		return nil, pl.bad
	}
	if pl.in == nil {
		if !create {
			return nil, ENOENT
		}
		return f.make(pl, perm.Perm()|perm&(fs.ModeSetuid|fs.ModeSetgid|fs.ModeSticky), now)
	}
	if excl {
		return nil, EEXIST
	}
	if e := openable(pl, flag); e != 0 {
		return nil, e
	}
	if flag&os.O_TRUNC != 0 && pl.in.isFile() {
		in := t.own(pl.in)
		t.resize(in, 0, now)
		return in, 0
	}
	return pl.in, 0
}

// openable says whether what is there can be opened with the flags.
func openable(pl place, flag int) Errno {
	in := pl.in
	write := flag&accessMode != os.O_RDONLY || flag&(os.O_TRUNC|os.O_CREATE) != 0
	switch {
	case in.isSymlink() && flag&O_DIRECTORY == 0:
		return ELOOP
	case !in.isDir() && (pl.slash || flag&O_DIRECTORY != 0):
		return ENOTDIR
	case in.isDir() && write:
		return EISDIR
	case !in.isDir() && !in.isFile():
		return ENXIO
	}
	return 0
}

// make adds a new inode under a free name.
func (f *FS) make(pl place, mode fs.FileMode, now int64) (*inode, Errno) {
	if f.tree.nodes() >= f.quota.Nodes {
		return nil, ENOSPC
	}
	return f.birth(f.tree, pl, mode, now), 0
}

// birth is make for what must be there.
func (f *FS) birth(t *tree, pl place, mode fs.FileMode, now int64) *inode {
	in := &inode{
		owner: t.owner, payer: t.payer, ino: t.table.free(t.orphans), mode: mode,
		uid: f.uid, gid: f.gid, native: true,
	}
	in.stamp(now)
	if pl.dir.mode&fs.ModeSetgid != 0 {
		in.gid = pl.dir.gid
		if in.isDir() {
			in.mode |= fs.ModeSetgid
		}
	}
	if in.isDir() {
		in.dir = &dir{}
	}
	t.table.put(t.owner, in)
	t.add(&t.used, in, 1)
	t.enter(t.own(pl.dir), pl.name, in, now)
	return in
}

// enter gives an owned inode one more name, in an owned directory.
func (t *tree) enter(dir *inode, name string, in *inode, now int64) {
	dir.dir.insert(t.owner, name, in.ino)
	dir.mtime, dir.ctime = now, now
	in.nlink++
	in.paid++
	t.used.Nodes++
	in.parent = dir.ino
	if in.nlink > 1 {
		in.parent = 0
	}
	if in.isDir() {
		dir.dir.subdirs++
	}
}

// leave takes a name out of an owned directory. The inode goes with its last
// name, unless it is open.
func (t *tree) leave(dir *inode, name string, in *inode, now int64) {
	dir.dir.remove(t.owner, name)
	dir.mtime, dir.ctime = now, now
	if in.isDir() {
		dir.dir.subdirs--
	}
	t.drop(in, now)
}

// drop takes one name from an inode.
func (t *tree) drop(in *inode, now int64) {
	if in.nlink > 1 {
		in = t.own(in)
		in.nlink--
		in.ctime = now
		if in.paid > 0 {
			in.paid--
			t.used.Nodes--
		}
		return
	}
	t.add(&t.used, in, -1)
	h := t.open[in.ino]
	if h == nil {
		t.table.remove(t.owner, in.ino)
		return
	}
	in = t.own(in)
	in.nlink = 0
	in.ctime = now
	h.orphan = in
	delete(t.open, in.ino)
	t.table.remove(t.owner, in.ino)
	if t.orphans == nil {
		t.orphans = make(map[uint64]*handle)
	}
	t.orphans[in.ino] = h
	t.add(&t.lost, in, 1)
}
