package project

import (
	"errors"
	"syscall"
)

// isNotDir reports a path through what is no directory.
func isNotDir(err error) bool { return errors.Is(err, syscall.ENOTDIR) }
