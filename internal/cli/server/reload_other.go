//go:build !unix

package server

import (
	"fmt"
	"os"

	"github.com/atoll-sandbox/atoll"
)

// notifyReload does nothing: this system has no signal for it.
func notifyReload(chan<- os.Signal) {}

// replaceProcess returns an error: processes of this system can't be replaced.
func replaceProcess(path string, _, _ []string) error {
	return fmt.Errorf("%w: %s can't replace a process here", atoll.ErrUnsupported, path)
}
