// Package diskreserve holds space back on the disk of a directory, so that calls that free space
// work when the disk is full.
package diskreserve

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"

	"github.com/atoll-sandbox/atoll"
)

// The size of a reserve: a part of the disk, within bounds.
const (
	minBytes = 1 << 20
	maxBytes = 8 << 20
	share    = 64
)

// Reserve is a file that occupies space. Processes that open the reserve of one directory share it.
// Its methods may be called concurrently.
type Reserve struct {
	dir, name string
	size      int64

	mu   sync.Mutex // held while the file is changed
	kept []int64    // bytes that each call under way has reduced the reserve to
}

// Open returns the reserve of a directory, and occupies its space as far as the disk has any.
func Open(dir string) (*Reserve, error) {
	_, total, err := diskSpace(dir)
	if err != nil {
		return nil, fmt.Errorf("reserve: %w", err)
	}
	r := &Reserve{dir: dir, name: filepath.Join(dir, "reserve"), size: min(max(total/share, minBytes), maxBytes)}
	if err := r.Check(); err != nil && !errors.Is(err, atoll.ErrQuota) {
		return nil, err
	}
	return r, nil
}

// Check reports whether the disk is full, as an ErrQuota: besides the reserve it has less space than
// that. Free space first fills up the reserve.
func (r *Reserve) Check() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	held, free, err := r.occupySpace()
	if err != nil {
		return fmt.Errorf("reserve: %w", err)
	}
	if held+free < 2*r.size {
		return NewError(r.dir)
	}
	return nil
}

// Use calls f, which must have no effect when it fails. If the disk is full, it calls f again with
// a part of the reserve, and then with all of it. Afterwards it occupies what f did not use. It is
// for small writes.
func (r *Reserve) Use(f func() error) error { return r.useDownTo(f, r.size-r.size/8, 0) }

// UseHalf is Use with at most half of the reserve, for writes of any size: those of Use still have
// the other half.
func (r *Reserve) UseHalf(f func() error) error { return r.useDownTo(f, r.size/2) }

// useDownTo calls f, and on a full disk again each time that the reserve was reduced to some bytes.
func (r *Reserve) useDownTo(f func() error, kept ...int64) error {
	err := f()
	if err == nil || !r.isFull(err) {
		return err
	}
	for _, bytes := range kept {
		err = r.callWith(bytes, f)
		if err == nil || !r.isFull(err) {
			break
		}
	}
	return err
}

// callWith calls f while the reserve has at most some bytes: others that are done meanwhile do not fill it up again.
func (r *Reserve) callWith(bytes int64, f func() error) error {
	r.releaseTo(bytes)
	defer func() {
		r.mu.Lock()
		i := slices.Index(r.kept, bytes)
		r.kept = slices.Delete(r.kept, i, i+1)
		r.mu.Unlock()
		_ = r.Check() // it fills the reserve up; space may come later too
	}()
	return f()
}

// isFull reports whether an error is that of a full disk. Drivers report one as an ErrQuota.
func (r *Reserve) isFull(err error) bool {
	return IsFull(err) || errors.Is(err, atoll.ErrQuota) && errors.Is(r.Check(), atoll.ErrQuota)
}

// releaseTo frees all but some bytes until they are removed from kept.
func (r *Reserve) releaseTo(bytes int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.kept = append(r.kept, bytes)
	if r.heldBytes() > bytes {
		_ = os.Truncate(r.name, bytes) // if it fails, so does the call
	}
}

// heldBytes returns the size of the file.
func (r *Reserve) heldBytes() int64 {
	info, err := os.Lstat(r.name)
	if err != nil {
		return 0
	}
	return info.Size()
}

// occupySpace fills the reserve up, as far as no call needs it, the disk has space and the file can be written: a home works
// without a reserve. It returns the bytes that are occupied and those that are free.
func (r *Reserve) occupySpace() (held, free int64, err error) {
	held = r.heldBytes()
	free, _, err = diskSpace(r.dir)
	more := min(slices.Min(append(r.kept, r.size))-held, free)
	if err != nil || more <= 0 {
		return held, free, err
	}
	f, err := os.OpenFile(r.name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return held, free, nil //nolint:nilerr // as the comment says
	}
	if allocateSpace(f, held+more) != nil {
		_ = f.Truncate(held) // others have used the space
	}
	_ = f.Close() // its content does not matter
	held = r.heldBytes()
	free, _, err = diskSpace(r.dir)
	return held, free, err
}

// writeZeros allocates the space of a file by writing it.
func writeZeros(f *os.File, size int64) error {
	b := make([]byte, 64<<10)
	for at := int64(0); at < size; at += int64(len(b)) {
		if _, err := f.WriteAt(b[:min(int64(len(b)), size-at)], at); err != nil {
			return err
		}
	}
	return nil
}

// IsFull reports whether an error is that of a disk without space, or of one on which this user may
// not use more.
func IsFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// NewError returns the error of a full disk: an ErrQuota that wraps ENOSPC.
func NewError(dir string) error {
	return fmt.Errorf("%w: the disk of %s: %w", atoll.ErrQuota, dir, syscall.ENOSPC)
}
