package guest

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"path"
	"time"

	"golang.org/x/sys/unix"
)

// exportTar packs a file or a directory.
func (s *Server) exportTar(w *walker, name string) (func(context.Context, *dataWriter) error, error) {
	base, err := w.to(name, asTarget)
	if err != nil {
		return nil, err
	}
	var st unix.Stat_t
	if err := unix.Fstatat(w.at(), base, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return nil, err
	}
	top := path.Base(name)
	if name == "/" {
		top = "."
	}
	x := &exporter{w: w, links: make(map[inode]string)}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		if base != "." {
			if _, err := w.step(base, false); err != nil {
				return nil, err
			}
		}
		l, err := openDir(w.at(), ".")
		if err != nil {
			return nil, err
		}
		return x.sender(func() error {
			defer l.close()
			return x.directory(l, top, &st, 0)
		}), nil
	case unix.S_IFREG:
		fd, st, err := openRegular(w.at(), base)
		if err != nil {
			return nil, err
		}
		return x.sender(func() error { return x.file(fd, top, &st) }), nil
	}
	return nil, refuse("it is not a file or directory")
}

// exporter packs files.
type exporter struct {
	w     *walker
	ctx   context.Context //nolint:containedctx // it is the transfer's
	d     *dataWriter
	tw    *tar.Writer
	buf   []byte
	links map[inode]string // the first names of files that have several
}

type inode struct{ dev, ino uint64 }

// maxTwins is how many files with several names are known to be the same.
const maxTwins = 1 << 17

func (x *exporter) sender(f func() error) func(context.Context, *dataWriter) error {
	return func(ctx context.Context, d *dataWriter) error {
		x.ctx, x.d, x.tw = ctx, d, tar.NewWriter(d)
		if err := f(); err != nil {
			return err
		}
		return x.tw.Close()
	}
}

// kinds are what is packed, with what it is in archives.
var kinds = map[uint32]byte{
	unix.S_IFDIR: tar.TypeDir, unix.S_IFREG: tar.TypeReg, unix.S_IFLNK: tar.TypeSymlink, unix.S_IFIFO: tar.TypeFifo,
}

// header begins an entry.
func (x *exporter) header(name string, st *unix.Stat_t, link string) error {
	h := &tar.Header{
		Typeflag: kinds[st.Mode&unix.S_IFMT], Name: name, Linkname: link, Mode: int64(st.Mode & 0o7777),
		Uid: int(st.Uid), Gid: int(st.Gid), ModTime: time.Unix(st.Mtim.Unix()), Format: tar.FormatPAX,
	}
	switch h.Typeflag {
	case tar.TypeDir:
		h.Name += "/"
	case tar.TypeReg:
		if h.Size = st.Size; link != "" {
			h.Typeflag, h.Size = tar.TypeLink, 0
		}
	}
	return x.tw.WriteHeader(h)
}

// directory packs a directory and all below it.
func (x *exporter) directory(l *listing, name string, st *unix.Stat_t, depth int) error {
	if depth > maxDepth {
		return explain(name, unix.ENAMETOOLONG)
	}
	if err := x.header(name, st, ""); err != nil {
		return explain(name, err)
	}
	for {
		names, err := l.next()
		if err != nil || len(names) == 0 {
			return explain(name, err)
		}
		if err := context.Cause(x.ctx); err != nil {
			return err
		}
		for _, n := range names {
			err := x.entry(l.fd, n, name+"/"+n, st.Dev, depth)
			if errors.Is(err, unix.ENOENT) {
				continue // removed since
			}
			if err != nil {
				return explain(name+"/"+n, err)
			}
		}
	}
}

// entry packs what has a name in a directory. What changes its kind meanwhile
// is left out.
func (x *exporter) entry(dir int, base, name string, dev uint64, depth int) error {
	var st unix.Stat_t
	if err := unix.Fstatat(dir, base, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil || isTemp(base) {
		return err
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		l, err := openDir(dir, base)
		if errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
			return nil
		}
		if err != nil {
			return err
		}
		defer l.close()
		if err := unix.Fstat(l.fd, &st); err != nil {
			return err
		}
		if st.Dev != dev && unreal(l.fd) {
			return x.header(name, &st, "")
		}
		return x.directory(l, name, &st, depth+1)
	case unix.S_IFREG:
		if st.Nlink > 1 && x.links[inode{st.Dev, st.Ino}] != "" {
			return x.header(name, &st, x.links[inode{st.Dev, st.Ino}])
		}
		fd, st, err := openRegular(dir, base)
		if err != nil {
			return err
		}
		return x.file(fd, name, &st)
	case unix.S_IFLNK:
		buf := make([]byte, unix.PathMax)
		n, err := unix.Readlinkat(dir, base, buf)
		if err != nil || n == 0 {
			return err
		}
		return x.header(name, &st, string(buf[:n]))
	case unix.S_IFIFO:
		return x.header(name, &st, "")
	}
	return nil
}

// unreal reports whether a directory is of a file system that holds no files,
// but shows the kernel.
func unreal(fd int) bool {
	var st unix.Statfs_t
	if err := unix.Fstatfs(fd, &st); err != nil {
		return true
	}
	switch st.Type {
	case unix.PROC_SUPER_MAGIC, unix.SYSFS_MAGIC, unix.DEVPTS_SUPER_MAGIC, unix.CGROUP_SUPER_MAGIC, unix.CGROUP2_SUPER_MAGIC,
		unix.DEBUGFS_MAGIC, unix.TRACEFS_MAGIC, unix.SECURITYFS_MAGIC, unix.BPF_FS_MAGIC, unix.PSTOREFS_MAGIC, mqueueMagic:
		return true
	}
	return false
}

const mqueueMagic = 0x19800202

// file packs an open file, and closes it. Exactly the size goes out that it had
// at first: what it grows by is cut off, what it shrinks by is zeros.
func (x *exporter) file(fd int, name string, st *unix.Stat_t) error {
	defer unix.Close(fd)
	id := inode{st.Dev, st.Ino}
	if st.Nlink > 1 {
		if first := x.links[id]; first != "" {
			return x.header(name, st, first)
		}
		if len(x.links) < maxTwins {
			x.links[id] = name
		}
	}
	if err := x.header(name, st, ""); err != nil {
		return err
	}
	if x.buf == nil {
		x.buf = make([]byte, maxData)
	}
	_, err := io.CopyBuffer(x.tw, &exactly{fd: fd, left: st.Size}, x.buf)
	return err
}

// exactly reads so many bytes from a file, whatever becomes of it.
type exactly struct {
	fd   int
	left int64
	over bool
}

func (e *exactly) Read(p []byte) (int, error) {
	if e.left == 0 {
		return 0, io.EOF
	}
	p = p[:min(int64(len(p)), e.left)]
	n := 0
	if !e.over {
		var err error
		if n, err = readFull(e.fd, p); err != nil {
			return n, err
		}
		e.over = n < len(p)
	}
	clear(p[n:])
	e.left -= int64(len(p))
	return len(p), nil
}
