//go:build !linux

package virtual

import (
	"fmt"
	"syscall"

	"github.com/atoll-sandbox/atoll"
)

func workerAttr(bool) *syscall.SysProcAttr { return nil }

func newSocketPair() ([2]int, error) {
	return [2]int{}, fmt.Errorf("%w: sealed sandboxes need Linux", atoll.ErrUnsupported)
}

func wasForbidden(error) bool { return false }
