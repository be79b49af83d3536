package guest

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"time"

	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/sparse"
)

// exportTar opens a file or directory and returns the function that sends it as tar.
func (s *Server) exportTar(w *walker, name string, r fileRequest) (func(context.Context, *dataWriter) error, error) {
	base, err := w.walkTo(name, asTarget)
	if err != nil {
		return nil, err
	}
	var st unix.Stat_t
	if err := unix.Fstatat(w.currentFD(), base, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return nil, err
	}
	top := path.Base(name)
	if name == "/" {
		top = "."
	}
	x := &exporter{w: w, links: make(map[inode]string), limit: r.Limit, left: r.Limit}
	if err := unix.ClockGettime(unix.CLOCK_REALTIME_COARSE, &x.start); err != nil {
		return nil, err
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		if base != "." {
			if _, err := w.stepInto(base, false); err != nil {
				return nil, err
			}
		}
		l, err := openDir(w.currentFD(), ".")
		if err != nil {
			return nil, err
		}
		return x.wrapSend(func() error {
			defer l.close()
			return x.exportDir(l, top, &st, 0)
		}), nil
	case unix.S_IFREG:
		fd, st, err := openRegular(w.currentFD(), base)
		if err != nil {
			return nil, err
		}
		return x.wrapSend(func() error { return x.exportFile(fd, top, &st) }), nil
	}
	return nil, newInvalid("it is not a file or directory")
}

// exporter writes files to a tar stream.
type exporter struct {
	w     *walker
	ctx   context.Context //nolint:containedctx // of the transfer
	d     *dataWriter
	tw    *tar.Writer
	buf   []byte
	links map[inode]string // first exported name of each file with several names

	// What was there at the start is exported once, and bounded by the disk that it is on. What
	// appears later could be the same files under other names: it is charged.
	limit int64         // bytes that may be charged; 0: no limit
	left  int64         // the rest of limit
	start unix.Timespec // of the export, by the clock of file times
	fresh bool          // the current directory is below one that was moved or created since
}

type inode struct{ dev, ino uint64 }

// maxHardLinks is the number of files with several names that are remembered.
const maxHardLinks = 1 << 17

func (x *exporter) wrapSend(f func() error) func(context.Context, *dataWriter) error {
	return func(ctx context.Context, d *dataWriter) error {
		x.ctx, x.d, x.tw = ctx, d, tar.NewWriter(d)
		if err := f(); err != nil {
			return err
		}
		return x.tw.Close()
	}
}

// tarTypes maps the exported kinds of files to their types in archives.
var tarTypes = map[uint32]byte{
	unix.S_IFDIR: tar.TypeDir, unix.S_IFREG: tar.TypeReg, unix.S_IFLNK: tar.TypeSymlink, unix.S_IFIFO: tar.TypeFifo,
}

// buildHeader returns the header of an entry.
func (x *exporter) buildHeader(name string, st *unix.Stat_t, link string) *tar.Header {
	h := &tar.Header{
		Typeflag: tarTypes[st.Mode&unix.S_IFMT], Name: name, Linkname: link, Mode: int64(st.Mode & 0o7777),
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
	return h
}

// writeHeader writes the header of an entry.
func (x *exporter) writeHeader(name string, st *unix.Stat_t, link string) error {
	return x.tw.WriteHeader(x.buildHeader(name, st, link))
}

// exportDir exports a directory tree.
func (x *exporter) exportDir(l *listing, name string, st *unix.Stat_t, depth int) error {
	if depth > maxDepth {
		return wrapPathError(name, unix.ENAMETOOLONG)
	}
	if err := x.writeHeader(name, st, ""); err != nil {
		return wrapPathError(name, err)
	}
	defer func(outer bool) { x.fresh = outer }(x.fresh)
	x.fresh = x.fresh || depth > 0 && x.isFresh(st)
	for {
		names, err := l.next()
		if err != nil || len(names) == 0 {
			return wrapPathError(name, err)
		}
		if err := context.Cause(x.ctx); err != nil {
			return err
		}
		for _, n := range names {
			err := x.exportEntry(l.fd, n, name+"/"+n, st.Dev, depth)
			if errors.Is(err, unix.ENOENT) {
				continue // removed meanwhile
			}
			if err != nil {
				return wrapPathError(name+"/"+n, err)
			}
		}
	}
}

// exportEntry exports an entry of a directory. An entry that changes its kind meanwhile is left
// out.
func (x *exporter) exportEntry(dir int, base, name string, dev uint64, depth int) error {
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
		if st.Dev != dev && isKernelFS(l.fd) {
			return x.writeHeader(name, &st, "")
		}
		return x.exportDir(l, name, &st, depth+1)
	case unix.S_IFREG:
		if st.Nlink > 1 && x.links[inode{st.Dev, st.Ino}] != "" {
			return x.writeHeader(name, &st, x.links[inode{st.Dev, st.Ino}])
		}
		fd, st, err := openSeenRegular(dir, base, dev)
		if err != nil {
			return err
		}
		return x.exportFile(fd, name, &st)
	case unix.S_IFLNK:
		buf := make([]byte, unix.PathMax)
		n, err := unix.Readlinkat(dir, base, buf)
		if err != nil || n == 0 {
			return err
		}
		return x.writeHeader(name, &st, string(buf[:n]))
	case unix.S_IFIFO:
		return x.writeHeader(name, &st, "")
	}
	return nil
}

// isKernelFS reports whether a directory belongs to a file system that only exposes kernel data.
func isKernelFS(fd int) bool {
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

// exportFile exports an open file and closes it. It writes exactly the size at the beginning: growth
// is cut off, and a file that shrinks is filled up with zeros. Holes stay holes.
func (x *exporter) exportFile(fd int, name string, st *unix.Stat_t) error {
	defer unix.Close(fd)
	id, again := inode{st.Dev, st.Ino}, false
	if st.Nlink > 1 {
		if first := x.links[id]; first != "" {
			return x.writeHeader(name, st, first)
		}
		if again = len(x.links) >= maxHardLinks; !again {
			x.links[id] = name
		}
	}
	segments := listSegments(fd, st)
	data := int64(0)
	for _, s := range segments {
		data += s.Length
	}
	charged := max(data-st.Blocks*512, 0) // holes that are sent as zeros
	if again || x.fresh || x.isFresh(st) {
		charged = data
	}
	if err := x.charge(charged); err != nil {
		return err
	}
	content := &fileContent{fd: fd}
	if data < st.Size {
		return sparse.WriteEntry(x.d, x.tw, x.buildHeader(name, st, ""), segments, content)
	}
	if err := x.writeHeader(name, st, ""); err != nil {
		return err
	}
	if x.buf == nil {
		x.buf = make([]byte, maxData)
	}
	_, err := io.CopyBuffer(x.tw, io.NewSectionReader(content, 0, st.Size), x.buf)
	return err
}

// isFresh reports whether a file was created, moved or changed since the start.
func (x *exporter) isFresh(st *unix.Stat_t) bool { return st.Ctim.Nano() >= x.start.Nano() }

// charge counts bytes against the limit.
func (x *exporter) charge(n int64) error {
	if x.limit <= 0 {
		return nil
	}
	if n > x.left {
		return fmt.Errorf("%w: files that changed during the export have more than %d bytes, the limit of the sandbox's disk", atoll.ErrQuota, x.limit)
	}
	x.left -= n
	return nil
}

// listSegments returns the parts of an open file that hold data. Without holes, or where the file
// system doesn't know them, this is the whole file.
func listSegments(fd int, st *unix.Stat_t) []sparse.Segment {
	whole := []sparse.Segment{{Length: st.Size}}
	if st.Blocks*512 >= st.Size {
		return whole
	}
	var list []sparse.Segment
	for at := int64(0); at < st.Size; {
		from, err := unix.Seek(fd, at, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			break // only a hole is left
		}
		if err != nil {
			return whole
		}
		to, err := unix.Seek(fd, from, unix.SEEK_HOLE)
		if err != nil {
			return whole
		}
		from, to = min(from, st.Size), min(to, st.Size)
		if from < to {
			list = append(list, sparse.Segment{Offset: from, Length: to - from})
		}
		at = to
		if len(list) >= 2*sparse.MaxSegments {
			list = sparse.Limit(list, sparse.MaxSegments)
		}
	}
	return sparse.Limit(list, sparse.MaxSegments)
}

// fileContent reads a file that other processes may change, with zeros after its end.
type fileContent struct{ fd int }

func (c *fileContent) ReadAt(p []byte, off int64) (int, error) {
	done := 0
	for done < len(p) {
		n, err := unix.Pread(c.fd, p[done:], off+int64(done))
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return done, err
		}
		if n == 0 {
			break
		}
		done += n
	}
	clear(p[done:])
	return len(p), nil
}
