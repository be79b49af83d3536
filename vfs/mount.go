package vfs

import (
	"io"
	"io/fs"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Mount says which directory of the host is seen where in a tree.
type Mount struct {
	Target   string // of the tree; made if it is missing
	Host     *Host
	ReadOnly bool  // every change is EROFS
	Limit    int64 // bytes of all files in it, past which a write is EDQUOT; 0: none
}

// mount is a Mount in its place.
type mount struct {
	host     *Host
	path     string // of the target, without links
	readOnly bool
	limit    int64
	files    atomic.Int32 // open through this mount

	mu   sync.Mutex
	open map[*hostFile]bool // guarded by mu; nil once it is unmounted
}

// eCross is the reason that a path can't be walked in the tree alone: it
// leads into a mount. No caller ever sees it.
const eCross Errno = 255

// Mount makes a directory of the host seen at m.Target. What the tree has
// there is hidden, and neither it nor a directory above can be moved or
// removed. Charges, quotas, snapshots and forks leave out what is in a mount;
// a Restore leaves mounts where they are. Paths are walked in the tree: an
// absolute link in a mount leads to the root of the tree.
func (f *FS) Mount(m Mount) error {
	now := f.now().UnixNano()
	f.mu.Lock()
	defer f.mu.Unlock()
	e := f.makeDirs(m.Target, fs.ModeDir|0o755, now)
	if e == eCross {
		e = EBUSY // beneath another mount
	}
	if e != 0 {
		return pathError("mount", m.Target, e)
	}
	in, e := f.tree.lookupExisting(&f.quota, m.Target, true)
	switch {
	case e != 0:
		return pathError("mount", m.Target, e)
	case !in.isDir():
		return pathError("mount", m.Target, ENOTDIR)
	case in.ino == rootIno || f.tree.busy(in):
		return pathError("mount", m.Target, EBUSY)
	}
	full, e := f.tree.path(&f.quota, in, "")
	if e != 0 {
		return pathError("mount", m.Target, e)
	}
	at := &mount{host: m.Host, path: full, readOnly: m.ReadOnly, limit: m.Limit, open: make(map[*hostFile]bool)}
	f.mounts = append(f.mounts, at)
	f.tree.mount(in.ino, at)
	return nil
}

// Unmount takes away all mounts. Files that are open in them are closed.
func (f *FS) Unmount() {
	f.mu.Lock()
	list := f.mounts
	f.mounts, f.tree.mounts = nil, nil
	f.mu.Unlock()
	for _, m := range list {
		m.mu.Lock()
		open := m.open
		m.open = nil
		m.mu.Unlock()
		for h := range open {
			h.close()
		}
	}
}

// Mounts returns what is mounted, in the order it was.
func (f *FS) Mounts() []Mount {
	f.mu.RLock()
	defer f.mu.RUnlock()
	list := make([]Mount, 0, len(f.mounts))
	for _, m := range f.mounts {
		list = append(list, Mount{Target: m.path, Host: m.host, ReadOnly: m.readOnly, Limit: m.limit})
	}
	return list
}

// UsageAt returns what the mount that a path leads into holds and may hold,
// and where it is mounted; "/" and [FS.Usage] for what is in no mount. For a
// mount without a limit the sizes are those of the host's file system.
func (f *FS) UsageAt(path string) (Usage, string, error) {
	full, err := f.Resolve(path)
	if err != nil {
		return Usage{}, "", err
	}
	f.mu.RLock()
	mounts := f.mounts
	f.mu.RUnlock()
	for _, m := range mounts {
		if full == m.path || strings.HasPrefix(full, m.path+"/") {
			u, err := m.usage()
			return u, m.path, err
		}
	}
	return f.Usage(), "/", nil
}

func (m *mount) usage() (Usage, error) {
	total, free, err := m.host.space()
	if err != nil {
		return Usage{}, pathError("statfs", m.path, hostReason(err))
	}
	u := Usage{Bytes: total - free, Quota: Quota{Bytes: total}}
	if m.limit > 0 {
		bytes, names := m.host.used()
		u = Usage{Bytes: bytes, Nodes: int(names), Quota: Quota{Bytes: min(m.limit, bytes+free), Nodes: int(mostNames(m.limit))}}
	}
	return u, nil
}

func (t *tree) mount(ino uint64, m *mount) {
	if t.mounts == nil {
		t.mounts = make(map[uint64]*mount)
	}
	t.mounts[ino] = m
}

// busy says whether something is mounted on a directory or beneath it.
func (t *tree) busy(dir *inode) bool {
	for ino := range t.mounts {
		if t.within(t.table.get(ino), dir) {
			return true
		}
	}
	return false
}

// remount puts the mounts into a tree that has replaced another. Their
// directories are made where it lacks them, whatever the quota.
func (f *FS) remount(t *tree, now int64) {
	for _, m := range f.mounts {
		cur := t.table.get(rootIno)
		for name := range strings.SplitSeq(m.path[1:], "/") {
			in := t.table.get(cur.dir.find(name))
			if in != nil && !in.isDir() {
				t.leave(t.own(cur), name, in, now)
				cur, in = t.table.get(cur.ino), nil
			}
			if in == nil {
				in = f.birth(t, place{dir: cur, name: name}, fs.ModeDir|0o755, now)
			}
			cur = in
		}
		t.mount(cur.ino, m)
	}
}

// left returns what is still to walk.
func (w *walker) left() string {
	s := w.rest
	for i := len(w.stack) - 1; i >= 0; i-- {
		s += w.stack[i]
	}
	return s
}

// crossing returns the mount that a path leads into and the rest of the path
// there; no mount where it leads into none any more.
func (f *FS) crossing(path string, follow, followSlash bool) (*mount, string) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	w := walker{t: f.tree, q: &f.quota, cur: f.tree.table.get(rootIno), rest: path}
	if _, e := w.run(follow, followSlash); e != eCross {
		return nil, ""
	}
	return w.over, w.left()
}

// route finds where a path leads that crosses a mount: a spot on the host,
// or another path that is in the tree alone.
func (f *FS) route(path string, follow, followSlash bool) (at *spot, native string, e Errno) {
	for range f.quota.Links {
		m, rest := f.crossing(path, follow, followSlash)
		if m == nil {
			return nil, path, 0
		}
		at, next, e := m.walk(&f.quota, rest, follow, followSlash)
		if e != 0 || next == "" {
			return at, "", e
		}
		if len(next) >= f.quota.Path {
			return nil, "", ENAMETOOLONG
		}
		path = next
	}
	return nil, "", ELOOP
}

// across does an operation on a path that leads into a mount: host where it
// ends there, native where a link or ".." leads back.
func (f *FS) across(path string, follow, followSlash bool, host func(*spot) Errno, native func(path string) Errno) Errno {
	for range f.quota.Links {
		at, next, e := f.route(path, follow, followSlash)
		switch {
		case e != 0:
			return e
		case at != nil:
			return host(at)
		}
		if e := native(next); e != eCross {
			return e
		}
		path = next // what was there has changed meanwhile
	}
	return ELOOP
}

// crosses says whether a path, or what is there of it, leads into a mount.
func (f *FS) crosses(path string) bool {
	f.mu.RLock()
	defer f.mu.RUnlock()
	if f.tree.mounts == nil {
		return false
	}
	w := walker{t: f.tree, q: &f.quota, cur: f.tree.table.get(rootIno), rest: path}
	_, e := w.run(true, true)
	return e == eCross
}

func (f *FS) createAcross(path string, n inode) Errno {
	return f.across(path, false, false,
		func(at *spot) Errno { return at.create(n) },
		func(path string) Errno { return f.create(path, n) })
}

// mkdirAllAcross makes directories one by one, each in its place.
func (f *FS) mkdirAllAcross(path string, mode fs.FileMode) Errno {
	for i := 1; i <= len(path); i++ {
		if i < len(path) && path[i] != '/' || path[i-1] == '/' {
			continue
		}
		info, err := f.Stat(path[:i])
		if err == nil {
			if !info.IsDir() {
				return ENOTDIR
			}
			continue
		}
		e := reason(err)
		if e == ENOENT {
			e = reason(f.Mkdir(path[:i], mode))
		}
		if e == EEXIST { // somebody else's, or a link that leads nowhere
			if info, err := f.Stat(path[:i]); err == nil && info.IsDir() {
				e = 0
			}
		}
		if e != 0 {
			return e
		}
	}
	return 0
}

func (f *FS) readlinkAcross(path string) (target string, e Errno) {
	e = f.across(path, false, true, func(at *spot) Errno {
		target, e = at.readlink()
		return e
	}, func(path string) Errno {
		target, e = f.tryReadlink(path)
		return e
	})
	return target, e
}

// pairAcross does an operation on two paths of which at least one leads into
// a mount: host where both lead into the same, native where they lead back,
// apart for the rest. slash says whether a link with a slash behind it is
// followed in the first path.
func (f *FS) pairAcross(old, new string, slash bool, host func(from, to *spot) Errno, native, apart func(old, new string) Errno) Errno {
	for range f.quota.Links {
		from, oldNext, e := f.route(old, false, slash)
		if e != 0 {
			return e
		}
		to, newNext, e := f.route(new, false, false)
		switch {
		case e != 0:
			return e
		case from != nil && to != nil && from.m == to.m:
			return host(from, to)
		case from != nil || to != nil:
			return apart(old, new)
		}
		if e := native(oldNext, newNext); e != eCross {
			return e
		}
		old, new = oldNext, newNext
	}
	return ELOOP
}

func (f *FS) renameAcross(old, new string) Errno {
	return f.pairAcross(old, new, false, (*spot).rename, f.rename, func(old, new string) Errno {
		for _, name := range []string{old, new} {
			if e := f.above(name); e != 0 {
				return e
			}
		}
		return EXDEV
	})
}

// above says why the directory of a path's last name is none.
func (f *FS) above(path string) Errno {
	dir := strings.TrimRight(path, "/")
	if dir == "" && path != "" {
		return 0
	}
	_, err := f.Stat(dir[:strings.LastIndexByte(dir, '/')+1])
	return reason(err)
}

// linkAcross looks at both names before it says that they are apart, as the
// kernel of a Unix does.
func (f *FS) linkAcross(old, new string) Errno {
	if _, err := f.Lstat(old); err != nil {
		return reason(err)
	}
	return f.pairAcross(old, new, true, (*spot).link, f.link, func(old, new string) Errno {
		name := strings.TrimRight(new, "/")
		if name == "" {
			name = new
		}
		if _, err := f.Lstat(name); err == nil {
			return EEXIST
		} else if e := reason(err); e != ENOENT {
			return e
		}
		if e := f.above(new); e != 0 {
			return e
		}
		if strings.HasSuffix(new, "/") {
			return ENOENT
		}
		return EXDEV
	})
}

func (f *FS) removeAcross(path string, kind removal) Errno {
	return f.across(path, false, false,
		func(at *spot) Errno { return at.remove(kind) },
		func(path string) Errno { return f.remove(path, kind) })
}

func (f *FS) openAcross(path string, flag int, perm fs.FileMode) (file *File, e Errno) {
	create, excl := flag&os.O_CREATE != 0, flag&(os.O_CREATE|os.O_EXCL) == os.O_CREATE|os.O_EXCL
	for range 8 { // as often as others take away or make what was just looked at
		e = f.across(path, flag&O_NOFOLLOW == 0 && !excl, !create, func(at *spot) Errno {
			h, e := at.open(flag, perm)
			if e == 0 {
				file = &File{fs: f, host: h, name: path, flag: flag}
			}
			return e
		}, func(native string) Errno {
			file, e = f.tryOpen(native, flag, perm)
			if file != nil {
				file.name = path
			}
			return e
		})
		if e != eAgain {
			return file, e
		}
	}
	return nil, EIO
}

func (f *FS) statAcross(path string, follow bool, info *Info) Errno {
	e := f.across(path, follow, true,
		func(at *spot) Errno { return at.stat(info) },
		func(path string) Errno { return f.tryStat(path, follow, info) })
	info.name = base(path)
	return e
}

func (f *FS) readDirAcross(path string) (list []fs.DirEntry, e Errno) {
	e = f.across(path, true, true, func(at *spot) Errno {
		list, e = at.readDir()
		return e
	}, func(path string) Errno {
		list, e = f.tryReadDir(path)
		return e
	})
	return list, e
}

func (f *FS) changeAcross(path string, c change) Errno {
	return f.across(path, c.follow, true,
		func(at *spot) Errno { return at.change(c) },
		func(path string) Errno { return f.tryChange(path, c) })
}

// fileAcross does to a file in a mount what only open files can.
func (f *FS) fileAcross(path string, flag int, perm fs.FileMode, do func(*File) error) error {
	file, e := f.openAcross(path, flag, perm)
	if e != 0 {
		return e
	}
	err := do(file)
	if cerr := file.Close(); err == nil {
		err = cerr
	}
	return err
}

func (f *FS) truncateAcross(path string, size int64) Errno {
	return reason(f.fileAcross(path, os.O_WRONLY, 0, func(file *File) error { return file.Truncate(size) }))
}

func (f *FS) resolveAcross(path string) (full string, e Errno) {
	for range f.quota.Links {
		m, rest := f.crossing(path, true, true)
		if m == nil {
			full, e = f.tryResolve(path)
			if e == eCross {
				continue
			}
			return full, e
		}
		at, next, e := m.visit(&f.quota, rest, true, true)
		switch {
		case e != 0:
			return "", e
		case next != "":
			path = next
			continue
		}
		if e := at.existing(); e != 0 {
			return "", e
		}
		full = joinPath(m.path, at.rel)
		if len(full) >= f.quota.Path {
			return "", ENAMETOOLONG
		}
		return full, 0
	}
	return "", ELOOP
}

// joinPath appends a path that is relative, and may be ".".
func joinPath(dir, rel string) string {
	if rel == "." {
		return dir
	}
	return join(dir, rel)
}

// writeFileAcross fills a file beside the one that is wanted and gives it
// its name, so that readers see the old content or the new.
func (f *FS) writeFileAcross(name string, data []byte, perm fs.FileMode) Errno {
	return f.across(name, true, true,
		func(at *spot) Errno { return at.replace(data, perm) },
		func(name string) Errno { return reason(f.WriteFile(name, data, perm)) })
}

func (f *FS) readFileAcross(path string) (data []byte, e Errno) {
	err := f.fileAcross(path, os.O_RDONLY, 0, func(file *File) error {
		info, err := file.Stat()
		switch {
		case err != nil:
			return err
		case info.IsDir():
			return EISDIR
		}
		most := min(f.quota.Bytes, maxFile)
		data, err = io.ReadAll(io.LimitReader(file, most+1))
		if int64(len(data)) > most {
			return EFBIG
		}
		return err
	})
	if err != nil {
		return nil, reason(err)
	}
	return data, 0
}

// existing says why nothing is at a spot.
func (at *spot) existing() Errno {
	switch {
	case at.bad != 0:
		return at.bad
	case at.info == nil:
		return ENOENT
	case at.slash && !at.info.IsDir():
		return ENOTDIR
	}
	return 0
}

// change is what to do to the attributes of an inode; a field that is not
// set stays.
type change struct {
	op           string
	follow       bool
	chmod        bool
	mode         fs.FileMode // where chmod is set
	uid, gid     int         // -1: stays
	atime, mtime time.Time
}
