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

// hostFile is a file or directory of a mount that is open.
type hostFile struct {
	m   *mount
	f   *os.File
	id  fileID
	dir *os.Root // set for a directory

	once sync.Once // closes it
}

// maxOpen is how many files may be open through one mount: they are files of
// the host's process too.
const maxOpen = 512

// newHostFile takes over an open file, or closes it if it is not what a mount
// opens.
func (m *mount) newHostFile(f *os.File, rel string) (*hostFile, Errno) {
	info, err := f.Stat()
	e := hostReason(err)
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
	m.host.opened(f, h.id)
	if info.IsDir() {
		if h.dir, err = m.host.openDir(rel); err != nil {
			h.close()
			return nil, hostReason(err)
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

// name counts one more name.
func (m *mount) name() Errno {
	if m.limit == 0 {
		return 0
	}
	return m.host.reserve(0, 1, m.limit)
}

// createFile makes a file with a name that is free and opens it.
func (at *spot) createFile(flag int, perm fs.FileMode) (*hostFile, Errno) {
	if e := at.m.name(); e != 0 {
		return nil, e
	}
	perm = perm.Perm()
	f, err := at.top().OpenFile(at.rel, flag&(accessMode|os.O_APPEND)|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return nil, hostReason(err)
	}
	h, e := at.m.newHostFile(f, at.rel)
	if e != 0 {
		_ = at.top().Remove(at.rel) // the reason that counts is there
		return nil, e
	}
	if info, err := f.Stat(); err == nil && info.Mode().Perm() != perm {
		err = f.Chmod(perm) // the host's mask is not the sandbox's
		e = hostReason(err)
	}
	if e != 0 {
		h.close()
		return nil, e
	}
	return h, 0
}

// openThere opens what is there. It never waits, whatever has taken its
// place since it was looked at.
func (at *spot) openThere(flag int) (*hostFile, Errno) {
	f, err := at.top().OpenFile(at.rel, flag&(accessMode|os.O_APPEND)|openFlags, 0)
	switch e := hostReason(err); e {
	case 0:
	case ENOENT:
		return nil, eAgain
	case ENXIO: // a socket, or a pipe that nobody reads
		return nil, EACCES
	default:
		return nil, e
	}
	h, e := at.m.newHostFile(f, at.rel)
	if e == 0 && flag&os.O_TRUNC != 0 {
		if e = h.truncate(0); e != 0 {
			h.close()
			return nil, e
		}
	}
	return h, e
}

// temporary makes a file with a new name in a directory.
func (m *mount) temporary(dir string, perm fs.FileMode) (*spot, *hostFile, Errno) {
	for range tries {
		at := &spot{m: m, rel: path.Join(dir, ".atoll-"+rand.Text()+".tmp")}
		h, e := at.createFile(os.O_WRONLY, perm)
		if e == EEXIST {
			continue
		}
		var err error
		if e == 0 {
			at.info, err = h.f.Stat()
			e = hostReason(err)
		}
		return at, h, e
	}
	return nil, nil, EEXIST
}

// close closes the file; again is fine.
func (h *hostFile) close() {
	h.once.Do(func() {
		h.m.mu.Lock()
		delete(h.m.open, h)
		h.m.mu.Unlock()
		h.m.host.closing(h.f, h.id)
		h.m.files.Add(-1)
		_ = h.f.Close() // what was written is with the host
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
	return 0, hostReason(err)
}

// write writes at an offset or at the end, and returns the offset behind
// what was written.
func (h *hostFile) write(p []byte, off int64, atEnd bool) (int64, Errno) {
	if len(p) == 0 {
		return off, 0
	}
	if off+int64(len(p)) < off {
		return off, EFBIG
	}
	if e := h.reserve(func(size int64) int64 {
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
		h.m.host.use.forget() // what was reserved is counted anew
	}
	return off + int64(n), hostReason(err)
}

func (h *hostFile) truncate(size int64) Errno {
	switch {
	case h.dir != nil:
		return EISDIR
	case size < 0:
		return EINVAL
	}
	if e := h.reserve(func(int64) int64 { return size }); e != 0 {
		return e
	}
	return hostReason(h.f.Truncate(size))
}

// reserve counts what a file grows by, from the size it has to another.
func (h *hostFile) reserve(to func(size int64) int64) Errno {
	info, err := h.f.Stat()
	if err != nil {
		return hostReason(err)
	}
	return h.m.host.reserve(to(info.Size())-info.Size(), 0, h.m.limit)
}

func (h *hostFile) size() int64 {
	info, err := h.f.Stat()
	if err != nil {
		return 0
	}
	return info.Size()
}

// after lists what follows a name in the directory, as [File.ReadDir] does.
func (h *hostFile) after(seen string, n int) ([]fs.DirEntry, error) {
	if h.dir == nil {
		return nil, ENOTDIR
	}
	list, err := entriesOf(h.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // it is, in one that was removed
		return nil, hostReason(err)
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
