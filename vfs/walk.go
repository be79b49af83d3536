package vfs

import "strings"

// last says what the last component of a path is.
type last uint8

const (
	lastName   last = iota // an ordinary name
	lastRoot               // none: the path is the root
	lastDot                // "."
	lastDotDot             // ".."
)

// place is where a path leads.
type place struct {
	dir   *inode // the directory of the last name
	name  string // the last name; a part of the path or of a link target
	in    *inode // what has the name; nil when nothing has
	last  last
	slash bool  // the path ends in a slash
	bad   Errno // why nothing can have the name
}

// walker follows one path.
type walker struct {
	t     *tree
	q     *Quota
	cur   *inode
	rest  string   // what is still to walk
	stack []string // what follows once rest is walked, innermost last
	hops  int
	over  *mount // what the path leads into, after eCross
}

// lookup walks a path to its end. follow says whether a symbolic link there
// is followed; a link before the last component always is, as is one with a
// slash behind it. A missing last name is not an error: place.in is nil.
func (t *tree) lookup(q *Quota, path string, follow bool) (place, Errno) {
	pl, e := t.walk(q, path, follow, follow)
	if e == 0 {
		e = pl.bad
	}
	return pl, e
}

// lookupParent walks a path to the directory of its last name, and never
// follows what has that name, nor looks at what is mounted there.
func (t *tree) lookupParent(q *Quota, path string) (place, Errno) {
	pl, e := t.walk(q, path, false, false)
	if e == 0 {
		e = pl.bad
	}
	return pl, e
}

// lookupExisting is lookup for what must be there.
func (t *tree) lookupExisting(q *Quota, path string, follow bool) (*inode, Errno) {
	pl, e := t.walk(q, path, follow, true)
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

// walk is lookup with a choice for a link that has a slash behind it.
func (t *tree) walk(q *Quota, path string, follow, followSlash bool) (place, Errno) {
	return t.walkFrom(q, t.table.get(rootIno), path, follow, followSlash)
}

// walkFrom walks a path that begins at a directory, unless it is absolute.
func (t *tree) walkFrom(q *Quota, start *inode, path string, follow, followSlash bool) (place, Errno) {
	if path == "" {
		return place{}, ENOENT
	}
	if len(path) >= q.Path {
		return place{}, ENAMETOOLONG
	}
	if path[0] == '/' {
		start = t.table.get(rootIno)
	}
	w := walker{t: t, q: q, cur: start, rest: path}
	return w.run(follow, followSlash)
}

// run walks to the end of what is set.
func (w *walker) run(follow, followSlash bool) (place, Errno) {
	pl := place{in: w.cur, last: lastRoot}
	for {
		name, more := w.next()
		if name == "" {
			return pl, 0
		}
		if !w.cur.isDir() {
			return place{}, ENOTDIR
		}
		if name == "." || name == ".." {
			pl = w.dots(name)
			continue
		}
		pl = w.step(name)
		if w.t.mounts != nil && pl.in != nil && (more || follow || followSlash) {
			if w.over = w.t.mounts[pl.in.ino]; w.over != nil {
				return place{}, eCross
			}
		}
		switch {
		case !more:
			pl.slash = w.slash()
		case pl.bad != 0:
			return place{}, pl.bad
		case pl.in == nil:
			return place{}, ENOENT
		}
		if pl.in == nil {
			return pl, 0
		}
		if pl.in.isSymlink() && (more || follow && !pl.slash || followSlash && pl.slash) {
			if e := w.follow(pl.in); e != 0 {
				return place{}, e
			}
			pl = place{in: w.cur, last: lastRoot} // if the target is only "/"
			continue
		}
		w.cur = pl.in
	}
}

// next takes the next component, and says whether another one follows.
func (w *walker) next() (name string, more bool) {
	for {
		s := strings.TrimLeft(w.rest, "/")
		if s != "" {
			i := strings.IndexByte(s, '/')
			if i < 0 {
				i = len(s)
			}
			name, w.rest = s[:i], s[i:]
			return name, w.more()
		}
		if len(w.stack) == 0 {
			return "", false
		}
		w.rest = w.stack[len(w.stack)-1]
		w.stack = w.stack[:len(w.stack)-1]
	}
}

func (w *walker) more() bool {
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

// slash says whether only slashes follow, and at least one.
func (w *walker) slash() bool {
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

func (w *walker) dots(name string) place {
	pl := place{last: lastDot}
	if name == ".." {
		pl.last = lastDotDot
		w.cur = w.t.table.get(w.cur.parent)
	}
	pl.in = w.cur
	return pl
}

func (w *walker) step(name string) place {
	pl := place{dir: w.cur, name: name, bad: w.check(name)}
	if ino := w.cur.dir.find(name); ino != 0 {
		pl.in = w.t.table.get(ino)
	}
	return pl
}

// follow puts the target of a link in front of what is still to walk.
func (w *walker) follow(link *inode) Errno {
	w.hops++
	if w.hops > w.q.Links {
		return ELOOP
	}
	if w.rest != "" {
		w.stack = append(w.stack, w.rest)
	}
	w.rest = link.target
	if strings.HasPrefix(link.target, "/") {
		w.cur = w.t.table.get(rootIno)
	}
	return 0
}
