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

// What a layer's archive calls the removal of what lies below it.
const (
	whiteout      = ".wh."
	whiteoutMeta  = ".wh..wh."
	whiteoutWhole = ".wh..wh..opq"
)

// Tar lays an archive over what is there, as layers of images are: whiteouts
// remove what earlier calls put in. An archive that leads out of its root, or is
// none, is ErrInvalid; one with more than there is room for ErrQuota.
func (w *Writer) Tar(ctx context.Context, archive io.Reader) error {
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
			return broken(err)
		}
		if err := w.entry(ctx, h, tr); err != nil {
			return fmt.Errorf("%q in the archive: %w", clip(h.Name), broken(err))
		}
	}
}

// broken says that an archive is no archive; other errors are what they are.
func broken(err error) error {
	if errors.Is(err, tar.ErrHeader) || errors.Is(err, tar.ErrFieldTooLong) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, tar.ErrInsecurePath) {
		return fmt.Errorf("%w: the archive is broken: %w", atoll.ErrInvalid, err)
	}
	return err
}

// entry puts one entry in.
func (w *Writer) entry(ctx context.Context, h *tar.Header, content io.Reader) error {
	name, err := clean(h.Name)
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
	dir, err := w.directory(w.root, above, new(int))
	if err != nil {
		return err
	}
	if strings.HasPrefix(base, whiteout) {
		return w.whiteout(dir, base)
	}
	switch h.Typeflag {
	case tar.TypeDir:
		return w.putDir(dir, base, attrOf(h, typeDir))
	case tar.TypeReg, tar.TypeGNUSparse, tar.TypeCont:
		return w.putFile(ctx, dir, base, h, content)
	case tar.TypeLink:
		n, err := w.linked(h.Linkname)
		if err != nil || n == dir.children[base] {
			return err
		}
		return w.set(dir, base, n)
	}
	n, err := w.special(h)
	if err != nil || n == nil {
		return err
	}
	return w.set(dir, base, n)
}

// putFile puts a file with its content in.
func (w *Writer) putFile(ctx context.Context, dir *node, name string, h *tar.Header, content io.Reader) error {
	n := &node{layer: w.layer, attr: attrOf(h, typeFile)}
	if err := w.set(dir, name, n); err != nil {
		return err
	}
	// Zeros cost an archive nothing, but time to read.
	if room := w.g.blocks*BlockSize - w.bytes; h.Size < 0 || h.Size > room {
		return fmt.Errorf("a file of %d bytes: %w", h.Size, w.full())
	}
	w.bytes += h.Size
	if err := w.content(ctx, n, content, h.Size); err != nil {
		return err
	}
	if n.size < h.Size {
		return io.ErrUnexpectedEOF
	}
	return nil
}

// special makes what has no content; nil: it is no file.
func (w *Writer) special(h *tar.Header) (*node, error) {
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
	default: // global headers, and what is no file
		return nil, nil
	}
	n.major, n.minor = uint32(h.Devmajor), uint32(h.Devminor)
	return n, checkDevice(h.Devmajor, h.Devminor)
}

// putDir describes a directory, which is made if there is none.
func (w *Writer) putDir(dir *node, name string, a attr) error {
	if have := dir.children[name]; have != nil && have.isDir() {
		have.attr, have.layer = a, w.layer
		return nil
	}
	if depth(dir) >= mostDepth {
		return fmt.Errorf("%w: more than %d directories in each other", atoll.ErrInvalid, mostDepth)
	}
	d := w.newDir(dir)
	d.attr = a
	return w.set(dir, name, d)
}

// linked returns the file that a hard link is to be to.
func (w *Writer) linked(name string) (*node, error) {
	name, err := clean(name)
	if err != nil {
		return nil, err
	}
	above, base := path.Split(name)
	dir, err := w.directory(w.root, above, new(int))
	if err != nil {
		return nil, err
	}
	n := dir.children[base]
	if n == nil || n.isDir() {
		return nil, fmt.Errorf("%w: a hard link to %q, which is no file", atoll.ErrInvalid, clip(name))
	}
	return n, nil
}

// whiteout removes what lower layers put there.
func (w *Writer) whiteout(dir *node, base string) error {
	if base == whiteoutWhole {
		w.prune(dir)
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
		w.prune(n)
	}
	if n.layer < w.layer && len(n.children) == 0 {
		w.remove(dir, victim)
	}
	return nil
}

// checkTarget reports a symbolic link that none can be.
func checkTarget(target string) error {
	if target == "" || len(target) >= mostPath || strings.ContainsRune(target, 0) {
		return fmt.Errorf("%w: a symbolic link of %d bytes", atoll.ErrInvalid, len(target))
	}
	return nil
}

// checkDevice reports numbers that Linux doesn't know.
func checkDevice(major, minor int64) error {
	if major < 0 || major >= 1<<12 || minor < 0 || minor >= 1<<20 {
		return fmt.Errorf("%w: a device %d:%d", atoll.ErrInvalid, major, minor)
	}
	return nil
}

// attrOf takes from a header what a file of a type has.
func attrOf(h *tar.Header, kind uint32) attr {
	a := attr{mode: kind | uint32(h.Mode)&0o7777, uid: uint32(h.Uid), gid: uint32(h.Gid)}
	if t := h.ModTime; !t.IsZero() {
		a.sec, a.nsec = t.Unix(), uint32(t.Nanosecond())
	}
	for key, value := range h.PAXRecords {
		if name, ok := strings.CutPrefix(key, "SCHILY.xattr."); ok {
			if x, ok := attribute(name, value); ok {
				a.xattrs = append(a.xattrs, x)
			}
		}
	}
	a.sortXattrs()
	return a
}

// sortXattrs puts attributes into the order that they are kept in.
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
