package vfs

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"strings"
	"time"
)

// ImportTar unpacks a tar stream into a directory, which is created if it is
// missing. The import is atomic: all entries appear at once when the stream
// has been read to its end; if anything fails, nothing has changed.
//
// Modes, times, hard links, symbolic links, pipes and empty directories are
// preserved; the owner is that of the file system. An entry replaces a file
// of the same name, except that a directory keeps its content and can't be
// replaced by another kind of file. These are rejected, with an error that
// names the entry: devices, absolute names, names with "..", and entries
// beneath a symbolic link that the archive itself has created or that leads
// out of the directory.
//
// Into a mount, entries are unpacked one by one, each file atomically; if an
// entry fails, those before it stay. Pipes are rejected there.
func (f *FS) ImportTar(dir string, r io.Reader) error {
	if f.crossesMount(dir) {
		return f.importAcross(dir, r)
	}
	entries, err := f.readTar(r)
	if err != nil {
		return err
	}
	later, err := f.importEntries(dir, entries)
	if err != nil {
		return err
	}
	return f.unpackDeferred(later)
}

// importEntries adds the entries of an archive to the tree, or none, and
// returns those that belong to mounts.
func (f *FS) importEntries(dir string, entries []*tarEntry) ([]deferred, error) {
	now := f.now().UnixNano()
	f.mu.Lock()
	defer f.mu.Unlock()
	im := importer{fs: f, t: f.tree, now: now, links: make(map[uint64]bool), times: make(map[uint64]time.Time)}
	err := f.applyOrRollBack(func() error { return im.importAll(dir, entries) })
	return im.later, err
}

// applyOrRollBack calls do under the lock and reverts its changes if it fails.
func (f *FS) applyOrRollBack(do func() error) error {
	before := f.snapshotLocked()
	t := f.tree
	lost := t.lost
	open, orphans := maps.Clone(t.open), maps.Clone(t.orphans)
	err := do()
	if err == nil {
		return nil
	}
	t.table, t.used, t.lost = before.table, before.used, lost
	t.open, t.orphans = open, orphans
	for _, h := range open {
		h.orphan = nil
	}
	return err
}

// tarEntry is an entry of an archive that is not in the tree yet.
type tarEntry struct {
	name   string // as in the archive
	kind   byte
	mode   fs.FileMode
	mtime  time.Time
	link   string
	size   int64
	blocks []*block
}

func (e *tarEntry) wrapError(err error) error {
	return &fs.PathError{Op: "import", Path: e.name, Err: err}
}

// rejectEntry returns the error for an entry that is not allowed.
func (e *tarEntry) rejectEntry(why string) error {
	return e.wrapError(fmt.Errorf("%s: %w", why, EINVAL))
}

// readTar reads an archive to its end. The quota bounds what it stores: as
// many bytes as the tree may have, and as many entries as the quota allows
// names besides those in the tree.
func (f *FS) readTar(r io.Reader) ([]*tarEntry, error) {
	tr := tar.NewReader(r)
	var entries []*tarEntry
	left := f.quota.Bytes
	limit := f.maxEntries()
	for {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return entries, nil
		}
		if err != nil {
			return nil, archiveError(err)
		}
		e, err := newEntry(h)
		if err != nil {
			return nil, err
		}
		if e == nil {
			continue
		}
		switch size := e.size + int64(len(e.link)); {
		case max(len(e.name), len(e.link)) >= f.quota.Path:
			return nil, e.wrapError(ENAMETOOLONG)
		case len(entries) >= limit:
			return nil, e.wrapError(ENOSPC)
		case e.size > f.quota.File:
			return nil, e.wrapError(EFBIG)
		case size > left:
			return nil, e.wrapError(ENOSPC)
		default:
			left -= size
		}
		if e.blocks, err = readBlocks(tr, e.size); err != nil {
			return nil, e.wrapError(archiveError(err))
		}
		entries = append(entries, e)
	}
}

// maxEntries returns how many entries an archive may have.
func (f *FS) maxEntries() int {
	f.mu.RLock()
	defer f.mu.RUnlock()
	n := f.quota.Nodes
	for _, g := range f.tree.table.groups {
		if g != nil && n+g.used > n {
			n += g.used
		}
	}
	return n
}

// archiveError wraps an error of reading an archive: a malformed archive is
// EINVAL, errors of the underlying reader keep their cause.
func archiveError(err error) error {
	if errors.Is(err, tar.ErrHeader) || errors.Is(err, tar.ErrFieldTooLong) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("archive: %w: %w", err, EINVAL)
	}
	return fmt.Errorf("archive: %w", err)
}

// newEntry checks the header of an entry. It returns nil for a header that
// describes no file.
func newEntry(h *tar.Header) (*tarEntry, error) {
	// Strings of a header may be a small part of a big record: keep copies.
	e := &tarEntry{name: strings.Clone(h.Name), kind: h.Typeflag, mode: goMode(h.Mode), mtime: h.ModTime}
	switch h.Typeflag {
	case tar.TypeXGlobalHeader:
		return nil, nil
	case tar.TypeReg, tar.TypeCont, tar.TypeGNUSparse:
		e.kind, e.size = tar.TypeReg, h.Size
	case tar.TypeDir, tar.TypeFifo:
	case tar.TypeSymlink, tar.TypeLink:
		e.link = strings.Clone(h.Linkname)
	case tar.TypeChar, tar.TypeBlock:
		return nil, e.rejectEntry("a device")
	default:
		return nil, e.rejectEntry(fmt.Sprintf("an entry of unknown kind %q", h.Typeflag))
	}
	if why := describeBadName(h.Name); why != "" {
		return nil, e.rejectEntry(why)
	}
	if h.Typeflag == tar.TypeLink {
		if why := describeBadName(h.Linkname); why != "" {
			return nil, e.rejectEntry("a hard link to " + h.Linkname + ", " + why)
		}
	}
	return e, nil
}

// describeBadName returns what is wrong with a name in an archive; "" if
// nothing is.
func describeBadName(name string) string {
	switch {
	case name == "":
		return "an empty name"
	case strings.HasPrefix(name, "/"):
		return "an absolute name"
	case strings.IndexByte(name, 0) >= 0:
		return "a name with a zero byte"
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == ".." {
			return "a name that leads out of the directory"
		}
	}
	return ""
}

// readBlocks reads the content of a file of the given size.
func readBlocks(r io.Reader, size int64) ([]*block, error) {
	var out []*block
	for size > 0 {
		data := make([]byte, min(size, blockSize))
		if _, err := io.ReadFull(r, data); err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
		out = append(out, &block{data: data})
		size -= int64(len(data))
	}
	return out, nil
}

// importer adds the entries of an archive to a tree.
type importer struct {
	fs    *FS
	t     *tree
	now   int64
	top   uint64               // target directory; entries can't leave it
	links map[uint64]bool      // symbolic links that the archive has created
	times map[uint64]time.Time // of directories, set after all their entries
	later []deferred           // entries for mounts
}

func (im *importer) importAll(dir string, entries []*tarEntry) error {
	e := im.fs.makeDirs(dir, fs.ModeDir|0o755, im.now)
	var top *inode
	if e == 0 {
		top, e = im.t.lookupExisting(&im.fs.quota, dir, true)
	}
	if e == eCross {
		e = EBUSY // a mount was added meanwhile
	}
	if e != 0 {
		return pathError("import", dir, e)
	}
	im.top = top.ino
	for _, e := range entries {
		handed, err := im.deferToMount(e)
		if err == nil && !handed {
			err = im.addEntry(e)
		}
		if err != nil {
			return err
		}
	}
	for ino, mtime := range im.times {
		if in := im.t.table.get(ino); in != nil && in.isDir() {
			im.t.ownInode(in).mtime = toNanos(mtime)
		}
	}
	return nil
}

// addEntry adds one entry.
func (im *importer) addEntry(e *tarEntry) error {
	pl, err := im.findLocation(e, e.name)
	if err != nil {
		return err
	}
	if e.kind == tar.TypeDir {
		return im.addDirectory(e, pl)
	}
	if pl.in != nil && pl.in.isDir() {
		return e.wrapError(EISDIR)
	}
	if e.kind == tar.TypeLink {
		return im.addHardLink(e, pl)
	}
	return im.addNode(e, pl)
}

// findLocation returns the location of a name in the archive and creates the
// missing directories above it.
func (im *importer) findLocation(e *tarEntry, name string) (location, error) {
	pl := location{in: im.t.table.get(im.top), last: lastDot}
	for part := range strings.SplitSeq(path.Clean(name), "/") {
		if part == "." {
			continue
		}
		if len(part) > im.fs.quota.Name {
			return pl, e.wrapError(ENAMETOOLONG)
		}
		dir, err := im.descendInto(e, pl)
		if err != nil {
			return pl, err
		}
		pl = location{dir: dir, name: part}
		if ino := dir.dir.find(part); ino != 0 {
			pl.in = im.t.table.get(ino)
		}
	}
	return pl, nil
}

// descendInto returns the directory at a location, for an entry beneath it,
// and creates it if it is missing.
func (im *importer) descendInto(e *tarEntry, pl location) (*inode, error) {
	switch {
	case pl.in == nil:
		in, errno := im.fs.makeInode(pl, fs.ModeDir|0o755, im.now)
		if errno != 0 {
			return nil, e.wrapError(errno)
		}
		return in, nil
	case im.t.mounts[pl.in.ino] != nil:
		return nil, e.rejectEntry("beneath a link that leads above a mount")
	case pl.in.isDir():
		return pl.in, nil
	case !pl.in.isSymlink():
		return nil, e.wrapError(ENOTDIR)
	case im.links[pl.in.ino]:
		return nil, e.rejectEntry("beneath a link that the archive has made")
	}
	to, errno := im.t.walkFrom(&im.fs.quota, pl.dir, pl.name, true, true)
	switch {
	case errno == eCross:
		return nil, e.rejectEntry("beneath a link that leads into a mount")
	case errno != 0:
		return nil, e.wrapError(errno)
	case to.in == nil || to.bad != 0:
		return nil, e.wrapError(ENOENT)
	case !to.in.isDir():
		return nil, e.wrapError(ENOTDIR)
	case !im.t.isWithin(to.in, im.t.table.get(im.top)):
		return nil, e.rejectEntry("beneath a link that leads out of the directory")
	}
	return to.in, nil
}

// removeExisting removes the file that has the name of an entry.
func (im *importer) removeExisting(pl location) location {
	if pl.in != nil {
		delete(im.links, pl.in.ino)
		im.t.removeName(im.t.ownInode(im.t.table.get(pl.dir.ino)), pl.name, pl.in, im.now)
		pl.in = nil
	}
	pl.dir = im.t.table.get(pl.dir.ino)
	return pl
}

func (im *importer) addDirectory(e *tarEntry, pl location) error {
	if pl.in != nil && !pl.in.isDir() {
		pl = im.removeExisting(pl)
	}
	in := pl.in
	if in == nil {
		var errno Errno
		if in, errno = im.fs.makeInode(pl, fs.ModeDir|e.mode, im.now); errno != 0 {
			return e.wrapError(errno)
		}
	}
	in = im.t.ownInode(in)
	in.mode = fs.ModeDir | e.mode
	im.times[in.ino] = e.mtime
	return nil
}

func (im *importer) addHardLink(e *tarEntry, pl location) error {
	to, err := im.findLocation(e, e.link)
	switch {
	case err != nil:
		return err
	case to.in == nil:
		return e.wrapError(fmt.Errorf("a hard link to %s: %w", e.link, ENOENT))
	case to.in.isDir():
		return e.rejectEntry("a hard link to a directory")
	case to.in == pl.in:
		return nil
	}
	pl = im.removeExisting(pl)
	if im.t.totalNodes() >= im.fs.quota.Nodes {
		return e.wrapError(ENOSPC)
	}
	in := im.t.ownInode(im.t.table.get(to.in.ino))
	in.ctime = im.now
	im.t.addName(im.t.ownInode(pl.dir), pl.name, in, im.now)
	return nil
}

// addNode adds a file, symbolic link or pipe.
func (im *importer) addNode(e *tarEntry, pl location) error {
	mode := e.mode
	switch e.kind {
	case tar.TypeSymlink:
		mode = fs.ModeSymlink | fs.ModePerm
		e.size = int64(len(e.link))
		if e.link == "" || strings.IndexByte(e.link, 0) >= 0 {
			return e.rejectEntry("a symbolic link with an invalid target")
		}
	case tar.TypeFifo:
		mode |= fs.ModeNamedPipe
	}
	pl = im.removeExisting(pl)
	if e.size > 0 && e.size > im.fs.quota.Bytes-im.t.totalBytes() {
		return e.wrapError(ENOSPC)
	}
	in, errno := im.fs.makeInode(pl, mode, im.now)
	if errno != 0 {
		return e.wrapError(errno)
	}
	switch e.kind {
	case tar.TypeSymlink:
		im.links[in.ino] = true
		in.target = e.link
	case tar.TypeReg:
		in.blocks, in.size = e.blocks, e.size
		for _, b := range e.blocks {
			b.owner = im.t.owner
		}
	}
	im.t.chargeBytes(in, e.size)
	in.mtime = toNanos(e.mtime)
	return nil
}
