package vfs

import (
	"archive/tar"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
)

// ExportTar writes a file, or a directory with its content, as a tar stream.
// The stream has the state at the moment of the call. Its names begin with
// the last name of the path, or with "." for the root; a symbolic link at the
// end of the path is followed. Modes, owners, times, hard links, symbolic
// links and empty directories are preserved. Devices and sockets are left
// out, since no import accepts them. A name as long as the path quota is an
// error.
//
// Mounts are exported too, in the state in which they are read.
func (f *FS) ExportTar(path string, w io.Writer) error {
	x, err := f.Export(path)
	if err != nil {
		return err
	}
	return x.WriteTar(w)
}

// Export is a prepared export that can be written once or several times.
type Export struct {
	write func(io.Writer) error
}

// WriteTar writes the tar stream.
func (x *Export) WriteTar(w io.Writer) error { return x.write(w) }

// Export prepares what [FS.ExportTar] writes, in the current state.
func (f *FS) Export(path string) (*Export, error) {
	for range f.quota.Links {
		m, rest := f.findCrossing(path, true, true)
		if m == nil {
			return f.exportTree(path)
		}
		at, next, e := m.walkLinkByLink(&f.quota, rest, true, true)
		if e == 0 && next != "" {
			path = next
			continue
		}
		if e == 0 {
			e = at.checkExists()
		}
		if e != 0 {
			return nil, pathError("export", path, e)
		}
		name := baseName(joinPath(m.path, at.rel))
		return &Export{func(w io.Writer) error {
			x := exporter{longest: f.quota.Path, tw: tar.NewWriter(w), seen: make(map[uint64]string)}
			if err := x.writeHostTree(m, at.rel, name); err != nil {
				return err
			}
			return x.tw.Close()
		}}, nil
	}
	return nil, pathError("export", path, ELOOP)
}

// exportTree is Export for a path in the tree, with the mounts beneath it.
func (f *FS) exportTree(path string) (*Export, error) {
	f.mu.Lock()
	s := f.snapshotLocked()
	mounts := maps.Clone(f.tree.mounts)
	_, e := f.tree.lookupExisting(&f.quota, path, true)
	f.mu.Unlock()
	if e != 0 {
		return nil, pathError("export", path, e)
	}
	return &Export{func(w io.Writer) error { return s.exportTo(path, w, mounts) }}, nil
}

// ExportTar is [FS.ExportTar] for the content of the snapshot.
func (s *Snapshot) ExportTar(path string, w io.Writer) error { return s.exportTo(path, w, nil) }

func (s *Snapshot) exportTo(path string, w io.Writer, mounts map[uint64]*mount) error {
	t := s.toTree(s.payer, s.used)
	pl, e := t.lookupPath(&s.quota, path, true)
	switch {
	case e != 0:
	case pl.in == nil:
		e = ENOENT
	case pl.slash && !pl.in.isDir():
		e = ENOTDIR
	}
	if e != 0 {
		return pathError("export", path, e)
	}
	x := exporter{t: t, mounts: mounts, longest: s.quota.Path, tw: tar.NewWriter(w), seen: make(map[uint64]string)}
	if err := x.writeTree(pl.in, t.exportName(path, pl)); err != nil {
		return err
	}
	return x.tw.Close()
}

// exportName returns the name that begins the entries of an export.
func (t *tree) exportName(path string, pl location) string {
	switch {
	case pl.in.ino == rootIno:
		return "."
	case pl.last == lastName:
		if name := baseName(path); name != "." && name != ".." {
			return name
		}
	}
	if pl.in.isDir() {
		return t.table.get(pl.in.parent).dir.nameOf(pl.in.ino)
	}
	return pl.name
}

// exporter writes the inodes of a tree that does not change meanwhile.
type exporter struct {
	t       *tree
	tw      *tar.Writer
	seen    map[uint64]string // entries of inodes with more than one name
	longest int               // names must be shorter
	mounts  map[uint64]*mount
}

// item is an inode that is still to be written, with the name of its entry.
type item struct {
	in   *inode
	name string
}

// writeTree writes an inode and everything beneath it, parents first, sorted
// by name. It does not recurse, as directories may be nested deeper than a
// stack allows.
func (x *exporter) writeTree(in *inode, name string) error {
	todo := []item{{in, name}}
	for len(todo) > 0 {
		it := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if m := x.mounts[it.in.ino]; m != nil {
			if err := x.writeHostTree(m, ".", it.name); err != nil {
				return fmt.Errorf("export %s: %w", it.name, err)
			}
			continue
		}
		if err := x.writeEntry(it.in, it.name); err != nil {
			return fmt.Errorf("export %s: %w", it.name, err)
		}
		if !it.in.isDir() {
			continue
		}
		entries := it.in.dir.entriesAfter("", -1)
		for i := len(entries) - 1; i >= 0; i-- {
			todo = append(todo, item{x.t.table.get(entries[i].ino), joinName(it.name, entries[i].name)})
		}
	}
	return nil
}

// joinName appends a name to the path of a directory.
func joinName(dir, name string) string {
	if dir == "/" {
		return "/" + name
	}
	return dir + "/" + name
}

func (x *exporter) writeEntry(in *inode, name string) error {
	h := x.buildHeader(in, name)
	switch {
	case h == nil:
		return nil
	case len(name) >= x.longest:
		return ENAMETOOLONG
	}
	if err := x.tw.WriteHeader(h); err != nil {
		return err
	}
	if h.Typeflag != tar.TypeReg {
		return nil
	}
	_, err := io.Copy(x.tw, &content{in: in})
	return err
}

// buildHeader returns the header for an inode, or nil if it is omitted.
func (x *exporter) buildHeader(in *inode, name string) *tar.Header {
	h := &tar.Header{
		Format: tar.FormatPAX, Name: name, Mode: unixMode(in.mode), ModTime: fromNanos(in.mtime),
		Uid: int(in.uid), Gid: int(in.gid),
	}
	if first, ok := x.seen[in.ino]; ok {
		h.Typeflag, h.Linkname = tar.TypeLink, first
		return h
	}
	switch {
	case in.isDir():
		h.Typeflag, h.Name = tar.TypeDir, name+"/"
	case in.isFile():
		h.Typeflag, h.Size = tar.TypeReg, in.size
	case in.isSymlink():
		h.Typeflag, h.Linkname = tar.TypeSymlink, in.target
	case in.mode.Type() == fs.ModeNamedPipe:
		h.Typeflag = tar.TypeFifo
	default:
		return nil
	}
	if in.nlink > 1 && !in.isDir() {
		x.seen[in.ino] = path.Clean(name)
	}
	return h
}

// unixMode converts a mode to the number that Unix uses.
func unixMode(m fs.FileMode) int64 {
	n := int64(m.Perm())
	if m&fs.ModeSetuid != 0 {
		n |= 0o4000
	}
	if m&fs.ModeSetgid != 0 {
		n |= 0o2000
	}
	if m&fs.ModeSticky != 0 {
		n |= 0o1000
	}
	return n
}

// goMode is the inverse of unixMode.
func goMode(n int64) fs.FileMode {
	m := fs.FileMode(n & 0o777)
	if n&0o4000 != 0 {
		m |= fs.ModeSetuid
	}
	if n&0o2000 != 0 {
		m |= fs.ModeSetgid
	}
	if n&0o1000 != 0 {
		m |= fs.ModeSticky
	}
	return m
}

// content reads a file that does not change meanwhile.
type content struct {
	in  *inode
	off int64
}

func (c *content) Read(p []byte) (int, error) {
	for {
		n, need := c.in.read(p, c.off)
		switch {
		case need != nil:
			if err := need.load(); err != nil {
				return 0, err
			}
		case n == 0 && len(p) > 0:
			return 0, io.EOF
		default:
			c.off += int64(n)
			return n, nil
		}
	}
}
