package vfs

import "io/fs"

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
