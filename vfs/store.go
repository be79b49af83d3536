package vfs

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"sync"
	"sync/atomic"
)

// Key names a blob: the SHA-256 of its content.
type Key [sha256.Size]byte

// String returns the key in hexadecimal.
func (k Key) String() string { return hex.EncodeToString(k[:]) }

// ParseKey reads a key as String writes it.
func ParseKey(s string) (Key, error) {
	var k Key
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != len(k) {
		return k, fmt.Errorf("key %q: %w", s, EINVAL)
	}
	copy(k[:], b)
	return k, nil
}

// Store keeps blobs by their content. Its methods may be called at once.
type Store interface {
	// Get returns a blob; a missing one is an error that answers to
	// fs.ErrNotExist. The caller doesn't change what it gets.
	Get(Key) ([]byte, error)
	// Put keeps a blob under its key. Putting one twice is not an error.
	// The data is not changed afterwards.
	Put(Key, []byte) error
	// Has says whether a blob is there.
	Has(Key) (bool, error)
}

// savedBlock says where a block is kept.
type savedBlock struct {
	key   Key
	store Store // the one that is known to have it; nil when none is
}

// lazy is the data of a block that is still in a store.
type lazy struct {
	store Store
	key   Key
	size  int
	data  atomic.Pointer[[]byte]

	mu sync.Mutex // held by who loads
}

// load reads the data and checks that it is what was kept.
func (l *lazy) load() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.data.Load() != nil {
		return nil
	}
	data, err := get(l.store, l.key)
	if err != nil {
		return &blobError{err}
	}
	if len(data) != l.size {
		return fmt.Errorf("blob %s: %d bytes instead of %d: %w", l.key, len(data), l.size, EIO)
	}
	l.data.Store(&data)
	return nil
}

// blobError is EIO with the story behind it. It is nothing else, so that a
// missing blob is not taken for a missing file.
type blobError struct{ cause error }

func (e *blobError) Error() string { return EIO.Error() + ": " + e.cause.Error() }
func (e *blobError) Unwrap() error { return EIO }

// loadFor loads for an operation on a path.
func (l *lazy) loadFor(op, path string) error {
	if err := l.load(); err != nil {
		return &fs.PathError{Op: op, Path: path, Err: err}
	}
	return nil
}

// get reads a blob and checks its hash.
func get(s Store, k Key) ([]byte, error) {
	data, err := s.Get(k)
	if err != nil {
		return nil, fmt.Errorf("blob %s: %w", k, err)
	}
	if sha256.Sum256(data) != k {
		return nil, fmt.Errorf("blob %s: content has another hash: %w", k, EIO)
	}
	return data, nil
}

// savedPage says where a page of the inode table is kept.
type savedPage struct {
	key   Key
	payer *epoch // whose charges are in it; nil when none
	store Store
}
