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

// attrChange is a change of the attributes of an inode; an unset field leaves
// its attribute unchanged.
type attrChange struct {
	op           string
	follow       bool
	chmod        bool
	mode         fs.FileMode // valid if chmod is set
	uid, gid     int         // -1: unchanged
	atime, mtime time.Time
}
