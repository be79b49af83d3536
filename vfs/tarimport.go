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

// ImportTar unpacks a tar stream into a directory, which is made if it is
// missing. All of it appears at once, when the stream has been read to its
// end; when anything fails, nothing has changed.
//
// Modes, times, hard links, symbolic links, pipes and empty directories are
// kept; the owner is that of the file system. What has the name of an entry
// is replaced, except that a directory stays with what is in it and can't be
// replaced by something else. Refused, with an error that names the entry,
// are devices, absolute names, names with "..", and what would be written
// through a link that the archive itself has made or that leads out of the
// directory.
//
// Into a mount the entries go one by one, each file whole or not at all; when
// something fails those before it stay. Pipes are refused there.
func (f *FS) ImportTar(dir string, r io.Reader) error {
	if f.crosses(dir) {
		return f.importAcross(dir, r)
	}
	entries, err := f.readTar(r)
	if err != nil {
		return err
	}
	later, err := f.enterAll(dir, entries)
	if err != nil {
		return err
	}
	return f.unpackDeferred(later)
}

// enterAll enters the entries of an archive, or none, and returns those that
// belong to mounts.
func (f *FS) enterAll(dir string, entries []*tarEntry) ([]deferred, error) {
	now := f.now().UnixNano()
	f.mu.Lock()
	defer f.mu.Unlock()
	im := importer{fs: f, t: f.tree, now: now, links: make(map[uint64]bool), times: make(map[uint64]time.Time)}
	err := f.attempt(func() error { return im.run(dir, entries) })
	return im.later, err
}

// attempt does something under the lock and takes all of it back if it
// fails.
func (f *FS) attempt(do func() error) error {
	before := f.snapshot()
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

// tarEntry is one entry of an archive, read but not yet in the tree.
type tarEntry struct {
	name   string // as in the archive
	kind   byte
	mode   fs.FileMode
	mtime  time.Time
	link   string
	size   int64
	blocks []*block
}

func (e *tarEntry) fail(err error) error {
	return &fs.PathError{Op: "import", Path: e.name, Err: err}
}

// refuse says why an entry is not taken.
func (e *tarEntry) refuse(why string) error {
	return e.fail(fmt.Errorf("%s: %w", why, EINVAL))
}

// readTar reads an archive to its end. What it keeps is bounded by the
// quota: as many bytes as the tree may have, as many entries as it may have
// names besides those it has.
func (f *FS) readTar(r io.Reader) ([]*tarEntry, error) {
	tr := tar.NewReader(r)
	var entries []*tarEntry
	left := f.quota.Bytes
	most := f.mostEntries()
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
			return nil, e.fail(ENAMETOOLONG)
		case len(entries) >= most:
			return nil, e.fail(ENOSPC)
		case e.size > f.quota.File:
			return nil, e.fail(EFBIG)
		case size > left:
			return nil, e.fail(ENOSPC)
		default:
			left -= size
		}
		if e.blocks, err = readBlocks(tr, e.size); err != nil {
			return nil, e.fail(archiveError(err))
		}
		entries = append(entries, e)
	}
}

// mostEntries returns how many entries an archive may have.
func (f *FS) mostEntries() int {
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

// archiveError gives what is wrong with an archive its reason. Errors of the
// reader beneath stay as they are.
func archiveError(err error) error {
	if errors.Is(err, tar.ErrHeader) || errors.Is(err, tar.ErrFieldTooLong) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("archive: %w: %w", err, EINVAL)
	}
	return fmt.Errorf("archive: %w", err)
}

// newEntry checks the header of an entry. It is nil for what says nothing
// about a file.
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
		return nil, e.refuse("a device")
	default:
		return nil, e.refuse(fmt.Sprintf("an entry of unknown kind %q", h.Typeflag))
	}
	if why := badName(h.Name); why != "" {
		return nil, e.refuse(why)
	}
	if h.Typeflag == tar.TypeLink {
		if why := badName(h.Linkname); why != "" {
			return nil, e.refuse("a hard link to " + h.Linkname + ", " + why)
		}
	}
	return e, nil
}

// badName says what is wrong with a name in an archive.
func badName(name string) string {
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

// readBlocks reads the content of a file.
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

// importer enters the entries of an archive into a tree.
type importer struct {
	fs    *FS
	t     *tree
	now   int64
	top   uint64               // the directory that is never left
	links map[uint64]bool      // symbolic links that the archive has made
	times map[uint64]time.Time // of directories, set when all is in them
	later []deferred           // entries for mounts
}

func (im *importer) run(dir string, entries []*tarEntry) error {
	e := im.fs.makeDirs(dir, fs.ModeDir|0o755, im.now)
	var top *inode
	if e == 0 {
		top, e = im.t.lookupExisting(&im.fs.quota, dir, true)
	}
	if e == eCross {
		e = EBUSY // it was in no mount a moment ago
	}
	if e != 0 {
		return pathError("import", dir, e)
	}
	im.top = top.ino
	for _, e := range entries {
		handed, err := im.hand(e)
		if err == nil && !handed {
			err = im.enter(e)
		}
		if err != nil {
			return err
		}
	}
	for ino, mtime := range im.times {
		if in := im.t.table.get(ino); in != nil && in.isDir() {
			im.t.own(in).mtime = timeStamp(mtime)
		}
	}
	return nil
}

// enter adds one entry.
func (im *importer) enter(e *tarEntry) error {
	pl, err := im.place(e, e.name)
	if err != nil {
		return err
	}
	if e.kind == tar.TypeDir {
		return im.directory(e, pl)
	}
	if pl.in != nil && pl.in.isDir() {
		return e.fail(EISDIR)
	}
	if e.kind == tar.TypeLink {
		return im.hardLink(e, pl)
	}
	return im.node(e, pl)
}

// place finds the directory of an entry, making what is missing, and what
// has the entry's name there.
func (im *importer) place(e *tarEntry, name string) (place, error) {
	pl := place{in: im.t.table.get(im.top), last: lastDot}
	for part := range strings.SplitSeq(path.Clean(name), "/") {
		if part == "." {
			continue
		}
		if len(part) > im.fs.quota.Name {
			return pl, e.fail(ENAMETOOLONG)
		}
		dir, err := im.into(e, pl)
		if err != nil {
			return pl, err
		}
		pl = place{dir: dir, name: part}
		if ino := dir.dir.find(part); ino != 0 {
			pl.in = im.t.table.get(ino)
		}
	}
	return pl, nil
}

// into returns the directory at a place, for what is to be beneath it.
func (im *importer) into(e *tarEntry, pl place) (*inode, error) {
	switch {
	case pl.in == nil:
		in, errno := im.fs.make(pl, fs.ModeDir|0o755, im.now)
		if errno != 0 {
			return nil, e.fail(errno)
		}
		return in, nil
	case im.t.mounts[pl.in.ino] != nil:
		return nil, e.refuse("beneath a link that leads above a mount")
	case pl.in.isDir():
		return pl.in, nil
	case !pl.in.isSymlink():
		return nil, e.fail(ENOTDIR)
	case im.links[pl.in.ino]:
		return nil, e.refuse("beneath a link that the archive has made")
	}
	to, errno := im.t.walkFrom(&im.fs.quota, pl.dir, pl.name, true, true)
	switch {
	case errno == eCross:
		return nil, e.refuse("beneath a link that leads into a mount")
	case errno != 0:
		return nil, e.fail(errno)
	case to.in == nil || to.bad != 0:
		return nil, e.fail(ENOENT)
	case !to.in.isDir():
		return nil, e.fail(ENOTDIR)
	case !im.t.within(to.in, im.t.table.get(im.top)):
		return nil, e.refuse("beneath a link that leads out of the directory")
	}
	return to.in, nil
}

// clear takes away what has the name of an entry.
func (im *importer) clear(pl place) place {
	if pl.in != nil {
		delete(im.links, pl.in.ino)
		im.t.leave(im.t.own(im.t.table.get(pl.dir.ino)), pl.name, pl.in, im.now)
		pl.in = nil
	}
	pl.dir = im.t.table.get(pl.dir.ino)
	return pl
}

func (im *importer) directory(e *tarEntry, pl place) error {
	if pl.in != nil && !pl.in.isDir() {
		pl = im.clear(pl)
	}
	in := pl.in
	if in == nil {
		var errno Errno
		if in, errno = im.fs.make(pl, fs.ModeDir|e.mode, im.now); errno != 0 {
			return e.fail(errno)
		}
	}
	in = im.t.own(in)
	in.mode = fs.ModeDir | e.mode
	im.times[in.ino] = e.mtime
	return nil
}

func (im *importer) hardLink(e *tarEntry, pl place) error {
	to, err := im.place(e, e.link)
	switch {
	case err != nil:
		return err
	case to.in == nil:
		return e.fail(fmt.Errorf("a hard link to %s: %w", e.link, ENOENT))
	case to.in.isDir():
		return e.refuse("a hard link to a directory")
	case to.in == pl.in:
		return nil
	}
	pl = im.clear(pl)
	if im.t.nodes() >= im.fs.quota.Nodes {
		return e.fail(ENOSPC)
	}
	in := im.t.own(im.t.table.get(to.in.ino))
	in.ctime = im.now
	im.t.enter(im.t.own(pl.dir), pl.name, in, im.now)
	return nil
}

// node adds a file, symbolic link or pipe.
func (im *importer) node(e *tarEntry, pl place) error {
	mode := e.mode
	switch e.kind {
	case tar.TypeSymlink:
		mode = fs.ModeSymlink | fs.ModePerm
		e.size = int64(len(e.link))
		if e.link == "" || strings.IndexByte(e.link, 0) >= 0 {
			return e.refuse("a link that leads nowhere")
		}
	case tar.TypeFifo:
		mode |= fs.ModeNamedPipe
	}
	pl = im.clear(pl)
	if e.size > 0 && e.size > im.fs.quota.Bytes-im.t.bytes() {
		return e.fail(ENOSPC)
	}
	in, errno := im.fs.make(pl, mode, im.now)
	if errno != 0 {
		return e.fail(errno)
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
	im.t.charge(in, e.size)
	in.mtime = timeStamp(e.mtime)
	return nil
}
