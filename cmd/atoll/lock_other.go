//go:build !unix

package main

import "os"

// tryLock takes no lock where there is none: the socket keeps a second server
// away.
func tryLock(*os.File) (bool, error) { return true, nil }

// isNotDir reports that a file stands where a directory should be.
func isNotDir(error) bool { return false }
