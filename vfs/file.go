package vfs

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"
)

// Flags for [FS.OpenFile] besides those of package os.
const (
	O_NOFOLLOW  = 1 << 28 // fail with ELOOP if the last name is a symbolic link
	O_DIRECTORY = 1 << 29 // fail with ENOTDIR if it is not a directory
)

const accessMode = os.O_RDONLY | os.O_WRONLY | os.O_RDWR

// File is an open file or directory. It stays valid when its name is removed.
// After [FS.Restore] reads return the old content and writes fail with EBADF.
// A File is safe for concurrent use.
type File struct {
	fs     *FS
	tree   *tree
	handle *handle
	host   *hostFile // set for a file in a mount, which has neither tree nor handle
	name   string
	flag   int
	closed atomic.Bool

	mu   sync.Mutex
	off  int64  // guarded by mu
	seen string // last name that ReadDir returned; guarded by mu
}

// Name returns the path that the file was opened with.
func (f *File) Name() string { return f.name }

func (f *File) wrapError(op string, e Errno) error { return pathError(op, f.name, e) }

func (f *File) canRead() bool  { return f.flag&accessMode != os.O_WRONLY }
func (f *File) canWrite() bool { return f.flag&accessMode != os.O_RDONLY }

// Read reads from the current offset.
func (f *File) Read(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, err := f.readAt("read", p, f.off)
	f.off += int64(n)
	return n, err
}

// ReadAt reads from an offset. It returns io.EOF when it reads fewer than
// len(p) bytes.
func (f *File) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, f.wrapError("read", EINVAL)
	}
	n, err := f.readAt("read", p, off)
	if err == nil && n < len(p) {
		err = io.EOF
	}
	return n, err
}

func (f *File) readAt(op string, p []byte, off int64) (int, error) {
	if f.closed.Load() || !f.canRead() {
		return 0, f.wrapError(op, EBADF)
	}
	if f.host != nil {
		n, err := f.host.readAt(p, off)
		if err != nil && !errors.Is(err, io.EOF) {
			err = f.wrapError(op, errnoOf(err))
		}
		return n, err
	}
	for {
		n, need, e := f.tryRead(p, off)
		switch {
		case e != 0:
			return 0, f.wrapError(op, e)
		case need != nil:
			if err := need.loadFor(op, f.name); err != nil {
				return 0, err
			}
		case n == 0 && len(p) > 0:
			return 0, io.EOF
		default:
			return n, nil
		}
	}
}

func (f *File) tryRead(p []byte, off int64) (int, *lazy, Errno) {
	f.fs.mu.RLock()
	defer f.fs.mu.RUnlock()
	in := f.tree.inodeOf(f.handle)
	if in.isDir() {
		return 0, nil, EISDIR
	}
	n, need := in.read(p, off)
	if n > 0 {
		f.fs.updateAtime(f.tree, in)
	}
	return n, need, 0
}

// updateAtime records the first read after a change, where that is cheap.
func (f *FS) updateAtime(t *tree, in *inode) {
	if in.owner == t.owner && atomic.LoadInt64(&in.atime) <= in.mtime {
		atomic.StoreInt64(&in.atime, f.now().UnixNano())
	}
}

// Write writes at the current offset, or at the end when the file was opened
// with O_APPEND. It writes all bytes or none.
func (f *File) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	start := f.off
	end, err := f.writeOrAppend(p, f.off, f.flag&os.O_APPEND != 0)
	if err != nil {
		if f.host == nil || end <= start || f.flag&os.O_APPEND != 0 {
			return 0, err
		}
		f.off = end // the host's disk may be full after a part
		return int(end - start), err
	}
	f.off = end
	return len(p), nil
}

// WriteString is Write for a string.
func (f *File) WriteString(s string) (int, error) { return f.Write([]byte(s)) }

// WriteAt writes at an offset, all bytes or none. It fails with EINVAL for a
// file opened with O_APPEND.
func (f *File) WriteAt(p []byte, off int64) (int, error) {
	if off < 0 || f.flag&os.O_APPEND != 0 {
		return 0, f.wrapError("write", EINVAL)
	}
	if _, err := f.writeOrAppend(p, off, false); err != nil {
		return 0, err
	}
	return len(p), nil
}

// writeOrAppend writes p and returns the offset after it.
func (f *File) writeOrAppend(p []byte, off int64, atEnd bool) (int64, error) {
	if f.closed.Load() || !f.canWrite() {
		return 0, f.wrapError("write", EBADF)
	}
	if f.host != nil {
		end, e := f.host.write(p, off, atEnd)
		return end, f.wrapError("write", e)
	}
	now := f.fs.now().UnixNano()
	for {
		end, need, e := f.tryWrite(p, off, atEnd, now)
		if need == nil {
			return end, f.wrapError("write", e)
		}
		if err := need.loadFor("write", f.name); err != nil {
			return 0, err
		}
	}
}

func (f *File) tryWrite(p []byte, off int64, atEnd bool, now int64) (int64, *lazy, Errno) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	t := f.tree
	if t.dead {
		return 0, nil, EBADF
	}
	in := t.inodeOf(f.handle)
	if len(p) == 0 {
		return off, nil, 0
	}
	if atEnd {
		off = in.size
	}
	size := max(in.size, off+int64(len(p)))
	if off+int64(len(p)) < off {
		return 0, nil, EFBIG
	}
	if e := f.fs.checkRoom(t, in, size); e != 0 {
		return 0, nil, e
	}
	if need := in.missingForWrite(off, len(p)); need != nil {
		return 0, need, 0
	}
	in = t.ownHandle(f.handle)
	in.write(p, off)
	t.chargeBytes(in, in.size)
	in.mtime, in.ctime = now, now
	return off + int64(len(p)), nil, 0
}

// Seek sets the offset. On a directory only seeking to the start has an
// effect: the next ReadDir begins again.
func (f *File) Seek(offset int64, whence int) (int64, error) {
	if f.closed.Load() {
		return 0, f.wrapError("seek", EBADF)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch whence {
	case io.SeekStart:
	case io.SeekCurrent:
		offset += f.off
	case io.SeekEnd:
		offset += f.size()
	default:
		return 0, f.wrapError("seek", EINVAL)
	}
	if offset < 0 {
		return 0, f.wrapError("seek", EINVAL)
	}
	f.off = offset
	if offset == 0 && whence == io.SeekStart {
		f.seen = ""
	}
	return offset, nil
}

func (f *File) size() int64 {
	if f.host != nil {
		return f.host.size()
	}
	f.fs.mu.RLock()
	defer f.fs.mu.RUnlock()
	return f.tree.inodeOf(f.handle).size
}

// Truncate sets the size. An extended part reads as zeros.
func (f *File) Truncate(size int64) error {
	switch {
	case f.closed.Load():
		return f.wrapError("truncate", EBADF)
	case !f.canWrite():
		return f.wrapError("truncate", EINVAL)
	case f.host != nil:
		return f.wrapError("truncate", f.host.setSize(size))
	}
	now := f.fs.now().UnixNano()
	for {
		need, e := f.tryTruncate(size, now)
		if need == nil {
			return f.wrapError("truncate", e)
		}
		if err := need.loadFor("truncate", f.name); err != nil {
			return err
		}
	}
}

func (f *File) tryTruncate(size, now int64) (*lazy, Errno) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if f.tree.dead {
		return nil, EBADF
	}
	in := f.tree.inodeOf(f.handle)
	need, e := f.fs.mayResize(f.tree, in, size)
	if e != 0 || need != nil {
		return need, e
	}
	f.tree.resizeInode(f.tree.ownHandle(f.handle), size, now)
	return nil, 0
}

// mayResize returns what must be loaded before an inode can get a size, or
// why it can't.
func (f *FS) mayResize(t *tree, in *inode, size int64) (*lazy, Errno) {
	switch {
	case size < 0:
		return nil, EINVAL
	case in.isDir():
		return nil, EISDIR
	case !in.isFile():
		return nil, EINVAL
	}
	if e := f.checkRoom(t, in, size); e != 0 {
		return nil, e
	}
	if size < in.size && size%blockSize != 0 {
		return in.missingIfPartial(size, size, size), 0
	}
	return nil, 0
}

func (t *tree) resizeInode(in *inode, size, now int64) {
	in.setSize(size)
	t.chargeBytes(in, size)
	in.mtime, in.ctime = now, now
}

// Stat describes the file.
func (f *File) Stat() (Info, error) {
	if f.closed.Load() {
		return Info{}, f.wrapError("stat", EBADF)
	}
	if f.host != nil {
		info, err := f.host.f.Stat()
		if err != nil {
			return Info{}, f.wrapError("stat", hostErrno(err))
		}
		return hostInfo(info, baseName(f.name)), nil
	}
	f.fs.mu.RLock()
	defer f.fs.mu.RUnlock()
	return f.tree.inodeOf(f.handle).toInfo(baseName(f.name)), nil
}

// ReadDir returns the next entries of a directory in order: all remaining
// ones when n <= 0, else at most n, and io.EOF at the end.
func (f *File) ReadDir(n int) ([]fs.DirEntry, error) {
	if f.closed.Load() {
		return nil, f.wrapError("readdir", EBADF)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.host != nil {
		list, err := f.host.listAfter(f.seen, n)
		if len(list) > 0 {
			f.seen = list[len(list)-1].Name()
		}
		if err != nil && !errors.Is(err, io.EOF) {
			err = f.wrapError("readdir", errnoOf(err))
		}
		return list, err
	}
	f.fs.mu.RLock()
	defer f.fs.mu.RUnlock()
	in := f.tree.inodeOf(f.handle)
	if !in.isDir() {
		return nil, f.wrapError("readdir", ENOTDIR)
	}
	count := n
	if n <= 0 {
		count = -1
	}
	entries := in.dir.entriesAfter(f.seen, count)
	if len(entries) > 0 {
		f.seen = entries[len(entries)-1].name
	}
	if len(entries) == 0 && n > 0 {
		return nil, io.EOF
	}
	return f.tree.list(entries), nil
}

// Close closes the file. Closing it twice is EBADF.
func (f *File) Close() error {
	if f.closed.Swap(true) {
		return f.wrapError("close", EBADF)
	}
	if f.host != nil {
		f.host.close()
		return nil
	}
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	f.tree.closeHandle(f.handle)
	return nil
}
