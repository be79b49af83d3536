package vfs

import (
	"io/fs"
	"os"
	"path"
)

// eAgain is the reason that what was there a moment ago is not what is there
// now. No caller ever sees it.
const eAgain Errno = 254

// tries is how often something is looked at again after eAgain.
const tries = 8

func (at *spot) top() *os.Root { return at.m.host.top() }

// mayChange says why nothing can be changed at a spot.
func (at *spot) mayChange() Errno {
	if at.m.readOnly {
		return EROFS
	}
	return 0
}

// openable says whether it is what a mount opens. The others, which programs
// behind other walls may have made, are left alone.
func hostOpenable(m fs.FileMode) bool { return m.IsRegular() || m.IsDir() }

func (at *spot) stat(info *Info) Errno {
	e := at.existing()
	if e == 0 {
		*info = hostInfo(at.info, path.Base(at.rel))
		info.fixed = at.m.readOnly
	}
	return e
}

func (at *spot) readlink() (string, Errno) {
	switch e := at.existing(); {
	case e != 0:
		return "", e
	case at.info.Mode()&fs.ModeSymlink == 0:
		return "", EINVAL
	}
	target, err := at.top().Readlink(at.rel)
	if err == nil && target == "" {
		return "", ENOENT
	}
	return target, hostReason(err)
}

func (at *spot) readDir() ([]fs.DirEntry, Errno) {
	switch e := at.existing(); {
	case e != 0:
		return nil, e
	case !at.info.IsDir():
		return nil, ENOTDIR
	}
	dir, err := at.m.host.openDir(at.rel)
	if err != nil {
		return nil, hostReason(err)
	}
	defer dir.Close() // it is only read
	list, err := entriesOf(dir)
	return list, hostReason(err)
}

// create makes a directory, link or empty file with a name that is free.
func (at *spot) create(n inode) Errno {
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
		return at.mkdir(n.mode)
	case n.isSymlink():
		if e := at.m.name(); e != 0 {
			return e
		}
		return hostReason(at.top().Symlink(n.target, at.rel))
	case n.isFile():
		h, e := at.createFile(os.O_WRONLY, n.mode)
		if e == 0 {
			h.close()
		}
		return e
	}
	return EPERM // a mount is no way to give others pipes and devices
}

func (at *spot) mkdir(mode fs.FileMode) Errno {
	if e := at.m.name(); e != 0 {
		return e
	}
	mode &= fs.ModePerm | fs.ModeSticky
	if err := at.top().Mkdir(at.rel, mode.Perm()); err != nil {
		return hostReason(err)
	}
	info, err := at.top().Lstat(at.rel)
	if err == nil && info.IsDir() && info.Mode()&(fs.ModePerm|fs.ModeSticky) != mode {
		err = at.top().Chmod(at.rel, mode|info.Mode()&fs.ModeSetgid) // the host's mask is not the sandbox's
	}
	return hostReason(err)
}

// link gives a file a second name.
func (from *spot) link(to *spot) Errno {
	switch e := from.existing(); {
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
	if e := to.m.name(); e != 0 {
		return e
	}
	return hostReason(from.top().Link(from.rel, to.rel))
}

// rename moves a name over another.
func (from *spot) rename(to *spot) Errno {
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
			if within(to.rel, from.rel) {
				return EINVAL
			}
			if err := to.top().Remove(to.rel); err != nil {
				return hostReason(err)
			}
		}
	}
	if err := from.top().Rename(from.rel, to.rel); err != nil {
		return hostReason(err)
	}
	from.m.host.unnamed(to.info)
	return 0
}

// within says whether a relative path is dir or beneath it.
func within(rel, dir string) bool {
	return rel == dir || len(rel) > len(dir) && rel[len(dir)] == '/' && rel[:len(dir)] == dir
}

// remove takes away a name.
func (at *spot) remove(kind removal) Errno {
	dir := at.info != nil && at.info.IsDir()
	switch {
	case at.bad != 0:
		return at.bad
	case at.info == nil && kind == whole:
		return 0
	case at.info == nil:
		return ENOENT
	case dir && kind == unlinkOnly:
		return EISDIR
	case at.last == lastRoot:
		return EBUSY
	case at.last == lastDot, at.last == lastDotDot && kind == whole:
		return EINVAL
	case at.last == lastDotDot:
		return ENOTEMPTY
	case !dir && (kind == rmdirOnly || at.slash):
		return ENOTDIR
	}
	if e := at.mayChange(); e != 0 {
		return e
	}
	if dir && kind == whole {
		defer at.m.host.use.forget()
		return hostReason(at.top().RemoveAll(at.rel))
	}
	if err := at.top().Remove(at.rel); err != nil {
		return hostReason(err)
	}
	at.m.host.unnamed(at.info)
	return 0
}

// change changes attributes. Set-uid and set-gid bits, and another owner,
// would mean something to programs of the host: EPERM.
func (at *spot) change(c change) Errno {
	if e := at.existing(); e != 0 {
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
		if err := at.top().Chmod(at.rel, c.mode&modeBits); err != nil {
			return hostReason(err)
		}
	}
	if c.atime.IsZero() && c.mtime.IsZero() {
		return 0
	}
	if mode&fs.ModeSymlink == 0 {
		return hostReason(at.top().Chtimes(at.rel, c.atime, c.mtime))
	}
	dir, err := at.m.host.openDir(path.Dir(at.rel))
	if err != nil {
		return hostReason(err)
	}
	defer dir.Close() // it was only looked at
	return hostReason(linkTimes(dir, path.Base(at.rel), c.atime, c.mtime))
}

// open opens a file or directory.
func (at *spot) open(flag int, perm fs.FileMode) (*hostFile, Errno) {
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

// replace sets the content of a file in one step: it fills a file beside it
// and gives that its name.
func (at *spot) replace(data []byte, perm fs.FileMode) Errno {
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
	temp, h, e := at.m.temporary(path.Dir(at.rel), perm)
	if e != 0 {
		return e
	}
	_, e = h.write(data, 0, false)
	h.close()
	if e == 0 {
		e = temp.rename(&spot{m: at.m, rel: at.rel, info: at.info})
	}
	if e != 0 {
		_ = temp.remove(unlinkOnly) // the reason that counts is there
	}
	return e
}
