package vfs

import (
	"fmt"
	"io/fs"
)

// verify checks from scratch all that is kept up to date in counters.
func (f *FS) verify() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := f.tree
	names := map[uint64]uint32{rootIno: 1}
	var want Usage
	todo := []*inode{t.table.get(rootIno)}
	for len(todo) > 0 {
		dir := todo[0]
		todo = todo[1:]
		n, subdirs, last := 0, 0, ""
		for it := range dir.dir.all {
			in := t.table.get(it.ino)
			if in == nil {
				return fmt.Errorf("name %q leads nowhere", it.name)
			}
			if it.name <= last {
				return fmt.Errorf("name %q after %q", it.name, last)
			}
			last = it.name
			n++
			names[it.ino]++
			if in.parent != 0 && in.parent != dir.ino {
				return fmt.Errorf("inode %d has parent %d instead of %d", in.ino, in.parent, dir.ino)
			}
			if in.isDir() {
				subdirs++
				todo = append(todo, in)
			}
			if dir.dir.find(it.name) != it.ino {
				return fmt.Errorf("name %q is not found", it.name)
			}
		}
		if n != dir.dir.len || subdirs != dir.dir.subdirs {
			return fmt.Errorf("directory %d: %d names, %d directories; counted %d, %d", dir.ino, dir.dir.len, dir.dir.subdirs, n, subdirs)
		}
	}
	pay := func(in *inode) {
		if in.payer != t.payer {
			return
		}
		want.Bytes += in.bytes
		want.Nodes += int(in.paid)
		if in.native && in.ino != rootIno {
			switch in.mode.Type() {
			case fs.ModeDir:
				want.Dirs++
			case 0:
				want.Files++
			}
		}
	}
	groups := map[int]int{}
	for p, number := range t.table.pages {
		used := 0
		for _, in := range p.nodes {
			if in == nil {
				continue
			}
			used++
			if in.nlink != names[in.ino] {
				return fmt.Errorf("inode %d: %d links, %d names", in.ino, in.nlink, names[in.ino])
			}
			if in.native && in.payer == t.payer && in.isFile() && in.bytes != in.size {
				return fmt.Errorf("inode %d: %d bytes charged for %d", in.ino, in.bytes, in.size)
			}
			pay(in)
		}
		if used != p.used || used == 0 {
			return fmt.Errorf("page %d: %d used, counted %d", number, p.used, used)
		}
		groups[int(number/fan)] += used
	}
	for i, g := range t.table.groups {
		if g != nil && g.used != groups[i] {
			return fmt.Errorf("group %d: %d used, counted %d", i, g.used, groups[i])
		}
	}
	for _, h := range t.open {
		if h.orphan != nil || h.refs <= 0 {
			return fmt.Errorf("inode %d is open %d times, orphan %v", h.ino, h.refs, h.orphan != nil)
		}
	}
	// What is open without a name is charged, too, but not listed: only
	// trees without such files are compared.
	if len(t.orphans) == 0 && want != t.used {
		return fmt.Errorf("usage is %+v, counted %+v", t.used, want)
	}
	return nil
}
