//go:build !unix

package config

// systemFile is the machine's configuration: this system has no place for one.
const systemFile = ""

// deviceOf returns the file system that a directory is on, where that can be
// known.
func deviceOf(string) (uint64, bool) { return 0, true }
