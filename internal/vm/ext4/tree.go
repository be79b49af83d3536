package ext4

import (
	"fmt"
	"iter"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/atoll-sandbox/atoll"
)

// File types, as in modes.
const (
	typeMask    = 0o170000
	typeFifo    = 0o010000
	typeChar    = 0o020000
	typeDir     = 0o040000
	typeBlock   = 0o060000
	typeFile    = 0o100000
	typeSymlink = 0o120000
	typeSocket  = 0o140000
)

// Limits of Linux for names, links and directories.
const (
	maxName      = 255
	maxPath      = 4096 // bytes
	maxLinks     = 40   // symbolic links while a directory is resolved
	maxDepth     = 1000 // nested directories
	maxHardLinks = 65000
)

// attr has the attributes of a file.
type attr struct {
	mode     uint32 // with the file type
	uid, gid uint32
	sec      int64 // modification time
	nsec     uint32
	xattrs   []xattr
}

type xattr struct {
	index byte   // code of the name's prefix
	name  string // without the prefix
	value string
}

// node is a file of any type. Hard links are one node with several names.
type node struct {
	attr
	children map[string]*node // of a directory
	parent   *node            // of a directory; the root is its own parent
	layer    int              // the layer that added it

	size         int64
	extents      []extent
	target       string // of a symbolic link
	major, minor uint32 // of a device

	links int
	inode uint32
}

func (n *node) isDir() bool { return n.mode&typeMask == typeDir }

// sortedChildren iterates over a directory's children in the order in which they are written.
func (n *node) sortedChildren() iter.Seq2[string, *node] {
	return func(yield func(string, *node) bool) {
		for _, name := range slices.Sorted(maps.Keys(n.children)) {
			if !yield(name, n.children[name]) {
				return
			}
		}
	}
}

// newDir returns a directory with default attributes, for a parent without an entry.
func (w *Writer) newDir(parent *node) *node {
	d := &node{attr: attr{mode: typeDir | 0o755, sec: w.now}, children: make(map[string]*node), layer: w.layer}
	d.parent = parent
	if parent == nil {
		d.parent = d
	}
	return d
}

// setChild adds or replaces a child of a directory.
func (w *Writer) setChild(dir *node, name string, n *node) error {
	if name == "" || len(name) > maxName || strings.ContainsAny(name, "/\x00") || name == "." || name == ".." {
		return fmt.Errorf("%w: the name has %d bytes: must be from 1 to %d, without NUL", atoll.ErrInvalid, len(name), maxName)
	}
	if w.names++; w.names > w.maxNames {
		return fmt.Errorf("%w: more than %d files", atoll.ErrQuota, w.maxNames)
	}
	w.removeChild(dir, name)
	n.links++
	if n.links > maxHardLinks && !n.isDir() {
		return fmt.Errorf("%w: more than %d hard links to a file", atoll.ErrInvalid, maxHardLinks)
	}
	dir.children[name] = n
	return nil
}

// removeChild removes a child with all its descendants, if it exists.
func (w *Writer) removeChild(dir *node, name string) {
	n := dir.children[name]
	if n == nil {
		return
	}
	delete(dir.children, name)
	for _, name := range slices.Collect(maps.Keys(n.children)) {
		w.removeChild(n, name)
	}
	if n.links--; n.links > 0 {
		return
	}
	for _, e := range n.extents {
		w.freeExtent(e)
	}
	n.extents = nil
}

// removeLower removes the files of lower layers below a directory, except directories with files of
// this layer.
func (w *Writer) removeLower(dir *node) {
	for _, name := range slices.Collect(maps.Keys(dir.children)) {
		n := dir.children[name]
		if n.isDir() {
			w.removeLower(n)
		}
		if n.layer < w.layer && len(n.children) == 0 {
			w.removeChild(dir, name)
		}
	}
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

// resolveDir returns the directory of a path. It follows the links of the tree, and makes missing
// directories.
func (w *Writer) resolveDir(from *node, name string, links *int) (*node, error) {
	at := from
	for part := range strings.SplitSeq(name, "/") {
		switch part {
		case "", ".":
			continue
		case "..":
			at = at.parent
			continue
		}
		next := at.children[part]
		if next != nil && next.mode&typeMask == typeSymlink {
			if *links++; *links > maxLinks {
				return nil, fmt.Errorf("%w: too many symbolic links", atoll.ErrInvalid)
			}
			begin := at
			if path.IsAbs(next.target) {
				begin = w.root
			}
			var err error
			if at, err = w.resolveDir(begin, next.target, links); err != nil {
				return nil, err
			}
			continue
		}
		if next == nil || !next.isDir() {
			if countDepth(at) >= maxDepth {
				return nil, fmt.Errorf("%w: more than %d nested directories", atoll.ErrInvalid, maxDepth)
			}
			next = w.newDir(at)
			if err := w.setChild(at, part, next); err != nil {
				return nil, err
			}
		}
		at = next
	}
	return at, nil
}

func countDepth(n *node) (d int) {
	for ; n.parent != n; n = n.parent {
		d++
	}
	return d
}

// clipText shortens untrusted text.
func clipText(s string) string {
	if len(s) > 200 {
		return s[:200] + "…"
	}
	return s
}
