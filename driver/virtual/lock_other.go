//go:build !unix

package virtual

import (
	"fmt"
	"os"

	"github.com/atoll-sandbox/atoll"
)

// tryLock refuses: without a lock, two processes could write one sandbox.
func tryLock(*os.File) (bool, error) {
	return false, fmt.Errorf("%w: keeping virtual sandboxes in a directory needs file locks, which this system lacks", atoll.ErrUnsupported)
}
