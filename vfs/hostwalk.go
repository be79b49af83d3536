package vfs

import (
	"io/fs"
	"os"
	"path"
	"strings"
)

// maxDepth limits how deep directories of a mount may be nested. Each name is
// looked up from the top, so that the host follows no link.
const maxDepth = 256

// maxOpenedDirs limits how many directories are opened to walk one path: far
// more than ordinary paths need, and few enough to stop hostile ones.
const maxOpenedDirs = 4096

// pathDepth returns the number of directories above a relative path.

func pathDepth(rel string) int { return strings.Count(rel, "/") }

// hostLocation is the result of walking a path in a mount.
type hostLocation struct {
	m     *mount
	rel   string      // path from the top of the mount; "." for the top
	info  fs.FileInfo // of the file, no link followed; nil when the name is free
	last  last
	slash bool
	bad   Errno
}

// walkPath walks the rest of a path in a mount. If the path leads out of the
// mount, next is the path of the tree to walk instead.
func (m *mount) walkPath(q *Quota, rest string, follow, followSlash bool) (at *hostLocation, next string, e Errno) {
	if at := m.lookupDirect(q, rest); at != nil && (!follow || at.info == nil || at.info.Mode()&fs.ModeSymlink == 0) {
		return at, "", 0
	}
	return m.walkLinkByLink(q, rest, follow, followSlash)
}

// lookupDirect looks up a clean path in one step, if at least its directory
// exists; otherwise it returns nil. os.Root may follow links on the way, but
// only those that don't leave the mount, and these lead to the same file in
// the tree.
func (m *mount) lookupDirect(q *Quota, rest string) *hostLocation {
	if len(rest) < 2 || path.Clean(rest) != rest || strings.IndexByte(rest, 0) >= 0 || pathDepth(rest) > maxDepth || len(path.Base(rest)) > q.Name {
		return nil
	}
	at := &hostLocation{m: m, rel: rest[1:]}
	var err error
	if at.info, err = m.host.rootDir().Lstat(at.rel); err == nil {
		return at
	}
	if dir, err := m.host.rootDir().Lstat(path.Dir(at.rel)); hostErrno(err) != 0 || !dir.IsDir() {
		return nil
	}
	if hostErrno(err) != ENOENT {
		return nil
	}
	at.info = nil
	return at
}

// walkLinkByLink is walkPath without the shortcut of lookupDirect.
func (m *mount) walkLinkByLink(q *Quota, rest string, follow, followSlash bool) (at *hostLocation, next string, e Errno) {
	v := visitor{m: m, top: m.host.rootDir(), w: walker{q: q, rest: rest}}
	defer v.closeCurrent()
	return v.walkToEnd(follow, followSlash)
}

// visitor follows one path in a mount.
type visitor struct {
	m          *mount
	top        *os.Root
	w          walker   // holds only the part of the path that is still to walk
	trail      []string // names of the current directory, from the top
	open       int      // how many of them lead to dir
	dir        *os.Root // last directory that was opened; nil for top when open is 0
	openedDirs int      // number of directories that were opened
}

// walkToEnd walks to the end of the path, as a walker does.
func (v *visitor) walkToEnd(follow, followSlash bool) (at *hostLocation, next string, e Errno) {
	if at, e = v.currentLocation(lastRoot); e != 0 {
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
				return nil, v.m.parentPath() + v.w.remainingPath(), 0
			}
			v.trail = v.trail[:len(v.trail)-1]
			v.closeCurrent()
		}
		if name == "." || name == ".." {
			if at, e = v.currentLocation(lastDot + last(len(name)-1)); e != 0 {
				return nil, "", e
			}
			continue
		}
		if at, e = v.lookupName(name, more); e != 0 || at.info == nil {
			return at, "", e
		}
		if at.info.Mode()&fs.ModeSymlink != 0 && (more || follow && !at.slash || followSlash && at.slash) {
			if at, next, e = v.followLink(at); e != 0 || next != "" {
				return nil, next, e
			}
			continue
		}
		v.trail = append(v.trail, name)
	}
}

// parentPath returns the path of the directory that contains the mount.
func (m *mount) parentPath() string {
	if dir := path.Dir(m.path); dir != "/" {
		return dir + "/."
	}
	return "/.."
}

// closeCurrent closes the open directory and goes back to the top.
func (v *visitor) closeCurrent() {
	if v.dir != nil {
		_ = v.dir.Close() // it was only looked at
	}
	v.dir, v.open = nil, 0
}

// openCurrent opens the current directory, starting from the last open one.
func (v *visitor) openCurrent() (*os.Root, error) {
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
		v.openedDirs++
	}
	if v.dir == nil {
		return v.top, nil
	}
	return v.dir, nil
}

// currentLocation returns the location of the current directory.
func (v *visitor) currentLocation(kind last) (*hostLocation, Errno) {
	if v.openedDirs += len(v.trail); v.openedDirs > maxOpenedDirs {
		return nil, ELOOP
	}
	at := &hostLocation{m: v.m, rel: v.currentPath(), last: kind}
	info, err := v.top.Lstat(at.rel)
	at.info = info
	return at, hostErrno(err)
}

func (v *visitor) currentPath() string {
	if len(v.trail) == 0 {
		return "."
	}
	return strings.Join(v.trail, "/")
}

// lookupName looks up a name in the current directory.
func (v *visitor) lookupName(name string, more bool) (*hostLocation, Errno) {
	switch {
	case len(v.trail) >= maxDepth:
		return nil, ENAMETOOLONG
	case v.openedDirs > maxOpenedDirs:
		return nil, ELOOP
	}
	at := &hostLocation{m: v.m, rel: name, bad: v.w.check(name)}
	if len(v.trail) > 0 {
		at.rel = v.currentPath() + "/" + name
	}
	e := at.bad
	if e == 0 {
		dir, err := v.openCurrent()
		if err == nil {
			at.info, err = dir.Lstat(name)
		}
		e = hostErrno(err)
	}
	if !more {
		at.slash = v.w.endsInSlash()
		if e == at.bad || e == ENOENT {
			return at, 0
		}
	}
	return at, e
}

// followLink continues at the target of a link; if that is outside the mount
// it returns the path in the tree as next.
func (v *visitor) followLink(link *hostLocation) (at *hostLocation, next string, e Errno) {
	v.w.hops++
	if v.w.hops > v.w.q.Links {
		return nil, "", ELOOP
	}
	target, err := link.rootDir().Readlink(link.rel)
	switch {
	case err != nil:
		return nil, "", hostErrno(err)
	case target == "":
		return nil, "", ENOENT
	case strings.HasPrefix(target, "/"):
		return nil, target + v.w.remainingPath(), 0
	}
	if v.w.rest != "" {
		v.w.stack = append(v.w.stack, v.w.rest)
	}
	v.w.rest = target
	at, e = v.currentLocation(lastRoot)
	return at, "", e
}
