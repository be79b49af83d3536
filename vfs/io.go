package vfs

import (
	"errors"
	"io/fs"
	"path"
)

// view is a file system, or a directory of it, as package io/fs wants it.
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

// IO returns a view for reading, with all the abilities that io/fs knows.
// It follows symbolic links as the file system does, so an absolute one
// leads to the root of the file system, not to that of a Sub.
func (f *FS) IO() fs.FS { return view{f, "/"} }

// IO returns a view of what the snapshot holds.
func (s *Snapshot) IO() fs.FS {
	return New(Options{Base: s, Quota: s.quota}).IO()
}

func (v view) path(op, name string) (string, error) {
	if !fs.ValidPath(name) {
		return "", &fs.PathError{Op: op, Path: name, Err: fs.ErrInvalid}
	}
	return path.Join(v.dir, name), nil
}

func (v view) Open(name string) (fs.File, error) {
	p, err := v.path("open", name)
	if err != nil {
		return nil, err
	}
	f, err := v.fs.Open(p)
	if err != nil {
		return nil, renamed(err, name)
	}
	f.name = name
	return viewFile{f}, nil
}

// viewFile is a File whose Stat is that of io/fs.
type viewFile struct{ *File }

func (f viewFile) Stat() (fs.FileInfo, error) {
	i, err := f.File.Stat()
	if err != nil {
		return nil, err
	}
	return i, nil
}

func (v view) ReadDir(name string) ([]fs.DirEntry, error) {
	p, err := v.path("readdir", name)
	if err != nil {
		return nil, err
	}
	out, err := v.fs.ReadDir(p)
	return out, renamed(err, name)
}

func (v view) Stat(name string) (fs.FileInfo, error)  { return v.stat("stat", name, true) }
func (v view) Lstat(name string) (fs.FileInfo, error) { return v.stat("lstat", name, false) }

func (v view) stat(op, name string, follow bool) (fs.FileInfo, error) {
	p, err := v.path(op, name)
	if err != nil {
		return nil, err
	}
	i, err := v.fs.stat(op, p, follow)
	if err != nil {
		return nil, renamed(err, name)
	}
	i.name = path.Base(name)
	return i, nil
}

func (v view) ReadFile(name string) ([]byte, error) {
	p, err := v.path("read", name)
	if err != nil {
		return nil, err
	}
	data, err := v.fs.ReadFile(p)
	return data, renamed(err, name)
}

func (v view) ReadLink(name string) (string, error) {
	p, err := v.path("readlink", name)
	if err != nil {
		return "", err
	}
	target, err := v.fs.Readlink(p)
	return target, renamed(err, name)
}

func (v view) Sub(dir string) (fs.FS, error) {
	p, err := v.path("sub", dir)
	if err != nil {
		return nil, err
	}
	return view{v.fs, p}, nil
}

// renamed makes an error speak of the name that the caller knows.
func renamed(err error, name string) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return &fs.PathError{Op: pe.Op, Path: name, Err: pe.Err}
	}
	return err
}
