//go:build !unix

package main

// systemFile is the machine's configuration: there is no place for one.
const systemFile = ""

// deviceOf returns the file system that a directory is on, where that can be
// known.
func deviceOf(string) (uint64, bool) { return 0, true }
