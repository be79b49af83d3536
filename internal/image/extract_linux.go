package image

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll"
)

// What a layer's archive calls the removal of what lies below it.
const (
	whiteout      = ".wh."
	whiteoutMeta  = ".wh..wh."
	whiteoutWhole = ".wh..wh..opq"
)

// Bounds of one name.
const (
	mostPath  = 4096 // bytes
	mostLinks = 64   // symbolic links on the way to a directory
)

// extractor unpacks one layer. It writes through root only, and follows the
// layer's own links by itself, so that none leads anywhere else.
type extractor struct {
	root   *os.Root
	limits Limits
	owners bool // owners are those of the archive

	bytes int64
	files int
	dirs  []*tar.Header   // whose modes and times are set last
	lost  map[string]Lost // by name
}

// extract unpacks an archive into an empty directory and returns the bytes of
// its files, and what that directory doesn't hold of them.
func extract(ctx context.Context, root *os.Root, archive io.Reader, limits Limits) (int64, map[string]Lost, error) {
	if limits.Bytes == 0 {
		limits.Bytes = DefaultBytes
	}
	if limits.Files == 0 {
		limits.Files = DefaultFiles
	}
	x := &extractor{root: root, limits: limits, owners: os.Geteuid() == 0, lost: make(map[string]Lost)}
	tr := tar.NewReader(archive)
	for {
		if err := context.Cause(ctx); err != nil {
			return 0, nil, err
		}
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return x.bytes, x.lost, x.finish()
		}
		if err != nil {
			return 0, nil, broken(err)
		}
		if err := x.entry(h, tr); err != nil {
			return 0, nil, fmt.Errorf("%q in the layer: %w", clip(h.Name), err)
		}
	}
}

// broken says that an archive is no archive; other errors are what they are.
func broken(err error) error {
	if errors.Is(err, tar.ErrHeader) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, tar.ErrInsecurePath) {
		return fmt.Errorf("%w: the archive is broken: %w", atoll.ErrInvalid, err)
	}
	return err
}

// clip shortens what a stranger wrote.
func clip(s string) string {
	if len(s) > 200 {
		return s[:200] + "…"
	}
	return s
}

// clean returns a name as a path below the root: "." for the root itself.
func clean(name string) (string, error) {
	if len(name) > mostPath || strings.ContainsRune(name, 0) {
		return "", fmt.Errorf("%w: a name of %d bytes", atoll.ErrInvalid, len(name))
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == ".." {
			return "", fmt.Errorf("%w: the name leads out", atoll.ErrInvalid)
		}
	}
	if p := strings.TrimPrefix(path.Clean("/"+name), "/"); p != "" {
		return p, nil
	}
	return ".", nil
}

// entry unpacks one entry.
func (x *extractor) entry(h *tar.Header, content io.Reader) error {
	name, err := clean(h.Name)
	if err != nil {
		return err
	}
	if x.files++; x.files > x.limits.Files {
		return fmt.Errorf("%w: more than %d files in a layer", atoll.ErrQuota, x.limits.Files)
	}
	dir, base := path.Split(name)
	dir, err = x.directory(path.Clean(dir), new(int))
	if err != nil {
		return err
	}
	if strings.HasPrefix(base, whiteout) {
		return x.whiteout(dir, base)
	}
	name = path.Join(dir, base)
	switch h.Typeflag {
	case tar.TypeGNUSparse, tar.TypeCont:
		h.Typeflag = tar.TypeReg
	case tar.TypeDir, tar.TypeReg, tar.TypeSymlink, tar.TypeLink, tar.TypeFifo:
	default: // devices would be the host's; sockets are nobody's
		return nil
	}
	if err := x.make(name, h, content); err != nil {
		return quota(err)
	}
	return nil
}

// quota says that a full disk is one.
func quota(err error) error {
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		return fmt.Errorf("%w: %w", atoll.ErrQuota, err)
	}
	return err
}

// directory makes a directory and those above it where they are missing, and
// returns its path without links: an absolute one begins at the root. links
// counts the links on the way.
func (x *extractor) directory(name string, links *int) (string, error) {
	done := "."
	for part := range strings.SplitSeq(name, "/") {
		switch part {
		case "", ".":
			continue
		case "..":
			done = path.Dir(done) // that of "." is "."
			continue
		}
		if strings.HasPrefix(part, whiteout) {
			return "", fmt.Errorf("%w: a directory with the name of a whiteout", atoll.ErrInvalid)
		}
		next := path.Join(done, part)
		info, err := x.root.Lstat(next)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			err = x.mkdir(next)
		case err != nil:
		case info.Mode()&fs.ModeSymlink != 0:
			if *links++; *links > mostLinks {
				return "", fmt.Errorf("%w: too many symbolic links", atoll.ErrInvalid)
			}
			var target string
			if target, err = x.root.Readlink(next); err != nil {
				break
			}
			if !path.IsAbs(target) {
				target = done + "/" + target // not cleaned: ".." counts after links
			}
			next, err = x.directory(target, links)
		case !info.IsDir():
			err = x.replace(next)
			if err == nil {
				err = x.mkdir(next)
			}
		}
		if err != nil {
			return "", quota(err)
		}
		done = next
	}
	return done, nil
}

func (x *extractor) mkdir(name string) error {
	if x.files++; x.files > x.limits.Files {
		return fmt.Errorf("%w: more than %d files in a layer", atoll.ErrQuota, x.limits.Files)
	}
	return x.root.Mkdir(name, 0o755)
}

// replace removes what an entry takes the place of.
func (x *extractor) replace(name string) error {
	info, err := x.root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.IsDir() {
		return x.root.RemoveAll(name)
	}
	return x.root.Remove(name)
}

// make makes a file, directory or link.
func (x *extractor) make(name string, h *tar.Header, content io.Reader) error {
	if h.Typeflag == tar.TypeDir {
		return x.makeDir(name, h)
	}
	if name == "." {
		return fmt.Errorf("%w: the root is not a directory", atoll.ErrInvalid)
	}
	target := ""
	if h.Typeflag == tar.TypeLink {
		var err error
		if target, err = x.linked(h.Linkname); err != nil || target == name {
			return err
		}
	}
	if err := x.replace(name); err != nil {
		return err
	}
	if h.Typeflag == tar.TypeLink {
		if l, ok := x.lost[target]; ok {
			x.lost[name] = l
		}
		return x.root.Link(target, name)
	}
	if err := x.lose(name, h); err != nil {
		return err
	}
	switch h.Typeflag {
	case tar.TypeReg:
		return x.file(name, h, content)
	case tar.TypeSymlink:
		if len(h.Linkname) > mostPath {
			return fmt.Errorf("%w: a link of %d bytes", atoll.ErrInvalid, len(h.Linkname))
		}
		if err := x.root.Symlink(h.Linkname, name); err != nil || !x.owners {
			return err
		}
		return x.own(x.root.Lchown(name, h.Uid, h.Gid))
	default: // a FIFO
		return x.node(name, unix.S_IFIFO, h)
	}
}

// linked returns the path of a hard link's target, which must be there.
func (x *extractor) linked(name string) (string, error) {
	name, err := clean(name)
	if err != nil {
		return "", err
	}
	dir, base := path.Split(name)
	if dir, err = x.directory(path.Clean(dir), new(int)); err != nil {
		return "", err
	}
	name = path.Join(dir, base)
	info, err := x.root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) || err == nil && (info.IsDir() || info.Mode()&fs.ModeDevice != 0) {
		return "", fmt.Errorf("%w: a hard link to %q, which is no file of the layer", atoll.ErrInvalid, clip(name))
	}
	return name, err
}

// own passes over that owners can't be given in a user namespace.
func (x *extractor) own(err error) error {
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EINVAL) {
		return nil
	}
	return err
}

func (x *extractor) makeDir(name string, h *tar.Header) error {
	h.Name = name
	x.dirs = append(x.dirs, h)
	if err := x.lose(name, h); err != nil {
		return err
	}
	info, err := x.root.Lstat(name)
	if err == nil && info.IsDir() {
		return nil
	}
	hidden := err == nil && info.Mode()&fs.ModeCharDevice != 0 // a whiteout came first
	if err := x.replace(name); err != nil {
		return err
	}
	if err := x.root.Mkdir(name, 0o755); err != nil {
		return err
	}
	if hidden {
		return x.opaque(name)
	}
	return nil
}

func (x *extractor) file(name string, h *tar.Header, content io.Reader) (err error) {
	if x.bytes += h.Size; h.Size < 0 || x.bytes > x.limits.Bytes || x.bytes < 0 {
		return fmt.Errorf("%w: more than %d bytes in a layer", atoll.ErrQuota, x.limits.Bytes)
	}
	f, err := x.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := copySparse(f, content, h.Size); err != nil {
		return broken(err)
	}
	return x.dress(f, h)
}

// copySparse writes content and leaves holes where it is zero.
func copySparse(f *os.File, content io.Reader, size int64) error {
	var buf, zero [64 << 10]byte
	for at := int64(0); ; {
		n, err := io.ReadFull(content, buf[:])
		if n > 0 && !bytes.Equal(buf[:n], zero[:n]) {
			if _, err := f.WriteAt(buf[:n], at); err != nil {
				return err
			}
		}
		at += int64(n)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) && at == size {
			return f.Truncate(size)
		}
		if err != nil {
			return err
		}
	}
}

// dress gives a file or directory its owner, mode, attributes and time.
func (x *extractor) dress(f *os.File, h *tar.Header) error {
	if x.owners {
		if err := x.own(f.Chown(h.Uid, h.Gid)); err != nil {
			return err
		}
	}
	if err := unix.Fchmod(int(f.Fd()), x.mode(h)); err != nil {
		return err
	}
	for key, value := range h.PAXRecords {
		attr, ok := strings.CutPrefix(key, "SCHILY.xattr.")
		if !ok || !strings.HasPrefix(attr, "user.") || strings.HasPrefix(attr, "user.overlay.") {
			continue // neither capabilities nor what means something to overlayfs
		}
		if err := unix.Fsetxattr(int(f.Fd()), attr, []byte(value), 0); err != nil && !errors.Is(err, unix.EOPNOTSUPP) && !errors.Is(err, unix.E2BIG) && !errors.Is(err, unix.ERANGE) {
			return err
		}
	}
	return setTime(f, h.ModTime)
}

// setTime sets the time of change; one that no file system knows is passed over.
func setTime(f *os.File, t time.Time) error {
	ts, err := unix.TimeToTimespec(t)
	if err != nil {
		return nil
	}
	tv := []unix.Timeval{unix.NsecToTimeval(ts.Nano()), unix.NsecToTimeval(ts.Nano())}
	return ignore(unix.Futimes(int(f.Fd()), tv), unix.EINVAL)
}

// node makes a FIFO, or a device with the number 0/0: the one that everyone
// may make, which is a whiteout.
func (x *extractor) node(name string, kind uint32, h *tar.Header) error {
	dir, err := x.root.Open(path.Dir(name))
	if err != nil {
		return err
	}
	defer dir.Close()
	mode := uint32(0)
	if h != nil {
		mode = uint32(h.Mode & 0o777)
	}
	if err := unix.Mknodat(int(dir.Fd()), path.Base(name), kind|mode, 0); err != nil {
		return &fs.PathError{Op: "mknod", Path: name, Err: err}
	}
	if h == nil || !x.owners {
		return nil
	}
	return x.own(x.root.Lchown(name, h.Uid, h.Gid))
}

// whiteout removes what lies below. It doesn't touch what the same layer has.
func (x *extractor) whiteout(dir, base string) error {
	if base == whiteoutWhole {
		return x.opaque(dir)
	}
	victim := strings.TrimPrefix(base, whiteout)
	if strings.HasPrefix(base, whiteoutMeta) { // of AUFS
		return nil
	}
	if victim == "" || victim == "." || victim == ".." {
		return fmt.Errorf("%w: a whiteout of %q", atoll.ErrInvalid, victim)
	}
	name := path.Join(dir, victim)
	info, err := x.root.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return quota(x.node(name, unix.S_IFCHR, nil))
	case err != nil:
		return err
	case info.IsDir():
		return x.opaque(name)
	}
	return nil
}

// opaque lets nothing of the layers below be seen in a directory.
func (x *extractor) opaque(name string) error {
	f, err := x.root.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	const yes = "y"
	err = unix.Fsetxattr(int(f.Fd()), "user.overlay.opaque", []byte(yes), 0)
	if trusted := unix.Fsetxattr(int(f.Fd()), "trusted.overlay.opaque", []byte(yes), 0); trusted == nil {
		return ignore(err, unix.EOPNOTSUPP)
	}
	if err != nil {
		return fmt.Errorf("%w: the images' directory is on a file system without extended attributes: %w", atoll.ErrUnavailable, err)
	}
	return nil
}

// finish gives the directories their owners, modes and times: the last of a
// name counts, and inner ones come first.
func (x *extractor) finish() error {
	last := make(map[string]*tar.Header)
	for _, h := range x.dirs {
		last[h.Name] = h
	}
	names := slices.SortedFunc(maps.Keys(last), func(a, b string) int { return len(b) - len(a) })
	for _, name := range names {
		info, err := x.root.Lstat(name)
		if err != nil || !info.IsDir() { // a later entry took its place
			continue
		}
		if err := x.finishDir(last[name]); err != nil {
			return fmt.Errorf("%q in the layer: %w", clip(name), err)
		}
	}
	return nil
}

func (x *extractor) finishDir(h *tar.Header) error {
	f, err := x.root.Open(h.Name)
	if err != nil {
		return err
	}
	return errors.Join(x.dress(f, h), f.Close())
}
