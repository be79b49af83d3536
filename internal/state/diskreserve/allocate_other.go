//go:build !linux

package diskreserve

import "os"

// allocateSpace allocates the space of a file.
func allocateSpace(f *os.File, size int64) error { return writeZeros(f, size) }
