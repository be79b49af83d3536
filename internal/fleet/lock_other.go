//go:build !unix

package fleet

import (
	"fmt"
	"os"

	"github.com/atoll-sandbox/atoll"
)

// tryLock refuses: without a lock, nobody could tell a process that died from
// one that is at work.
func tryLock(*os.File) (bool, error) {
	return false, fmt.Errorf("%w: a fleet needs file locks, which this system lacks", atoll.ErrUnsupported)
}
