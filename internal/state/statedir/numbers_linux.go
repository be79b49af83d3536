package statedir

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"

	"github.com/atoll-sandbox/atoll"
)

// RangeAllocator allocates ranges of numbers, such as user IDs of the host, each to one
// sandbox at a time. The allocations are files in a directory.
type RangeAllocator struct {
	Dir      string // made when it is needed
	First    int    // of the first range; not 0
	PerRange int    // in a range
	Count    int    // ranges
}

// Allocate allocates a free range to a sandbox and returns its first number. If none
// is free, the error is atoll.ErrQuota.
func (n RangeAllocator) Allocate(id string) (int, error) {
	if err := os.MkdirAll(n.Dir, 0o700); err != nil {
		return 0, err
	}
	start := rand.IntN(n.Count) //nolint:gosec // spreads concurrent callers
	for i := range n.Count {
		k := (start + i) % n.Count
		f, err := os.OpenFile(filepath.Join(n.Dir, fmt.Sprint(k)), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if errors.Is(err, os.ErrExist) {
			continue
		}
		if err != nil {
			return 0, err
		}
		_, err = f.WriteString(id)
		if err = errors.Join(err, f.Close()); err != nil {
			return 0, errors.Join(err, os.Remove(f.Name()))
		}
		return n.First + k*n.PerRange, nil
	}
	return 0, fmt.Errorf("%w: all %d number ranges are in use", atoll.ErrQuota, n.Count)
}

// Release releases a range. Neither 0 nor a range that is free already is an error.
func (n RangeAllocator) Release(first int) error {
	if first == 0 {
		return nil
	}
	err := os.Remove(filepath.Join(n.Dir, fmt.Sprint((first-n.First)/n.PerRange)))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}
