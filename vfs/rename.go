package vfs

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
