package namespace

import (
	"crypto/rand"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// maxDepth is the greatest depth of nested directories that are open at once, and that are copied.
const maxDepth = 256

// removeAll removes a tree in which unprivileged users may have removed their own permissions, and
// may have nested directories without limit: deep directories are moved up first, so that few
// descriptors suffice. It follows no link.
func removeAll(name string) error {
	parent, err := os.OpenFile(filepath.Dir(name), unix.O_DIRECTORY|os.O_RDONLY, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer parent.Close()
	var r remover
	err = r.removeEntry(int(parent.Fd()), filepath.Base(name), 0)
	if err != nil && !errors.Is(err, unix.ENOENT) {
		return &os.PathError{Op: "remove", Path: name, Err: err}
	}
	return nil
}

type remover struct {
	top int // the directory that deep directories are moved to
}

// removeEntry removes a name in a directory at a depth below the top.
func (r *remover) removeEntry(dir int, name string, depth int) error {
	err := unix.Unlinkat(dir, name, 0)
	if err == nil || errors.Is(err, unix.ENOENT) {
		return err
	}
	if unix.Unlinkat(dir, name, unix.AT_REMOVEDIR) == nil { // most directories are empty
		return nil
	}
	fd, derr := openOwned(dir, name)
	if errors.Is(derr, unix.ENOTDIR) || errors.Is(derr, unix.ELOOP) {
		return err // not a directory: the first error counts
	}
	if derr != nil {
		return derr
	}
	list := os.NewFile(uintptr(fd), name)
	defer list.Close()
	if depth == 0 {
		r.top = fd
	}
	if depth > maxDepth/2 {
		return unix.Renameat(dir, name, r.top, ".deep-"+rand.Text())
	}
	for {
		n, err := r.emptyDir(list, depth)
		if err != nil {
			return err
		}
		if err := unix.Unlinkat(dir, name, unix.AT_REMOVEDIR); n == 0 || !errors.Is(err, unix.ENOTEMPTY) {
			return err
		}
		if _, err := list.Seek(0, io.SeekStart); err != nil { // again: entries may have been moved up
			return err
		}
	}
}

// emptyDir removes the entries of a directory, once through, and returns their number.
func (r *remover) emptyDir(list *os.File, depth int) (int, error) {
	total := 0
	for {
		names, err := list.Readdirnames(1000)
		total += len(names)
		for _, n := range names {
			if err := r.removeEntry(int(list.Fd()), n, depth+1); err != nil && !errors.Is(err, unix.ENOENT) {
				return total, err
			}
		}
		if errors.Is(err, io.EOF) {
			return total, nil
		}
		if err != nil {
			return total, err
		}
	}
}

// openOwned opens a directory after giving its owner all permissions.
func openOwned(dir int, name string) (int, error) {
	path, err := unix.Openat(dir, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	defer unix.Close(path)
	var st unix.Stat_t
	if err := unix.Fstat(path, &st); err != nil {
		return -1, err
	}
	if st.Mode&0o700 != 0o700 {
		if err := unix.Chmod("/proc/self/fd/"+strconv.Itoa(path), 0o700); err != nil {
			return -1, err
		}
	}
	return unix.Openat(path, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
}
