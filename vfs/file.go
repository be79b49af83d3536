package vfs

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"
)

// Flags for OpenFile besides those of package os.
const (
	O_NOFOLLOW  = 1 << 28 // a symbolic link at the end is ELOOP
	O_DIRECTORY = 1 << 29 // anything but a directory is ENOTDIR
)

const accessMode = os.O_RDONLY | os.O_WRONLY | os.O_RDWR

// File is an open file or directory. It stays valid when its name goes away.
// After [FS.Restore] it still reads what it had, and writes fail with EBADF.
// It is safe for concurrent use.
type File struct {
	fs     *FS
	tree   *tree
	handle *handle
	host   *hostFile // set for one in a mount, which has neither tree nor handle
	name   string
	flag   int
	closed atomic.Bool

	mu   sync.Mutex
	off  int64  // guarded by mu
	seen string // last name that ReadDir returned; guarded by mu
}

// Name returns the path that the file was opened with.
func (f *File) Name() string { return f.name }

func (f *File) fail(op string, e Errno) error { return pathError(op, f.name, e) }

func (f *File) readable() bool { return f.flag&accessMode != os.O_WRONLY }
func (f *File) writable() bool { return f.flag&accessMode != os.O_RDONLY }

// Read reads from the present offset.
func (f *File) Read(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, err := f.readAt("read", p, f.off)
	f.off += int64(n)
	return n, err
}

// ReadAt reads from an offset. It returns io.EOF when it reads less than
// asked for.
func (f *File) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, f.fail("read", EINVAL)
	}
	n, err := f.readAt("read", p, off)
	if err == nil && n < len(p) {
		err = io.EOF
	}
	return n, err
}

func (f *File) readAt(op string, p []byte, off int64) (int, error) {
	if f.closed.Load() || !f.readable() {
		return 0, f.fail(op, EBADF)
	}
	if f.host != nil {
		n, err := f.host.readAt(p, off)
		if err != nil && !errors.Is(err, io.EOF) {
			err = f.fail(op, reason(err))
		}
		return n, err
	}
	for {
		n, need, e := f.tryRead(p, off)
		switch {
		case e != 0:
			return 0, f.fail(op, e)
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
	in := f.tree.inode(f.handle)
	if in.isDir() {
		return 0, nil, EISDIR
	}
	n, need := in.read(p, off)
	if n > 0 {
		f.fs.accessed(f.tree, in)
	}
	return n, need, 0
}

// accessed notes the first reading after a change, where that is cheap.
func (f *FS) accessed(t *tree, in *inode) {
	if in.owner == t.owner && atomic.LoadInt64(&in.atime) <= in.mtime {
		atomic.StoreInt64(&in.atime, f.now().UnixNano())
	}
}

// Write writes at the present offset, or at the end when the file was opened
// with O_APPEND. It writes all or nothing.
func (f *File) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	start := f.off
	end, err := f.put(p, f.off, f.flag&os.O_APPEND != 0)
	if err != nil {
		if f.host == nil || end <= start || f.flag&os.O_APPEND != 0 {
			return 0, err
		}
		f.off = end // the host's disk may be full in the middle
		return int(end - start), err
	}
	f.off = end
	return len(p), nil
}

// WriteString is Write for a string.
func (f *File) WriteString(s string) (int, error) { return f.Write([]byte(s)) }

// WriteAt writes at an offset, all or nothing. A file opened with O_APPEND
// refuses it.
func (f *File) WriteAt(p []byte, off int64) (int, error) {
	if off < 0 || f.flag&os.O_APPEND != 0 {
		return 0, f.fail("write", EINVAL)
	}
	if _, err := f.put(p, off, false); err != nil {
		return 0, err
	}
	return len(p), nil
}

// put writes p and returns the offset behind it.
func (f *File) put(p []byte, off int64, atEnd bool) (int64, error) {
	if f.closed.Load() || !f.writable() {
		return 0, f.fail("write", EBADF)
	}
	if f.host != nil {
		end, e := f.host.write(p, off, atEnd)
		return end, f.fail("write", e)
	}
	now := f.fs.now().UnixNano()
	for {
		end, need, e := f.tryPut(p, off, atEnd, now)
		if need == nil {
			return end, f.fail("write", e)
		}
		if err := need.loadFor("write", f.name); err != nil {
			return 0, err
		}
	}
}

func (f *File) tryPut(p []byte, off int64, atEnd bool, now int64) (int64, *lazy, Errno) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	t := f.tree
	if t.dead {
		return 0, nil, EBADF
	}
	in := t.inode(f.handle)
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
	if e := f.fs.room(t, in, size); e != 0 {
		return 0, nil, e
	}
	if need := in.missing(off, len(p)); need != nil {
		return 0, need, 0
	}
	in = t.ownHandle(f.handle)
	in.write(p, off)
	t.charge(in, in.size)
	in.mtime, in.ctime = now, now
	return off + int64(len(p)), nil, 0
}

// room says whether an inode may have the size.
func (f *FS) room(t *tree, in *inode, size int64) Errno {
	if size > f.quota.File && size > in.size {
		return EFBIG
	}
	more := size - t.charged(in)
	if more > 0 && more > f.quota.Bytes-t.bytes() {
		return ENOSPC
	}
	return 0
}

// Seek moves the offset. On a directory only going to the start means
// something: the next ReadDir begins again.
func (f *File) Seek(offset int64, whence int) (int64, error) {
	if f.closed.Load() {
		return 0, f.fail("seek", EBADF)
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
		return 0, f.fail("seek", EINVAL)
	}
	if offset < 0 {
		return 0, f.fail("seek", EINVAL)
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
	return f.tree.inode(f.handle).size
}

// Truncate sets the size. What is gained reads as zeros.
func (f *File) Truncate(size int64) error {
	switch {
	case f.closed.Load():
		return f.fail("truncate", EBADF)
	case !f.writable():
		return f.fail("truncate", EINVAL)
	case f.host != nil:
		return f.fail("truncate", f.host.truncate(size))
	}
	now := f.fs.now().UnixNano()
	for {
		need, e := f.tryTruncate(size, now)
		if need == nil {
			return f.fail("truncate", e)
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
	in := f.tree.inode(f.handle)
	need, e := f.fs.mayResize(f.tree, in, size)
	if e != 0 || need != nil {
		return need, e
	}
	f.tree.resize(f.tree.ownHandle(f.handle), size, now)
	return nil, 0
}

// mayResize says whether an inode can get a size, and what to load before.
func (f *FS) mayResize(t *tree, in *inode, size int64) (*lazy, Errno) {
	switch {
	case size < 0:
		return nil, EINVAL
	case in.isDir():
		return nil, EISDIR
	case !in.isFile():
		return nil, EINVAL
	}
	if e := f.room(t, in, size); e != 0 {
		return nil, e
	}
	if size < in.size && size%blockSize != 0 {
		return in.partial(size, size, size), 0
	}
	return nil, 0
}

func (t *tree) resize(in *inode, size, now int64) {
	in.resize(size)
	t.charge(in, size)
	in.mtime, in.ctime = now, now
}

// Stat describes the file.
func (f *File) Stat() (Info, error) {
	if f.closed.Load() {
		return Info{}, f.fail("stat", EBADF)
	}
	if f.host != nil {
		info, err := f.host.f.Stat()
		if err != nil {
			return Info{}, f.fail("stat", hostReason(err))
		}
		return hostInfo(info, base(f.name)), nil
	}
	f.fs.mu.RLock()
	defer f.fs.mu.RUnlock()
	return f.tree.inode(f.handle).info(base(f.name)), nil
}

// ReadDir returns the next names of a directory in order: all that are left
// when n <= 0, else at most n and io.EOF at the end.
func (f *File) ReadDir(n int) ([]fs.DirEntry, error) {
	if f.closed.Load() {
		return nil, f.fail("readdir", EBADF)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.host != nil {
		list, err := f.host.after(f.seen, n)
		if len(list) > 0 {
			f.seen = list[len(list)-1].Name()
		}
		if err != nil && !errors.Is(err, io.EOF) {
			err = f.fail("readdir", reason(err))
		}
		return list, err
	}
	f.fs.mu.RLock()
	defer f.fs.mu.RUnlock()
	in := f.tree.inode(f.handle)
	if !in.isDir() {
		return nil, f.fail("readdir", ENOTDIR)
	}
	count := n
	if n <= 0 {
		count = -1
	}
	entries := in.dir.after(f.seen, count)
	if len(entries) > 0 {
		f.seen = entries[len(entries)-1].name
	}
	if len(entries) == 0 && n > 0 {
		return nil, io.EOF
	}
	return f.tree.list(entries), nil
}

// Close gives the file back. Closing twice is EBADF.
func (f *File) Close() error {
	if f.closed.Swap(true) {
		return f.fail("close", EBADF)
	}
	if f.host != nil {
		f.host.close()
		return nil
	}
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	f.tree.release(f.handle)
	return nil
}
