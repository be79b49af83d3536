package fleet

import (
	"os"

	"golang.org/x/sys/unix"
)

// syncTree puts all that was written to the file system of a directory on disk.
func syncTree(root *os.Root) error {
	dir, err := root.Open(".")
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }() // it was only read
	return descriptor(dir, unix.Syncfs)
}
