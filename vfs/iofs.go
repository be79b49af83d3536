package vfs

import (
	"errors"
	"io/fs"
	"path"
)

// view is a file system, or a directory of it, as a file system of io/fs.
type view struct {
	fs  *FS
	dir string
}

var (
	_ fs.ReadDirFS  = view{}
	_ fs.StatFS     = view{}
	_ fs.ReadFileFS = view{}
	_ fs.SubFS      = view{}
	_ fs.ReadLinkFS = view{}
)

// IO returns a read-only view that implements all optional interfaces of
// io/fs. Symbolic links are followed as in the file system: an absolute link
// leads to the root of the file system, not to that of a Sub.
func (f *FS) IO() fs.FS { return view{f, "/"} }

// IO returns a read-only view of the snapshot.
func (s *Snapshot) IO() fs.FS {
	return New(Options{Base: s, Quota: s.quota}).IO()
}

func (v view) resolveName(op, name string) (string, error) {
	if !fs.ValidPath(name) {
		return "", &fs.PathError{Op: op, Path: name, Err: fs.ErrInvalid}
	}
	return path.Join(v.dir, name), nil
}

func (v view) Open(name string) (fs.File, error) {
	p, err := v.resolveName("open", name)
	if err != nil {
		return nil, err
	}
	f, err := v.fs.Open(p)
	if err != nil {
		return nil, renameError(err, name)
	}
	f.name = name
	return viewFile{f}, nil
}

// viewFile is a File whose Stat has the signature of io/fs.
type viewFile struct{ *File }

func (f viewFile) Stat() (fs.FileInfo, error) {
	i, err := f.File.Stat()
	if err != nil {
		return nil, err
	}
	return i, nil
}

func (v view) ReadDir(name string) ([]fs.DirEntry, error) {
	p, err := v.resolveName("readdir", name)
	if err != nil {
		return nil, err
	}
	out, err := v.fs.ReadDir(p)
	return out, renameError(err, name)
}

func (v view) Stat(name string) (fs.FileInfo, error)  { return v.stat("stat", name, true) }
func (v view) Lstat(name string) (fs.FileInfo, error) { return v.stat("lstat", name, false) }

func (v view) stat(op, name string, follow bool) (fs.FileInfo, error) {
	p, err := v.resolveName(op, name)
	if err != nil {
		return nil, err
	}
	i, err := v.fs.stat(op, p, follow)
	if err != nil {
		return nil, renameError(err, name)
	}
	i.name = path.Base(name)
	return i, nil
}

func (v view) ReadFile(name string) ([]byte, error) {
	p, err := v.resolveName("read", name)
	if err != nil {
		return nil, err
	}
	data, err := v.fs.ReadFile(p)
	return data, renameError(err, name)
}

func (v view) ReadLink(name string) (string, error) {
	p, err := v.resolveName("readlink", name)
	if err != nil {
		return "", err
	}
	target, err := v.fs.Readlink(p)
	return target, renameError(err, name)
}

func (v view) Sub(dir string) (fs.FS, error) {
	p, err := v.resolveName("sub", dir)
	if err != nil {
		return nil, err
	}
	return view{v.fs, p}, nil
}

// renameError replaces the path in an error by the name that the caller used.
func renameError(err error, name string) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return &fs.PathError{Op: pe.Op, Path: name, Err: pe.Err}
	}
	return err
}
