package namespace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll"
)

// copier copies a tree of files exactly: owners, modes, times, attributes, hard links, holes. It
// never leaves either side by a link: it reaches everything by descriptors of directories and
// follows no link.
type copier struct {
	shift   int    // added to owners
	bareDir string // a directory at the top whose content is not copied; empty: none

	root  int                  // of the copy
	depth int                  // of the directory that is copied
	links map[[2]uint64]string // first name, in the copy, of files with several names
	files int
	bytes int64
}

// copyTree copies the directory from to the new directory to. Owners are those of from plus shift.
// Of the directory bare, if it is not empty, it copies no content.
func copyTree(ctx context.Context, from, to string, shift int, bare string) (files int, bytes int64, err error) {
	if err := os.Mkdir(to, 0o700); err != nil {
		return 0, 0, err
	}
	return copyInto(ctx, from, to, shift, bare)
}

// copyInto copies into an empty directory, as copyTree does.
func copyInto(ctx context.Context, from, to string, shift int, bare string) (files int, bytes int64, err error) {
	src, err := unix.Open(from, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, 0, &os.PathError{Op: "open", Path: from, Err: err}
	}
	defer unix.Close(src)
	dst, err := unix.Open(to, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, 0, &os.PathError{Op: "open", Path: to, Err: err}
	}
	defer unix.Close(dst)
	c := &copier{shift: shift, bareDir: bare, root: dst, links: make(map[[2]uint64]string)}
	var st unix.Stat_t
	if err := unix.Fstat(src, &st); err != nil {
		return 0, 0, os.NewSyscallError("fstat", err)
	}
	if err := c.copyDir(ctx, src, dst, "", &st); err != nil {
		return 0, 0, fmt.Errorf("copying files: %w", err)
	}
	return c.files, c.bytes, nil
}

func (c *copier) copyDir(ctx context.Context, src, dst int, name string, st *unix.Stat_t) error {
	if c.bareDir != "" && name == c.bareDir {
		return c.copyMetadata(src, dst, name, st)
	}
	again, err := unix.Openat(src, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: name, Err: err}
	}
	list := os.NewFile(uintptr(again), name)
	defer list.Close()
	for {
		names, err := list.Readdirnames(1000)
		for _, n := range names {
			if err := context.Cause(ctx); err != nil {
				return err
			}
			if err := c.copyEntry(ctx, src, dst, n, name+"/"+n); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
	}
	return c.copyMetadata(src, dst, name, st)
}

func (c *copier) copyEntry(ctx context.Context, src, dst int, base, name string) error {
	var st unix.Stat_t
	if err := unix.Fstatat(src, base, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return &os.PathError{Op: "stat", Path: name, Err: err}
	}
	c.files++
	kind := st.Mode & unix.S_IFMT
	if kind != unix.S_IFDIR && st.Nlink > 1 {
		key := [2]uint64{st.Dev, st.Ino}
		if first, ok := c.links[key]; ok {
			return pathError("link", name, unix.Linkat(c.root, first, dst, base, 0))
		}
		c.links[key] = strings.TrimPrefix(name, "/")
	}
	switch kind {
	case unix.S_IFDIR:
		return c.copySubdir(ctx, src, dst, base, name, &st)
	case unix.S_IFREG:
		return c.copyFile(ctx, src, dst, base, name, &st)
	case unix.S_IFLNK:
		return c.copySymlink(src, dst, base, name, &st)
	}
	return c.copySpecial(dst, base, name, &st)
}

func pathError(op, name string, err error) error {
	if err == nil {
		return nil
	}
	return &os.PathError{Op: op, Path: name, Err: err}
}

func (c *copier) copySubdir(ctx context.Context, src, dst int, base, name string, st *unix.Stat_t) error {
	if c.depth >= maxDepth {
		return fmt.Errorf("%w: directories nested deeper than %d", atoll.ErrQuota, maxDepth)
	}
	c.depth++
	defer func() { c.depth-- }()
	const flags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	from, err := unix.Openat(src, base, flags, 0)
	if err != nil {
		return pathError("open", name, err)
	}
	defer unix.Close(from)
	if err := unix.Mkdirat(dst, base, 0o700); err != nil {
		return pathError("mkdir", name, err)
	}
	to, err := unix.Openat(dst, base, flags, 0)
	if err != nil {
		return pathError("open", name, err)
	}
	defer unix.Close(to)
	return c.copyDir(ctx, from, to, name, st)
}

func (c *copier) copyFile(ctx context.Context, src, dst int, base, name string, st *unix.Stat_t) error {
	from, err := unix.Openat(src, base, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return pathError("open", name, err)
	}
	defer unix.Close(from)
	var now unix.Stat_t
	if err := unix.Fstat(from, &now); err != nil || now.Ino != st.Ino || now.Dev != st.Dev {
		return pathError("open", name, errors.Join(errors.New("it has become another file"), err))
	}
	to, err := unix.Openat(dst, base, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return pathError("create", name, err)
	}
	defer unix.Close(to)
	c.bytes += now.Size
	if unix.IoctlFileClone(to, from) != nil {
		if err := copyData(ctx, from, to, now.Size); err != nil {
			return pathError("copy", name, err)
		}
	}
	return c.copyMetadata(from, to, name, &now)
}

// copyData copies the data of a file without its holes.
func copyData(ctx context.Context, from, to int, size int64) error {
	for at := int64(0); at < size; {
		start, err := unix.Seek(from, at, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			break // nothing but a hole
		}
		if err != nil {
			return err
		}
		end, err := unix.Seek(from, start, unix.SEEK_HOLE)
		if err != nil {
			return err
		}
		end = min(end, size)
		for at = start; at < end; {
			if err := context.Cause(ctx); err != nil {
				return err
			}
			in, out := at, at
			n, err := unix.CopyFileRange(from, &in, to, &out, int(min(end-at, 1<<26)), 0)
			if errors.Is(err, unix.EXDEV) {
				n, err = copySome(from, to, at, end)
			}
			if err != nil {
				return err
			}
			if n == 0 {
				return io.ErrUnexpectedEOF
			}
			at += int64(n)
		}
	}
	return unix.Ftruncate(to, size)
}

// copySome copies a part between file systems that the kernel can't copy between.
func copySome(from, to int, at, end int64) (int, error) {
	b := make([]byte, min(end-at, 1<<20))
	n, err := unix.Pread(from, b, at)
	if err != nil {
		return 0, err
	}
	return unix.Pwrite(to, b[:n], at)
}

func (c *copier) copySymlink(src, dst int, base, name string, st *unix.Stat_t) error {
	b := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(src, base, b)
	if err != nil {
		return pathError("readlink", name, err)
	}
	if err := unix.Symlinkat(string(b[:n]), dst, base); err != nil {
		return pathError("symlink", name, err)
	}
	return c.setNameMetadata(dst, base, name, st)
}

// copySpecial copies pipes and sockets, and the devices that mark files that were removed in an
// overlay.
func (c *copier) copySpecial(dst int, base, name string, st *unix.Stat_t) error {
	if kind := st.Mode & unix.S_IFMT; kind != unix.S_IFIFO && kind != unix.S_IFSOCK && (kind != unix.S_IFCHR || st.Rdev != 0) {
		return nil // no sandbox can create such a file
	}
	if err := unix.Mknodat(dst, base, st.Mode&unix.S_IFMT|0o600, 0); err != nil {
		return pathError("mknod", name, err)
	}
	if err := unix.Fchmodat(dst, base, st.Mode&0o7777, 0); err != nil {
		return pathError("chmod", name, err)
	}
	return c.setNameMetadata(dst, base, name, st)
}

// setNameMetadata sets the owner and times of a name that can't be opened.
func (c *copier) setNameMetadata(dst int, base, name string, st *unix.Stat_t) error {
	if os.Geteuid() == 0 {
		if err := unix.Fchownat(dst, base, int(st.Uid)+c.shift, int(st.Gid)+c.shift, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return pathError("chown", name, err)
		}
	}
	return pathError("utimes", name, unix.UtimesNanoAt(dst, base, []unix.Timespec{st.Atim, st.Mtim}, unix.AT_SYMLINK_NOFOLLOW))
}

// copyMetadata copies owner, attributes, mode and times to an open file.
func (c *copier) copyMetadata(from, to int, name string, st *unix.Stat_t) error {
	if os.Geteuid() == 0 {
		if err := unix.Fchown(to, int(st.Uid)+c.shift, int(st.Gid)+c.shift); err != nil {
			return pathError("chown", name, err)
		}
	}
	if err := copyAttributes(from, to); err != nil {
		return pathError("xattr", name, err)
	}
	if err := unix.Fchmod(to, st.Mode&0o7777); err != nil {
		return pathError("chmod", name, err)
	}
	return pathError("utimes", name, unix.UtimesNanoAt(unix.AT_FDCWD, "/proc/self/fd/"+strconv.Itoa(to), []unix.Timespec{st.Atim, st.Mtim}, 0))
}

// copyAttributes copies extended attributes.
func copyAttributes(from, to int) error {
	size, err := unix.Flistxattr(from, nil)
	if size == 0 || errors.Is(err, unix.EOPNOTSUPP) {
		return nil
	}
	if err != nil {
		return err
	}
	list := make([]byte, size)
	if size, err = unix.Flistxattr(from, list); err != nil {
		return err
	}
	for _, name := range strings.Split(strings.TrimSuffix(string(list[:size]), "\x00"), "\x00") {
		if strings.HasPrefix(name, "security.selinux") {
			continue // it belongs to the host
		}
		value := make([]byte, 64<<10)
		n, err := unix.Fgetxattr(from, name, value)
		if err != nil {
			return err
		}
		if err := unix.Fsetxattr(to, name, value[:n], 0); err != nil {
			return err
		}
	}
	return nil
}
