package vfs

import (
	"io/fs"
	"os"
	"strings"
)

// baseName returns the last name of a path; "/" for the root.
func baseName(path string) string {
	path = strings.TrimRight(path, "/")
	if path == "" {
		return "/"
	}
	return path[strings.LastIndexByte(path, '/')+1:]
}

// OpenFile opens a file or directory. flag combines os.O_* and this package's
// flags; a new file gets exactly perm, no mask is applied. Permissions are not
// checked: that is left to callers that know the user. Devices and pipes
// can't be opened: ENXIO.
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
	return &File{fs: f, tree: f.tree, handle: f.tree.openHandle(in), name: path, flag: flag}, 0
}

// Open opens a file or directory for reading.
func (f *FS) Open(path string) (*File, error) { return f.OpenFile(path, os.O_RDONLY, 0) }

// Create opens a file for reading and writing, and creates or truncates it.
func (f *FS) Create(path string) (*File, error) {
	return f.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o666)
}

func (f *FS) openInode(path string, flag int, perm fs.FileMode, now int64) (*inode, Errno) {
	t := f.tree
	create, excl := flag&os.O_CREATE != 0, flag&(os.O_CREATE|os.O_EXCL) == os.O_CREATE|os.O_EXCL
	if create && flag&O_DIRECTORY != 0 {
		return nil, EINVAL
	}
	pl, e := t.walkPath(&f.quota, path, flag&O_NOFOLLOW == 0 && !excl, !create)
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
		return f.makeInode(pl, perm.Perm()|perm&(fs.ModeSetuid|fs.ModeSetgid|fs.ModeSticky), now)
	}
	if excl {
		return nil, EEXIST
	}
	if e := checkOpenable(pl, flag); e != 0 {
		return nil, e
	}
	if flag&os.O_TRUNC != 0 && pl.in.isFile() {
		in := t.ownInode(pl.in)
		t.resizeInode(in, 0, now)
		return in, 0
	}
	return pl.in, 0
}

// checkOpenable returns why an existing file can't be opened with the flags.
func checkOpenable(pl location, flag int) Errno {
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

// makeInode adds a new inode under a free name, if the quota allows it.
func (f *FS) makeInode(pl location, mode fs.FileMode, now int64) (*inode, Errno) {
	if f.tree.totalNodes() >= f.quota.Nodes {
		return nil, ENOSPC
	}
	return f.newInode(f.tree, pl, mode, now), 0
}

// newInode adds a new inode under a free name, whatever the quota.
func (f *FS) newInode(t *tree, pl location, mode fs.FileMode, now int64) *inode {
	in := &inode{
		owner: t.owner, payer: t.payer, ino: t.table.lowestFree(t.orphans), mode: mode,
		uid: f.uid, gid: f.gid, native: true,
	}
	in.setTimes(now)
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
	t.countInode(&t.used, in, 1)
	t.addName(t.ownInode(pl.dir), pl.name, in, now)
	return in
}

// addName gives an owned inode one more name, in an owned directory.
func (t *tree) addName(dir *inode, name string, in *inode, now int64) {
	dir.dir.insertName(t.owner, name, in.ino)
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

// removeName removes a name from an owned directory. The inode is freed with
// its last name, unless it is open.
func (t *tree) removeName(dir *inode, name string, in *inode, now int64) {
	dir.dir.removeName(t.owner, name)
	dir.mtime, dir.ctime = now, now
	if in.isDir() {
		dir.dir.subdirs--
	}
	t.dropName(in, now)
}

// dropName subtracts one name from an inode.
func (t *tree) dropName(in *inode, now int64) {
	if in.nlink > 1 {
		in = t.ownInode(in)
		in.nlink--
		in.ctime = now
		if in.paid > 0 {
			in.paid--
			t.used.Nodes--
		}
		return
	}
	t.countInode(&t.used, in, -1)
	h := t.open[in.ino]
	if h == nil {
		t.table.removeInode(t.owner, in.ino)
		return
	}
	in = t.ownInode(in)
	in.nlink = 0
	in.ctime = now
	h.orphan = in
	delete(t.open, in.ino)
	t.table.removeInode(t.owner, in.ino)
	if t.orphans == nil {
		t.orphans = make(map[uint64]*handle)
	}
	t.orphans[in.ino] = h
	t.countInode(&t.lost, in, 1)
}
