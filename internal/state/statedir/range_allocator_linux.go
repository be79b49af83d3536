package statedir

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/state/filelock"
)

// RangeAllocator allocates ranges of numbers, such as user IDs of the host, each to one
// sandbox at a time. The allocations are files in a directory, with the sandbox's id.
type RangeAllocator struct {
	Dir      string // made when it is needed
	First    int    // of the first range; not 0
	PerRange int    // in a range
	Count    int    // ranges
}

// Allocate allocates a free range to a sandbox and returns its first number. The caller closes
// held once the sandbox's directory exists: until then the range is not released as abandoned. If
// no range is free, the error is atoll.ErrQuota.
func (n RangeAllocator) Allocate(id string) (first int, held *os.File, err error) {
	if err := os.MkdirAll(n.Dir, 0o700); err != nil {
		return 0, nil, err
	}
	start := rand.IntN(n.Count) //nolint:gosec // spreads concurrent callers
	for i := range n.Count {
		k := (start + i) % n.Count
		f, err := os.OpenFile(filepath.Join(n.Dir, fmt.Sprint(k)), os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
		if errors.Is(err, os.ErrExist) {
			continue
		}
		if err != nil {
			return 0, nil, err
		}
		_, err = f.WriteString(id)
		if err == nil {
			_, err = filelock.Try(f)
		}
		if err != nil {
			return 0, nil, errors.Join(err, f.Close(), os.Remove(f.Name()))
		}
		return n.First + k*n.PerRange, f, nil
	}
	return 0, nil, fmt.Errorf("%w: all %d number ranges are in use", atoll.ErrQuota, n.Count)
}

// Release releases a range of a sandbox, which is not held. Neither 0 nor a range that the sandbox no longer has is an
// error.
func (n RangeAllocator) Release(id string, first int) error {
	if first == 0 {
		return nil
	}
	name := filepath.Join(n.Dir, fmt.Sprint((first-n.First)/n.PerRange))
	return n.remove(name, unix.LOCK_EX, func(owner string, _ fs.FileInfo) bool { return owner == id })
}

// ReleaseAbandoned releases the ranges of sandboxes that don't exist, whose processes died before
// they made the sandbox or after they removed it. The error is that of the first that can't be released.
func (n RangeAllocator) ReleaseAbandoned(exists func(id string) bool) error {
	entries, err := os.ReadDir(n.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		info, ierr := e.Info()
		if ierr != nil || time.Since(info.ModTime()) < staleAge {
			continue
		}
		rerr := n.remove(filepath.Join(n.Dir, e.Name()), unix.LOCK_EX|unix.LOCK_NB, func(owner string, now fs.FileInfo) bool {
			return time.Since(now.ModTime()) >= staleAge && (owner == "" || !exists(owner))
		})
		if err == nil && !errors.Is(rerr, unix.EWOULDBLOCK) {
			err = rerr
		}
	}
	return err
}

// remove removes the file of an allocation if its owner is the expected one. The lock keeps others
// from removing it, so that the file of a later allocation stays.
func (n RangeAllocator) remove(name string, lock int, expected func(owner string, info fs.FileInfo) bool) error {
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if ok, err := isExpected(f, expected); !ok || err != nil { // not to wait for the lock of another's allocation
		return err
	}
	if err := lockFile(f, lock); err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return err
	}
	now, err := os.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(info, now) {
		return nil // it was released meanwhile
	}
	if err != nil {
		return err
	}
	if ok, err := isExpected(f, expected); !ok || err != nil {
		return err
	}
	return os.Remove(name)
}

func isExpected(f *os.File, expected func(owner string, info fs.FileInfo) bool) (bool, error) {
	info, err := f.Stat()
	if err != nil {
		return false, err
	}
	owner := make([]byte, 256)
	k, err := f.ReadAt(owner, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	return expected(string(owner[:k]), info), nil
}
