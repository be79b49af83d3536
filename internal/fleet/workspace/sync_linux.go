package workspace

import (
	"os"

	"golang.org/x/sys/unix"
)

// syncTree syncs the file system of a directory to disk.
func syncTree(root *os.Root) error {
	dir, err := root.Open(".")
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }() // it was only read
	return withDescriptor(dir, unix.Syncfs)
}
