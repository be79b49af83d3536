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

// unpacker enters the entries of an archive into a directory of a mount, one
// by one: there is no way to make them appear at once on the host.
type unpacker struct {
	m     *mount
	q     *Quota
	top   string          // the directory that is never left
	links map[string]bool // symbolic links that the archive has made
	times []dirTime       // set when all is in the directories
}

type dirTime struct {
	rel string
	at  time.Time
}

// importAcross unpacks a stream into a directory that is in a mount.
func (f *FS) importAcross(dir string, r io.Reader) error {
	if err := f.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for range f.quota.Links {
		m, rest := f.crossing(dir, true, true)
		if m == nil {
			return f.ImportTar(dir, r)
		}
		at, next, e := m.visit(&f.quota, rest, true, true)
		if e == 0 && next != "" {
			dir = next
			continue
		}
		if e == 0 {
			e = at.existing()
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
		return u.stream(r)
	}
	return pathError("import", dir, ELOOP)
}

// stream unpacks an archive as it is read.
func (u *unpacker) stream(r io.Reader) error {
	tr := tar.NewReader(r)
	for {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return u.end()
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
		if err := u.enter(e, tr); err != nil {
			return err
		}
	}
}

// end sets the times of directories, which what came into them has changed.
func (u *unpacker) end() error {
	for _, d := range u.times {
		if err := u.m.host.top().Chtimes(d.rel, time.Time{}, d.at); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return &fs.PathError{Op: "import", Path: d.rel, Err: hostReason(err)}
		}
	}
	return nil
}

// enter adds one entry, whose content is read from r.
func (u *unpacker) enter(e *tarEntry, r io.Reader) error {
	at, err := u.place(e, e.name)
	if err != nil {
		return err
	}
	switch {
	case e.kind == tar.TypeDir:
		err = u.directory(e, at)
	case at.info != nil && at.info.IsDir():
		err = e.fail(EISDIR)
	case e.kind == tar.TypeLink:
		return u.hardLink(e, at)
	case e.kind == tar.TypeSymlink:
		err = u.symlink(e, at)
	case e.kind == tar.TypeReg:
		err = u.file(e, at, r)
	default:
		err = e.refuse("a pipe, which no mount takes")
	}
	return err
}

// look returns the spot of a path without links.
func (u *unpacker) look(rel string) *spot {
	at := &spot{m: u.m, rel: rel}
	at.info, _ = u.m.host.top().Lstat(rel) // without it nothing is there
	return at
}

// place finds the spot of an entry, making the directories on the way.
func (u *unpacker) place(e *tarEntry, name string) (*spot, error) {
	at := u.look(u.top)
	for part := range strings.SplitSeq(path.Clean(name), "/") {
		if part == "." {
			continue
		}
		if len(part) > u.q.Name || depth(at.rel) >= maxDepth {
			return nil, e.fail(ENAMETOOLONG)
		}
		dir, err := u.into(e, at)
		if err != nil {
			return nil, err
		}
		at = u.look(path.Join(dir, part))
	}
	return at, nil
}

// into returns the directory at a spot, for what is to be beneath it.
func (u *unpacker) into(e *tarEntry, at *spot) (string, error) {
	switch {
	case at.info == nil:
		if errno := at.mkdir(0o755); errno != 0 && errno != EEXIST {
			return "", e.fail(errno)
		}
		return at.rel, nil
	case at.info.IsDir():
		return at.rel, nil
	case at.info.Mode()&fs.ModeSymlink == 0:
		return "", e.fail(ENOTDIR)
	case u.links[at.rel]:
		return "", e.refuse("beneath a link that the archive has made")
	}
	to, next, errno := u.m.visit(u.q, "/"+at.rel, true, true)
	switch {
	case errno != 0:
		return "", e.fail(errno)
	case next != "":
		return "", e.refuse("beneath a link that leads out of the directory")
	}
	switch errno := to.existing(); {
	case errno != 0:
		return "", e.fail(errno)
	case !to.info.IsDir():
		return "", e.fail(ENOTDIR)
	case u.top != "." && !within(to.rel, u.top):
		return "", e.refuse("beneath a link that leads out of the directory")
	}
	return to.rel, nil
}

// clear takes away what has the name of an entry.
func (u *unpacker) clear(e *tarEntry, at *spot) error {
	if at.info == nil {
		return nil
	}
	delete(u.links, at.rel)
	if errno := at.remove(unlinkOnly); errno != 0 && errno != ENOENT {
		return e.fail(errno)
	}
	return nil
}

func (u *unpacker) directory(e *tarEntry, at *spot) error {
	if at.rel == "." {
		return nil // the top of a mount is what the host made it
	}
	if at.info != nil && !at.info.IsDir() {
		if err := u.clear(e, at); err != nil {
			return err
		}
		at.info = nil
	}
	if at.info == nil {
		if errno := at.mkdir(e.mode); errno != 0 && errno != EEXIST {
			return e.fail(errno)
		}
	} else if err := at.top().Chmod(at.rel, e.mode&(fs.ModePerm|fs.ModeSticky)); err != nil {
		return e.fail(hostReason(err))
	}
	u.times = append(u.times, dirTime{at.rel, e.mtime})
	return nil
}

func (u *unpacker) symlink(e *tarEntry, at *spot) error {
	if e.link == "" || strings.IndexByte(e.link, 0) >= 0 {
		return e.refuse("a link that leads nowhere")
	}
	if err := u.clear(e, at); err != nil {
		return err
	}
	if errno := at.m.name(); errno != 0 {
		return e.fail(errno)
	}
	if err := at.top().Symlink(e.link, at.rel); err != nil {
		return e.fail(hostReason(err))
	}
	u.links[at.rel] = true
	dir, err := u.m.host.openDir(path.Dir(at.rel))
	if err != nil {
		return e.fail(hostReason(err))
	}
	defer dir.Close() // it was only looked at
	if err := linkTimes(dir, path.Base(at.rel), time.Time{}, e.mtime); err != nil {
		return e.fail(hostReason(err))
	}
	return nil
}

func (u *unpacker) hardLink(e *tarEntry, at *spot) error {
	to, err := u.place(e, e.link)
	switch {
	case err != nil:
		return err
	case to.info == nil:
		return e.fail(fmt.Errorf("a hard link to %s: %w", e.link, ENOENT))
	case to.info.IsDir():
		return e.refuse("a hard link to a directory")
	case at.info != nil && os.SameFile(to.info, at.info):
		return nil
	}
	if err := u.clear(e, at); err != nil {
		return err
	}
	if errno := at.m.name(); errno != 0 {
		return e.fail(errno)
	}
	if err := at.top().Link(to.rel, at.rel); err != nil {
		return e.fail(hostReason(err))
	}
	return nil
}

// file fills a file beside its name and gives it the name when it is whole.
func (u *unpacker) file(e *tarEntry, at *spot, r io.Reader) error {
	temp, h, errno := u.m.temporary(path.Dir(at.rel), e.mode)
	if errno != 0 {
		return e.fail(errno)
	}
	err := h.fill(r, e.size)
	h.close()
	if err == nil {
		err = temp.top().Chtimes(temp.rel, time.Time{}, e.mtime)
		if err != nil {
			err = e.fail(hostReason(err))
		}
	}
	if err == nil {
		delete(u.links, at.rel)
		if errno := temp.rename(at); errno != 0 {
			err = e.fail(errno)
		}
	}
	if err != nil {
		_ = temp.remove(unlinkOnly) // the error that counts is there
	}
	return err
}

// fill writes size bytes of r.
func (h *hostFile) fill(r io.Reader, size int64) error {
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

// deferred is an entry of an archive for a directory of a tree that belongs
// to a mount beneath it.
type deferred struct {
	m     *mount
	entry *tarEntry // its name and link are relative to the mount
}

// unpackDeferred enters what an import has left for mounts.
func (f *FS) unpackDeferred(list []deferred) error {
	all := make(map[*mount]*unpacker)
	for _, d := range list {
		u := all[d.m]
		if u == nil {
			u = &unpacker{m: d.m, q: &f.quota, top: ".", links: make(map[string]bool)}
			all[d.m] = u
		}
		if err := u.enter(d.entry, &content{in: &inode{blocks: d.entry.blocks, size: d.entry.size}}); err != nil {
			return fmt.Errorf("in the mount %s: %w", d.m.path, err)
		}
	}
	for _, u := range all {
		if err := u.end(); err != nil {
			return err
		}
	}
	return nil
}

// crossed returns the mount that a name of an archive leads into, and the
// rest of the name; nil where it stays in the tree.
func (im *importer) crossed(name string) (*mount, string) {
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

// hand leaves an entry for the mount that it belongs to, and reports whether
// it does.
func (im *importer) hand(e *tarEntry) (bool, error) {
	m, rest := im.crossed(e.name)
	if e.kind == tar.TypeLink {
		to, target := im.crossed(e.link)
		if to != m {
			return false, e.fail(fmt.Errorf("a hard link to %s: %w", e.link, EXDEV))
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
			return false, e.fail(EBUSY)
		}
		return true, nil
	case m.readOnly:
		return false, e.fail(EROFS)
	}
	e.name = rest
	im.later = append(im.later, deferred{m, e})
	return true, nil
}

// hostTree writes what is in a directory of a mount, and the directory or
// file itself.
func (x *exporter) hostTree(m *mount, rel, name string) error {
	info, err := m.host.top().Lstat(rel)
	if err != nil {
		return hostReason(err)
	}
	if err := x.hostEntry(m, rel, name, info); err != nil || !info.IsDir() {
		return err
	}
	var fault error
	e := m.host.walk(rel, func(below string, info fs.FileInfo) bool {
		shown := name + "/" + below
		if rel != "." {
			shown = name + below[len(rel):]
		}
		if err := x.hostEntry(m, below, shown, info); err != nil {
			fault = fmt.Errorf("export %s: %w", shown, err)
		}
		return fault == nil
	})
	if fault == nil && e != 0 {
		fault = fmt.Errorf("export %s: %w", name, e)
	}
	return fault
}

// hostEntry writes one file of a mount; one that went away is left out.
func (x *exporter) hostEntry(m *mount, rel, name string, info fs.FileInfo) error {
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
		return x.hostContent(m, rel, h, i)
	case i.mode&fs.ModeSymlink != 0:
		target, e := (&spot{m: m, rel: rel, info: info}).readlink()
		if e != 0 {
			return nil // it is none any more
		}
		h.Typeflag, h.Linkname = tar.TypeSymlink, target
	case i.mode.Type() == fs.ModeNamedPipe:
		h.Typeflag = tar.TypeFifo
	default:
		return nil
	}
	return x.tw.WriteHeader(h)
}

// hostContent writes a file, with the size that it has when it is opened.
func (x *exporter) hostContent(m *mount, rel string, h *tar.Header, i Info) error {
	file, e := (&spot{m: m, rel: rel}).openThere(os.O_RDONLY)
	if e == eAgain || e == ELOOP || e == EACCES && hostMode(m, rel)&fs.ModeType != 0 {
		return nil // it is none any more
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
		err = fmt.Errorf("it shrank while it was read: %w", EIO)
	}
	return err
}

// hostMode returns what a name is now.
func hostMode(m *mount, rel string) fs.FileMode {
	info, err := m.host.top().Lstat(rel)
	if err != nil {
		return fs.ModeIrregular
	}
	return info.Mode()
}
