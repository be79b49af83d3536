// Package filelock tells what a process that died has left from what one is at
// work on: as long as it lives it has a lock.
package filelock

import "os"

// Try takes the exclusive lock of an open file if nobody has it, until the file
// is closed; false: somebody has it. On systems without file locks it is
// ErrUnsupported.
func Try(f *os.File) (bool, error) { return try(f) }
