//go:build !linux

package landlock

import (
	"fmt"

	"github.com/atoll-sandbox/atoll"
)

// Version needs Linux.
func Version() (int, error) {
	return 0, fmt.Errorf("%w: Landlock needs Linux", atoll.ErrUnavailable)
}

// Restrict needs Linux.
func (r Rules) Restrict() error {
	_, err := Version()
	return err
}
