//go:build !unix

package main

// isNotDir reports that a file stands where a directory should be.
func isNotDir(error) bool { return false }
