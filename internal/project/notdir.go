package project

import (
	"errors"
	"syscall"
)

// isNotDir reports whether an error is that of a path through something other than a directory.
func isNotDir(err error) bool { return errors.Is(err, syscall.ENOTDIR) }
