package vfs

import (
	"io/fs"
	"sync/atomic"
	"time"
)

// Stat describes the file at a path. It follows symbolic links.
func (f *FS) Stat(path string) (Info, error) { return f.stat("stat", path, true) }

// Lstat describes the file at a path; a symbolic link at the end is not
// followed.
func (f *FS) Lstat(path string) (Info, error) { return f.stat("lstat", path, false) }

func (f *FS) stat(op, path string, follow bool) (info Info, err error) {
	e := f.tryStat(path, follow, &info)
	if e == eCross {
		e = f.statAcross(path, follow, &info)
	}
	if e != 0 {
		return Info{}, pathError(op, path, e)
	}
	return info, nil
}

func (f *FS) tryStat(path string, follow bool, info *Info) Errno {
	f.mu.RLock()
	defer f.mu.RUnlock()
	in, e := f.tree.lookupExisting(&f.quota, path, follow)
	if e == 0 {
		*info = in.toInfo(baseName(path))
	}
	return e
}

// ReadDir returns the entries of a directory, sorted by name.
func (f *FS) ReadDir(path string) ([]fs.DirEntry, error) {
	list, e := f.tryReadDir(path)
	if e == eCross {
		list, e = f.readDirAcross(path)
	}
	return list, pathError("readdir", path, e)
}

func (f *FS) tryReadDir(path string) ([]fs.DirEntry, Errno) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	in, e := f.tree.lookupExisting(&f.quota, path, true)
	if e == 0 && !in.isDir() {
		e = ENOTDIR
	}
	if e != 0 {
		return nil, e
	}
	return f.tree.list(in.dir.entriesAfter("", -1)), 0
}

// changeAttr changes the attributes of the file at a path.
func (f *FS) changeAttr(path string, c attrChange) error {
	e := f.tryChange(path, c)
	if e == eCross {
		e = f.changeAcross(path, c)
	}
	return pathError(c.op, path, e)
}

func (f *FS) tryChange(path string, c attrChange) Errno {
	now := f.now().UnixNano()
	f.mu.Lock()
	defer f.mu.Unlock()
	in, e := f.tree.lookupExisting(&f.quota, path, c.follow)
	if e != 0 {
		return e
	}
	in = f.tree.ownInode(in)
	if c.chmod {
		in.mode = in.mode&^modeBits | c.mode&modeBits
	}
	if c.uid != -1 {
		in.uid = uint32(c.uid)
	}
	if c.gid != -1 {
		in.gid = uint32(c.gid)
	}
	if !c.atime.IsZero() {
		atomic.StoreInt64(&in.atime, toNanos(c.atime))
	}
	if !c.mtime.IsZero() {
		in.mtime = toNanos(c.mtime)
	}
	in.ctime = now
	return 0
}

// Chmod sets the permission, setuid, setgid and sticky bits.
func (f *FS) Chmod(path string, mode fs.FileMode) error {
	return f.changeAttr(path, attrChange{op: "chmod", follow: true, chmod: true, mode: mode, uid: -1, gid: -1})
}

// Chown sets the user and group id; -1 leaves one unchanged.
func (f *FS) Chown(path string, uid, gid int) error {
	return f.changeAttr(path, attrChange{op: "chown", follow: true, uid: uid, gid: gid})
}

// Lchown is Chown for a symbolic link itself.
func (f *FS) Lchown(path string, uid, gid int) error {
	return f.changeAttr(path, attrChange{op: "lchown", uid: uid, gid: gid})
}

// Chtimes sets the times; a zero time leaves one unchanged.
func (f *FS) Chtimes(path string, atime, mtime time.Time) error {
	return f.changeAttr(path, attrChange{op: "chtimes", follow: true, uid: -1, gid: -1, atime: atime, mtime: mtime})
}

// Lchtimes is Chtimes for a symbolic link itself.
func (f *FS) Lchtimes(path string, atime, mtime time.Time) error {
	return f.changeAttr(path, attrChange{op: "lchtimes", uid: -1, gid: -1, atime: atime, mtime: mtime})
}

// Truncate sets the size of a file. An extended part reads as zeros.
func (f *FS) Truncate(path string, size int64) error {
	now := f.now().UnixNano()
	for {
		need, e := f.tryTruncate(path, size, now)
		if e == eCross {
			e = f.truncateAcross(path, size)
		}
		if need == nil {
			return pathError("truncate", path, e)
		}
		if err := need.loadFor("truncate", path); err != nil {
			return err
		}
	}
}

func (f *FS) tryTruncate(path string, size, now int64) (*lazy, Errno) {
	if size < 0 {
		return nil, EINVAL
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	in, e := f.tree.lookupExisting(&f.quota, path, true)
	if e != 0 {
		return nil, e
	}
	need, e := f.mayResize(f.tree, in, size)
	if need != nil || e != 0 {
		return need, e
	}
	f.tree.resizeInode(f.tree.ownInode(in), size, now)
	return nil, 0
}

// Resolve returns the absolute path of a file without symbolic links, "." and
// "..".
func (f *FS) Resolve(path string) (string, error) {
	full, e := f.tryResolve(path)
	if e == eCross {
		full, e = f.resolveAcross(path)
	}
	return full, pathError("resolve", path, e)
}

func (f *FS) tryResolve(path string) (string, Errno) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	pl, e := f.tree.lookupPath(&f.quota, path, true)
	switch {
	case e != 0:
		return "", e
	case pl.in == nil:
		return "", ENOENT
	case pl.slash && !pl.in.isDir():
		return "", ENOTDIR
	}
	dir, name := pl.dir, pl.name
	if pl.in.isDir() {
		dir, name = pl.in, ""
	}
	return f.tree.absPath(&f.quota, dir, name)
}

// absPath returns the absolute path of a name in a directory, or of the
// directory itself when name is empty.
func (t *tree) absPath(q *Quota, dir *inode, name string) (string, Errno) {
	parts := []string{}
	length := 0
	if name != "" {
		parts = append(parts, name)
		length = len(name) + 1
	}
	for dir.ino != rootIno {
		up := t.table.get(dir.parent)
		n := up.dir.nameOf(dir.ino)
		parts = append(parts, n)
		if length += len(n) + 1; length >= q.Path {
			return "", ENAMETOOLONG
		}
		dir = up
	}
	if len(parts) == 0 {
		return "/", 0
	}
	buf := make([]byte, 0, length)
	for i := len(parts) - 1; i >= 0; i-- {
		buf = append(buf, '/')
		buf = append(buf, parts[i]...)
	}
	return string(buf), 0
}

// nameOf returns the name of an inode in a directory.
func (d *dir) nameOf(ino uint64) string {
	for it := range d.allEntries {
		if it.ino == ino {
			return it.name
		}
	}
	return ""
}

// ReadFile returns the content of a file, read in one atomic step.
func (f *FS) ReadFile(path string) ([]byte, error) {
	for {
		data, need, e := f.tryReadFile(path)
		if e == eCross {
			data, e = f.readFileAcross(path)
		}
		if need == nil {
			return data, pathError("read", path, e)
		}
		if err := need.loadFor("read", path); err != nil {
			return nil, err
		}
	}
}

func (f *FS) tryReadFile(path string) ([]byte, *lazy, Errno) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	in, e := f.tree.lookupExisting(&f.quota, path, true)
	switch {
	case e != 0:
		return nil, nil, e
	case in.isDir():
		return nil, nil, EISDIR
	case !in.isFile():
		return nil, nil, ENXIO
	}
	for _, b := range in.blocks {
		if _, need := b.dataOrLazy(); need != nil {
			return nil, need, 0
		}
	}
	data := make([]byte, in.size)
	in.read(data, 0)
	f.updateAtime(f.tree, in)
	return data, nil, 0
}

// WriteFile sets the content of a file, creating the file with perm if it is
// missing. Readers see the old content or the new, never a part. If it fails,
// the old content stays.
func (f *FS) WriteFile(path string, data []byte, perm fs.FileMode) error {
	now := f.now().UnixNano()
	var blocks []*block
	if int64(len(data)) <= f.quota.Bytes { // else it fails below and needs no copy
		blocks = newBlocks(data)
	}
	e := f.tryWriteFile(path, blocks, int64(len(data)), perm, now)
	if e == eCross {
		e = f.writeFileAcross(path, data, perm)
	}
	return pathError("write", path, e)
}

func (f *FS) tryWriteFile(path string, blocks []*block, size int64, perm fs.FileMode, now int64) Errno {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.writeFile(path, blocks, size, perm, now)
}

func (f *FS) writeFile(path string, blocks []*block, size int64, perm fs.FileMode, now int64) Errno {
	t := f.tree
	pl, e := t.lookupPath(&f.quota, path, true)
	switch {
	case e != 0:
		return e
	case pl.last == lastName && pl.slash:
		return EISDIR
	case pl.in == nil:
		e = f.checkRoom(t, &inode{payer: t.payer}, size)
	case pl.in.isDir():
		return EISDIR
	case !pl.in.isFile():
		return ENXIO
	default:
		e = f.checkRoom(t, pl.in, size)
	}
	if e != 0 {
		return e
	}
	in := pl.in
	if in == nil {
		if in, e = f.makeInode(pl, perm&modeBits, now); e != 0 {
			return e
		}
	} else {
		in = t.ownInode(in)
	}
	in.blocks = blocks
	for _, b := range blocks {
		b.owner = t.owner
	}
	in.size = size
	t.chargeBytes(in, size)
	in.mtime, in.ctime = now, now
	return 0
}
