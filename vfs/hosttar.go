package vfs

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"time"
)

// unpacker unpacks the entries of an archive into a directory of a mount, one
// by one: the host has no way to make them appear at once.
type unpacker struct {
	m     *mount
	q     *Quota
	top   string          // target directory; entries can't leave it
	links map[string]bool // symbolic links that the archive has created
	times []dirTime       // set after all entries of the directories
}

type dirTime struct {
	rel string
	at  time.Time
}

// importAcross unpacks a stream into a directory of a mount.
func (f *FS) importAcross(dir string, r io.Reader) error {
	if err := f.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for range f.quota.Links {
		m, rest := f.findCrossing(dir, true, true)
		if m == nil {
			return f.ImportTar(dir, r)
		}
		at, next, e := m.walkLinkByLink(&f.quota, rest, true, true)
		if e == 0 && next != "" {
			dir = next
			continue
		}
		if e == 0 {
			e = at.checkExists()
		}
		if e == 0 && !at.info.IsDir() {
			e = ENOTDIR
		}
		if e == 0 {
			e = at.mayChange()
		}
		if e != 0 {
			return pathError("import", dir, e)
		}
		u := unpacker{m: m, q: &f.quota, top: at.rel, links: make(map[string]bool)}
		return u.unpackStream(r)
	}
	return pathError("import", dir, ELOOP)
}

// unpackStream unpacks an archive while reading it.
func (u *unpacker) unpackStream(r io.Reader) error {
	tr := tar.NewReader(r)
	for {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return u.setDirTimes()
		}
		if err != nil {
			return archiveError(err)
		}
		e, err := newEntry(h)
		if err != nil {
			return err
		}
		if e == nil {
			continue
		}
		if err := u.unpackEntry(e, tr); err != nil {
			return err
		}
	}
}

// setDirTimes sets the times of directories, which unpacking their entries
// has changed.
func (u *unpacker) setDirTimes() error {
	for _, d := range u.times {
		if err := u.m.host.rootDir().Chtimes(d.rel, time.Time{}, d.at); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return &fs.PathError{Op: "import", Path: d.rel, Err: hostErrno(err)}
		}
	}
	return nil
}

// unpackEntry unpacks one entry and reads its content from r.
func (u *unpacker) unpackEntry(e *tarEntry, r io.Reader) error {
	at, err := u.findLocation(e, e.name)
	if err != nil {
		return err
	}
	switch {
	case e.kind == tar.TypeDir:
		err = u.unpackDirectory(e, at)
	case at.info != nil && at.info.IsDir():
		err = e.wrapError(EISDIR)
	case e.kind == tar.TypeLink:
		return u.unpackHardLink(e, at)
	case e.kind == tar.TypeSymlink:
		err = u.unpackSymlink(e, at)
	case e.kind == tar.TypeReg:
		err = u.unpackFile(e, at, r)
	default:
		err = e.rejectEntry("a named pipe in a mount")
	}
	return err
}

// statLocation returns the location of a path without links.
func (u *unpacker) statLocation(rel string) *hostLocation {
	at := &hostLocation{m: u.m, rel: rel}
	at.info, _ = u.m.host.rootDir().Lstat(rel) // nil if the file is missing
	return at
}

// findLocation returns the location of an entry and creates the directories
// above it.
func (u *unpacker) findLocation(e *tarEntry, name string) (*hostLocation, error) {
	at := u.statLocation(u.top)
	for part := range strings.SplitSeq(path.Clean(name), "/") {
		if part == "." {
			continue
		}
		if len(part) > u.q.Name || pathDepth(at.rel) >= maxDepth {
			return nil, e.wrapError(ENAMETOOLONG)
		}
		dir, err := u.descendInto(e, at)
		if err != nil {
			return nil, err
		}
		at = u.statLocation(path.Join(dir, part))
	}
	return at, nil
}

// descendInto returns the directory at a location, for an entry beneath it,
// and creates it if it is missing.
func (u *unpacker) descendInto(e *tarEntry, at *hostLocation) (string, error) {
	switch {
	case at.info == nil:
		if errno := at.makeDir(0o755); errno != 0 && errno != EEXIST {
			return "", e.wrapError(errno)
		}
		return at.rel, nil
	case at.info.IsDir():
		return at.rel, nil
	case at.info.Mode()&fs.ModeSymlink == 0:
		return "", e.wrapError(ENOTDIR)
	case u.links[at.rel]:
		return "", e.rejectEntry("beneath a link that the archive has made")
	}
	to, next, errno := u.m.walkLinkByLink(u.q, "/"+at.rel, true, true)
	switch {
	case errno != 0:
		return "", e.wrapError(errno)
	case next != "":
		return "", e.rejectEntry("beneath a link that leads out of the directory")
	}
	switch errno := to.checkExists(); {
	case errno != 0:
		return "", e.wrapError(errno)
	case !to.info.IsDir():
		return "", e.wrapError(ENOTDIR)
	case u.top != "." && !isWithin(to.rel, u.top):
		return "", e.rejectEntry("beneath a link that leads out of the directory")
	}
	return to.rel, nil
}

// removeExisting removes the file that has the name of an entry.
func (u *unpacker) removeExisting(e *tarEntry, at *hostLocation) error {
	if at.info == nil {
		return nil
	}
	delete(u.links, at.rel)
	if errno := at.removeName(unlinkOnly); errno != 0 && errno != ENOENT {
		return e.wrapError(errno)
	}
	return nil
}

func (u *unpacker) unpackDirectory(e *tarEntry, at *hostLocation) error {
	if at.rel == "." {
		return nil // the attributes of a mount's top belong to the host
	}
	if at.info != nil && !at.info.IsDir() {
		if err := u.removeExisting(e, at); err != nil {
			return err
		}
		at.info = nil
	}
	if at.info == nil {
		if errno := at.makeDir(e.mode); errno != 0 && errno != EEXIST {
			return e.wrapError(errno)
		}
	} else if err := at.rootDir().Chmod(at.rel, e.mode&(fs.ModePerm|fs.ModeSticky)); err != nil {
		return e.wrapError(hostErrno(err))
	}
	u.times = append(u.times, dirTime{at.rel, e.mtime})
	return nil
}

func (u *unpacker) unpackSymlink(e *tarEntry, at *hostLocation) error {
	if e.link == "" || strings.IndexByte(e.link, 0) >= 0 {
		return e.rejectEntry("a symbolic link with an invalid target")
	}
	if err := u.removeExisting(e, at); err != nil {
		return err
	}
	if errno := at.m.countName(); errno != 0 {
		return e.wrapError(errno)
	}
	if err := at.rootDir().Symlink(e.link, at.rel); err != nil {
		return e.wrapError(hostErrno(err))
	}
	u.links[at.rel] = true
	dir, err := u.m.host.openDir(path.Dir(at.rel))
	if err != nil {
		return e.wrapError(hostErrno(err))
	}
	defer dir.Close() // it was only looked at
	if err := setLinkTimes(dir, path.Base(at.rel), time.Time{}, e.mtime); err != nil {
		return e.wrapError(hostErrno(err))
	}
	return nil
}

func (u *unpacker) unpackHardLink(e *tarEntry, at *hostLocation) error {
	to, err := u.findLocation(e, e.link)
	switch {
	case err != nil:
		return err
	case to.info == nil:
		return e.wrapError(fmt.Errorf("a hard link to %s: %w", e.link, ENOENT))
	case to.info.IsDir():
		return e.rejectEntry("a hard link to a directory")
	case at.info != nil && os.SameFile(to.info, at.info):
		return nil
	}
	if err := u.removeExisting(e, at); err != nil {
		return err
	}
	if errno := at.m.countName(); errno != 0 {
		return e.wrapError(errno)
	}
	if err := at.rootDir().Link(to.rel, at.rel); err != nil {
		return e.wrapError(hostErrno(err))
	}
	return nil
}

// unpackFile writes a temporary file and renames it when it is complete.
func (u *unpacker) unpackFile(e *tarEntry, at *hostLocation, r io.Reader) error {
	temp, h, errno := u.m.createTemp(path.Dir(at.rel), e.mode)
	if errno != 0 {
		return e.wrapError(errno)
	}
	err := h.writeFrom(r, e.size)
	h.close()
	if err == nil {
		err = temp.rootDir().Chtimes(temp.rel, time.Time{}, e.mtime)
		if err != nil {
			err = e.wrapError(hostErrno(err))
		}
	}
	if err == nil {
		delete(u.links, at.rel)
		if errno := temp.renameTo(at); errno != 0 {
			err = e.wrapError(errno)
		}
	}
	if err != nil {
		_ = temp.removeName(unlinkOnly) // the error is err
	}
	return err
}

// writeFrom writes size bytes of r.
func (h *hostFile) writeFrom(r io.Reader, size int64) error {
	buf := make([]byte, min(size, 256<<10))
	for off := int64(0); off < size; {
		n, err := io.ReadFull(r, buf[:min(size-off, int64(len(buf)))])
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return archiveError(err)
		}
		if _, e := h.write(buf[:n], off, false); e != 0 {
			return e
		}
		off += int64(n)
	}
	return nil
}

// deferred is an entry of an archive that belongs to a mount beneath the
// target directory.
type deferred struct {
	m     *mount
	entry *tarEntry // its name and link are relative to the mount
}

// unpackDeferred unpacks the entries that an import has deferred for mounts.
func (f *FS) unpackDeferred(list []deferred) error {
	all := make(map[*mount]*unpacker)
	for _, d := range list {
		u := all[d.m]
		if u == nil {
			u = &unpacker{m: d.m, q: &f.quota, top: ".", links: make(map[string]bool)}
			all[d.m] = u
		}
		if err := u.unpackEntry(d.entry, &content{in: &inode{blocks: d.entry.blocks, size: d.entry.size}}); err != nil {
			return fmt.Errorf("mount %s: %w", d.m.path, err)
		}
	}
	for _, u := range all {
		if err := u.setDirTimes(); err != nil {
			return err
		}
	}
	return nil
}

// findMount returns the mount that a name of an archive leads into, and the
// rest of the name; nil if the name stays in the tree.
func (im *importer) findMount(name string) (*mount, string) {
	if im.t.mounts == nil {
		return nil, ""
	}
	dir := im.t.table.get(im.top)
	parts := strings.Split(path.Clean(name), "/")
	for i, part := range parts {
		if dir == nil || !dir.isDir() {
			break
		}
		ino := dir.dir.find(part)
		if m := im.t.mounts[ino]; m != nil {
			return m, path.Join(append([]string{"."}, parts[i+1:]...)...)
		}
		dir = im.t.table.get(ino)
	}
	return nil, ""
}

// deferToMount defers an entry that belongs to a mount, and reports whether it
// does.
func (im *importer) deferToMount(e *tarEntry) (bool, error) {
	m, rest := im.findMount(e.name)
	if e.kind == tar.TypeLink {
		to, target := im.findMount(e.link)
		if to != m {
			return false, e.wrapError(fmt.Errorf("a hard link to %s: %w", e.link, EXDEV))
		}
		if m != nil {
			e.link = target
		}
	}
	switch {
	case m == nil:
		return false, nil
	case rest == ".":
		if e.kind != tar.TypeDir {
			return false, e.wrapError(EBUSY)
		}
		return true, nil
	case m.readOnly:
		return false, e.wrapError(EROFS)
	}
	e.name = rest
	im.later = append(im.later, deferred{m, e})
	return true, nil
}

// writeHostTree writes a file of a mount, or a directory with its content.
func (x *exporter) writeHostTree(m *mount, rel, name string) error {
	info, err := m.host.rootDir().Lstat(rel)
	if err != nil {
		return hostErrno(err)
	}
	if err := x.writeHostEntry(m, rel, name, info); err != nil || !info.IsDir() {
		return err
	}
	var fault error
	e := m.host.walkTree(rel, func(below string, info fs.FileInfo) bool {
		shown := name + "/" + below
		if rel != "." {
			shown = name + below[len(rel):]
		}
		if err := x.writeHostEntry(m, below, shown, info); err != nil {
			fault = fmt.Errorf("export %s: %w", shown, err)
		}
		return fault == nil
	})
	if fault == nil && e != 0 {
		fault = fmt.Errorf("export %s: %w", name, e)
	}
	return fault
}

// writeHostEntry writes one file of a mount, unless it was removed.
func (x *exporter) writeHostEntry(m *mount, rel, name string, info fs.FileInfo) error {
	i := hostInfo(info, "")
	h := &tar.Header{
		Format: tar.FormatPAX, Name: name, Mode: unixMode(i.mode), ModTime: i.ModTime(), Uid: int(i.uid), Gid: int(i.gid),
	}
	if first, ok := x.seen[i.ino]; ok && !i.IsDir() {
		h.Typeflag, h.Linkname = tar.TypeLink, first
		return x.tw.WriteHeader(h)
	}
	switch {
	case i.IsDir():
		h.Typeflag, h.Name = tar.TypeDir, name+"/"
	case i.mode.IsRegular():
		return x.writeHostContent(m, rel, h, i)
	case i.mode&fs.ModeSymlink != 0:
		target, e := (&hostLocation{m: m, rel: rel, info: info}).readLink()
		if e != 0 {
			return nil // the file is no symbolic link any more
		}
		h.Typeflag, h.Linkname = tar.TypeSymlink, target
	case i.mode.Type() == fs.ModeNamedPipe:
		h.Typeflag = tar.TypeFifo
	default:
		return nil
	}
	return x.tw.WriteHeader(h)
}

// writeHostContent writes a file, with the size that it has when it is opened.
func (x *exporter) writeHostContent(m *mount, rel string, h *tar.Header, i Info) error {
	file, e := (&hostLocation{m: m, rel: rel}).openThere(os.O_RDONLY)
	if e == eAgain || e == ELOOP || e == EACCES && modeAt(m, rel)&fs.ModeType != 0 {
		return nil // the file is no regular file any more
	}
	if e != 0 {
		return e
	}
	defer file.close()
	if file.dir != nil {
		return nil // likewise
	}
	h.Typeflag, h.Size = tar.TypeReg, file.size()
	if i.nlink > 1 {
		x.seen[i.ino] = path.Clean(h.Name)
	}
	if err := x.tw.WriteHeader(h); err != nil {
		return err
	}
	n, err := io.Copy(x.tw, io.NewSectionReader(file.f, 0, h.Size))
	if err == nil && n < h.Size {
		err = fmt.Errorf("file shrank while it was read: %w", EIO)
	}
	return err
}

// modeAt returns the current mode of a file.
func modeAt(m *mount, rel string) fs.FileMode {
	info, err := m.host.rootDir().Lstat(rel)
	if err != nil {
		return fs.ModeIrregular
	}
	return info.Mode()
}
