package ext4

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll"
)

// Tree configures how a directory of the host is read.
type Tree struct {
	// Overlay reads it as a layer of overlayfs: character devices 0:0 remove files of the layers
	// below, opaque directories all of their content.
	Overlay bool
	// ChangeAttr may change the attributes of a file; its path is relative to the directory, which is
	// "." itself. If it returns false, the file is left out. Nil changes nothing.
	ChangeAttr func(path string, a *Attr) bool
}

// Attr has the attributes of a file that can be changed.
type Attr struct {
	Mode     uint32 // with the file type
	UID, GID uint32
	// Major and Minor are the device number, if Mode is changed to a device.
	Major, Minor uint32
	Capability   string // the attribute security.capability; empty: not changed
}

// AddDir adds a directory of the host to the file system, over its present content. It is read by
// descriptors, so no link leads outside. Files that change meanwhile are read as they are at some
// instant.
func (w *Writer) AddDir(ctx context.Context, dir *os.File, t Tree) error {
	w.layer++
	r := &dirReader{w: w, ctx: ctx, tree: t, links: make(map[[2]uint64]*node)}
	var st unix.Stat_t
	if err := unix.Fstat(int(dir.Fd()), &st); err != nil {
		return &os.PathError{Op: "stat", Path: dir.Name(), Err: err}
	}
	a, _, err := r.readAttr(int(dir.Fd()), ".", &st)
	if err != nil {
		return err
	}
	if a.mode != 0 {
		w.root.attr = a
	}
	own, err := unix.Openat(int(dir.Fd()), ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: dir.Name(), Err: err}
	}
	return r.readDir(os.NewFile(uintptr(own), dir.Name()), ".", w.root, 0)
}

// dirReader reads one directory of the host.
type dirReader struct {
	w     *Writer
	ctx   context.Context //nolint:containedctx // of one call
	tree  Tree
	links map[[2]uint64]*node // by device and inode
}

// readDir reads a directory and its content, and closes it.
func (r *dirReader) readDir(f *os.File, path string, dir *node, depth int) (err error) {
	defer f.Close()
	if depth > maxDepth {
		return fmt.Errorf("%w: %s: more than %d nested directories", atoll.ErrInvalid, clipText(path), maxDepth)
	}
	if r.tree.Overlay && isOpaque(int(f.Fd())) {
		r.w.removeLower(dir)
	}
	names, err := f.Readdirnames(-1)
	if err != nil {
		return err
	}
	slices.Sort(names)
	for _, name := range names {
		if err := context.Cause(r.ctx); err != nil {
			return err
		}
		below := name
		if path != "." {
			below = path + "/" + name
		}
		if err := r.readEntry(int(f.Fd()), name, below, dir, depth); err != nil {
			return err
		}
	}
	return nil
}

// isOpaque reports whether a directory of a layer hides the content of the layers below.
func isOpaque(fd int) bool {
	var b [1]byte
	for _, name := range []string{"trusted.overlay.opaque", "user.overlay.opaque"} {
		if n, err := unix.Fgetxattr(fd, name, b[:]); err == nil && n == 1 && b[0] == 'y' {
			return true
		}
	}
	return false
}

// readEntry reads an entry of a directory. An entry that was removed meanwhile is skipped.
func (r *dirReader) readEntry(at int, name, path string, dir *node, depth int) error {
	fd, err := unix.Openat(at, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return &os.PathError{Op: "open", Path: path, Err: err}
	}
	handle := os.NewFile(uintptr(fd), path)
	defer handle.Close()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return &os.PathError{Op: "stat", Path: path, Err: err}
	}
	if r.tree.Overlay && st.Mode&typeMask == typeChar && st.Rdev == 0 {
		r.w.removeChild(dir, name)
		return nil
	}
	key := [2]uint64{st.Dev, st.Ino}
	if n := r.links[key]; n != nil && st.Mode&typeMask != typeDir {
		return r.w.setChild(dir, name, n)
	}
	a, dev, err := r.readAttr(fd, path, &st)
	if err != nil || a.mode == 0 {
		return err
	}
	if a.mode&typeMask == typeDir {
		if err := r.w.putDir(dir, name, a); err != nil {
			return fmt.Errorf("%s: %w", clipText(path), err)
		}
		f, err := reopen(handle, unix.O_DIRECTORY)
		if err != nil {
			return err
		}
		return r.readDir(f, path, dir.children[name], depth+1)
	}
	n := &node{attr: a, layer: r.w.layer, major: dev[0], minor: dev[1]}
	if err := r.w.setChild(dir, name, n); err != nil {
		return fmt.Errorf("%s: %w", clipText(path), err)
	}
	if st.Nlink > 1 {
		r.links[key] = n
	}
	return r.readContent(n, handle, path)
}

// reopen opens the file of a handle for reading.
func reopen(handle *os.File, flags int) (*os.File, error) {
	fd, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", handle.Fd()), unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK|flags, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: handle.Name(), Err: err}
	}
	return os.NewFile(uintptr(fd), handle.Name()), nil
}

// readAttr returns the attributes of a file, and its device number; a mode of 0 means that it is
// left out.
func (r *dirReader) readAttr(fd int, path string, st *unix.Stat_t) (attr, [2]uint32, error) {
	a := Attr{Mode: st.Mode, UID: st.Uid, GID: st.Gid, Major: unix.Major(st.Rdev), Minor: unix.Minor(st.Rdev)}
	if r.tree.ChangeAttr != nil && !r.tree.ChangeAttr(path, &a) {
		return attr{}, [2]uint32{}, nil
	}
	out := attr{mode: a.Mode, uid: a.UID, gid: a.GID, sec: st.Mtim.Sec, nsec: uint32(st.Mtim.Nsec)}
	err := r.readXattrs(fd, &out, a.Capability)
	if err != nil {
		err = fmt.Errorf("%s: %w", clipText(path), err)
	}
	return out, [2]uint32{a.Major, a.Minor}, err
}

// readXattrs reads the extended attributes of a file or directory; others have none.
func (r *dirReader) readXattrs(fd int, a *attr, capability string) error {
	const most = 64 << 10
	name := fmt.Sprintf("/proc/self/fd/%d", fd)
	if k := a.mode & typeMask; k == typeFile || k == typeDir {
		b := make([]byte, most)
		n, err := unix.Listxattr(name, b)
		if err != nil && !errors.Is(err, unix.EOPNOTSUPP) && !errors.Is(err, unix.EACCES) && !errors.Is(err, unix.EPERM) {
			return os.NewSyscallError("listxattr", err)
		}
		for key := range strings.SplitSeq(strings.TrimSuffix(string(b[:max(0, n)]), "\x00"), "\x00") {
			if _, ok := parseXattr(key, ""); !ok || key == capabilityName && capability != "" || key == "security.selinux" {
				continue
			}
			v := make([]byte, most)
			n, err := unix.Getxattr(name, key, v)
			if err != nil { // removed meanwhile, or not readable
				continue
			}
			x, _ := parseXattr(key, string(v[:n]))
			a.xattrs = append(a.xattrs, x)
		}
	}
	if capability != "" {
		x, _ := parseXattr(capabilityName, capability)
		a.xattrs = append(a.xattrs, x)
	}
	a.sortXattrs()
	return nil
}

const capabilityName = "security.capability"

// readContent reads the content of a file or the target of a link.
func (r *dirReader) readContent(n *node, handle *os.File, path string) error {
	switch n.mode & typeMask {
	case typeSymlink:
		b := make([]byte, maxPath)
		got, err := unix.Readlinkat(int(handle.Fd()), "", b)
		if err != nil {
			return &os.PathError{Op: "readlink", Path: path, Err: err}
		}
		n.target = string(b[:got])
		return checkTarget(n.target)
	case typeFile:
		f, err := reopen(handle, 0)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := r.readFile(n, f); err != nil {
			return fmt.Errorf("%s: %w", clipText(path), err)
		}
	}
	return nil
}

// readFile reads a file without its holes.
func (r *dirReader) readFile(n *node, f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	size := info.Size()
	if size > MaxSize {
		return fmt.Errorf("%w: a file is larger than 16 TB", atoll.ErrInvalid)
	}
	for at := int64(0); at < size; {
		from, to := at, size
		if size > holeSize { // it may have holes
			if from, to, err = nextData(f, at, size); err != nil {
				return err
			}
			if from >= size {
				break
			}
		}
		if err := r.w.writeRange(r.ctx, n, io.NewSectionReader(f, from, to-from), from, to); err != nil {
			return err
		}
		at = to
	}
	n.size = size
	return nil
}

// nextData returns the next range with data from an offset, in whole blocks.
func nextData(f *os.File, at, size int64) (from, to int64, err error) {
	from, err = unix.Seek(int(f.Fd()), at, unix.SEEK_DATA)
	if errors.Is(err, unix.ENXIO) {
		return size, size, nil
	}
	if err != nil {
		return 0, 0, os.NewSyscallError("lseek", err)
	}
	to, err = unix.Seek(int(f.Fd()), from, unix.SEEK_HOLE)
	if err != nil {
		return 0, 0, os.NewSyscallError("lseek", err)
	}
	from = max(at, from/BlockSize*BlockSize)
	return from, min(size, (to+BlockSize-1)/BlockSize*BlockSize), nil
}
