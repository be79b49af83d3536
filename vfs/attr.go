package vfs

import (
	"io/fs"
	"sync/atomic"
	"time"
)

// Stat describes what a path leads to.
func (f *FS) Stat(path string) (Info, error) { return f.stat("stat", path, true) }

// Lstat describes what a path names; a symbolic link is not followed.
func (f *FS) Lstat(path string) (Info, error) { return f.stat("lstat", path, false) }

func (f *FS) stat(op, path string, follow bool) (Info, error) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	in, e := f.tree.lookupExisting(&f.quota, path, follow)
	if e != 0 {
		return Info{}, pathError(op, path, e)
	}
	return in.info(base(path)), nil
}

// ReadDir returns what is in a directory, in the order of names.
func (f *FS) ReadDir(path string) ([]fs.DirEntry, error) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	in, e := f.tree.lookupExisting(&f.quota, path, true)
	if e == 0 && !in.isDir() {
		e = ENOTDIR
	}
	if e != 0 {
		return nil, pathError("readdir", path, e)
	}
	return f.tree.list(in.dir.after("", -1)), nil
}

// change applies do to the inode behind a path.
func (f *FS) change(op, path string, follow bool, do func(in *inode, now int64)) error {
	now := f.now().UnixNano()
	f.mu.Lock()
	defer f.mu.Unlock()
	in, e := f.tree.lookupExisting(&f.quota, path, follow)
	if e != 0 {
		return pathError(op, path, e)
	}
	in = f.tree.own(in)
	do(in, now)
	in.ctime = now
	return nil
}

// Chmod sets the permission, setuid, setgid and sticky bits.
func (f *FS) Chmod(path string, mode fs.FileMode) error {
	return f.change("chmod", path, true, func(in *inode, _ int64) {
		in.mode = in.mode&^modeBits | mode&modeBits
	})
}

// Chown sets the owner and group; -1 leaves one as it is.
func (f *FS) Chown(path string, uid, gid int) error { return f.chown("chown", path, uid, gid, true) }

// Lchown is Chown for a symbolic link itself.
func (f *FS) Lchown(path string, uid, gid int) error { return f.chown("lchown", path, uid, gid, false) }

func (f *FS) chown(op, path string, uid, gid int, follow bool) error {
	return f.change(op, path, follow, func(in *inode, _ int64) {
		if uid != -1 {
			in.uid = uint32(uid)
		}
		if gid != -1 {
			in.gid = uint32(gid)
		}
	})
}

// Chtimes sets the times; a zero one stays as it is.
func (f *FS) Chtimes(path string, atime, mtime time.Time) error {
	return f.chtimes("chtimes", path, atime, mtime, true)
}

// Lchtimes is Chtimes for a symbolic link itself.
func (f *FS) Lchtimes(path string, atime, mtime time.Time) error {
	return f.chtimes("lchtimes", path, atime, mtime, false)
}

func (f *FS) chtimes(op, path string, atime, mtime time.Time, follow bool) error {
	return f.change(op, path, follow, func(in *inode, _ int64) {
		if !atime.IsZero() {
			atomic.StoreInt64(&in.atime, timeStamp(atime))
		}
		if !mtime.IsZero() {
			in.mtime = timeStamp(mtime)
		}
	})
}

// Truncate sets the size of a file. What is gained reads as zeros.
func (f *FS) Truncate(path string, size int64) error {
	now := f.now().UnixNano()
	for {
		need, e := f.tryTruncate(path, size, now)
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
	f.tree.resize(f.tree.own(in), size, now)
	return nil, 0
}

// Resolve returns the path that leads to the same place without any link,
// "." or "..".
func (f *FS) Resolve(path string) (string, error) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	pl, e := f.tree.lookup(&f.quota, path, true)
	switch {
	case e != 0:
	case pl.in == nil:
		e = ENOENT
	case pl.slash && !pl.in.isDir():
		e = ENOTDIR
	}
	if e != 0 {
		return "", pathError("resolve", path, e)
	}
	dir, name := pl.dir, pl.name
	if pl.in.isDir() {
		dir, name = pl.in, ""
	}
	full, e := f.tree.path(&f.quota, dir, name)
	if e != 0 {
		return "", pathError("resolve", path, e)
	}
	return full, nil
}

// path returns the absolute path of a name in a directory, or of the
// directory itself.
func (t *tree) path(q *Quota, dir *inode, name string) (string, Errno) {
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
	for it := range d.all {
		if it.ino == ino {
			return it.name
		}
	}
	return ""
}

// ReadFile returns the content of a file, read at one moment.
func (f *FS) ReadFile(path string) ([]byte, error) {
	for {
		data, need, e := f.tryReadFile(path)
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
		if _, need := b.bytes(); need != nil {
			return nil, need, 0
		}
	}
	data := make([]byte, in.size)
	in.read(data, 0)
	f.accessed(f.tree, in)
	return data, nil, 0
}

// WriteFile sets the content of a file, making it with perm when it is not
// there. Readers see the old content or the new, never a part; when it fails
// the old one stays.
func (f *FS) WriteFile(path string, data []byte, perm fs.FileMode) error {
	now := f.now().UnixNano()
	var blocks []*block
	if int64(len(data)) <= f.quota.Bytes { // else it fails below, and needs no copy
		blocks = newBlocks(data)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return pathError("write", path, f.writeFile(path, blocks, int64(len(data)), perm, now))
}

func (f *FS) writeFile(path string, blocks []*block, size int64, perm fs.FileMode, now int64) Errno {
	t := f.tree
	pl, e := t.lookup(&f.quota, path, true)
	switch {
	case e != 0:
		return e
	case pl.last == lastName && pl.slash:
		return EISDIR
	case pl.in == nil:
		e = f.room(t, &inode{payer: t.payer}, size)
	case pl.in.isDir():
		return EISDIR
	case !pl.in.isFile():
		return ENXIO
	default:
		e = f.room(t, pl.in, size)
	}
	if e != 0 {
		return e
	}
	in := pl.in
	if in == nil {
		if in, e = f.make(pl, perm&modeBits, now); e != 0 {
			return e
		}
	} else {
		in = t.own(in)
	}
	in.blocks = blocks
	for _, b := range blocks {
		b.owner = t.owner
	}
	in.size = size
	t.charge(in, size)
	in.mtime, in.ctime = now, now
	return 0
}
