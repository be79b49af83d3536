package workspace

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"strconv"

	"github.com/atoll-sandbox/atoll"
)

// Size is the size of a directory tree.
type Size struct {
	Bytes    int64 // of all files; those with several names count once
	Files    int   // files, directories and other entries, without the directory itself
	Complete bool  // everything was counted
	TooDeep  bool  // the rest is nested too deeply
}

// MaxDepth is the largest nesting of directories: as many are open during a walk.
const MaxDepth = 128

// namesPerRead is the number of names read from a directory at once.
const namesPerRead = 512

// Measure counts the content of a directory, until ctx is done.
func Measure(ctx context.Context, root *os.Root) Size {
	s := Size{Complete: true}
	s.addDir(ctx, root, 0)
	return s
}

// addDir adds the content of one directory. What is removed meanwhile is not counted.
func (s *Size) addDir(ctx context.Context, dir *os.Root, depth int) {
	if depth == MaxDepth {
		s.Complete, s.TooDeep = false, true
		return
	}
	err := ForEachName(dir, ".", func(name string) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		info, err := dir.Lstat(name)
		if err != nil {
			return nil
		}
		s.Files++
		switch {
		case info.Mode().IsRegular():
			_, n := linkInfo(info)
			s.Bytes += info.Size() / max(n, 1) // its other names count the rest
		case info.IsDir():
			sub, err := OpenDir(dir, name)
			if err != nil {
				s.Complete = s.Complete && errors.Is(err, fs.ErrNotExist)
				return nil
			}
			s.addDir(ctx, sub, depth+1)
			return sub.Close()
		}
		return nil
	})
	s.Complete = s.Complete && err == nil
}

// ForEachName calls f for every name in a directory beneath root, unsorted. It holds only
// namesPerRead names in memory.
func ForEachName(root *os.Root, dir string, f func(name string) error) error {
	d, err := OpenFile(root, dir, fs.ModeDir)
	if err != nil {
		return err
	}
	for {
		names, err := d.Readdirnames(namesPerRead)
		for _, n := range names {
			if err := f(n); err != nil {
				return errors.Join(err, d.Close())
			}
		}
		if err != nil {
			return errors.Join(ignoreEOF(err), d.Close())
		}
	}
}

func ignoreEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// OpenFile opens a file or directory for reading without blocking, if it has the wanted type: 0
// for a file, fs.ModeDir for a directory.
func OpenFile(root *os.Root, name string, want fs.FileMode) (*os.File, error) {
	info, err := root.Stat(name)
	if err != nil {
		return nil, err
	}
	if err := CheckType(want, name, info); err != nil {
		return nil, err // checked before opening, which may have effects on a device
	}
	f, err := root.OpenFile(name, os.O_RDONLY|openNonblock, 0)
	if err != nil {
		return nil, err
	}
	if info, err = f.Stat(); err == nil {
		err = CheckType(want, name, info)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func CheckType(want fs.FileMode, name string, info fs.FileInfo) error {
	if info.Mode().Type() == want {
		return nil
	}
	what := errNotFile
	if want == fs.ModeDir {
		what = errNotDir
	}
	return &fs.PathError{Op: "open", Path: name, Err: what}
}

// removeAll deletes a staging directory, however deep and wide it is. It moves nested directories
// to the top before it empties them: no path gets long, and only one directory is open.
func (s *Store) removeAll(ctx context.Context, top string) error {
	lifted := 0
	for again := true; again; {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		again = false
		err := ForEachName(s.Root, top, func(name string) error {
			again = true
			return s.removeEntry(ctx, top, name, &lifted)
		})
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return s.Root.Remove(top)
}

// removeEntry deletes top/name. Directories in it are moved to top.
func (s *Store) removeEntry(ctx context.Context, top, name string, lifted *int) error {
	at := path.Join(top, name)
	err := s.Root.Remove(at)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if info, serr := s.Root.Lstat(at); serr != nil || !info.IsDir() {
		return err
	}
	if err := s.Root.Chmod(at, 0o700); err != nil { // sandboxes may set any mode
		return err
	}
	err = ForEachName(s.Root, at, func(child string) error {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		from := path.Join(at, child)
		if err := s.Root.Remove(from); err == nil || errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		*lifted++
		return s.liftDir(from, path.Join(top, "."+atoll.NewID()+strconv.Itoa(*lifted)))
	})
	if err != nil {
		return err
	}
	err = s.Root.Remove(at)
	if info, serr := s.Root.Lstat(at); serr == nil && info.IsDir() {
		return nil // reading a changing directory may miss names: the next round deletes them
	}
	return err
}

// liftDir moves a directory up. Moving it to another parent requires write permission for it.
func (s *Store) liftDir(from, to string) error {
	err := s.Root.Rename(from, to)
	if errors.Is(err, fs.ErrPermission) {
		if err = s.Root.Chmod(from, 0o700); err == nil {
			err = s.Root.Rename(from, to)
		}
	}
	return err
}

// ReclaimableSize returns the size of a file that its removal frees: 0 for one with other names.
func ReclaimableSize(info fs.FileInfo) int64 {
	if _, n := linkInfo(info); n > 1 || !info.Mode().IsRegular() {
		return 0
	}
	return info.Size()
}

// WriteFile writes the file for MoveFile, and syncs it to disk.
func (d *Staging) WriteFile(content io.Reader, perm fs.FileMode, m *Meter) error {
	file, err := d.store.Root.OpenFile(path.Join(d.Name, stagedFile), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, &meteredReader{content, m})
	if err == nil {
		err = file.Chmod(perm.Perm())
	}
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}
