package vfs

import (
	"io/fs"
	"os"
	"path"
)

// eAgain is the internal reason that a file changed between look-up and use.
// It is never returned to callers of the package.
const eAgain Errno = 254

// maxTries limits the attempts to find an unused temporary name.
const maxTries = 8

func (at *hostLocation) rootDir() *os.Root { return at.m.host.rootDir() }

// mayChange returns why nothing can be changed at a location.
func (at *hostLocation) mayChange() Errno {
	if at.m.readOnly {
		return EROFS
	}
	return 0
}

// hostOpenable reports whether a mount opens files of the mode. Pipes, sockets
// and devices, which programs in other sandboxes may have created, are not
// opened.
func hostOpenable(m fs.FileMode) bool { return m.IsRegular() || m.IsDir() }

func (at *hostLocation) stat(info *Info) Errno {
	e := at.checkExists()
	if e == 0 {
		*info = hostInfo(at.info, path.Base(at.rel))
		info.fixed = at.m.readOnly
	}
	return e
}

func (at *hostLocation) readLink() (string, Errno) {
	switch e := at.checkExists(); {
	case e != 0:
		return "", e
	case at.info.Mode()&fs.ModeSymlink == 0:
		return "", EINVAL
	}
	target, err := at.rootDir().Readlink(at.rel)
	if err == nil && target == "" {
		return "", ENOENT
	}
	return target, hostErrno(err)
}

func (at *hostLocation) readDir() ([]fs.DirEntry, Errno) {
	switch e := at.checkExists(); {
	case e != 0:
		return nil, e
	case !at.info.IsDir():
		return nil, ENOTDIR
	}
	dir, err := at.m.host.openDir(at.rel)
	if err != nil {
		return nil, hostErrno(err)
	}
	defer dir.Close() // it is only read
	list, err := entriesOf(dir)
	return list, hostErrno(err)
}

// create creates a directory, link or empty file under a free name.
func (at *hostLocation) create(n inode) Errno {
	switch {
	case at.bad != 0:
		return at.bad
	case at.info != nil:
		return EEXIST
	case at.slash && !n.isDir():
		return ENOENT
	}
	if e := at.mayChange(); e != 0 {
		return e
	}
	switch {
	case n.isDir():
		return at.makeDir(n.mode)
	case n.isSymlink():
		if e := at.m.countName(); e != 0 {
			return e
		}
		return hostErrno(at.rootDir().Symlink(n.target, at.rel))
	case n.isFile():
		h, e := at.createFile(os.O_WRONLY, n.mode)
		if e == 0 {
			h.close()
		}
		return e
	}
	return EPERM // a mount must not pass pipes and devices to others
}

func (at *hostLocation) makeDir(mode fs.FileMode) Errno {
	if e := at.m.countName(); e != 0 {
		return e
	}
	mode &= fs.ModePerm | fs.ModeSticky
	if err := at.rootDir().Mkdir(at.rel, mode.Perm()); err != nil {
		return hostErrno(err)
	}
	info, err := at.rootDir().Lstat(at.rel)
	if err == nil && info.IsDir() && info.Mode()&(fs.ModePerm|fs.ModeSticky) != mode {
		err = at.rootDir().Chmod(at.rel, mode|info.Mode()&fs.ModeSetgid) // undo the host's umask
	}
	return hostErrno(err)
}

// makeLink gives a file a second name.
func (from *hostLocation) makeLink(to *hostLocation) Errno {
	switch e := from.checkExists(); {
	case e != 0:
		return e
	case to.bad != 0:
		return to.bad
	case to.info != nil:
		return EEXIST
	case to.slash:
		return ENOENT
	case from.info.IsDir():
		return EPERM
	}
	if e := to.mayChange(); e != 0 {
		return e
	}
	if e := to.m.countName(); e != 0 {
		return e
	}
	return hostErrno(from.rootDir().Link(from.rel, to.rel))
}

// renameTo moves a file to another location and replaces a file that exists there.
func (from *hostLocation) renameTo(to *hostLocation) Errno {
	switch {
	case from.last != lastName || to.last != lastName:
		return EBUSY
	case from.bad != 0:
		return from.bad
	case from.info == nil:
		return ENOENT
	case to.bad != 0:
		return to.bad
	case !from.info.IsDir() && (from.slash || to.slash):
		return ENOTDIR
	}
	if e := from.mayChange(); e != 0 {
		return e
	}
	if to.info != nil {
		switch same := os.SameFile(from.info, to.info); {
		case same:
			return 0
		case from.info.IsDir() && !to.info.IsDir():
			return ENOTDIR
		case !from.info.IsDir() && to.info.IsDir():
			return EISDIR
		case to.info.IsDir(): // os.Root replaces no directory, not even an empty one
			if isWithin(to.rel, from.rel) {
				return EINVAL
			}
			if err := to.rootDir().Remove(to.rel); err != nil {
				return hostErrno(err)
			}
		}
	}
	if err := from.rootDir().Rename(from.rel, to.rel); err != nil {
		return hostErrno(err)
	}
	from.m.host.trackRemoved(to.info)
	return 0
}

// isWithin reports whether a relative path is dir or beneath it.
func isWithin(rel, dir string) bool {
	return rel == dir || len(rel) > len(dir) && rel[len(dir)] == '/' && rel[:len(dir)] == dir
}

// removeName removes the name at a location.
func (at *hostLocation) removeName(kind removal) Errno {
	dir := at.info != nil && at.info.IsDir()
	switch {
	case at.bad != 0:
		return at.bad
	case at.info == nil && kind == removeTree:
		return 0
	case at.info == nil:
		return ENOENT
	case dir && kind == unlinkOnly:
		return EISDIR
	case at.last == lastRoot:
		return EBUSY
	case at.last == lastDot, at.last == lastDotDot && kind == removeTree:
		return EINVAL
	case at.last == lastDotDot:
		return ENOTEMPTY
	case !dir && (kind == rmdirOnly || at.slash):
		return ENOTDIR
	}
	if e := at.mayChange(); e != 0 {
		return e
	}
	if dir && kind == removeTree {
		defer at.m.host.use.invalidateCount()
		return hostErrno(at.rootDir().RemoveAll(at.rel))
	}
	if err := at.rootDir().Remove(at.rel); err != nil {
		return hostErrno(err)
	}
	at.m.host.trackRemoved(at.info)
	return 0
}

// changeAttr changes attributes. Set-uid and set-gid bits, and another owner,
// would have an effect for programs of the host: EPERM.
func (at *hostLocation) changeAttr(c attrChange) Errno {
	if e := at.checkExists(); e != 0 {
		return e
	}
	if e := at.mayChange(); e != 0 {
		return e
	}
	mode := at.info.Mode()
	now := hostInfo(at.info, "")
	switch {
	case !hostOpenable(mode) && (c.follow || mode&fs.ModeSymlink == 0):
		return EPERM
	case c.uid != -1 && uint32(c.uid) != now.uid, c.gid != -1 && uint32(c.gid) != now.gid:
		return EPERM
	case c.chmod && c.mode&(fs.ModeSetuid|fs.ModeSetgid)&^mode != 0:
		return EPERM
	}
	if c.chmod {
		if err := at.rootDir().Chmod(at.rel, c.mode&modeBits); err != nil {
			return hostErrno(err)
		}
	}
	if c.atime.IsZero() && c.mtime.IsZero() {
		return 0
	}
	if mode&fs.ModeSymlink == 0 {
		return hostErrno(at.rootDir().Chtimes(at.rel, c.atime, c.mtime))
	}
	dir, err := at.m.host.openDir(path.Dir(at.rel))
	if err != nil {
		return hostErrno(err)
	}
	defer dir.Close() // it was only looked at
	return hostErrno(setLinkTimes(dir, path.Base(at.rel), c.atime, c.mtime))
}

// open opens or creates a file or directory.
func (at *hostLocation) open(flag int, perm fs.FileMode) (*hostFile, Errno) {
	create := flag&os.O_CREATE != 0
	switch {
	case create && flag&O_DIRECTORY != 0:
		return nil, EINVAL
	case create && at.last == lastName && at.slash:
		return nil, EISDIR
	case at.bad != 0:
		return nil, at.bad
	case at.info == nil && !create:
		return nil, ENOENT
	case at.info == nil:
		if e := at.mayChange(); e != 0 {
			return nil, e
		}
		h, e := at.createFile(flag, perm)
		if e == EEXIST {
			e = eAgain
		}
		return h, e
	case flag&(os.O_CREATE|os.O_EXCL) == os.O_CREATE|os.O_EXCL:
		return nil, EEXIST
	}
	mode := at.info.Mode()
	write := flag&accessMode != os.O_RDONLY || flag&os.O_TRUNC != 0
	switch {
	case mode&fs.ModeSymlink != 0 && flag&O_DIRECTORY == 0:
		return nil, ELOOP
	case !mode.IsDir() && (at.slash || flag&O_DIRECTORY != 0):
		return nil, ENOTDIR
	case mode.IsDir() && (write || create):
		return nil, EISDIR
	case !hostOpenable(mode):
		return nil, EACCES
	}
	if write {
		if e := at.mayChange(); e != 0 {
			return nil, e
		}
	}
	return at.openThere(flag)
}

// replaceContent sets the content of a file in one step: it fills a temporary
// file and renames it.
func (at *hostLocation) replaceContent(data []byte, perm fs.FileMode) Errno {
	switch {
	case at.last != lastName, at.info != nil && at.info.IsDir(), at.slash:
		return EISDIR
	case at.bad != 0:
		return at.bad
	case at.info != nil && !at.info.Mode().IsRegular():
		return EACCES
	}
	if e := at.mayChange(); e != 0 {
		return e
	}
	if at.info != nil {
		perm = at.info.Mode()
	}
	temp, h, e := at.m.createTemp(path.Dir(at.rel), perm)
	if e != 0 {
		return e
	}
	_, e = h.write(data, 0, false)
	h.close()
	if e == 0 {
		e = temp.renameTo(&hostLocation{m: at.m, rel: at.rel, info: at.info})
	}
	if e != 0 {
		_ = temp.removeName(unlinkOnly) // the error is e
	}
	return e
}
