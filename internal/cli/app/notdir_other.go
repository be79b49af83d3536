//go:build !unix

package app

// isNotDir reports whether a file stands where a directory should be.
func isNotDir(error) bool { return false }
