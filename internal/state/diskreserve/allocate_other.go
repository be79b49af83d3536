//go:build !linux

package diskreserve

import "os"

// allocate allocates the space of a file.
func allocate(f *os.File, size int64) error { return writeZeros(f, size) }
