//go:build !linux

package transfer

import (
	"os"
	"time"
)

// fileDir makes files in a directory.
type fileDir struct{ root *os.Root }

func (d *fileDir) open(root *os.Root) error {
	d.root = root
	return nil
}

func (d *fileDir) close() error { return nil }

// create creates a file. The name is a single element.
func (d *fileDir) create(name string) (*os.File, error) {
	return d.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, tempMode)
}

// setTime sets the access and modification times of a file.
func (d *fileDir) setTime(name string, t time.Time) error { return d.root.Chtimes(name, t, t) }

// rename renames a file, and replaces another.
func (d *fileDir) rename(from, to string) error { return d.root.Rename(from, to) }
