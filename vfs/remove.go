package vfs

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
