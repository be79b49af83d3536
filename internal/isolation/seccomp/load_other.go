//go:build !linux

package seccomp

import (
	"fmt"

	"github.com/atoll-sandbox/atoll"
)

// Load needs Linux.
func Load(prog []byte) error {
	return fmt.Errorf("%w: seccomp needs Linux", atoll.ErrUnavailable)
}

// LoadAll needs Linux.
func LoadAll(prog []byte) error { return Load(prog) }
