package guest

import (
	"errors"

	"golang.org/x/sys/unix"
)

// removeAll removes a name in a directory and all below it. No link is
// followed; what others put there meanwhile is removed too. What is very deep
// is brought up first, so that few descriptors do.
func removeAll(dir int, name string) error {
	err := unix.Unlinkat(dir, name, 0)
	if err == nil || !errors.Is(err, unix.EISDIR) && !errors.Is(err, unix.EPERM) {
		return err
	}
	l, derr := openDir(dir, name)
	if derr != nil {
		if errors.Is(derr, unix.ENOTDIR) || errors.Is(derr, unix.ELOOP) {
			return err // it is none: the first error counts
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

// maxRounds is how often a directory is emptied that somebody fills meanwhile.
const maxRounds = 1000

// removeBelow empties a directory that is depth below top.
func removeBelow(top, dir, depth int) error {
	for range maxRounds {
		l, err := openDir(dir, ".") // anew: from the beginning
		if err != nil {
			return err
		}
		n, err := l.clear(top, depth)
		l.close()
		if err != nil || n == 0 {
			return err
		}
	}
	return unix.ENOTEMPTY
}

// clear removes what is in a directory, once through, and returns how much
// that was.
func (l *listing) clear(top, depth int) (int, error) {
	total := 0
	for {
		names, err := l.next()
		if err != nil || len(names) == 0 {
			return total, err
		}
		total += len(names)
		for _, n := range names {
			if err := l.clearOne(top, n, depth); err != nil && !errors.Is(err, unix.ENOENT) {
				return total, err
			}
		}
	}
}

func (l *listing) clearOne(top int, name string, depth int) error {
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
		return nil // somebody is quick: it is found again
	}
	return err
}
