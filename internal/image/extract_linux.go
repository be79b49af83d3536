package image

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll"
)

// Names in a layer's archive that remove files of the layers below.
const (
	whiteout      = ".wh."
	whiteoutMeta  = ".wh..wh."
	whiteoutWhole = ".wh..wh..opq"
)

// Limits of a name.
const (
	maxPath  = 4096 // bytes
	maxLinks = 64   // symbolic links while a directory is resolved
)

// extractor unpacks one layer. It writes through root only, and resolves the layer's own links
// itself, so that no link leads outside.
type extractor struct {
	root   *os.Root
	limits Limits
	owners bool // set the owners of the archive
	first  int  // added to owners
	ids    int  // number of owners that exist; 0: any

	bytes     int64
	files     int
	dirs      map[string]*tar.Header // by name; their modes and times are set last
	dirBytes  int                    // memory that dirs need, about
	overrides map[string]Override    // by name
}

// extractLayer unpacks an archive into an empty directory. It returns the bytes of its files, and
// the attributes that the directory could not store.
func extractLayer(ctx context.Context, root *os.Root, archive io.Reader, limits Limits) (int64, map[string]Override, error) {
	if limits.Bytes == 0 {
		limits.Bytes = DefaultBytes
	}
	if limits.Files == 0 {
		limits.Files = DefaultFiles
	}
	x := &extractor{root: root, limits: limits, owners: os.Geteuid() == 0, overrides: make(map[string]Override)}
	err := x.extractAll(ctx, archive)
	return x.bytes, x.overrides, err
}

// ExtractOptions configure ExtractLayer.
type ExtractOptions struct {
	Limits  Limits // 0: math.MaxInt64 bytes and math.MaxInt files: the archive was bounded before
	FirstID int    // user and group of the host for number 0 of the archive
	IDs     int    // number of users and groups from FirstID on; an entry with another owner is ErrInvalid
}

// ExtractLayer unpacks the archive of a layer into an empty directory, in the form of overlayfs.
// Nothing is written outside of dir, whatever the archive contains.
func ExtractLayer(ctx context.Context, dir string, archive io.Reader, o ExtractOptions) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	o.Limits.Bytes, o.Limits.Files = cmp.Or(o.Limits.Bytes, math.MaxInt64), cmp.Or(o.Limits.Files, math.MaxInt)
	x := &extractor{root: root, limits: o.Limits, owners: os.Geteuid() == 0 && o.FirstID != 0, first: o.FirstID, ids: o.IDs}
	return x.extractAll(ctx, archive)
}

// extractAll unpacks an archive to its end.
func (x *extractor) extractAll(ctx context.Context, archive io.Reader) error {
	tr := tar.NewReader(archive)
	for {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return x.finishDirs()
		}
		if err != nil {
			return wrapArchiveError(err)
		}
		if err := x.shiftOwner(h); err != nil {
			return fmt.Errorf("%q in the layer: %w", clipText(h.Name), err)
		}
		if err := x.extractEntry(h, tr); err != nil {
			return fmt.Errorf("%q in the layer: %w", clipText(h.Name), err)
		}
	}
}

// shiftOwner changes the owner of an entry to that of the host.
func (x *extractor) shiftOwner(h *tar.Header) error {
	if x.ids == 0 {
		return nil
	}
	if h.Uid < 0 || h.Uid >= x.ids || h.Gid < 0 || h.Gid >= x.ids {
		return fmt.Errorf("%w: owner %d:%d: must be below %d", atoll.ErrInvalid, h.Uid, h.Gid, x.ids)
	}
	h.Uid, h.Gid = h.Uid+x.first, h.Gid+x.first
	return nil
}

// wrapArchiveError adds ErrInvalid to errors of a broken archive.
func wrapArchiveError(err error) error {
	if errors.Is(err, tar.ErrHeader) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, tar.ErrInsecurePath) {
		return fmt.Errorf("%w: the archive is broken: %w", atoll.ErrInvalid, err)
	}
	return err
}

// clipText shortens untrusted text.
func clipText(s string) string {
	if len(s) > 200 {
		return s[:200] + "…"
	}
	return s
}

// cleanName returns a name as a path below the root; "." is the root itself.
func cleanName(name string) (string, error) {
	if len(name) > maxPath || strings.ContainsRune(name, 0) {
		return "", fmt.Errorf("%w: the name has %d bytes", atoll.ErrInvalid, len(name))
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == ".." {
			return "", fmt.Errorf("%w: the name contains \"..\"", atoll.ErrInvalid)
		}
	}
	if p := strings.TrimPrefix(path.Clean("/"+name), "/"); p != "" {
		return p, nil
	}
	return ".", nil
}

// extractEntry unpacks one entry.
func (x *extractor) extractEntry(h *tar.Header, content io.Reader) error {
	name, err := cleanName(h.Name)
	if err != nil {
		return err
	}
	if x.files++; x.files > x.limits.Files {
		return fmt.Errorf("%w: more than %d files in a layer", atoll.ErrQuota, x.limits.Files)
	}
	dir, base := path.Split(name)
	dir, err = x.resolveDir(path.Clean(dir), new(int))
	if err != nil {
		return err
	}
	if strings.HasPrefix(base, whiteout) {
		return x.applyWhiteout(dir, base)
	}
	name = path.Join(dir, base)
	switch h.Typeflag {
	case tar.TypeGNUSparse, tar.TypeCont:
		h.Typeflag = tar.TypeReg
	case tar.TypeDir, tar.TypeReg, tar.TypeSymlink, tar.TypeLink, tar.TypeFifo:
	default: // devices would be the host's; sockets have no use
		return nil
	}
	if err := x.makeEntry(name, h, content); err != nil {
		return wrapDiskFull(err)
	}
	return nil
}

// wrapDiskFull adds ErrQuota to the error of a full disk.
func wrapDiskFull(err error) error {
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		return fmt.Errorf("%w: %w", atoll.ErrQuota, err)
	}
	return err
}

// resolveDir makes a directory and its missing parents, and returns its path without links;
// absolute links begin at the root. links counts the links that were followed.
func (x *extractor) resolveDir(name string, links *int) (string, error) {
	done := "."
	for part := range strings.SplitSeq(name, "/") {
		switch part {
		case "", ".":
			continue
		case "..":
			done = path.Dir(done) // the parent of "." is "."
			continue
		}
		if strings.HasPrefix(part, whiteout) {
			return "", fmt.Errorf("%w: a directory is named like a whiteout", atoll.ErrInvalid)
		}
		next := path.Join(done, part)
		info, err := x.root.Lstat(next)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			err = x.mkdirCounted(next)
		case err != nil:
		case info.Mode()&fs.ModeSymlink != 0:
			if *links++; *links > maxLinks {
				return "", fmt.Errorf("%w: too many symbolic links", atoll.ErrInvalid)
			}
			var target string
			if target, err = x.root.Readlink(next); err != nil {
				break
			}
			if !path.IsAbs(target) {
				target = done + "/" + target // not cleaned: ".." applies after links are resolved
			}
			next, err = x.resolveDir(target, links)
		case !info.IsDir():
			err = x.removeExisting(next)
			if err == nil {
				err = x.mkdirCounted(next)
			}
		}
		if err != nil {
			return "", wrapDiskFull(err)
		}
		done = next
	}
	return done, nil
}

func (x *extractor) mkdirCounted(name string) error {
	if x.files++; x.files > x.limits.Files {
		return fmt.Errorf("%w: more than %d files in a layer", atoll.ErrQuota, x.limits.Files)
	}
	if err := x.root.Mkdir(name, 0o755); err != nil {
		return err
	}
	return x.chownToFirst(name)
}

// chownToFirst gives a file that the archive has no owner for to user 0 of the sandbox.
func (x *extractor) chownToFirst(name string) error {
	if !x.owners || x.ids == 0 {
		return nil
	}
	return x.root.Lchown(name, x.first, x.first)
}

// removeExisting removes the file or directory that an entry replaces.
func (x *extractor) removeExisting(name string) error {
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

// makeEntry makes a file, directory or link.
func (x *extractor) makeEntry(name string, h *tar.Header, content io.Reader) error {
	if h.Typeflag == tar.TypeDir {
		return x.makeDir(name, h)
	}
	if name == "." {
		return fmt.Errorf("%w: the root is not a directory", atoll.ErrInvalid)
	}
	target := ""
	if h.Typeflag == tar.TypeLink {
		var err error
		if target, err = x.resolveLinkTarget(h.Linkname); err != nil || target == name {
			return err
		}
	}
	if err := x.removeExisting(name); err != nil {
		return err
	}
	if h.Typeflag == tar.TypeLink {
		if l, ok := x.overrides[target]; ok {
			x.overrides[name] = l
		}
		return x.root.Link(target, name)
	}
	if err := x.recordOverride(name, h); err != nil {
		return err
	}
	switch h.Typeflag {
	case tar.TypeReg:
		return x.writeFile(name, h, content)
	case tar.TypeSymlink:
		if len(h.Linkname) > maxPath {
			return fmt.Errorf("%w: a link of %d bytes", atoll.ErrInvalid, len(h.Linkname))
		}
		if err := x.root.Symlink(h.Linkname, name); err != nil || !x.owners {
			return err
		}
		return x.ignoreOwnerError(x.root.Lchown(name, h.Uid, h.Gid))
	default: // a FIFO
		return x.makeNode(name, unix.S_IFIFO, h)
	}
}

// resolveLinkTarget returns the path of a hard link's target, which must exist.
func (x *extractor) resolveLinkTarget(name string) (string, error) {
	name, err := cleanName(name)
	if err != nil {
		return "", err
	}
	dir, base := path.Split(name)
	if dir, err = x.resolveDir(path.Clean(dir), new(int)); err != nil {
		return "", err
	}
	name = path.Join(dir, base)
	info, err := x.root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) || err == nil && (info.IsDir() || info.Mode()&fs.ModeDevice != 0) {
		return "", fmt.Errorf("%w: hard link to %q, which is not a file of the layer", atoll.ErrInvalid, clipText(name))
	}
	return name, err
}

// ignoreOwnerError drops errors about owners that do not exist in a user namespace.
func (x *extractor) ignoreOwnerError(err error) error {
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EINVAL) {
		return nil
	}
	return err
}

func (x *extractor) makeDir(name string, h *tar.Header) error {
	if err := x.rememberDir(name, h); err != nil {
		return err
	}
	if err := x.recordOverride(name, h); err != nil {
		return err
	}
	info, err := x.root.Lstat(name)
	if err == nil && info.IsDir() {
		return nil
	}
	hidden := err == nil && info.Mode()&fs.ModeCharDevice != 0 // an earlier whiteout
	if err := x.removeExisting(name); err != nil {
		return err
	}
	if err := x.root.Mkdir(name, 0o755); err != nil {
		return err
	}
	if hidden {
		return x.markOpaque(name)
	}
	return nil
}

// maxDirBytes limits the memory for the directories of an archive, whose attributes are kept until its end: a few
// megabytes, compressed, can have millions with names and attributes of many kilobytes.
const maxDirBytes = 256 << 20

// dirCost is the memory for a directory besides its name and attributes.
const dirCost = 400

// rememberDir keeps the attributes of a directory until the end. The last entry of a name counts.
func (x *extractor) rememberDir(name string, h *tar.Header) error {
	cost := func(h *tar.Header) int {
		n := dirCost + len(h.Name)
		for k, v := range h.PAXRecords {
			n += len(k) + len(v)
		}
		return n
	}
	kept := &tar.Header{Name: name, Typeflag: tar.TypeDir, Mode: h.Mode, Uid: h.Uid, Gid: h.Gid, ModTime: h.ModTime}
	for k, v := range h.PAXRecords {
		if strings.HasPrefix(k, xattrPrefix) {
			if kept.PAXRecords == nil {
				kept.PAXRecords = make(map[string]string)
			}
			kept.PAXRecords[k] = v
		}
	}
	if before := x.dirs[name]; before != nil {
		x.dirBytes -= cost(before)
	}
	if x.dirBytes += cost(kept); x.dirBytes > maxDirBytes {
		return fmt.Errorf("%w: the names and attributes of the directories of a layer have more than %d bytes", atoll.ErrQuota, maxDirBytes)
	}
	if x.dirs == nil {
		x.dirs = make(map[string]*tar.Header)
	}
	x.dirs[name] = kept
	return nil
}

// xattrPrefix begins the names of records that are extended attributes.
const xattrPrefix = "SCHILY.xattr."

func (x *extractor) writeFile(name string, h *tar.Header, content io.Reader) (err error) {
	if x.bytes += h.Size; h.Size < 0 || x.bytes > x.limits.Bytes || x.bytes < 0 {
		return fmt.Errorf("%w: more than %d bytes in a layer", atoll.ErrQuota, x.limits.Bytes)
	}
	f, err := x.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := copySparse(f, content, h.Size); err != nil {
		return wrapArchiveError(err)
	}
	return x.setAttributes(f, h)
}

// holeSize is the size of holes: as file systems have them, so that no file needs more space than it did.
const holeSize = 4 << 10

// copySparse writes content, with holes instead of zeros.
func copySparse(f *os.File, content io.Reader, size int64) error {
	var buf [64 << 10]byte
	var zero [holeSize]byte
	for at := int64(0); ; {
		n, err := io.ReadFull(content, buf[:])
		for from := 0; from < n; {
			to := from // the end of what is no hole
			for to < n && !bytes.Equal(buf[to:min(to+holeSize, n)], zero[:min(holeSize, n-to)]) {
				to = min(to+holeSize, n)
			}
			if to > from {
				if _, err := f.WriteAt(buf[from:to], at+int64(from)); err != nil {
					return err
				}
			}
			from = to + holeSize // a hole, or the end
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

// setAttributes sets owner, mode, extended attributes and time of a file or directory.
func (x *extractor) setAttributes(f *os.File, h *tar.Header) error {
	if x.owners {
		if err := x.ignoreOwnerError(f.Chown(h.Uid, h.Gid)); err != nil {
			return err
		}
	}
	if err := unix.Fchmod(int(f.Fd()), x.storedMode(h)); err != nil {
		return err
	}
	for key, value := range h.PAXRecords {
		attr, ok := strings.CutPrefix(key, xattrPrefix)
		if !ok || !strings.HasPrefix(attr, "user.") || strings.HasPrefix(attr, "user.overlay.") {
			continue // no capabilities, and no attributes of overlayfs
		}
		if err := unix.Fsetxattr(int(f.Fd()), attr, []byte(value), 0); err != nil && !errors.Is(err, unix.EOPNOTSUPP) && !errors.Is(err, unix.E2BIG) && !errors.Is(err, unix.ERANGE) {
			return err
		}
	}
	return setTime(f, h.ModTime)
}

// setTime sets the modification time. A time that the file system can't store is ignored.
func setTime(f *os.File, t time.Time) error {
	ts, err := unix.TimeToTimespec(t)
	if err != nil {
		return nil
	}
	tv := []unix.Timeval{unix.NsecToTimeval(ts.Nano()), unix.NsecToTimeval(ts.Nano())}
	return ignoreError(unix.Futimes(int(f.Fd()), tv), unix.EINVAL)
}

// makeNode makes a FIFO, or the character device 0/0, which every user may make: it is a whiteout.
func (x *extractor) makeNode(name string, kind uint32, h *tar.Header) error {
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
	if h == nil {
		return x.chownToFirst(name)
	}
	if !x.owners {
		return nil
	}
	return x.ignoreOwnerError(x.root.Lchown(name, h.Uid, h.Gid))
}

// applyWhiteout hides a file of the layers below. Files of the same layer stay.
func (x *extractor) applyWhiteout(dir, base string) error {
	if base == whiteoutWhole {
		return x.markOpaque(dir)
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
		return wrapDiskFull(x.makeNode(name, unix.S_IFCHR, nil))
	case err != nil:
		return err
	case info.IsDir():
		return x.markOpaque(name)
	}
	return nil
}

// markOpaque hides the content of a directory in the layers below.
func (x *extractor) markOpaque(name string) error {
	f, err := x.root.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	const yes = "y"
	err = unix.Fsetxattr(int(f.Fd()), "user.overlay.opaque", []byte(yes), 0)
	if trusted := unix.Fsetxattr(int(f.Fd()), "trusted.overlay.opaque", []byte(yes), 0); trusted == nil {
		return ignoreError(err, unix.EOPNOTSUPP)
	}
	if err != nil {
		return fmt.Errorf("%w: the images' directory is on a file system without extended attributes: %w", atoll.ErrUnavailable, err)
	}
	return nil
}

// finishDirs sets owners, modes and times of the directories, inner ones first.
func (x *extractor) finishDirs() error {
	names := slices.SortedFunc(maps.Keys(x.dirs), func(a, b string) int { return len(b) - len(a) })
	for _, name := range names {
		info, err := x.root.Lstat(name)
		if err != nil || !info.IsDir() { // a later entry replaced it
			continue
		}
		if err := x.finishDir(x.dirs[name]); err != nil {
			return fmt.Errorf("%q in the layer: %w", clipText(name), err)
		}
	}
	return nil
}

func (x *extractor) finishDir(h *tar.Header) error {
	f, err := x.root.Open(h.Name)
	if err != nil {
		return err
	}
	return errors.Join(x.setAttributes(f, h), f.Close())
}
