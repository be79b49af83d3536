package vfs

import (
	"io/fs"
	"math"
	"slices"
	"strings"
)

// modeBits are the bits of a mode that a caller may set.
const modeBits = fs.ModePerm | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky

// create makes an inode with the mode, device and target of n under a path.
func (f *FS) create(path string, n inode) Errno {
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
	case n.target != "" && int64(len(n.target)) > f.quota.Bytes-f.tree.bytes():
		return ENOSPC
	}
	in, e := f.make(pl, n.mode, now)
	if e == 0 {
		in.rdev, in.target = n.rdev, n.target
		f.tree.charge(in, int64(len(n.target)))
	}
	return e
}

// Mkdir makes a directory.
func (f *FS) Mkdir(path string, perm fs.FileMode) error {
	return pathError("mkdir", path, f.create(path, inode{mode: fs.ModeDir | perm&modeBits}))
}

// MkdirAll makes a directory and those above it that are missing.
// A directory that is there already is not an error.
func (f *FS) MkdirAll(path string, perm fs.FileMode) error {
	e := f.mkdirAll(path, fs.ModeDir|perm&modeBits)
	if e == eCross {
		e = f.mkdirAllAcross(path, perm)
	}
	return pathError("mkdir", path, e)
}

func (f *FS) mkdirAll(path string, mode fs.FileMode) Errno {
	now := f.now().UnixNano()
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.makeDirs(path, mode, now)
}

// makeDirs makes all directories of a path, or none.
func (f *FS) makeDirs(path string, mode fs.FileMode, now int64) Errno {
	switch {
	case path == "":
		return ENOENT
	case len(path) >= f.quota.Path:
		return ENAMETOOLONG
	}
	var made []birth
	w := walker{t: f.tree, q: &f.quota, cur: f.tree.table.get(rootIno)}
	for name := range strings.SplitSeq(path, "/") {
		was, e := f.makeDir(&w, name, mode, now)
		if was.name != "" {
			made = append(made, was)
		}
		if e != 0 {
			f.tree.unmake(made)
			return e
		}
	}
	return 0
}

// makeDir goes on by one name, and makes a directory if nothing has it.
func (f *FS) makeDir(w *walker, name string, mode fs.FileMode, now int64) (was birth, e Errno) {
	hops := w.hops
	w.rest = name
	pl, e := w.run(true, true)
	switch {
	case e != 0:
		return was, e
	case pl.bad != 0:
		return was, pl.bad
	case pl.in == nil && w.hops > hops:
		return was, EEXIST // a link that leads nowhere
	case pl.in == nil:
		was = birth{pl.dir.ino, pl.name, pl.dir.mtime, pl.dir.ctime}
		if w.cur, e = f.make(pl, mode, now); e != 0 {
			was = birth{}
		}
	case !pl.in.isDir():
		return was, ENOTDIR
	}
	return was, e
}

// birth is a new name, and the times that its directory had before.
type birth struct {
	dir          uint64
	name         string
	mtime, ctime int64
}

// unmake takes back directories that were just made, the last one first.
func (t *tree) unmake(made []birth) {
	for _, m := range slices.Backward(made) {
		dir := t.own(t.table.get(m.dir))
		t.leave(dir, m.name, t.table.get(dir.dir.find(m.name)), 0)
		dir.mtime, dir.ctime = m.mtime, m.ctime
	}
}

// Mknod makes a node of the mode's kind: a file, device, pipe or socket.
// Devices and pipes are mere nodes here, without a content.
func (f *FS) Mknod(path string, mode fs.FileMode, rdev uint32) error {
	mode &= modeBits | fs.ModeType
	switch {
	case mode.IsDir():
		return pathError("mknod", path, EPERM)
	case mode&fs.ModeSymlink != 0 || !goodMode(mode):
		return pathError("mknod", path, EINVAL)
	}
	n := inode{mode: mode}
	if mode&fs.ModeDevice != 0 {
		n.rdev = rdev
	}
	return pathError("mknod", path, f.create(path, n))
}

// Symlink makes a symbolic link that leads to target.
func (f *FS) Symlink(target, link string) error {
	return linkError("symlink", target, link, f.symlink(target, link))
}

func (f *FS) symlink(target, link string) Errno {
	switch {
	case target == "":
		return ENOENT
	case len(target) >= f.quota.Path:
		return ENAMETOOLONG
	case strings.IndexByte(target, 0) >= 0:
		return EINVAL
	}
	return f.create(link, inode{mode: fs.ModeSymlink | fs.ModePerm, target: strings.Clone(target)})
}

// Readlink returns where a symbolic link leads.
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

// Link gives a file a second name. The old path's last link is not followed.
func (f *FS) Link(old, new string) error {
	e := f.link(old, new)
	if e == eCross {
		e = f.linkAcross(old, new)
	}
	return linkError("link", old, new, e)
}

func (f *FS) link(old, new string) Errno {
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
	case t.nodes() >= f.quota.Nodes:
		return ENOSPC
	}
	in = t.own(in)
	in.ctime = now
	t.enter(t.own(pl.dir), pl.name, in, now)
	return 0
}

// removal is a way to take away a name.
type removal uint8

const (
	unlinkOnly removal = iota // anything but a directory
	rmdirOnly                 // an empty directory
	either
	whole // with all beneath it; nothing there is no error
)

// Unlink takes away the name of anything but a directory.
func (f *FS) Unlink(path string) error { return f.removeName("unlink", path, unlinkOnly) }

// Rmdir takes away an empty directory.
func (f *FS) Rmdir(path string) error { return f.removeName("rmdir", path, rmdirOnly) }

// Remove takes away a name or an empty directory.
func (f *FS) Remove(path string) error { return f.removeName("remove", path, either) }

// RemoveAll takes away a name and all beneath it. A missing one is not an
// error; of the root only the content goes.
func (f *FS) RemoveAll(path string) error { return f.removeName("remove", path, whole) }

func (f *FS) removeName(op, path string, kind removal) error {
	e := f.remove(path, kind)
	if e == eCross {
		e = f.removeAcross(path, kind)
	}
	return pathError(op, path, e)
}

func noDir(pl place) Errno {
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

func emptyDir(pl place) Errno {
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

// remove takes away what a path names.
func (f *FS) remove(path string, kind removal) Errno {
	now := f.now().UnixNano()
	f.mu.Lock()
	defer f.mu.Unlock()
	pl, e := f.tree.lookupParent(&f.quota, path)
	switch {
	case kind == whole:
		return f.removeAll(pl, e, now)
	case e != 0:
	case kind == unlinkOnly, kind == either && pl.in != nil && !pl.in.isDir():
		e = noDir(pl)
	default:
		e = emptyDir(pl)
	}
	if e == 0 && f.tree.mounts[pl.in.ino] != nil {
		e = EBUSY
	}
	if e == 0 {
		f.tree.leave(f.tree.own(pl.dir), pl.name, pl.in, now)
	}
	return e
}

func (f *FS) removeAll(pl place, e Errno, now int64) Errno {
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
		if f.tree.busy(pl.in) {
			return EBUSY
		}
		f.tree.clearDir(pl.in, now)
	}
	if pl.last == lastName {
		f.tree.leave(f.tree.own(pl.dir), pl.name, f.tree.table.get(pl.in.ino), now)
	}
	return 0
}

// clearDir takes away all in a directory, the deepest first. It keeps its
// own list, as directories may be deeper than a stack.
func (t *tree) clearDir(root *inode, now int64) {
	dirs := []*inode{root}
	for i := 0; i < len(dirs); i++ {
		for it := range dirs[i].dir.all {
			if child := t.table.get(it.ino); child.isDir() {
				dirs = append(dirs, child)
			}
		}
	}
	for i := len(dirs) - 1; i >= 0; i-- {
		in := t.own(dirs[i])
		for it := range in.dir.all {
			t.drop(t.table.get(it.ino), now)
		}
		*in.dir = dir{}
		in.mtime, in.ctime = now, now
	}
}

// Rename moves a name. What had the new name is replaced, if it is of the
// same kind and not a directory with something in it.
func (f *FS) Rename(old, new string) error {
	e := f.rename(old, new)
	if e == eCross {
		e = f.renameAcross(old, new)
	}
	return linkError("rename", old, new, e)
}

func (f *FS) rename(old, new string) Errno {
	now := f.now().UnixNano()
	f.mu.Lock()
	defer f.mu.Unlock()
	t := f.tree
	from, e := t.walk(&f.quota, old, false, false)
	if e != 0 {
		return e
	}
	to, e := t.walk(&f.quota, new, false, false)
	if e != 0 {
		return e
	}
	if e := t.mayRename(from, to); e != 0 {
		return e
	}
	if from.in != to.in {
		t.move(from, to, now)
	}
	return 0
}

func (t *tree) mayRename(from, to place) Errno {
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
	case from.in.isDir() && t.within(to.dir, from.in):
		return EINVAL
	case to.in == nil && t.busy(from.in):
		return EBUSY
	case to.in == nil:
		return 0
	case to.in.isDir() && t.within(from.dir, to.in):
		return ENOTEMPTY
	case from.in == to.in:
		return 0
	case from.in.isDir() && !to.in.isDir():
		return ENOTDIR
	case !from.in.isDir() && to.in.isDir():
		return EISDIR
	case t.busy(from.in) || t.mounts[to.in.ino] != nil:
		return EBUSY
	case to.in.isDir() && to.in.dir.len > 0:
		return ENOTEMPTY
	}
	return 0
}

// within says whether a directory is top or beneath it.
func (t *tree) within(dir, top *inode) bool {
	for dir.ino != top.ino {
		if dir.ino == rootIno {
			return false
		}
		dir = t.table.get(dir.parent)
	}
	return true
}

// move does a rename that may be done.
func (t *tree) move(from, to place, now int64) {
	if to.in != nil {
		t.leave(t.own(t.table.get(to.dir.ino)), to.name, to.in, now)
	}
	// The inodes may have been copied on the way: take them by number.
	src := t.own(t.table.get(from.dir.ino))
	src.dir.remove(t.owner, from.name)
	src.mtime, src.ctime = now, now
	dst := t.own(t.table.get(to.dir.ino))
	in := t.own(t.table.get(from.in.ino))
	dst.dir.insert(t.owner, to.name, in.ino)
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
