package fleet

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

// size is what a directory holds.
type size struct {
	bytes int64 // of all files, each counted once
	files int   // files, directories and all else, without the directory itself
	whole bool  // all was counted
	deep  bool  // what is not was too deep
}

// deepest is how many directories may be in each other: as many are open while
// one is walked through.
const deepest = 128

// few is how many names are read from a directory at once.
const few = 512

// measure counts what is in a directory, until ctx is done.
func measure(ctx context.Context, root *os.Root) size {
	s := size{whole: true}
	s.add(ctx, root, 0)
	return s
}

// add counts one directory. What vanishes meanwhile is not counted.
func (s *size) add(ctx context.Context, dir *os.Root, depth int) {
	if depth == deepest {
		s.whole, s.deep = false, true
		return
	}
	err := eachName(dir, ".", func(name string) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		info, err := dir.Lstat(name)
		if err != nil {
			return nil
		}
		s.files++
		switch {
		case info.Mode().IsRegular():
			_, n := links(info)
			s.bytes += info.Size() / max(n, 1) // its other names have the rest
		case info.IsDir():
			sub, err := openDir(dir, name)
			if err != nil {
				s.whole = s.whole && errors.Is(err, fs.ErrNotExist)
				return nil
			}
			s.add(ctx, sub, depth+1)
			return sub.Close()
		}
		return nil
	})
	s.whole = s.whole && err == nil
}

// eachName calls f for every name in a directory beneath root, in no order. No
// more than a few are in memory at once.
func eachName(root *os.Root, dir string, f func(name string) error) error {
	d, err := openFile(root, dir, fs.ModeDir)
	if err != nil {
		return err
	}
	for {
		names, err := d.Readdirnames(few)
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

// openFile opens a file or directory for reading, without waiting, and only if
// it is what was expected: 0 for a file, fs.ModeDir for a directory.
func openFile(root *os.Root, name string, want fs.FileMode) (*os.File, error) {
	info, err := root.Stat(name)
	if err != nil {
		return nil, err
	}
	if err := isA(want, name, info); err != nil {
		return nil, err // before it is opened: a device may do something then
	}
	f, err := root.OpenFile(name, os.O_RDONLY|noWait, 0)
	if err != nil {
		return nil, err
	}
	if info, err = f.Stat(); err == nil {
		err = isA(want, name, info)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func isA(want fs.FileMode, name string, info fs.FileInfo) error {
	if info.Mode().Type() == want {
		return nil
	}
	what := errNotFile
	if want == fs.ModeDir {
		what = errNotDir
	}
	return &fs.PathError{Op: "open", Path: name, Err: what}
}

// erase deletes a directory on a desk, however deep and wide it is. It lifts
// directories to the top before it empties them: so no path is long, and no
// more than one is open.
func (s *shelf) erase(ctx context.Context, top string) error {
	lifted := 0
	for again := true; again; {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		again = false
		err := eachName(s.root, top, func(name string) error {
			again = true
			return s.eraseOne(ctx, top, name, &lifted)
		})
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return s.root.Remove(top)
}

// eraseOne deletes what is at top/name. Directories in it become top's.
func (s *shelf) eraseOne(ctx context.Context, top, name string, lifted *int) error {
	at := path.Join(top, name)
	err := s.root.Remove(at)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if info, serr := s.root.Lstat(at); serr != nil || !info.IsDir() {
		return err
	}
	if err := s.root.Chmod(at, 0o700); err != nil { // those of sandboxes may have any mode
		return err
	}
	err = eachName(s.root, at, func(child string) error {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		from := path.Join(at, child)
		if err := s.root.Remove(from); err == nil || errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		*lifted++
		return s.lift(from, path.Join(top, "."+atoll.NewID()+strconv.Itoa(*lifted)))
	})
	if err != nil {
		return err
	}
	err = s.root.Remove(at)
	if info, serr := s.root.Lstat(at); serr == nil && info.IsDir() {
		return nil // reading a directory that changes leaves out some: the next turn has them
	}
	return err
}

// lift moves a directory up. Only who may write it may give it another parent.
func (s *shelf) lift(from, to string) error {
	err := s.root.Rename(from, to)
	if errors.Is(err, fs.ErrPermission) {
		if err = s.root.Chmod(from, 0o700); err == nil {
			err = s.root.Rename(from, to)
		}
	}
	return err
}
