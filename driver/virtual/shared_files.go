package virtual

import (
	"io/fs"
	"path/filepath"
	"sync"

	"github.com/atoll-sandbox/atoll/vfs"
)

// baseName is the name of the directory with what all stored sandboxes have in common.
const baseName = ".base"

// sharedBase has the files of images by content, for all stored sandboxes of a directory: those of this
// program's image, and those of other versions that have made sandboxes there. A nil base is empty.
type sharedBase struct {
	keys map[vfs.Key]bool // of this program's image
	root string           // names all of them

	dir string // where they are stored; empty: they are known to be stored elsewhere

	mu    sync.Mutex
	blobs *vfs.Dir // guarded by mu; nil: not opened
}

// openBase returns the base of the driver's Dir, where the image is stored now.
func (d *Driver) openBase() (*sharedBase, error) {
	d.baseMu.Lock()
	defer d.baseMu.Unlock()
	if d.base != nil {
		return d.base, nil
	}
	im, err := d.loadImage()
	if err != nil {
		return nil, err
	}
	b, err := im.newBase()
	if err != nil {
		return nil, err
	}
	b.dir = filepath.Join(d.Dir, baseName)
	blobs, err := b.open()
	if err != nil {
		return nil, err
	}
	root, err := vfs.ParseKey(b.root)
	if err != nil {
		return nil, err
	}
	has, err := blobs.Has(root) // it is stored last
	if err == nil && !has {
		_, err = im.saveBase(blobs)
	}
	if err != nil {
		return nil, err
	}
	d.base = b
	return b, nil
}

// saveBase saves the files of the image as a sandbox has them that has not changed any.
func (im *image) saveBase(to vfs.Store) (root string, err error) {
	return vfs.New(vfs.Options{Base: im.base}).Save(to)
}

// newBase returns a base with the keys of the image.
func (im *image) newBase() (*sharedBase, error) {
	var store vfs.Memory
	root, err := im.saveBase(&store)
	if err != nil {
		return nil, err
	}
	list, err := vfs.Keys(&store, root)
	if err != nil {
		return nil, err
	}
	b := &sharedBase{root: root, keys: make(map[vfs.Key]bool, len(list))}
	for _, key := range list {
		b.keys[key] = true
	}
	return b, nil
}

// open returns the store of the base.
func (b *sharedBase) open() (*vfs.Dir, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.blobs == nil {
		blobs, err := vfs.OpenDir(b.dir)
		if err != nil {
			return nil, err
		}
		blobs.Fsync = true // every sandbox needs them
		b.blobs = blobs
	}
	return b.blobs, nil
}

// has reports whether a blob is one of this program's image.
func (b *sharedBase) has(key vfs.Key) bool { return b != nil && b.keys[key] }

// get returns a blob of any image.
func (b *sharedBase) get(key vfs.Key) ([]byte, error) {
	if b == nil || b.dir == "" {
		return nil, fs.ErrNotExist
	}
	blobs, err := b.open()
	if err != nil {
		return nil, err
	}
	return blobs.Get(key)
}

// close closes the store.
func (b *sharedBase) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.blobs != nil {
		_ = b.blobs.Close() // it was only a handle of the directory
		b.blobs = nil
	}
}
