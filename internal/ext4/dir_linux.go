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

// Tree says how a directory of the host is read.
type Tree struct {
	// Overlay reads it as a layer of overlayfs: character devices 0:0 remove
	// what lies below, opaque directories all of it.
	Overlay bool
	// Change may change what a file of a path below the directory is, "." for
	// itself; false leaves it out. Nil: all is as it is.
	Change func(path string, a *Attr) bool
}

// Attr is what can be changed of a file on its way in.
type Attr struct {
	Mode     uint32 // with its type
	UID, GID uint32
	// Device is for those that a host's directory can't hold: a file whose Mode
	// is changed to a device's.
	Major, Minor uint32
	Capability   string // the attribute security.capability; empty: as it is
}

// Dir lays a directory of the host over what is there. It is read by descriptors:
// no link in it leads anywhere. What changes meanwhile is as it was at some
// instant.
func (w *Writer) Dir(ctx context.Context, dir *os.File, t Tree) error {
	w.layer++
	r := &reader{w: w, ctx: ctx, tree: t, links: make(map[[2]uint64]*node)}
	var st unix.Stat_t
	if err := unix.Fstat(int(dir.Fd()), &st); err != nil {
		return &os.PathError{Op: "stat", Path: dir.Name(), Err: err}
	}
	a, _, err := r.attr(int(dir.Fd()), ".", &st)
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
	return r.directory(os.NewFile(uintptr(own), dir.Name()), ".", w.root, 0)
}

// reader reads one directory of the host.
type reader struct {
	w     *Writer
	ctx   context.Context //nolint:containedctx // of the one call
	tree  Tree
	links map[[2]uint64]*node // by device and inode
}

// directory reads what is in one, and closes it.
func (r *reader) directory(f *os.File, path string, dir *node, depth int) (err error) {
	defer f.Close()
	if depth > mostDepth {
		return fmt.Errorf("%w: %s: more than %d directories in each other", atoll.ErrInvalid, clip(path), mostDepth)
	}
	if r.tree.Overlay && opaque(int(f.Fd())) {
		r.w.prune(dir)
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
		if err := r.entry(int(f.Fd()), name, below, dir, depth); err != nil {
			return err
		}
	}
	return nil
}

// opaque reports whether a directory of a layer hides what lies below.
func opaque(fd int) bool {
	var b [1]byte
	for _, name := range []string{"trusted.overlay.opaque", "user.overlay.opaque"} {
		if n, err := unix.Fgetxattr(fd, name, b[:]); err == nil && n == 1 && b[0] == 'y' {
			return true
		}
	}
	return false
}

// entry reads one name of a directory. One that is gone meanwhile is passed over.
func (r *reader) entry(at int, name, path string, dir *node, depth int) error {
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
		r.w.remove(dir, name)
		return nil
	}
	key := [2]uint64{st.Dev, st.Ino}
	if n := r.links[key]; n != nil && st.Mode&typeMask != typeDir {
		return r.w.set(dir, name, n)
	}
	a, dev, err := r.attr(fd, path, &st)
	if err != nil || a.mode == 0 {
		return err
	}
	if a.mode&typeMask == typeDir {
		if err := r.w.putDir(dir, name, a); err != nil {
			return fmt.Errorf("%s: %w", clip(path), err)
		}
		f, err := reopen(handle, unix.O_DIRECTORY)
		if err != nil {
			return err
		}
		return r.directory(f, path, dir.children[name], depth+1)
	}
	n := &node{attr: a, layer: r.w.layer, major: dev[0], minor: dev[1]}
	if err := r.w.set(dir, name, n); err != nil {
		return fmt.Errorf("%s: %w", clip(path), err)
	}
	if st.Nlink > 1 {
		r.links[key] = n
	}
	return r.content(n, handle, path)
}

// reopen opens for reading what a handle stands for.
func reopen(handle *os.File, flags int) (*os.File, error) {
	fd, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", handle.Fd()), unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK|flags, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: handle.Name(), Err: err}
	}
	return os.NewFile(uintptr(fd), handle.Name()), nil
}

// attr returns what a file is; a mode of 0: it is left out.
func (r *reader) attr(fd int, path string, st *unix.Stat_t) (attr, [2]uint32, error) {
	a := Attr{Mode: st.Mode, UID: st.Uid, GID: st.Gid, Major: unix.Major(st.Rdev), Minor: unix.Minor(st.Rdev)}
	if r.tree.Change != nil && !r.tree.Change(path, &a) {
		return attr{}, [2]uint32{}, nil
	}
	out := attr{mode: a.Mode, uid: a.UID, gid: a.GID, sec: st.Mtim.Sec, nsec: uint32(st.Mtim.Nsec)}
	err := r.xattrs(fd, &out, a.Capability)
	if err != nil {
		err = fmt.Errorf("%s: %w", clip(path), err)
	}
	return out, [2]uint32{a.Major, a.Minor}, err
}

// xattrs reads a file's extended attributes. Those of what is no file, directory
// or link are left out.
func (r *reader) xattrs(fd int, a *attr, capability string) error {
	const most = 64 << 10
	name := fmt.Sprintf("/proc/self/fd/%d", fd)
	if k := a.mode & typeMask; k == typeFile || k == typeDir {
		b := make([]byte, most)
		n, err := unix.Listxattr(name, b)
		if err != nil && !errors.Is(err, unix.EOPNOTSUPP) && !errors.Is(err, unix.EACCES) && !errors.Is(err, unix.EPERM) {
			return os.NewSyscallError("listxattr", err)
		}
		for key := range strings.SplitSeq(strings.TrimSuffix(string(b[:max(0, n)]), "\x00"), "\x00") {
			if _, ok := attribute(key, ""); !ok || key == capabilityName && capability != "" || key == "security.selinux" {
				continue
			}
			v := make([]byte, most)
			n, err := unix.Getxattr(name, key, v)
			if err != nil { // removed meanwhile, or not ours to read
				continue
			}
			x, _ := attribute(key, string(v[:n]))
			a.xattrs = append(a.xattrs, x)
		}
	}
	if capability != "" {
		x, _ := attribute(capabilityName, capability)
		a.xattrs = append(a.xattrs, x)
	}
	a.sortXattrs()
	return nil
}

const capabilityName = "security.capability"

// content reads what is in a file or link.
func (r *reader) content(n *node, handle *os.File, path string) error {
	switch n.mode & typeMask {
	case typeSymlink:
		b := make([]byte, mostPath)
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
		if err := r.file(n, f); err != nil {
			return fmt.Errorf("%s: %w", clip(path), err)
		}
	}
	return nil
}

// file reads a file, but for its holes.
func (r *reader) file(n *node, f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	size := info.Size()
	if size > MaxSize {
		return fmt.Errorf("%w: a file of more than 16 TB", atoll.ErrInvalid)
	}
	for at := int64(0); at < size; {
		from, to := at, size
		if size > hole { // where a hole may be
			if from, to, err = stretch(f, at, size); err != nil {
				return err
			}
			if from >= size {
				break
			}
		}
		if err := r.w.stretch(r.ctx, n, io.NewSectionReader(f, from, to-from), from, to); err != nil {
			return err
		}
		at = to
	}
	n.size = size
	return nil
}

// stretch finds the next data from a place on, in whole blocks.
func stretch(f *os.File, at, size int64) (from, to int64, err error) {
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
