//go:build !unix

package main

// deviceOf returns the file system that a directory is on, where that can be
// known.
func deviceOf(string) (uint64, bool) { return 0, true }
