//go:build !linux

package helper

import (
	"errors"
	"fmt"
	"os"
)

// LoadFull returns a file in memory with the packed full program; only Linux has such files.
func LoadFull() (*os.File, error) {
	return nil, fmt.Errorf("a program in memory: %w", errors.ErrUnsupported)
}

// isPrivate reports whether only this user and root can change a file.
func isPrivate(string) bool { return true }
