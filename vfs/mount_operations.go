package vfs

import (
	"cmp"
	"io"
	"io/fs"
	"os"
	"strings"
)

// findCrossing returns the mount that a path leads into and the rest of the
// path there; nil if the path does not lead into a mount any more.
func (f *FS) findCrossing(path string, follow, followSlash bool) (*mount, string) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	w := walker{t: f.tree, q: &f.quota, cur: f.tree.table.get(rootIno), rest: path}
	if _, e := w.walkToEnd(follow, followSlash); e != eCross {
		return nil, ""
	}
	return w.crossed, w.remainingPath()
}

// routePath finds where a path that crosses a mount leads: to a location on
// the host, or to another path that is in the tree alone.
func (f *FS) routePath(path string, follow, followSlash bool) (at *hostLocation, native string, e Errno) {
	for range f.quota.Links {
		m, rest := f.findCrossing(path, follow, followSlash)
		if m == nil {
			return nil, path, 0
		}
		at, next, e := m.walkPath(&f.quota, rest, follow, followSlash)
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

// doAcross performs an operation on a path that leads into a mount: host if
// the path ends there, native if a link or ".." leads back into the tree.
func (f *FS) doAcross(path string, follow, followSlash bool, host func(*hostLocation) Errno, native func(path string) Errno) Errno {
	for range f.quota.Links {
		at, next, e := f.routePath(path, follow, followSlash)
		switch {
		case e != 0:
			return e
		case at != nil:
			return host(at)
		}
		if e := native(next); e != eCross {
			return e
		}
		path = next // the tree has changed meanwhile
	}
	return ELOOP
}

// crossesMount reports whether a path, or its existing part, leads into a
// mount.
func (f *FS) crossesMount(path string) bool {
	f.mu.RLock()
	defer f.mu.RUnlock()
	if f.tree.mounts == nil {
		return false
	}
	w := walker{t: f.tree, q: &f.quota, cur: f.tree.table.get(rootIno), rest: path}
	_, e := w.walkToEnd(true, true)
	return e == eCross
}

func (f *FS) createAcross(path string, n inode) Errno {
	return f.doAcross(path, false, false,
		func(at *hostLocation) Errno { return at.create(n) },
		func(path string) Errno { return f.createNode(path, n) })
}

// mkdirAllAcross creates directories one by one, each in its mount or tree.
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
		e := errnoOf(err)
		if e == ENOENT {
			e = errnoOf(f.Mkdir(path[:i], mode))
		}
		if e == EEXIST { // created meanwhile, or a dangling symbolic link
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
	e = f.doAcross(path, false, true, func(at *hostLocation) Errno {
		target, e = at.readLink()
		return e
	}, func(path string) Errno {
		target, e = f.tryReadlink(path)
		return e
	})
	return target, e
}

// doPairAcross performs an operation on two paths, at least one of them in a
// mount: host if both lead into the same mount, native if both lead back into
// the tree, apart otherwise. slash selects whether a link with a trailing
// slash is followed in the first path.
func (f *FS) doPairAcross(old, new string, slash bool, host func(from, to *hostLocation) Errno, native, apart func(old, new string) Errno) Errno {
	for range f.quota.Links {
		from, oldNext, e := f.routePath(old, false, slash)
		if e != 0 {
			return e
		}
		to, newNext, e := f.routePath(new, false, false)
		switch {
		case e != 0 && from == nil: // what is wrong with the first path is reported first
			return cmp.Or(f.checkParentDir(oldNext), e)
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
	return f.doPairAcross(old, new, false, (*hostLocation).renameTo, f.tryRename, func(old, new string) Errno {
		for _, name := range []string{old, new} {
			if e := f.checkParentDir(name); e != 0 {
				return e
			}
		}
		return EXDEV
	})
}

// checkParentDir returns why the directory of a path's last name can't be
// used.
func (f *FS) checkParentDir(path string) Errno {
	dir := strings.TrimRight(path, "/")
	if dir == "" && path != "" {
		return 0
	}
	_, err := f.Stat(dir[:strings.LastIndexByte(dir, '/')+1])
	return errnoOf(err)
}

// linkAcross checks both names before it reports that they are on different
// file systems, as a Unix kernel does.
func (f *FS) linkAcross(old, new string) Errno {
	if _, err := f.Lstat(old); err != nil {
		return errnoOf(err)
	}
	return f.doPairAcross(old, new, true, (*hostLocation).makeLink, f.tryLink, func(old, new string) Errno {
		name := strings.TrimRight(new, "/")
		if name == "" {
			name = new
		}
		if _, err := f.Lstat(name); err == nil {
			return EEXIST
		} else if e := errnoOf(err); e != ENOENT {
			return e
		}
		if e := f.checkParentDir(new); e != 0 {
			return e
		}
		if strings.HasSuffix(new, "/") {
			return ENOENT
		}
		return EXDEV
	})
}

func (f *FS) removeAcross(path string, kind removal) Errno {
	return f.doAcross(path, false, false,
		func(at *hostLocation) Errno { return at.removeName(kind) },
		func(path string) Errno { return f.tryRemove(path, kind) })
}

func (f *FS) openAcross(path string, flag int, perm fs.FileMode) (file *File, e Errno) {
	create, excl := flag&os.O_CREATE != 0, flag&(os.O_CREATE|os.O_EXCL) == os.O_CREATE|os.O_EXCL
	for range 8 { // the host's files may change between the look-up and the open
		e = f.doAcross(path, flag&O_NOFOLLOW == 0 && !excl, !create, func(at *hostLocation) Errno {
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
	e := f.doAcross(path, follow, true,
		func(at *hostLocation) Errno { return at.stat(info) },
		func(path string) Errno { return f.tryStat(path, follow, info) })
	info.name = baseName(path)
	return e
}

func (f *FS) readDirAcross(path string) (list []fs.DirEntry, e Errno) {
	e = f.doAcross(path, true, true, func(at *hostLocation) Errno {
		list, e = at.readDir()
		return e
	}, func(path string) Errno {
		list, e = f.tryReadDir(path)
		return e
	})
	return list, e
}

func (f *FS) changeAcross(path string, c attrChange) Errno {
	return f.doAcross(path, c.follow, true,
		func(at *hostLocation) Errno { return at.changeAttr(c) },
		func(path string) Errno { return f.tryChange(path, c) })
}

// fileAcross opens a file in a mount for an operation that needs an open file.
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
	return errnoOf(f.fileAcross(path, os.O_WRONLY, 0, func(file *File) error { return file.Truncate(size) }))
}

func (f *FS) resolveAcross(path string) (full string, e Errno) {
	for range f.quota.Links {
		m, rest := f.findCrossing(path, true, true)
		if m == nil {
			full, e = f.tryResolve(path)
			if e == eCross {
				continue
			}
			return full, e
		}
		at, next, e := m.walkLinkByLink(&f.quota, rest, true, true)
		switch {
		case e != 0:
			return "", e
		case next != "":
			path = next
			continue
		}
		if e := at.checkExists(); e != 0 {
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

// joinPath appends a relative path, which may be ".".
func joinPath(dir, rel string) string {
	if rel == "." {
		return dir
	}
	return joinName(dir, rel)
}

// writeFileAcross fills a temporary file and renames it, so that readers see
// the old content or the new.
func (f *FS) writeFileAcross(name string, data []byte, perm fs.FileMode) Errno {
	return f.doAcross(name, true, true,
		func(at *hostLocation) Errno { return at.replaceContent(data, perm) },
		func(name string) Errno { return errnoOf(f.WriteFile(name, data, perm)) })
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
		limit := min(f.quota.Bytes, maxFile)
		data, err = io.ReadAll(io.LimitReader(file, limit+1))
		if int64(len(data)) > limit {
			return EFBIG
		}
		return err
	})
	if err != nil {
		return nil, errnoOf(err)
	}
	return data, 0
}

// checkExists returns why there is no file at a location.
func (at *hostLocation) checkExists() Errno {
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
