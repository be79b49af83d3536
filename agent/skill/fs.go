package skill

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
)

// DirFS returns an FS of a directory of the host. Links that lead out of it can't
// be opened. It needs no closing.
func DirFS(dir string) fs.FS { return dirFS(dir) }

type dirFS string

// Open opens a file or a directory. It returns fs.ErrInvalid for other types, and
// never waits for one.
func (w dirFS) Open(name string) (fs.File, error) {
	if _, err := w.Stat(name); err != nil {
		return nil, err
	}
	f, err := os.OpenInRoot(string(w), name)
	if err != nil {
		return nil, err
	}
	return f, nil
}

// Stat follows links that stay inside.
func (w dirFS) Stat(name string) (fs.FileInfo, error) {
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

// regularFS hides everything but files, directories and links to files. It hides
// links to directories, so that a walk ends.
type regularFS struct{ fs.FS }

func (p regularFS) Stat(name string) (fs.FileInfo, error) { return fs.Stat(p.FS, name) }

func (p regularFS) ReadDir(name string) ([]fs.DirEntry, error) {
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
				list = append(list, renamedEntry{fs.FileInfoToDirEntry(info), e.Name()})
			}
		}
	}
	return list, nil
}

// renamedEntry is an entry with another name.
type renamedEntry struct {
	fs.DirEntry
	name string
}

func (n renamedEntry) Name() string { return n.name }

// checkFiles reports entries of a directory that can't be placed: links that lead
// out of it, special files, and sizes over the limits.
func checkFiles(raw fs.FS, dir string) []Problem {
	f := &problemList{file: dir}
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
			f.addFatal(0, "", "it has more than %d files", maxFiles)
			return errEnough
		}
		if pathDepth(name) > maxDepth {
			f.addFatal(0, "", "it is more than %d directories deep", maxDepth)
			return errEnough
		}
		info, serr := fs.Stat(raw, name)
		switch {
		case serr != nil || !info.IsDir() && !info.Mode().IsRegular():
			at.Text = "it is not a regular file and is left out"
			if e.Type()&fs.ModeSymlink != 0 {
				at.Text = "it is a link to no file in the skill and is left out"
			}
			f.list = append(f.list, at)
		case info.IsDir() && e.Type()&fs.ModeSymlink != 0:
			at.Text = "it is a link to a directory and is left out"
			f.list = append(f.list, at)
		case !info.IsDir():
			size += info.Size()
		}
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		f.addFatal(0, "", "%v", err)
	}
	if size > maxSize {
		f.addFatal(0, "", "it has %d bytes: at most %d are taken", size, maxSize)
	}
	return f.list
}

func pathDepth(name string) int {
	n := 0
	for ; name != "." && name != "/"; name = path.Dir(name) {
		n++
	}
	return n
}
