package workspace

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"strconv"

	"github.com/atoll-sandbox/atoll"
)

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
