package vfs

import (
	"io/fs"
	"os"
	"path"
	"strings"
)

// maxDepth is how many directories deep a mount is walked. Each name is
// looked up from the top, so that no link is followed by the host.
const maxDepth = 256

// maxWork is how many directories are opened to walk one path: far more than
// any takes that was not made to take long.
const maxWork = 4096

func depth(rel string) int { return strings.Count(rel, "/") }

// spot is where a path leads in a mount.
type spot struct {
	m     *mount
	rel   string      // from the top of the mount; "." for the top
	info  fs.FileInfo // of what has the name, no link followed; nil when nothing has
	last  last
	slash bool
	bad   Errno
}

// walk finds where the rest of a path leads in a mount. Where it leads out of
// it, next is the path of the tree that is to be walked instead.
func (m *mount) walk(q *Quota, rest string, follow, followSlash bool) (at *spot, next string, e Errno) {
	if at := m.straight(q, rest); at != nil && (!follow || at.info == nil || at.info.Mode()&fs.ModeSymlink == 0) {
		return at, "", 0
	}
	return m.visit(q, rest, follow, followSlash)
}

// straight finds what a plain path names, if at least its directory is there.
// os.Root may follow links on the way to it, but only those that don't leave
// the mount, and these lead to the same place in the tree.
func (m *mount) straight(q *Quota, rest string) *spot {
	if len(rest) < 2 || path.Clean(rest) != rest || strings.IndexByte(rest, 0) >= 0 || depth(rest) > maxDepth || len(path.Base(rest)) > q.Name {
		return nil
	}
	at := &spot{m: m, rel: rest[1:]}
	var err error
	if at.info, err = m.host.top().Lstat(at.rel); err == nil {
		return at
	}
	if dir, err := m.host.top().Lstat(path.Dir(at.rel)); hostReason(err) != 0 || !dir.IsDir() {
		return nil
	}
	if hostReason(err) != ENOENT {
		return nil
	}
	at.info = nil
	return at
}

// visit is walk link by link.
func (m *mount) visit(q *Quota, rest string, follow, followSlash bool) (at *spot, next string, e Errno) {
	v := visitor{m: m, top: m.host.top(), w: walker{q: q, rest: rest}}
	defer v.back()
	return v.run(follow, followSlash)
}

// visitor follows one path in a mount.
type visitor struct {
	m     *mount
	top   *os.Root
	w     walker   // only what is still to walk
	trail []string // the names of the present directory, from the top
	open  int      // how many of them lead to dir
	dir   *os.Root // nil where open is 0: top
	work  int      // directories that were opened
}

// run walks to the end, as a walker does.
func (v *visitor) run(follow, followSlash bool) (at *spot, next string, e Errno) {
	if at, e = v.here(lastRoot); e != 0 {
		return nil, "", e
	}
	for {
		name, more := v.w.next()
		switch {
		case name == "":
			return at, "", 0
		case !at.info.IsDir():
			return nil, "", ENOTDIR
		case name == "..":
			if len(v.trail) == 0 {
				return nil, v.m.above() + v.w.left(), 0
			}
			v.trail = v.trail[:len(v.trail)-1]
			v.back()
		}
		if name == "." || name == ".." {
			if at, e = v.here(lastDot + last(len(name)-1)); e != 0 {
				return nil, "", e
			}
			continue
		}
		if at, e = v.step(name, more); e != 0 || at.info == nil {
			return at, "", e
		}
		if at.info.Mode()&fs.ModeSymlink != 0 && (more || follow && !at.slash || followSlash && at.slash) {
			if at, next, e = v.follow(at); e != 0 || next != "" {
				return nil, next, e
			}
			continue
		}
		v.trail = append(v.trail, name)
	}
}

// above returns the path of the directory that the mount is in.
func (m *mount) above() string {
	if dir := path.Dir(m.path); dir != "/" {
		return dir + "/."
	}
	return "/.."
}

// back goes to the top.
func (v *visitor) back() {
	if v.dir != nil {
		_ = v.dir.Close() // it was only looked at
	}
	v.dir, v.open = nil, 0
}

// in opens the present directory, from the one that was open last.
func (v *visitor) in() (*os.Root, error) {
	for v.open < len(v.trail) {
		from := v.dir
		if from == nil {
			from = v.top
		}
		next, err := from.OpenRoot(v.trail[v.open] + "/.")
		if err != nil {
			return nil, err
		}
		if v.dir != nil {
			_ = v.dir.Close() // it was only looked at
		}
		v.dir = next
		v.open++
		v.work++
	}
	if v.dir == nil {
		return v.top, nil
	}
	return v.dir, nil
}

// here returns the present directory.
func (v *visitor) here(kind last) (*spot, Errno) {
	if v.work += len(v.trail); v.work > maxWork {
		return nil, ELOOP
	}
	at := &spot{m: v.m, rel: v.rel(), last: kind}
	info, err := v.top.Lstat(at.rel)
	at.info = info
	return at, hostReason(err)
}

func (v *visitor) rel() string {
	if len(v.trail) == 0 {
		return "."
	}
	return strings.Join(v.trail, "/")
}

// step looks for a name in the present directory.
func (v *visitor) step(name string, more bool) (*spot, Errno) {
	switch {
	case len(v.trail) >= maxDepth:
		return nil, ENAMETOOLONG
	case v.work > maxWork:
		return nil, ELOOP
	}
	at := &spot{m: v.m, rel: name, bad: v.w.check(name)}
	if len(v.trail) > 0 {
		at.rel = v.rel() + "/" + name
	}
	e := at.bad
	if e == 0 {
		dir, err := v.in()
		if err == nil {
			at.info, err = dir.Lstat(name)
		}
		e = hostReason(err)
	}
	if !more {
		at.slash = v.w.slash()
		if e == at.bad || e == ENOENT {
			return at, 0
		}
	}
	return at, e
}

// follow goes on at the target of a link, or tells where that is in the tree.
func (v *visitor) follow(link *spot) (at *spot, next string, e Errno) {
	v.w.hops++
	if v.w.hops > v.w.q.Links {
		return nil, "", ELOOP
	}
	target, err := link.top().Readlink(link.rel)
	switch {
	case err != nil:
		return nil, "", hostReason(err)
	case target == "":
		return nil, "", ENOENT
	case strings.HasPrefix(target, "/"):
		return nil, target + v.w.left(), 0
	}
	if v.w.rest != "" {
		v.w.stack = append(v.w.stack, v.w.rest)
	}
	v.w.rest = target
	at, e = v.here(lastRoot)
	return at, "", e
}
