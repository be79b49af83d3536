package guest

import (
	"errors"

	"golang.org/x/sys/unix"
)

// removeAll removes a file or directory tree. It follows no links. Entries that others create
// meanwhile are removed too. Very deep directories are first moved up, so that few descriptors
// suffice.
func removeAll(dir int, name string) error {
	err := unix.Unlinkat(dir, name, 0)
	if err == nil || !errors.Is(err, unix.EISDIR) && !errors.Is(err, unix.EPERM) {
		return err
	}
	l, derr := openDir(dir, name)
	if derr != nil {
		if errors.Is(derr, unix.ENOTDIR) || errors.Is(derr, unix.ELOOP) {
			return err // not a directory: the first error counts
		}
		return derr
	}
	defer l.close()
	for range maxRounds {
		if err := removeBelow(l.fd, l.fd, 0); err != nil {
			return err
		}
		if err = unix.Unlinkat(dir, name, unix.AT_REMOVEDIR); !errors.Is(err, unix.ENOTEMPTY) {
			return err
		}
	}
	return err
}

// maxRounds limits how often a directory is emptied that other processes fill meanwhile.
const maxRounds = 1000

// removeBelow empties a directory at the given depth below top.
func removeBelow(top, dir, depth int) error {
	for range maxRounds {
		l, err := openDir(dir, ".") // opened again to read from the beginning
		if err != nil {
			return err
		}
		n, err := l.removeEntries(top, depth)
		l.close()
		if err != nil || n == 0 {
			return err
		}
	}
	return unix.ENOTEMPTY
}

// removeEntries reads a directory once and removes its entries. It returns their number.
func (l *listing) removeEntries(top, depth int) (int, error) {
	total := 0
	for {
		names, err := l.next()
		if err != nil || len(names) == 0 {
			return total, err
		}
		total += len(names)
		for _, n := range names {
			if err := l.removeEntry(top, n, depth); err != nil && !errors.Is(err, unix.ENOENT) {
				return total, err
			}
		}
	}
}

func (l *listing) removeEntry(top int, name string, depth int) error {
	err := unix.Unlinkat(l.fd, name, 0)
	if err == nil || !errors.Is(err, unix.EISDIR) && !errors.Is(err, unix.EPERM) {
		return err
	}
	if depth >= maxDepth/2 {
		return unix.Renameat(l.fd, name, top, tempName())
	}
	below, derr := openDir(l.fd, name)
	if derr != nil {
		if errors.Is(derr, unix.ENOTDIR) || errors.Is(derr, unix.ELOOP) {
			return err
		}
		return derr
	}
	defer below.close()
	if err := removeBelow(top, below.fd, depth+1); err != nil {
		return err
	}
	err = unix.Unlinkat(l.fd, name, unix.AT_REMOVEDIR)
	if errors.Is(err, unix.ENOTEMPTY) {
		return nil // another process has created an entry: the next round finds it
	}
	return err
}
