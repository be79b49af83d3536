package objectstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// Directory is a Store in a directory of this host, or of a file system that several hosts mount. The directory is
// created when something is stored; only its owner can read it.
type Directory struct{ Path string }

var _ Store = (*Directory)(nil)

// String returns the path.
func (d *Directory) String() string { return d.Path }

// partSuffix ends the names of files that are being written. No key has one.
const partSuffix = ".part~"

// wrap makes the errors of a file system match those of a Store.
func (d *Directory) wrap(what string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: %s: %w", atoll.ErrNotFound, what, err)
	case errors.Is(err, atoll.ErrInvalid):
		return err
	}
	return fmt.Errorf("%w: archive storage %s: %s: %w", atoll.ErrUnavailable, d.Path, what, err)
}

// open opens the directory.
func (d *Directory) open(key string) (*os.Root, error) {
	if err := checkKey(key); err != nil {
		return nil, err
	}
	return os.OpenRoot(d.Path)
}

// Put stores an object.
func (d *Directory) Put(ctx context.Context, key string, content io.Reader) (int64, error) {
	if err := os.MkdirAll(d.Path, 0o700); err != nil {
		return 0, d.wrap("store", err)
	}
	root, err := d.open(key)
	if err != nil {
		return 0, d.wrap("store", err)
	}
	defer root.Close()
	if err := root.MkdirAll(path.Dir(key), 0o700); err != nil {
		return 0, d.wrap("store", err)
	}
	_ = root.Remove(key + partSuffix) // of an interrupted Put
	f, err := root.OpenFile(key+partSuffix, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return 0, d.wrap("store", err)
	}
	n, readErr, err := copyContext(ctx, f, content)
	if err == nil && readErr == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err == nil && readErr == nil {
		err = root.Rename(key+partSuffix, key)
	}
	if err == nil && readErr == nil {
		for dir := path.Dir(key); err == nil; dir = path.Dir(dir) { // they may be new
			if err = syncDirectory(root, dir); dir == "." {
				break
			}
		}
	}
	if err != nil || readErr != nil {
		_ = root.Remove(key + partSuffix) // or Delete does
		return 0, errors.Join(readErr, d.wrap("store", err))
	}
	return n, nil
}

// copyContext copies until the end, an error, or the end of ctx. It tells errors of reading from those of writing.
func copyContext(ctx context.Context, w io.Writer, r io.Reader) (n int64, readErr, writeErr error) {
	buf := make([]byte, 1<<20)
	for {
		if err := context.Cause(ctx); err != nil {
			return n, err, nil
		}
		k, err := r.Read(buf)
		if k > 0 {
			if _, werr := w.Write(buf[:k]); werr != nil {
				return n, nil, werr
			}
			n += int64(k)
		}
		if errors.Is(err, io.EOF) {
			return n, nil, nil
		}
		if err != nil {
			return n, err, nil
		}
	}
}

// syncDirectory makes the names in a directory durable.
func syncDirectory(root *os.Root, name string) error {
	f, err := root.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// Get opens an object.
func (d *Directory) Get(_ context.Context, key string) (io.ReadCloser, error) {
	root, err := d.open(key)
	if err != nil {
		return nil, d.wrap("read", err)
	}
	defer root.Close()
	if info, err := root.Lstat(key); err == nil && !info.Mode().IsRegular() { // to open a pipe would wait without an end
		return nil, d.wrap("read", fs.ErrInvalid)
	}
	f, err := root.Open(key)
	if err != nil {
		return nil, d.wrap("read", err)
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(d.wrap("read", errors.Join(err, fs.ErrInvalid)), f.Close())
	}
	return f, nil
}

// Delete removes an object.
func (d *Directory) Delete(_ context.Context, key string) error {
	root, err := d.open(key)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return d.wrap("delete", err)
	}
	defer root.Close()
	for _, name := range []string{key + partSuffix, key} {
		if err := root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return d.wrap("delete", err)
		}
	}
	return nil
}

// List returns the objects below a prefix.
func (d *Directory) List(ctx context.Context, prefix string) iter.Seq2[Object, error] {
	return func(yield func(Object, error) bool) {
		root, err := os.OpenRoot(d.Path)
		if errors.Is(err, fs.ErrNotExist) {
			return
		}
		if err != nil {
			yield(Object{}, d.wrap("list", err))
			return
		}
		defer root.Close()
		err = fs.WalkDir(root.FS(), ".", func(name string, e fs.DirEntry, err error) error {
			if err == nil {
				err = context.Cause(ctx)
			}
			if errors.Is(err, fs.ErrNotExist) {
				return nil // removed meanwhile
			}
			key := strings.TrimSuffix(name, partSuffix)
			if err != nil || !e.Type().IsRegular() || !strings.HasPrefix(key, prefix) || checkKey(key) != nil {
				return err
			}
			o := Object{Key: key}
			if info, err := e.Info(); err == nil {
				o.Size, o.Modified = info.Size(), info.ModTime().UTC()
			} else {
				o.Modified = time.Time{} // removed meanwhile
			}
			if !yield(o, nil) {
				return fs.SkipAll
			}
			return nil
		})
		if err != nil {
			yield(Object{}, d.wrap("list", err))
		}
	}
}
