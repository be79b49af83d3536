package vfs

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"sync"
	"sync/atomic"
)

// Key identifies a blob: it is the SHA-256 of the blob's content.
type Key [sha256.Size]byte

// String returns the key in hexadecimal.
func (k Key) String() string { return hex.EncodeToString(k[:]) }

// ParseKey parses the form that [Key.String] returns.
func ParseKey(s string) (Key, error) {
	var k Key
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != len(k) {
		return k, fmt.Errorf("key %q: %w", s, EINVAL)
	}
	copy(k[:], b)
	return k, nil
}

// Store stores blobs by the hash of their content. Its methods are safe for
// concurrent use.
type Store interface {
	// Get returns the blob with the key. The error for a missing blob
	// satisfies errors.Is(err, fs.ErrNotExist). The caller must not change
	// the returned bytes.
	Get(Key) ([]byte, error)
	// Put stores a blob under its key. Storing a blob twice is not an error.
	// The caller must not change the data afterwards.
	Put(Key, []byte) error
	// Has reports whether the store has the blob.
	Has(Key) (bool, error)
}

// savedBlock records the key of a block and the store that has it.
type savedBlock struct {
	key   Key
	store Store // a store that has the blob; nil when none is known
}

// lazy is the data of a block that has not been loaded from its store yet.
type lazy struct {
	store Store
	key   Key
	size  int
	data  atomic.Pointer[[]byte]

	mu sync.Mutex // held while the data is loaded
}

// load reads the data and verifies its hash and size. Loading twice is fine.
func (l *lazy) load() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.data.Load() != nil {
		return nil
	}
	data, err := getBlob(l.store, l.key)
	if err != nil {
		return &blobError{err}
	}
	if len(data) != l.size {
		return fmt.Errorf("blob %s: %d bytes instead of %d: %w", l.key, len(data), l.size, EIO)
	}
	l.data.Store(&data)
	return nil
}

// blobError is EIO with its cause in the message. It unwraps to EIO only, so
// that a missing blob is not mistaken for a missing file.
type blobError struct{ cause error }

func (e *blobError) Error() string { return EIO.Error() + ": " + e.cause.Error() }
func (e *blobError) Unwrap() error { return EIO }

// loadFor loads the data for the operation op on a path.
func (l *lazy) loadFor(op, path string) error {
	if err := l.load(); err != nil {
		return &fs.PathError{Op: op, Path: path, Err: err}
	}
	return nil
}

// getBlob reads a blob and verifies its hash.
func getBlob(s Store, k Key) ([]byte, error) {
	data, err := s.Get(k)
	if err != nil {
		return nil, fmt.Errorf("blob %s: %w", k, err)
	}
	if sha256.Sum256(data) != k {
		return nil, fmt.Errorf("blob %s: content has another hash: %w", k, EIO)
	}
	return data, nil
}

// savedPage records the key of a page of the inode table and the store that
// has it.
type savedPage struct {
	key   Key
	payer *epoch // the payer whose charges the page contains; nil when none
	store Store
}
