package vfs

import (
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"sync"
)

// hostFile is an open file or directory of a mount.
type hostFile struct {
	m   *mount
	f   *os.File
	id  fileID
	dir *os.Root // set for a directory

	once sync.Once // closes it
}

// maxOpen limits the files that are open through one mount: each uses a file
// descriptor of the host's process.
const maxOpen = 512

// newHostFile takes ownership of an open file, and closes it if a mount must
// not open files of its kind.
func (m *mount) newHostFile(f *os.File, rel string) (*hostFile, Errno) {
	info, err := f.Stat()
	e := hostErrno(err)
	switch {
	case e != 0:
	case !hostOpenable(info.Mode()):
		e = EACCES
	case m.files.Add(1) > maxOpen:
		m.files.Add(-1)
		e = ENFILE
	}
	if e != 0 {
		_ = f.Close() // nothing was written
		return nil, e
	}
	h := &hostFile{m: m, f: f, id: hostStat(info).id}
	m.host.trackOpen(f, h.id)
	if info.IsDir() {
		if h.dir, err = m.host.openDir(rel); err != nil {
			h.close()
			return nil, hostErrno(err)
		}
	}
	m.mu.Lock()
	ended := m.open == nil
	if !ended {
		m.open[h] = true
	}
	m.mu.Unlock()
	if ended {
		h.close()
		return nil, EIO
	}
	return h, 0
}

// countName counts one more name against the limit of the mount.
func (m *mount) countName() Errno {
	if m.limit == 0 {
		return 0
	}
	return m.host.reserveUsage(0, 1, m.limit)
}

// createFile creates a file under a free name and opens it.
func (at *hostLocation) createFile(flag int, perm fs.FileMode) (*hostFile, Errno) {
	if e := at.m.countName(); e != 0 {
		return nil, e
	}
	perm = perm.Perm()
	f, err := at.rootDir().OpenFile(at.rel, flag&(accessMode|os.O_APPEND)|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return nil, hostErrno(err)
	}
	h, e := at.m.newHostFile(f, at.rel)
	if e != 0 {
		_ = at.rootDir().Remove(at.rel) // the error is e
		return nil, e
	}
	if info, err := f.Stat(); err == nil && info.Mode().Perm() != perm {
		err = f.Chmod(perm) // undo the host's umask
		e = hostErrno(err)
	}
	if e != 0 {
		h.close()
		return nil, e
	}
	return h, 0
}

// openThere opens an existing file. It never blocks, whatever has replaced
// the file since it was looked up.
func (at *hostLocation) openThere(flag int) (*hostFile, Errno) {
	access := flag & accessMode
	if access == os.O_RDONLY && flag&os.O_TRUNC != 0 {
		access = os.O_RDWR // the size is set through the descriptor; File refuses writes
	}
	f, err := at.rootDir().OpenFile(at.rel, access|flag&os.O_APPEND|openFlags, 0)
	switch e := hostErrno(err); e {
	case 0:
	case ENOENT:
		return nil, eAgain
	case ENXIO: // a socket, or a pipe without a reader
		return nil, EACCES
	default:
		return nil, e
	}
	h, e := at.m.newHostFile(f, at.rel)
	if e == 0 && flag&os.O_TRUNC != 0 {
		if e = h.setSize(0); e != 0 {
			h.close()
			return nil, e
		}
	}
	return h, e
}

// createTemp creates a file with a new name in a directory.
func (m *mount) createTemp(dir string, perm fs.FileMode) (*hostLocation, *hostFile, Errno) {
	for range maxTries {
		at := &hostLocation{m: m, rel: path.Join(dir, ".atoll-"+rand.Text()+".tmp")}
		h, e := at.createFile(os.O_WRONLY, perm)
		if e == EEXIST {
			continue
		}
		var err error
		if e == 0 {
			at.info, err = h.f.Stat()
			e = hostErrno(err)
		}
		return at, h, e
	}
	return nil, nil, EEXIST
}

// close closes the file. Closing it again does nothing.
func (h *hostFile) close() {
	h.once.Do(func() {
		h.m.mu.Lock()
		delete(h.m.open, h)
		h.m.mu.Unlock()
		h.m.host.trackClose(h.f, h.id)
		h.m.files.Add(-1)
		_ = h.f.Close() // the host already has all writes
		if h.dir != nil {
			_ = h.dir.Close() // it was only read
		}
	})
}

func (h *hostFile) readAt(p []byte, off int64) (int, error) {
	if h.dir != nil {
		return 0, EISDIR
	}
	n, err := h.f.ReadAt(p, off)
	switch {
	case n > 0 || len(p) == 0:
		return n, nil
	case errors.Is(err, io.EOF):
		return 0, io.EOF
	}
	return 0, hostErrno(err)
}

// write writes at an offset or at the end, and returns the offset after the
// written bytes.
func (h *hostFile) write(p []byte, off int64, atEnd bool) (int64, Errno) {
	if len(p) == 0 {
		return off, 0
	}
	if off+int64(len(p)) < off {
		return off, EFBIG
	}
	if e := h.reserveSize(func(size int64) int64 {
		if atEnd {
			return size + int64(len(p))
		}
		return max(size, off+int64(len(p)))
	}); e != 0 {
		return off, e
	}
	var n int
	var err error
	if atEnd {
		n, err = h.f.Write(p)
		if end, serr := h.f.Seek(0, io.SeekCurrent); serr == nil {
			off = end - int64(n)
		}
	} else {
		n, err = h.f.WriteAt(p, off)
	}
	if err != nil && n == 0 {
		h.m.host.use.invalidateCount() // the reserved bytes were not written
	}
	return off + int64(n), hostErrno(err)
}

func (h *hostFile) setSize(size int64) Errno {
	switch {
	case h.dir != nil:
		return EISDIR
	case size < 0:
		return EINVAL
	}
	if e := h.reserveSize(func(int64) int64 { return size }); e != 0 {
		return e
	}
	return hostErrno(h.f.Truncate(size))
}

// reserveSize counts the bytes by which a file grows when its size changes to
// to(size).
func (h *hostFile) reserveSize(to func(size int64) int64) Errno {
	info, err := h.f.Stat()
	if err != nil {
		return hostErrno(err)
	}
	return h.m.host.reserveUsage(to(info.Size())-info.Size(), 0, h.m.limit)
}

func (h *hostFile) size() int64 {
	info, err := h.f.Stat()
	if err != nil {
		return 0
	}
	return info.Size()
}

// listAfter lists the entries after a name in the directory, as
// [File.ReadDir] does.
func (h *hostFile) listAfter(seen string, n int) ([]fs.DirEntry, error) {
	if h.dir == nil {
		return nil, ENOTDIR
	}
	list, err := entriesOf(h.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // a removed directory has no entries
		return nil, hostErrno(err)
	}
	i, found := slices.BinarySearchFunc(list, seen, func(d fs.DirEntry, name string) int {
		switch {
		case d.Name() < name:
			return -1
		case d.Name() > name:
			return 1
		}
		return 0
	})
	if found {
		i++
	}
	list = list[i:]
	if n > 0 {
		list = list[:min(n, len(list))]
		if len(list) == 0 {
			return nil, io.EOF
		}
	}
	return list, nil
}
