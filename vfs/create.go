package vfs

import (
	"io/fs"
	"math"
	"slices"
	"strings"
)

// modeBits are the bits of a mode that a caller may set.
const modeBits = fs.ModePerm | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky

// createNode creates an inode with the mode, device and target of n at a path.
func (f *FS) createNode(path string, n inode) Errno {
	e := f.tryCreate(path, n)
	if e == eCross {
		return f.createAcross(path, n)
	}
	return e
}

func (f *FS) tryCreate(path string, n inode) Errno {
	now := f.now().UnixNano()
	f.mu.Lock()
	defer f.mu.Unlock()
	pl, e := f.tree.lookupParent(&f.quota, path)
	switch {
	case e != 0:
		return e
	case pl.in != nil:
		return EEXIST
	case pl.slash && !n.isDir():
		return ENOENT
	case n.target != "" && int64(len(n.target)) > f.quota.Bytes-f.tree.totalBytes():
		return ENOSPC
	}
	in, e := f.makeInode(pl, n.mode, now)
	if e == 0 {
		in.rdev, in.target = n.rdev, n.target
		f.tree.chargeBytes(in, int64(len(n.target)))
	}
	return e
}

// Mkdir creates a directory.
func (f *FS) Mkdir(path string, perm fs.FileMode) error {
	return pathError("mkdir", path, f.createNode(path, inode{mode: fs.ModeDir | perm&modeBits}))
}

// MkdirAll creates a directory and its missing parents. A directory that
// already exists is not an error.
func (f *FS) MkdirAll(path string, perm fs.FileMode) error {
	e := f.tryMkdirAll(path, fs.ModeDir|perm&modeBits)
	if e == eCross {
		e = f.mkdirAllAcross(path, perm)
	}
	return pathError("mkdir", path, e)
}

func (f *FS) tryMkdirAll(path string, mode fs.FileMode) Errno {
	now := f.now().UnixNano()
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.makeDirs(path, mode, now)
}

// makeDirs creates all missing directories of a path, or none.
func (f *FS) makeDirs(path string, mode fs.FileMode, now int64) Errno {
	switch {
	case path == "":
		return ENOENT
	case len(path) >= f.quota.Path:
		return ENAMETOOLONG
	}
	var made []madeDir
	w := walker{t: f.tree, q: &f.quota, cur: f.tree.table.get(rootIno)}
	for name := range strings.SplitSeq(path, "/") {
		was, e := f.makeDir(&w, name, mode, now)
		if was.name != "" {
			made = append(made, was)
		}
		if e != 0 {
			f.tree.undoMakeDirs(made)
			return e
		}
	}
	return 0
}

// makeDir walks one name further and creates a directory if the name is free.
func (f *FS) makeDir(w *walker, name string, mode fs.FileMode, now int64) (was madeDir, e Errno) {
	hops := w.hops
	w.rest = name
	pl, e := w.walkToEnd(true, true)
	switch {
	case e != 0:
		return was, e
	case pl.bad != 0:
		return was, pl.bad
	case pl.in == nil && w.hops > hops:
		return was, EEXIST // a dangling symbolic link
	case pl.in == nil:
		was = madeDir{pl.dir.ino, pl.name, pl.dir.mtime, pl.dir.ctime}
		if w.cur, e = f.makeInode(pl, mode, now); e != 0 {
			was = madeDir{}
		}
	case !pl.in.isDir():
		return was, ENOTDIR
	}
	return was, e
}

// madeDir records a new directory, and the times that its parent had before.
type madeDir struct {
	dir          uint64
	name         string
	mtime, ctime int64
}

// undoMakeDirs removes directories that were just created, the last one first.
func (t *tree) undoMakeDirs(made []madeDir) {
	for _, m := range slices.Backward(made) {
		dir := t.ownInode(t.table.get(m.dir))
		t.removeName(dir, m.name, t.table.get(dir.dir.find(m.name)), 0)
		dir.mtime, dir.ctime = m.mtime, m.ctime
	}
}

// Mknod creates a node of the type in mode: a file, device, pipe or socket.
// Devices and pipes are only names here; they can't be opened.
func (f *FS) Mknod(path string, mode fs.FileMode, rdev uint32) error {
	mode &= modeBits | fs.ModeType
	switch {
	case mode.IsDir():
		return pathError("mknod", path, EPERM)
	case mode&fs.ModeSymlink != 0 || !isValidMode(mode):
		return pathError("mknod", path, EINVAL)
	}
	n := inode{mode: mode}
	if mode&fs.ModeDevice != 0 {
		n.rdev = rdev
	}
	return pathError("mknod", path, f.createNode(path, n))
}

// Symlink creates a symbolic link to target.
func (f *FS) Symlink(target, link string) error {
	return linkError("symlink", target, link, f.trySymlink(target, link))
}

func (f *FS) trySymlink(target, link string) Errno {
	switch {
	case target == "":
		return ENOENT
	case len(target) >= f.quota.Path:
		return ENAMETOOLONG
	case strings.IndexByte(target, 0) >= 0:
		return EINVAL
	}
	return f.createNode(link, inode{mode: fs.ModeSymlink | fs.ModePerm, target: strings.Clone(target)})
}

// Readlink returns the target of a symbolic link.
func (f *FS) Readlink(path string) (string, error) {
	target, e := f.tryReadlink(path)
	if e == eCross {
		target, e = f.readlinkAcross(path)
	}
	return target, pathError("readlink", path, e)
}

func (f *FS) tryReadlink(path string) (string, Errno) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	in, e := f.tree.lookupExisting(&f.quota, path, false)
	switch {
	case e != 0:
		return "", e
	case !in.isSymlink():
		return "", EINVAL
	}
	return in.target, 0
}

// Link gives a file a second name. A symbolic link at the end of old is not
// followed.
func (f *FS) Link(old, new string) error {
	e := f.tryLink(old, new)
	if e == eCross {
		e = f.linkAcross(old, new)
	}
	return linkError("link", old, new, e)
}

func (f *FS) tryLink(old, new string) Errno {
	now := f.now().UnixNano()
	f.mu.Lock()
	defer f.mu.Unlock()
	t := f.tree
	in, e := t.lookupExisting(&f.quota, old, false)
	if e != 0 {
		return e
	}
	pl, e := t.lookupParent(&f.quota, new)
	switch {
	case e != 0:
		return e
	case pl.in != nil:
		return EEXIST
	case pl.slash:
		return ENOENT
	case in.isDir():
		return EPERM
	case in.nlink == math.MaxUint32:
		return EMLINK
	case t.totalNodes() >= f.quota.Nodes:
		return ENOSPC
	}
	in = t.ownInode(in)
	in.ctime = now
	t.addName(t.ownInode(pl.dir), pl.name, in, now)
	return 0
}
