package namespace

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"errors"
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
	err = r.removeEntry(int(parent.Fd()), dirEntry{name: filepath.Base(name), isDir: true}, 0)
	if err != nil && !errors.Is(err, unix.ENOENT) {
		return &os.PathError{Op: "remove", Path: name, Err: err}
	}
	return nil
}

type remover struct {
	top int // the directory that deep directories are moved to
}

// dirEntry is a name in a directory.
type dirEntry struct {
	name  string
	isDir bool // according to the directory; false if that has no types, or the entry was replaced
}

// unlink removes a file, or an empty directory, with one system call if the type of the entry is right.
func (e dirEntry) unlink(dir int) error {
	if e.isDir {
		err := unix.Unlinkat(dir, e.name, unix.AT_REMOVEDIR)
		if !errors.Is(err, unix.ENOTDIR) { // most directories are empty
			return err
		}
	}
	err := unix.Unlinkat(dir, e.name, 0)
	if err == nil || errors.Is(err, unix.ENOENT) {
		return err
	}
	if unix.Unlinkat(dir, e.name, unix.AT_REMOVEDIR) == nil {
		return nil
	}
	return err
}

// removeEntry removes an entry of a directory at a depth below the top.
func (r *remover) removeEntry(dir int, entry dirEntry, depth int) error {
	name := entry.name
	err := entry.unlink(dir)
	if err == nil || errors.Is(err, unix.ENOENT) {
		return err
	}
	fd, derr := openOwned(dir, name)
	if errors.Is(derr, unix.ENOTDIR) || errors.Is(derr, unix.ELOOP) {
		return err // not a directory: the first error counts
	}
	if derr != nil {
		return derr
	}
	defer unix.Close(fd)
	if depth == 0 {
		r.top = fd
	}
	if depth > maxDepth/2 {
		return unix.Renameat(dir, name, r.top, ".deep-"+rand.Text())
	}
	for {
		n, err := r.emptyDir(fd, depth)
		if err != nil {
			return err
		}
		if err := unix.Unlinkat(dir, name, unix.AT_REMOVEDIR); n == 0 || !errors.Is(err, unix.ENOTEMPTY) {
			return err
		}
		if _, err := unix.Seek(fd, 0, unix.SEEK_SET); err != nil { // again: entries may have been moved up
			return os.NewSyscallError("lseek", err)
		}
	}
}

// emptyDir removes the entries of a directory, once through, and returns their number.
func (r *remover) emptyDir(dir, depth int) (int, error) {
	total := 0
	b := make([]byte, 8<<10)
	for {
		n, err := unix.ReadDirent(dir, b)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return total, os.NewSyscallError("getdents", err)
		}
		if n <= 0 {
			return total, nil
		}
		for _, e := range parseDirents(b[:n]) {
			total++
			if err := r.removeEntry(dir, e, depth+1); err != nil && !errors.Is(err, unix.ENOENT) {
				return total, err
			}
		}
	}
}

// parseDirents returns the entries in a buffer of getdents64.
func parseDirents(b []byte) (list []dirEntry) {
	const sizeAt, typeAt, nameAt = 16, 18, 19 // in struct linux_dirent64
	for len(b) >= nameAt {
		size := int(binary.NativeEndian.Uint16(b[sizeAt:]))
		if size < nameAt || size > len(b) {
			return list // the kernel does not do that
		}
		name, _, _ := bytes.Cut(b[nameAt:size], []byte{0})
		if e := (dirEntry{string(name), b[typeAt] == unix.DT_DIR}); e.name != "." && e.name != ".." {
			list = append(list, e)
		}
		b = b[size:]
	}
	return list
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
