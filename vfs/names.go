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

// removal selects what a removal accepts.
type removal uint8

const (
	unlinkOnly   removal = iota // anything but a directory
	rmdirOnly                   // an empty directory
	removeEither                // anything but a directory with entries
	removeTree                  // anything, with everything beneath it; a missing name is no error
)

// Unlink removes a name that is not a directory.
func (f *FS) Unlink(path string) error { return f.removeName("unlink", path, unlinkOnly) }

// Rmdir removes an empty directory.
func (f *FS) Rmdir(path string) error { return f.removeName("rmdir", path, rmdirOnly) }

// Remove removes a file or an empty directory.
func (f *FS) Remove(path string) error { return f.removeName("remove", path, removeEither) }

// RemoveAll removes a path and everything beneath it. A missing path is not
// an error. The root itself stays; only its content is removed.
func (f *FS) RemoveAll(path string) error { return f.removeName("remove", path, removeTree) }

func (f *FS) removeName(op, path string, kind removal) error {
	e := f.tryRemove(path, kind)
	if e == eCross {
		e = f.removeAcross(path, kind)
	}
	return pathError(op, path, e)
}

// checkNotDir returns why a location can't be unlinked.
func checkNotDir(pl location) Errno {
	switch {
	case pl.last != lastName:
		return EISDIR
	case pl.in == nil:
		return ENOENT
	case pl.in.isDir():
		return EISDIR
	case pl.slash:
		return ENOTDIR
	}
	return 0
}

// checkEmptyDir returns why a location can't be removed as a directory.
func checkEmptyDir(pl location) Errno {
	switch pl.last {
	case lastRoot:
		return EBUSY
	case lastDot:
		return EINVAL
	case lastDotDot:
		return ENOTEMPTY
	}
	switch {
	case pl.in == nil:
		return ENOENT
	case !pl.in.isDir():
		return ENOTDIR
	case pl.in.dir.len > 0:
		return ENOTEMPTY
	}
	return 0
}

// tryRemove removes what a path names; eCross if the path leads into a mount.
func (f *FS) tryRemove(path string, kind removal) Errno {
	now := f.now().UnixNano()
	f.mu.Lock()
	defer f.mu.Unlock()
	pl, e := f.tree.lookupParent(&f.quota, path)
	switch {
	case kind == removeTree:
		return f.tryRemoveAll(pl, e, now)
	case e != 0:
	case kind == unlinkOnly, kind == removeEither && pl.in != nil && !pl.in.isDir():
		e = checkNotDir(pl)
	default:
		e = checkEmptyDir(pl)
	}
	if e == 0 && f.tree.mounts[pl.in.ino] != nil {
		e = EBUSY
	}
	if e == 0 {
		f.tree.removeName(f.tree.ownInode(pl.dir), pl.name, pl.in, now)
	}
	return e
}

func (f *FS) tryRemoveAll(pl location, e Errno, now int64) Errno {
	switch {
	case e == ENOENT || e == 0 && pl.in == nil:
		return 0
	case e != 0:
		return e
	case pl.last == lastDot || pl.last == lastDotDot:
		return EINVAL
	case pl.slash && !pl.in.isDir():
		return ENOTDIR
	}
	if pl.in.isDir() {
		if f.tree.hasMountWithin(pl.in) {
			return EBUSY
		}
		f.tree.clearDir(pl.in, now)
	}
	if pl.last == lastName {
		f.tree.removeName(f.tree.ownInode(pl.dir), pl.name, f.tree.table.get(pl.in.ino), now)
	}
	return 0
}

// clearDir removes the content of a directory, the deepest entries first. It
// does not recurse, as directories may be nested deeper than a stack allows.
func (t *tree) clearDir(root *inode, now int64) {
	dirs := []*inode{root}
	for i := 0; i < len(dirs); i++ {
		for it := range dirs[i].dir.allEntries {
			if child := t.table.get(it.ino); child.isDir() {
				dirs = append(dirs, child)
			}
		}
	}
	for i := len(dirs) - 1; i >= 0; i-- {
		in := t.ownInode(dirs[i])
		for it := range in.dir.allEntries {
			t.dropName(t.table.get(it.ino), now)
		}
		*in.dir = dir{}
		in.mtime, in.ctime = now, now
	}
}

// Rename moves a file or directory. What has the new name is replaced, if it
// is of the same kind and not a directory with entries.
func (f *FS) Rename(old, new string) error {
	e := f.tryRename(old, new)
	if e == eCross {
		e = f.renameAcross(old, new)
	}
	return linkError("rename", old, new, e)
}

func (f *FS) tryRename(old, new string) Errno {
	now := f.now().UnixNano()
	f.mu.Lock()
	defer f.mu.Unlock()
	t := f.tree
	from, e := t.walkPath(&f.quota, old, false, false)
	if e != 0 {
		return e
	}
	to, e := t.walkPath(&f.quota, new, false, false)
	if e != 0 {
		return e
	}
	if e := t.mayRename(from, to); e != 0 {
		return e
	}
	if from.in != to.in {
		t.moveName(from, to, now)
	}
	return 0
}

// mayRename returns why a rename is not allowed.
func (t *tree) mayRename(from, to location) Errno {
	switch {
	case from.last != lastName || to.last != lastName:
		return EBUSY
	case from.bad != 0:
		return from.bad
	case from.in == nil:
		return ENOENT
	case to.bad != 0:
		return to.bad
	case !from.in.isDir() && (from.slash || to.slash):
		return ENOTDIR
	case from.in.isDir() && t.isWithin(to.dir, from.in):
		return EINVAL
	case to.in == nil && t.hasMountWithin(from.in):
		return EBUSY
	case to.in == nil:
		return 0
	case to.in.isDir() && t.isWithin(from.dir, to.in):
		return ENOTEMPTY
	case from.in == to.in:
		return 0
	case from.in.isDir() && !to.in.isDir():
		return ENOTDIR
	case !from.in.isDir() && to.in.isDir():
		return EISDIR
	case t.hasMountWithin(from.in) || t.mounts[to.in.ino] != nil:
		return EBUSY
	case to.in.isDir() && to.in.dir.len > 0:
		return ENOTEMPTY
	}
	return 0
}

// isWithin reports whether a directory is top or beneath it.
func (t *tree) isWithin(dir, top *inode) bool {
	for dir.ino != top.ino {
		if dir.ino == rootIno {
			return false
		}
		dir = t.table.get(dir.parent)
	}
	return true
}

// moveName performs a rename that mayRename allows.
func (t *tree) moveName(from, to location, now int64) {
	if to.in != nil {
		t.removeName(t.ownInode(t.table.get(to.dir.ino)), to.name, to.in, now)
	}
	// The inodes may have been copied on the way: look them up by number.
	src := t.ownInode(t.table.get(from.dir.ino))
	src.dir.removeName(t.owner, from.name)
	src.mtime, src.ctime = now, now
	dst := t.ownInode(t.table.get(to.dir.ino))
	in := t.ownInode(t.table.get(from.in.ino))
	dst.dir.insertName(t.owner, to.name, in.ino)
	dst.mtime, dst.ctime = now, now
	if in.isDir() {
		src.dir.subdirs--
		dst.dir.subdirs++
	}
	if in.parent != 0 {
		in.parent = dst.ino
	}
	in.ctime = now
}
