package vfs

import "fmt"

// verify checks from scratch all that is kept up to date in counters.
func (f *FS) verify() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := f.tree
	names := map[uint64]uint32{rootIno: 1}
	todo := []*inode{t.table.get(rootIno)}
	for len(todo) > 0 {
		dir := todo[0]
		more, err := t.verifyDir(dir, names)
		if err != nil {
			return err
		}
		todo = append(todo[1:], more...)
	}
	if err := t.verifyTable(names); err != nil {
		return err
	}
	for _, h := range t.open {
		if h.orphan != nil || h.refs <= 0 {
			return fmt.Errorf("inode %d is open %d times, orphan %v", h.ino, h.refs, h.orphan != nil)
		}
	}
	return nil
}

// verifyDir checks the names in a directory and returns the directories.
func (t *tree) verifyDir(dir *inode, names map[uint64]uint32) (subdirs []*inode, err error) {
	n, last := 0, ""
	for it := range dir.dir.allEntries {
		in := t.table.get(it.ino)
		switch {
		case in == nil:
			return nil, fmt.Errorf("name %q leads nowhere", it.name)
		case it.name <= last:
			return nil, fmt.Errorf("name %q after %q", it.name, last)
		case in.parent != 0 && in.parent != dir.ino:
			return nil, fmt.Errorf("inode %d has parent %d instead of %d", in.ino, in.parent, dir.ino)
		case dir.dir.find(it.name) != it.ino:
			return nil, fmt.Errorf("name %q is not found", it.name)
		case in.isDir():
			subdirs = append(subdirs, in)
		}
		last = it.name
		n++
		names[it.ino]++
	}
	if n != dir.dir.len || len(subdirs) != dir.dir.subdirs {
		return nil, fmt.Errorf("directory %d: %d names, %d directories; counted %d, %d",
			dir.ino, dir.dir.len, dir.dir.subdirs, n, len(subdirs))
	}
	return subdirs, nil
}

// verifyTable checks all inodes and the sums over them.
func (t *tree) verifyTable(names map[uint64]uint32) error {
	sums := tree{payer: t.payer}
	groups := make([]int, len(t.table.groups))
	for p, number := range t.table.allPages {
		used := 0
		for in := range p.allInodes {
			used++
			if in.nlink != names[in.ino] {
				return fmt.Errorf("inode %d: %d links, %d names", in.ino, in.nlink, names[in.ino])
			}
			if in.native && in.payer == t.payer && in.isFile() && in.bytes != in.size {
				return fmt.Errorf("inode %d: %d bytes charged for %d", in.ino, in.bytes, in.size)
			}
			sums.countInode(&sums.used, in, 1)
		}
		if used != p.used || used == 0 {
			return fmt.Errorf("page %d: %d used, counted %d", number, p.used, used)
		}
		groups[number/fan] += used
	}
	for i, g := range t.table.groups {
		if g != nil && g.used != groups[i] {
			return fmt.Errorf("group %d: %d used, counted %d", i, g.used, groups[i])
		}
	}
	for _, h := range t.orphans {
		if h.orphan == nil || h.orphan.nlink != 0 || h.refs <= 0 {
			return fmt.Errorf("inode %d, open without a name, is not an orphan", h.ino)
		}
		sums.countInode(&sums.lost, h.orphan, 1)
	}
	if sums.used != t.used || sums.lost != t.lost {
		return fmt.Errorf("usage is %+v and %+v, counted %+v and %+v", t.used, t.lost, sums.used, sums.lost)
	}
	return nil
}
