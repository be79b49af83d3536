package vfs

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path"
	"strings"
	"sync"
	"time"
)

// Dir is a Store in a directory of the host: one file for each blob, named by
// its key. Any number of processes may use the directory at once.
type Dir struct {
	// Fsync makes each Put wait until the blob is on disk, and Sync until the
	// names are. Without it, a crash of the host may lose the blobs that were
	// stored last; their hash then doesn't match. Set it before the first use.
	Fsync bool

	root *os.Root

	mu    sync.Mutex
	dirty map[string]bool // directories with names not yet on disk; guarded by mu
}

var _ Store = (*Dir)(nil)

// OpenDir opens the store in a directory, and creates the directory if it is
// missing.
func OpenDir(name string) (*Dir, error) {
	if err := os.MkdirAll(name, 0o700); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	return &Dir{root: root, dirty: make(map[string]bool)}, nil
}

// Close closes the directory.
func (d *Dir) Close() error { return d.root.Close() }

// tempPrefix begins the names of files that are still being written.
const tempPrefix = "tmp-"

// blobPath returns the path of a blob: 256 directories keep each one small.
func blobPath(k Key) (dir, name string) {
	s := k.String()
	return s[:2], s[:2] + "/" + s[2:]
}

// Get returns the blob with the key, or an error that wraps fs.ErrNotExist.
func (d *Dir) Get(k Key) ([]byte, error) {
	_, name := blobPath(k)
	return d.root.ReadFile(name)
}

// Has reports whether the store has the blob. An empty file is left by a
// crash and does not count.
func (d *Dir) Has(k Key) (bool, error) {
	_, name := blobPath(k)
	info, err := d.root.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, err
	}
	return info.Size() > 0, nil
}

// Size returns the size of a blob in bytes, or an error that wraps
// fs.ErrNotExist.
func (d *Dir) Size(k Key) (int64, error) {
	_, name := blobPath(k)
	info, err := d.root.Stat(name)
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// Put writes a blob to a temporary file and renames it, so that readers never
// see a part of it.
func (d *Dir) Put(k Key, data []byte) error {
	dir, name := blobPath(k)
	var random [8]byte
	if _, err := rand.Read(random[:]); err != nil {
		return err
	}
	temp := dir + "/" + tempPrefix + hex.EncodeToString(random[:])
	f, err := d.create(dir, temp)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil && d.Fsync {
		err = f.Sync()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = d.root.Rename(temp, name)
	}
	if err != nil {
		return errors.Join(err, d.root.Remove(temp))
	}
	if d.Fsync {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.dirty[dir] = true
	}
	return nil
}

func (d *Dir) create(dir, temp string) (*os.File, error) {
	f, err := d.root.OpenFile(temp, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if !errors.Is(err, fs.ErrNotExist) {
		return f, err
	}
	if err := d.root.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return d.root.OpenFile(temp, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
}

// Sync waits until the names of all stored blobs are on disk. Without Fsync
// it does nothing.
func (d *Dir) Sync() error {
	if !d.Fsync {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for dir := range d.dirty {
		if err := d.syncDir(dir); err != nil {
			return err
		}
	}
	if len(d.dirty) > 0 {
		if err := d.syncDir("."); err != nil {
			return err
		}
	}
	clear(d.dirty)
	return nil
}

func (d *Dir) syncDir(name string) error {
	f, err := d.root.Open(name)
	if err != nil {
		return err
	}
	err = f.Sync()
	if e := f.Close(); err == nil {
		err = e
	}
	return err
}

// Delete removes a blob. A missing one is not an error.
func (d *Dir) Delete(k Key) error {
	_, name := blobPath(k)
	if err := d.root.Remove(name); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Keys returns the keys of all blobs, sorted.
func (d *Dir) Keys() ([]Key, error) {
	var keys []Key
	err := d.walkBlobs(func(k Key) error {
		keys = append(keys, k)
		return nil
	}, func(string, fs.DirEntry) error { return nil })
	return keys, err
}

// Usage returns the number of all blobs and the sum of their sizes.
func (d *Dir) Usage() (blobs, bytes int64, err error) {
	err = fs.WalkDir(d.root.FS(), ".", func(_ string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) { // removed meanwhile
			return nil
		}
		if err == nil {
			blobs++
			bytes += info.Size()
		}
		return err
	})
	return blobs, bytes, err
}

// abandoned is the age after which a temporary file is taken to be left by a
// dead writer.
const abandoned = time.Hour

// Sweep deletes the blobs for which keep returns false, temporary files
// older than an hour, and directories that are then empty. No Save may run
// meanwhile.
func (d *Dir) Sweep(keep func(Key) bool) error {
	if err := d.sweepBlobs(keep); err != nil {
		return err
	}
	list, err := fs.ReadDir(d.root.FS(), ".")
	for _, e := range list {
		if e.IsDir() {
			_ = d.root.Remove(e.Name()) // it fails if the directory is not empty
		}
	}
	return err
}

func (d *Dir) sweepBlobs(keep func(Key) bool) error {
	now := time.Now()
	return d.walkBlobs(func(k Key) error {
		if keep(k) {
			return nil
		}
		return d.Delete(k)
	}, func(name string, e fs.DirEntry) error {
		info, err := e.Info()
		if err != nil || now.Sub(info.ModTime()) < abandoned {
			return err
		}
		return d.root.Remove(name)
	})
}

// walkBlobs calls blob for each blob and temp for each temporary file.
func (d *Dir) walkBlobs(blob func(Key) error, temp func(string, fs.DirEntry) error) error {
	return fs.WalkDir(d.root.FS(), ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		if strings.HasPrefix(e.Name(), tempPrefix) {
			return temp(name, e)
		}
		if k, err := ParseKey(path.Dir(name) + e.Name()); err == nil {
			return blob(k)
		}
		return nil
	})
}
