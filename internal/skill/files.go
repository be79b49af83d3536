package skill

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
)

// Within returns the files of a directory of the host. Links that lead out of
// it lead nowhere. It needs no closing.
func Within(dir string) fs.FS { return within(dir) }

type within string

// Open opens a file or a directory; one that is neither is fs.ErrInvalid, and is
// not waited for.
func (w within) Open(name string) (fs.File, error) {
	if _, err := w.Stat(name); err != nil {
		return nil, err
	}
	f, err := os.OpenInRoot(string(w), name)
	if err != nil {
		return nil, err
	}
	return f, nil
}

// Stat follows links, as far as they stay inside.
func (w within) Stat(name string) (fs.FileInfo, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: "stat", Path: name, Err: fs.ErrInvalid}
	}
	root, err := os.OpenRoot(string(w))
	if err != nil {
		return nil, err
	}
	defer root.Close()
	info, err := root.Stat(name)
	if err == nil && !info.IsDir() && !info.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fmt.Errorf("%w: it is neither a file nor a directory", fs.ErrInvalid)}
	}
	return info, err
}

// plain shows only what are files and directories, links to them included, and
// no directory that a link leads to: a walk comes to an end.
type plain struct{ fs.FS }

func (p plain) Stat(name string) (fs.FileInfo, error) { return fs.Stat(p.FS, name) }

func (p plain) ReadDir(name string) ([]fs.DirEntry, error) {
	all, err := fs.ReadDir(p.FS, name)
	if err != nil {
		return nil, err
	}
	var list []fs.DirEntry
	for _, e := range all {
		switch {
		case e.IsDir(), e.Type().IsRegular():
			list = append(list, e)
		case e.Type()&fs.ModeSymlink != 0:
			if info, err := fs.Stat(p.FS, path.Join(name, e.Name())); err == nil && info.Mode().IsRegular() {
				list = append(list, named{fs.FileInfoToDirEntry(info), e.Name()})
			}
		}
	}
	return list, nil
}

// named is an entry under another name.
type named struct {
	fs.DirEntry
	name string
}

func (n named) Name() string { return n.name }

// survey tells of what lies in a directory and can't be placed: links that lead
// out of it, what is no file, and too much of all.
func survey(raw fs.FS, dir string) []Problem {
	f := &faults{file: dir}
	count, size := 0, int64(0)
	errEnough := errors.New("enough")
	err := fs.WalkDir(raw, ".", func(name string, e fs.DirEntry, err error) error {
		at := Problem{File: path.Join(dir, name)}
		if err != nil {
			at.Text, at.Fatal = err.Error(), true
			f.list = append(f.list, at)
			return nil
		}
		if count++; count > maxFiles {
			f.fatal(0, "", "it has more than %d files", maxFiles)
			return errEnough
		}
		if depth(name) > maxDeep {
			f.fatal(0, "", "it is more than %d directories deep", maxDeep)
			return errEnough
		}
		info, serr := fs.Stat(raw, name)
		switch {
		case serr != nil || !info.IsDir() && !info.Mode().IsRegular():
			at.Text = "it is no file, and is left out"
			if e.Type()&fs.ModeSymlink != 0 {
				at.Text = "it is a link that leads nowhere in the skill, and is left out"
			}
			f.list = append(f.list, at)
		case info.IsDir() && e.Type()&fs.ModeSymlink != 0:
			at.Text = "it is a link to a directory, and is left out"
			f.list = append(f.list, at)
		case !info.IsDir():
			size += info.Size()
		}
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		f.fatal(0, "", "%v", err)
	}
	if size > maxSize {
		f.fatal(0, "", "it has %d bytes: at most %d are taken", size, maxSize)
	}
	return f.list
}

func depth(name string) int {
	n := 0
	for ; name != "." && name != "/"; name = path.Dir(name) {
		n++
	}
	return n
}
