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

// The types of files, as modes have them.
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

// Bounds of names, as Linux has them.
const (
	mostName  = 255
	mostPath  = 4096 // bytes
	mostLinks = 40   // symbolic links on the way to a directory
	mostDepth = 1000 // directories in directories
	mostHard  = 65000
)

// attr is what a file is besides its content.
type attr struct {
	mode     uint32 // with its type
	uid, gid uint32
	sec      int64 // of its last change
	nsec     uint32
	xattrs   []xattr
}

type xattr struct {
	index byte   // of the name's prefix
	name  string // without it
	value string
}

// node is a file of any type. Hard links are one node with several names.
type node struct {
	attr
	children map[string]*node // of a directory
	parent   *node            // of a directory; the root's is itself
	layer    int              // that put it there

	size         int64
	extents      []extent
	target       string // of a symbolic link
	major, minor uint32 // of a device

	links int
	inode uint32
}

func (n *node) isDir() bool { return n.mode&typeMask == typeDir }

// sorted goes over a directory's children in the order in which they are
// written.
func (n *node) sorted() iter.Seq2[string, *node] {
	return func(yield func(string, *node) bool) {
		for _, name := range slices.Sorted(maps.Keys(n.children)) {
			if !yield(name, n.children[name]) {
				return
			}
		}
	}
}

// newDir makes a directory that nobody described: one above others.
func (w *Writer) newDir(parent *node) *node {
	d := &node{attr: attr{mode: typeDir | 0o755, sec: w.now}, children: make(map[string]*node), layer: w.layer}
	d.parent = parent
	if parent == nil {
		d.parent = d
	}
	return d
}

// set gives a directory a child, in the place of what it had.
func (w *Writer) set(dir *node, name string, n *node) error {
	if name == "" || len(name) > mostName || strings.ContainsAny(name, "/\x00") || name == "." || name == ".." {
		return fmt.Errorf("%w: a name of %d bytes: must be from 1 to %d, without NUL", atoll.ErrInvalid, len(name), mostName)
	}
	if w.names++; w.names > w.most {
		return fmt.Errorf("%w: more than %d files", atoll.ErrQuota, w.most)
	}
	w.remove(dir, name)
	n.links++
	if n.links > mostHard && !n.isDir() {
		return fmt.Errorf("%w: more than %d hard links to a file", atoll.ErrInvalid, mostHard)
	}
	dir.children[name] = n
	return nil
}

// remove removes a child with all below it, if it is there.
func (w *Writer) remove(dir *node, name string) {
	n := dir.children[name]
	if n == nil {
		return
	}
	delete(dir.children, name)
	for _, name := range slices.Collect(maps.Keys(n.children)) {
		w.remove(n, name)
	}
	if n.links--; n.links > 0 {
		return
	}
	for _, e := range n.extents {
		w.free(e)
	}
	n.extents = nil
}

// prune removes what lower layers put below a directory, but for directories
// that have something of this one.
func (w *Writer) prune(dir *node) {
	for _, name := range slices.Collect(maps.Keys(dir.children)) {
		n := dir.children[name]
		if n.isDir() {
			w.prune(n)
		}
		if n.layer < w.layer && len(n.children) == 0 {
			w.remove(dir, name)
		}
	}
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

// directory returns the directory of a path, following links of the tree; what
// is missing is made.
func (w *Writer) directory(from *node, name string, links *int) (*node, error) {
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
			if *links++; *links > mostLinks {
				return nil, fmt.Errorf("%w: too many symbolic links", atoll.ErrInvalid)
			}
			begin := at
			if path.IsAbs(next.target) {
				begin = w.root
			}
			var err error
			if at, err = w.directory(begin, next.target, links); err != nil {
				return nil, err
			}
			continue
		}
		if next == nil || !next.isDir() {
			if depth(at) >= mostDepth {
				return nil, fmt.Errorf("%w: more than %d directories in each other", atoll.ErrInvalid, mostDepth)
			}
			next = w.newDir(at)
			if err := w.set(at, part, next); err != nil {
				return nil, err
			}
		}
		at = next
	}
	return at, nil
}

func depth(n *node) (d int) {
	for ; n.parent != n; n = n.parent {
		d++
	}
	return d
}

// clip shortens what a stranger wrote.
func clip(s string) string {
	if len(s) > 200 {
		return s[:200] + "…"
	}
	return s
}
