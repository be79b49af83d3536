//go:build unix

package app

import (
	"errors"
	"syscall"
)

// isNotDir reports that a file stands where a directory should be.
func isNotDir(err error) bool {
	return errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.EROFS)
}
