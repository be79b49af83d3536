package ext4

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/atoll-sandbox/atoll"
)

// Names in an archive of a layer that remove files of the layers below.
const (
	whiteout      = ".wh."
	whiteoutMeta  = ".wh..wh."
	whiteoutWhole = ".wh..wh..opq"
)

// AddTar adds an archive to the file system, over its present content, like a layer of an image:
// whiteouts remove files of earlier calls. An archive that is broken or leads out of its root is
// ErrInvalid; one that does not fit is ErrQuota.
func (w *Writer) AddTar(ctx context.Context, archive io.Reader) error {
	w.layer++
	tr := tar.NewReader(archive)
	for {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return wrapArchiveError(err)
		}
		if err := w.addEntry(ctx, h, tr); err != nil {
			return fmt.Errorf("%q in the archive: %w", clipText(h.Name), wrapArchiveError(err))
		}
	}
}

// wrapArchiveError adds ErrInvalid to errors of a broken archive.
func wrapArchiveError(err error) error {
	if errors.Is(err, tar.ErrHeader) || errors.Is(err, tar.ErrFieldTooLong) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, tar.ErrInsecurePath) {
		return fmt.Errorf("%w: the archive is broken: %w", atoll.ErrInvalid, err)
	}
	return err
}

// addEntry adds an entry.
func (w *Writer) addEntry(ctx context.Context, h *tar.Header, content io.Reader) error {
	name, err := cleanName(h.Name)
	if err != nil {
		return err
	}
	if name == "." {
		if h.Typeflag != tar.TypeDir {
			return fmt.Errorf("%w: the root is not a directory", atoll.ErrInvalid)
		}
		w.root.attr = attrOf(h, typeDir)
		return nil
	}
	above, base := path.Split(name)
	dir, err := w.resolveDir(w.root, above, new(int))
	if err != nil {
		return err
	}
	if strings.HasPrefix(base, whiteout) {
		return w.applyWhiteout(dir, base)
	}
	switch h.Typeflag {
	case tar.TypeDir:
		return w.putDir(dir, base, attrOf(h, typeDir))
	case tar.TypeReg, tar.TypeGNUSparse, tar.TypeCont:
		return w.putFile(ctx, dir, base, h, content)
	case tar.TypeLink:
		n, err := w.resolveHardLink(h.Linkname)
		if err != nil || n == dir.children[base] {
			return err
		}
		return w.setChild(dir, base, n)
	}
	n, err := w.newSpecialNode(h)
	if err != nil || n == nil {
		return err
	}
	return w.setChild(dir, base, n)
}

// putFile adds a file with its content.
func (w *Writer) putFile(ctx context.Context, dir *node, name string, h *tar.Header, content io.Reader) error {
	n := &node{layer: w.layer, attr: attrOf(h, typeFile)}
	if err := w.setChild(dir, name, n); err != nil {
		return err
	}
	// Zeros take no space in an archive, but time to read.
	if room := w.g.blocks*BlockSize - w.bytes; h.Size < 0 || h.Size > room {
		return fmt.Errorf("a file of %d bytes: %w", h.Size, w.fullError())
	}
	w.bytes += h.Size
	if err := w.writeFileContent(ctx, n, content, h.Size); err != nil {
		return err
	}
	if n.size < h.Size {
		return io.ErrUnexpectedEOF
	}
	return nil
}

// newSpecialNode returns a node without content; nil if the entry is no file.
func (w *Writer) newSpecialNode(h *tar.Header) (*node, error) {
	n := &node{layer: w.layer}
	switch h.Typeflag {
	case tar.TypeSymlink:
		n.attr, n.target = attrOf(h, typeSymlink), h.Linkname
		n.mode = typeSymlink | 0o777
		return n, checkTarget(n.target)
	case tar.TypeChar:
		n.attr = attrOf(h, typeChar)
	case tar.TypeBlock:
		n.attr = attrOf(h, typeBlock)
	case tar.TypeFifo:
		n.attr = attrOf(h, typeFifo)
		return n, nil
	default: // global headers, and entries that are no files
		return nil, nil
	}
	n.major, n.minor = uint32(h.Devmajor), uint32(h.Devminor)
	return n, checkDevice(h.Devmajor, h.Devminor)
}

// putDir sets the attributes of a directory, and makes it if it is missing.
func (w *Writer) putDir(dir *node, name string, a attr) error {
	if have := dir.children[name]; have != nil && have.isDir() {
		have.attr, have.layer = a, w.layer
		return nil
	}
	if countDepth(dir) >= maxDepth {
		return fmt.Errorf("%w: more than %d nested directories", atoll.ErrInvalid, maxDepth)
	}
	d := w.newDir(dir)
	d.attr = a
	return w.setChild(dir, name, d)
}

// resolveHardLink returns the target of a hard link.
func (w *Writer) resolveHardLink(name string) (*node, error) {
	name, err := cleanName(name)
	if err != nil {
		return nil, err
	}
	above, base := path.Split(name)
	dir, err := w.resolveDir(w.root, above, new(int))
	if err != nil {
		return nil, err
	}
	n := dir.children[base]
	if n == nil || n.isDir() {
		return nil, fmt.Errorf("%w: hard link to %q, which is not a file", atoll.ErrInvalid, clipText(name))
	}
	return n, nil
}

// applyWhiteout removes files of lower layers.
func (w *Writer) applyWhiteout(dir *node, base string) error {
	if base == whiteoutWhole {
		w.removeLower(dir)
		return nil
	}
	victim := strings.TrimPrefix(base, whiteout)
	if strings.HasPrefix(base, whiteoutMeta) { // of AUFS
		return nil
	}
	if victim == "" || victim == "." || victim == ".." {
		return fmt.Errorf("%w: a whiteout of %q", atoll.ErrInvalid, victim)
	}
	n := dir.children[victim]
	if n == nil {
		return nil
	}
	if n.isDir() {
		w.removeLower(n)
	}
	if n.layer < w.layer && len(n.children) == 0 {
		w.removeChild(dir, victim)
	}
	return nil
}

// checkTarget returns an error if no symbolic link can have the target.
func checkTarget(target string) error {
	if target == "" || len(target) >= maxPath || strings.ContainsRune(target, 0) {
		return fmt.Errorf("%w: the target of a symbolic link has %d bytes", atoll.ErrInvalid, len(target))
	}
	return nil
}

// checkDevice returns an error if Linux has no such device number.
func checkDevice(major, minor int64) error {
	if major < 0 || major >= 1<<12 || minor < 0 || minor >= 1<<20 {
		return fmt.Errorf("%w: a device %d:%d", atoll.ErrInvalid, major, minor)
	}
	return nil
}

// attrOf returns the attributes in a header, for a file type.
func attrOf(h *tar.Header, kind uint32) attr {
	a := attr{mode: kind | uint32(h.Mode)&0o7777, uid: uint32(h.Uid), gid: uint32(h.Gid)}
	if t := h.ModTime; !t.IsZero() {
		a.sec, a.nsec = t.Unix(), uint32(t.Nanosecond())
	}
	for key, value := range h.PAXRecords {
		if name, ok := strings.CutPrefix(key, "SCHILY.xattr."); ok {
			if x, ok := parseXattr(name, value); ok {
				a.xattrs = append(a.xattrs, x)
			}
		}
	}
	a.sortXattrs()
	return a
}

// sortXattrs sorts attributes in the order in which they are stored.
func (a *attr) sortXattrs() {
	slices.SortFunc(a.xattrs, func(x, y xattr) int {
		if x.index != y.index {
			return int(x.index) - int(y.index)
		}
		if len(x.name) != len(y.name) {
			return len(x.name) - len(y.name)
		}
		return strings.Compare(x.name, y.name)
	})
}
