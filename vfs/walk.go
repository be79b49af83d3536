package vfs

import "strings"

// last is the kind of the last component of a path.
type last uint8

const (
	lastName   last = iota // an ordinary name
	lastRoot               // none: the path is the root
	lastDot                // "."
	lastDotDot             // ".."
)

// location is the result of walking a path.
type location struct {
	dir   *inode // the directory of the last name
	name  string // the last name; a part of the path or of a link target
	in    *inode // the inode with the name; nil when the name is free
	last  last
	slash bool  // the path ends in a slash
	bad   Errno // why the name is not valid
}

// walker follows one path.
type walker struct {
	t       *tree
	q       *Quota
	cur     *inode
	rest    string   // the part of the path that is still to walk
	stack   []string // paths to walk after rest, innermost last
	hops    int
	crossed *mount // the mount that the path leads into, set with eCross
}

// lookupPath walks a path to its end. follow selects whether a symbolic link
// there is followed; a link before the last component always is, as is one
// with a trailing slash. A missing last name is not an error: location.in is
// nil.
func (t *tree) lookupPath(q *Quota, path string, follow bool) (location, Errno) {
	pl, e := t.walkPath(q, path, follow, follow)
	if e == 0 {
		e = pl.bad
	}
	return pl, e
}

// lookupParent walks a path to the directory of its last name. It does not
// follow a link with that name, nor enter a mount there.
func (t *tree) lookupParent(q *Quota, path string) (location, Errno) {
	pl, e := t.walkPath(q, path, false, false)
	if e == 0 {
		e = pl.bad
	}
	return pl, e
}

// lookupExisting walks a path to an inode; a missing one is ENOENT.
func (t *tree) lookupExisting(q *Quota, path string, follow bool) (*inode, Errno) {
	pl, e := t.walkPath(q, path, follow, true)
	switch {
	case e != 0:
		return nil, e
	case pl.bad != 0:
		return nil, pl.bad
	case pl.in == nil:
		return nil, ENOENT
	}
	if pl.slash && !pl.in.isDir() {
		return nil, ENOTDIR
	}
	return pl.in, 0
}

// walkPath is lookupPath with a separate choice, followSlash, for a link with
// a trailing slash.
func (t *tree) walkPath(q *Quota, path string, follow, followSlash bool) (location, Errno) {
	return t.walkFrom(q, t.table.get(rootIno), path, follow, followSlash)
}

// walkFrom walks a path that begins at the directory start, unless it is
// absolute.
func (t *tree) walkFrom(q *Quota, start *inode, path string, follow, followSlash bool) (location, Errno) {
	if path == "" {
		return location{}, ENOENT
	}
	if len(path) >= q.Path {
		return location{}, ENAMETOOLONG
	}
	if path[0] == '/' {
		start = t.table.get(rootIno)
	}
	w := walker{t: t, q: q, cur: start, rest: path}
	return w.walkToEnd(follow, followSlash)
}

// walkToEnd walks all of rest and stack.
func (w *walker) walkToEnd(follow, followSlash bool) (location, Errno) {
	pl := location{in: w.cur, last: lastRoot}
	for {
		name, more := w.next()
		if name == "" {
			return pl, 0
		}
		if !w.cur.isDir() {
			return location{}, ENOTDIR
		}
		if name == "." || name == ".." {
			pl = w.walkDots(name)
			continue
		}
		pl = w.lookupName(name)
		if w.t.mounts != nil && pl.in != nil && (more || follow || followSlash) {
			if w.crossed = w.t.mounts[pl.in.ino]; w.crossed != nil {
				return location{}, eCross
			}
		}
		switch {
		case !more:
			pl.slash = w.endsInSlash()
		case pl.bad != 0:
			return location{}, pl.bad
		case pl.in == nil:
			return location{}, ENOENT
		}
		if pl.in == nil {
			return pl, 0
		}
		if pl.in.isSymlink() && (more || follow && !pl.slash || followSlash && pl.slash) {
			if e := w.followLink(pl.in); e != 0 {
				return location{}, e
			}
			pl = location{in: w.cur, last: lastRoot} // if the target is only "/"
			continue
		}
		w.cur = pl.in
	}
}

// next consumes the next component and reports whether another one follows.
func (w *walker) next() (name string, more bool) {
	for {
		s := strings.TrimLeft(w.rest, "/")
		if s != "" {
			i := strings.IndexByte(s, '/')
			if i < 0 {
				i = len(s)
			}
			name, w.rest = s[:i], s[i:]
			return name, w.hasMore()
		}
		if len(w.stack) == 0 {
			return "", false
		}
		w.rest = w.stack[len(w.stack)-1]
		w.stack = w.stack[:len(w.stack)-1]
	}
}

func (w *walker) hasMore() bool {
	if strings.TrimLeft(w.rest, "/") != "" {
		return true
	}
	for _, s := range w.stack {
		if strings.TrimLeft(s, "/") != "" {
			return true
		}
	}
	return false
}

// endsInSlash reports whether only slashes follow, and at least one.
func (w *walker) endsInSlash() bool {
	if w.rest != "" {
		return true
	}
	for _, s := range w.stack {
		if s != "" {
			return true
		}
	}
	return false
}

func (w *walker) check(name string) Errno {
	if len(name) > w.q.Name {
		return ENAMETOOLONG
	}
	if strings.IndexByte(name, 0) >= 0 {
		return EINVAL
	}
	return 0
}

func (w *walker) walkDots(name string) location {
	pl := location{last: lastDot}
	if name == ".." {
		pl.last = lastDotDot
		w.cur = w.t.table.get(w.cur.parent)
	}
	pl.in = w.cur
	return pl
}

func (w *walker) lookupName(name string) location {
	pl := location{dir: w.cur, name: name, bad: w.check(name)}
	if ino := w.cur.dir.find(name); ino != 0 {
		pl.in = w.t.table.get(ino)
	}
	return pl
}

// followLink puts the target of a link before the rest of the path.
func (w *walker) followLink(link *inode) Errno {
	w.hops++
	if w.hops > w.q.Links {
		return ELOOP
	}
	if w.rest != "" {
		w.stack = append(w.stack, w.rest)
	}
	w.t.linkBytes.Add(int64(len(link.target)))
	w.rest = link.target
	if strings.HasPrefix(link.target, "/") {
		w.cur = w.t.table.get(rootIno)
	}
	return 0
}
