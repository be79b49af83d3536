//go:build !linux

package seal

import (
	"fmt"
	"syscall"

	"github.com/atoll-sandbox/atoll"
)

// Attr returns the attributes with which a process is started that can later keep directories.
func Attr() *syscall.SysProcAttr { return nil }

// Process seals the calling process. It needs Linux.
func Process(Options) error {
	return fmt.Errorf("%w: sealing a process needs Linux", atoll.ErrUnsupported)
}

// Path returns the path of the directory with an index in Options.Dirs, once the process is sealed.
func Path(int) string { return "" }
