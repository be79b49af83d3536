package main

import (
	"os"

	"golang.org/x/sys/unix"
)

// reserve returns memory that the collector does not see.
func reserve(size int) ([]byte, error) {
	b, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	return b, os.NewSyscallError("mmap", err)
}
