//go:build !unix

package filelock

import (
	"fmt"
	"os"

	"github.com/atoll-sandbox/atoll"
)

func tryLock(f *os.File) (bool, error) {
	return false, fmt.Errorf("%w: %s: this system lacks file locks", atoll.ErrUnsupported, f.Name())
}

func tryShared(f *os.File) (bool, error) { return tryLock(f) }

func unlock(f *os.File) error {
	_, err := tryLock(f)
	return err
}
