package kernel

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"time"

	"github.com/atoll-sandbox/atoll/vfs"
)

// Open opens a file for reading.
func (p *Proc) Open(name string) (*Handle, error) { return p.OpenFile(name, os.O_RDONLY, 0) }

// Create opens an empty file for writing.
func (p *Proc) Create(name string) (*Handle, error) {
	return p.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o666)
}

// OpenFile opens a file, a device, a named pipe or a file of /proc, with os.O_* flags; perm is
// masked by the umask. The descriptor is the lowest free one, at least 3.
func (p *Proc) OpenFile(name string, flag int, perm fs.FileMode) (*Handle, error) {
	o, err := p.OpenAt(name, flag, perm)
	if err != nil {
		return nil, err
	}
	n, err := p.FreeFD(3)
	if err != nil {
		o.Release()
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	if err := p.SetFD(n, o); err != nil {
		o.Release()
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return &Handle{p: p, fd: n}, nil
}

// OpenAt is OpenFile without a descriptor: the caller owns the reference.
func (p *Proc) OpenAt(name string, flag int, perm fs.FileMode) (*FileDescription, error) {
	p.Tick(4)
	if name == "" {
		return nil, &fs.PathError{Op: "open", Path: name, Err: vfs.ENOENT}
	}
	abs := p.Path(name)
	if o, err := p.openProc(abs, name, flag); o != nil || err != nil {
		return o, err
	}
	f, err := p.k.fs.OpenFile(abs, flag, perm&^fs.FileMode(p.umask))
	switch {
	case errors.Is(err, vfs.ENXIO):
		return p.openNode(abs, name, flag, err)
	case errors.Is(err, vfs.ENOENT):
		// A link in the sandbox may lead to /proc, which is not in the file system.
		if target, lerr := p.k.fs.Readlink(abs); lerr == nil && isProc(target) {
			return p.openProc(target, name, flag)
		}
		return nil, err
	case err != nil:
		return nil, err
	}
	o := newOpen(plain{f}, abs, flag)
	o.file = f
	return o, nil
}

// openNode opens a device or a named pipe, for which the file system has only the name.
func (p *Proc) openNode(abs, name string, flag int, cause error) (*FileDescription, error) {
	info, err := p.k.fs.Stat(abs)
	if err != nil {
		return nil, err
	}
	switch m := info.Mode(); {
	case m&fs.ModeDevice != 0:
		return p.openDevice(name, info.Rdev(), flag)
	case m&fs.ModeNamedPipe != 0:
		return p.openFIFO(name, info.Ino(), flag)
	}
	return nil, cause
}

// ReadFile returns the content of a file, charged to the process.
func (p *Proc) ReadFile(name string) ([]byte, error) {
	h, err := p.Open(name)
	if err != nil {
		return nil, err
	}
	defer h.Close()
	return p.ReadAll(h)
}

// ReadAll returns all data of r, charged to the process.
func (p *Proc) ReadAll(r io.Reader) ([]byte, error) {
	var b []byte
	for {
		if len(b) == cap(b) {
			n := max(4096, grownSize(cap(b)))
			p.Alloc(int64(n))
			was := cap(b)
			b = append(make([]byte, 0, n), b...)
			p.Free(int64(was))
		}
		n, err := r.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		if err == io.EOF {
			return b, nil
		}
		if err != nil {
			return b, err
		}
	}
}

// WriteFile replaces the content of a file in one step.
func (p *Proc) WriteFile(name string, data []byte, perm fs.FileMode) error {
	p.Tick(4 + len(data)>>6)
	return p.k.fs.WriteFile(p.Path(name), data, perm&^fs.FileMode(p.umask))
}

// Stat returns the file of a name, following links.
func (p *Proc) Stat(name string) (vfs.Info, error) {
	p.Tick(2)
	if name == "" {
		return vfs.Info{}, &fs.PathError{Op: "stat", Path: name, Err: vfs.ENOENT}
	}
	abs := p.Path(name)
	if info, ok, err := p.procStat(abs, name); ok {
		return info, err
	}
	info, err := p.k.fs.Stat(abs)
	if errors.Is(err, vfs.ENOENT) {
		if target, lerr := p.k.fs.Readlink(abs); lerr == nil && isProc(target) {
			if info, ok, err := p.procStat(target, name); ok {
				return info, err
			}
		}
	}
	return info, err
}

// Lstat returns the file of a name, without following a last link.
func (p *Proc) Lstat(name string) (vfs.Info, error) {
	p.Tick(2)
	if name == "" {
		return vfs.Info{}, &fs.PathError{Op: "lstat", Path: name, Err: vfs.ENOENT}
	}
	abs := p.Path(name)
	if info, err := p.k.fs.Lstat(abs); err == nil {
		return info, nil
	}
	if text, ok := p.procLink(abs); ok {
		return vfs.NewInfo(path.Base(abs), fs.ModeSymlink|0o777, int64(len(text)), procIno, p.Now()), nil
	}
	if info, ok, err := p.procStat(abs, name); ok {
		return info, err
	}
	return p.k.fs.Lstat(abs)
}

// A directory of a mount may have any number of entries. If there are more than bigDir, each is
// charged with entryCost bytes.
const (
	bigDir    = 4096
	entryCost = 200
)

// ReadDir returns the entries of a directory, sorted by name.
func (p *Proc) ReadDir(name string) ([]fs.DirEntry, error) {
	if list, ok := p.procDir(p.Path(name)); ok {
		return list, nil
	}
	list, err := p.k.fs.ReadDir(p.Path(name))
	p.Tick(4 + 2*len(list))
	if len(list) > bigDir {
		p.Alloc(int64(len(list)) * entryCost)
	}
	return list, err
}

// Mkdir makes a directory.
func (p *Proc) Mkdir(name string, perm fs.FileMode) error {
	p.Tick(4)
	return p.k.fs.Mkdir(p.Path(name), perm&^fs.FileMode(p.umask))
}

// MkdirAll makes a directory and its missing parents.
func (p *Proc) MkdirAll(name string, perm fs.FileMode) error {
	p.Tick(4)
	return p.k.fs.MkdirAll(p.Path(name), perm&^fs.FileMode(p.umask))
}

// Unlink removes a name that is no directory.
func (p *Proc) Unlink(name string) error {
	p.Tick(4)
	return p.k.fs.Unlink(p.Path(name))
}

// Rmdir removes an empty directory.
func (p *Proc) Rmdir(name string) error {
	p.Tick(4)
	return p.k.fs.Rmdir(p.Path(name))
}

// Remove removes a file or an empty directory.
func (p *Proc) Remove(name string) error {
	p.Tick(4)
	return p.k.fs.Remove(p.Path(name))
}

// RemoveAll removes a name and all below it; what is not there is no error.
func (p *Proc) RemoveAll(name string) error {
	p.Tick(16)
	return p.k.fs.RemoveAll(p.Path(name))
}

// Rename moves a name; it replaces the file that has the new name.
func (p *Proc) Rename(from, to string) error {
	p.Tick(4)
	return p.k.fs.Rename(p.Path(from), p.Path(to))
}

// Link gives a file a second name.
func (p *Proc) Link(from, to string) error {
	p.Tick(4)
	return p.k.fs.Link(p.Path(from), p.Path(to))
}

// Symlink makes a symbolic link with that text.
func (p *Proc) Symlink(text, name string) error {
	p.Tick(4)
	return p.k.fs.Symlink(text, p.Path(name))
}

// Readlink returns the text of a symbolic link.
func (p *Proc) Readlink(name string) (string, error) {
	p.Tick(2)
	if text, ok := p.procLink(p.Path(name)); ok {
		return text, nil
	}
	return p.k.fs.Readlink(p.Path(name))
}

// Resolve returns the canonical absolute path of a name.
func (p *Proc) Resolve(name string) (string, error) {
	p.Tick(4)
	return p.k.fs.Resolve(p.Path(name))
}

// Mkfifo makes a named pipe.
func (p *Proc) Mkfifo(name string, perm fs.FileMode) error {
	p.Tick(4)
	return p.k.fs.Mknod(p.Path(name), fs.ModeNamedPipe|perm&^fs.FileMode(p.umask), 0)
}

// Chmod changes permissions, links followed.
func (p *Proc) Chmod(name string, mode fs.FileMode) error {
	p.Tick(4)
	return p.k.fs.Chmod(p.Path(name), mode)
}

// Lchown changes the owner of a name itself; -1 leaves a number as it is.
func (p *Proc) Lchown(name string, uid, gid int) error {
	p.Tick(4)
	return p.k.fs.Lchown(p.Path(name), uid, gid)
}

// Chtimes changes the times, links followed.
func (p *Proc) Chtimes(name string, atime, mtime time.Time) error {
	p.Tick(4)
	return p.k.fs.Chtimes(p.Path(name), atime, mtime)
}

// Truncate changes the size of a file.
func (p *Proc) Truncate(name string, size int64) error {
	p.Tick(4)
	return p.k.fs.Truncate(p.Path(name), size)
}
