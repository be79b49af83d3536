package vfs

import (
	"archive/tar"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
)

// ExportTar writes a file or a directory with all in it as a tar stream, as
// it is at the moment of the call. The names in it begin with the last name
// of the path, or with "." for the root; a link at the end of the path is
// followed. Modes, owners, times, hard links, symbolic links and empty
// directories are kept. Devices and sockets are left out, since no import
// takes them. A name as long as the quota for paths is an error.
//
// What is mounted is exported too, as it is when it is read.
func (f *FS) ExportTar(path string, w io.Writer) error {
	x, err := f.Export(path)
	if err != nil {
		return err
	}
	return x.WriteTar(w)
}

// Export is an export that has been noted and is still to be written.
type Export struct {
	write func(io.Writer) error
}

// WriteTar writes the tar stream.
func (x *Export) WriteTar(w io.Writer) error { return x.write(w) }

// Export notes what [FS.ExportTar] is to write, as it is at this moment.
func (f *FS) Export(path string) (*Export, error) {
	for range f.quota.Links {
		m, rest := f.crossing(path, true, true)
		if m == nil {
			return f.export(path)
		}
		at, next, e := m.visit(&f.quota, rest, true, true)
		if e == 0 && next != "" {
			path = next
			continue
		}
		if e == 0 {
			e = at.existing()
		}
		if e != 0 {
			return nil, pathError("export", path, e)
		}
		name := base(joinPath(m.path, at.rel))
		return &Export{func(w io.Writer) error {
			x := exporter{longest: f.quota.Path, tw: tar.NewWriter(w), seen: make(map[uint64]string)}
			if err := x.hostTree(m, at.rel, name); err != nil {
				return err
			}
			return x.tw.Close()
		}}, nil
	}
	return nil, pathError("export", path, ELOOP)
}

// export is Export for what is in the tree, with the mounts beneath it.
func (f *FS) export(path string) (*Export, error) {
	f.mu.Lock()
	s := f.snapshot()
	mounts := maps.Clone(f.tree.mounts)
	_, e := f.tree.lookupExisting(&f.quota, path, true)
	f.mu.Unlock()
	if e != 0 {
		return nil, pathError("export", path, e)
	}
	return &Export{func(w io.Writer) error { return s.export(path, w, mounts) }}, nil
}

// ExportTar is [FS.ExportTar] for what the snapshot holds.
func (s *Snapshot) ExportTar(path string, w io.Writer) error { return s.export(path, w, nil) }

func (s *Snapshot) export(path string, w io.Writer, mounts map[uint64]*mount) error {
	t := s.grow(s.payer, s.used)
	pl, e := t.lookup(&s.quota, path, true)
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
	if err := x.tree(pl.in, t.exportName(path, pl)); err != nil {
		return err
	}
	return x.tw.Close()
}

// exportName returns what the entries of an export begin with.
func (t *tree) exportName(path string, pl place) string {
	switch {
	case pl.in.ino == rootIno:
		return "."
	case pl.last == lastName:
		if name := base(path); name != "." && name != ".." {
			return name
		}
	}
	if pl.in.isDir() {
		return t.table.get(pl.in.parent).dir.nameOf(pl.in.ino)
	}
	return pl.name
}

// exporter writes the inodes of a tree that nobody changes.
type exporter struct {
	t       *tree
	tw      *tar.Writer
	seen    map[uint64]string // entries of inodes with more than one name
	longest int               // what no name may reach
	mounts  map[uint64]*mount
}

// item is an inode that is still to write, with the name of its entry.
type item struct {
	in   *inode
	name string
}

// tree writes an inode and all beneath it, parents first, in the order of
// names. It keeps its own list, as directories may be deeper than a stack.
func (x *exporter) tree(in *inode, name string) error {
	todo := []item{{in, name}}
	for len(todo) > 0 {
		it := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if m := x.mounts[it.in.ino]; m != nil {
			if err := x.hostTree(m, ".", it.name); err != nil {
				return fmt.Errorf("export %s: %w", it.name, err)
			}
			continue
		}
		if err := x.entry(it.in, it.name); err != nil {
			return fmt.Errorf("export %s: %w", it.name, err)
		}
		if !it.in.isDir() {
			continue
		}
		entries := it.in.dir.after("", -1)
		for i := len(entries) - 1; i >= 0; i-- {
			todo = append(todo, item{x.t.table.get(entries[i].ino), join(it.name, entries[i].name)})
		}
	}
	return nil
}

// join adds a name to the path of a directory.
func join(dir, name string) string {
	if dir == "/" {
		return "/" + name
	}
	return dir + "/" + name
}

func (x *exporter) entry(in *inode, name string) error {
	h := x.header(in, name)
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

// header describes an inode, or is nil for one that is left out.
func (x *exporter) header(in *inode, name string) *tar.Header {
	h := &tar.Header{
		Format: tar.FormatPAX, Name: name, Mode: unixMode(in.mode), ModTime: stampTime(in.mtime),
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

// unixMode returns the permission bits as numbers of Unix.
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

// goMode is the opposite of unixMode.
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

// content reads a file that nobody changes.
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
