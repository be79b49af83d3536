package vfs

import (
	"bytes"
	"slices"
)

// ChangeKind is the kind of a change of a path.
type ChangeKind uint8

// The kinds of changes.
const (
	Added ChangeKind = iota + 1
	Modified
	Deleted
)

// String returns A, M or D.
func (k ChangeKind) String() string {
	switch k {
	case Added:
		return "A"
	case Modified:
		return "M"
	case Deleted:
		return "D"
	}
	return "?"
}

// Change is one difference between two snapshots.
type Change struct {
	Kind ChangeKind
	Path string
}

// Diff returns the changes from a to b, sorted by name, each directory before
// its content. A path is modified when its kind, content, mode, owner, device
// or link target differs; a difference in times alone does not count. A
// directory that was added or deleted is followed by everything beneath it,
// as far as paths are shorter than b's quota.
//
// Diff visits only what the two snapshots don't share, and the directories
// above.
func Diff(a, b *Snapshot) []Change {
	d := differ{a: a, b: b}
	d.markDiffering()
	d.compareTrees()
	return d.out
}

// differ compares two trees.
type differ struct {
	a, b *Snapshot
	// Inodes of each tree that differ, and the directories above them.
	nearA, nearB map[uint64]bool
	all          bool // some that differ have no known path: visit everything
	out          []Change
}

// markDiffering finds the inodes that differ, by the pages that are not shared.
func (d *differ) markDiffering() {
	d.nearA, d.nearB = make(map[uint64]bool), make(map[uint64]bool)
	for i := range max(len(d.a.table.groups), len(d.b.table.groups)) {
		ga, gb := d.a.table.groupAt(i), d.b.table.groupAt(i)
		if ga == gb {
			continue
		}
		for j := range fan {
			if pa, pb := ga.pageAt(j), gb.pageAt(j); pa != pb {
				d.markPage(pa, pb)
			}
		}
	}
}

func (d *differ) markPage(pa, pb *page) {
	for k := range fan {
		if x, y := pa.nodeAt(k), pb.nodeAt(k); x != y {
			d.markAncestors(&d.a.table, d.nearA, x)
			d.markAncestors(&d.b.table, d.nearB, y)
		}
	}
}

// markAncestors marks an inode and the directories that lead to it.
func (d *differ) markAncestors(t *table, near map[uint64]bool, in *inode) {
	for in != nil && !near[in.ino] {
		near[in.ino] = true
		if in.parent == 0 {
			d.all = true
			return
		}
		in = t.get(in.parent)
	}
}

func (t *table) groupAt(i int) *group {
	if i >= len(t.groups) {
		return nil
	}
	return t.groups[i]
}

func (g *group) pageAt(i int) *page {
	if g == nil {
		return nil
	}
	return g.pages[i]
}

func (p *page) nodeAt(i int) *inode {
	if p == nil {
		return nil
	}
	return p.nodes[i]
}

// inodePair is a pair of inodes with the same path; one of them may be missing.
type inodePair struct {
	path string
	a, b *inode
}

// compareTrees compares the trees from the root down. It does not recurse, as
// directories may be nested deeper than a stack allows.
func (d *differ) compareTrees() {
	todo := []inodePair{{"/", d.a.table.get(rootIno), d.b.table.get(rootIno)}}
	for len(todo) > 0 {
		s := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		switch {
		case s.a == nil:
			d.out = append(d.out, Change{Added, s.path})
		case s.b == nil:
			d.out = append(d.out, Change{Deleted, s.path})
		case s.a != s.b && !equal(s.a, s.b):
			d.out = append(d.out, Change{Modified, s.path})
		}
		start := len(todo)
		todo = d.appendChildren(todo, s)
		slices.Reverse(todo[start:])
	}
}

// appendChildren appends the entries of a pair of directories that may
// differ, in order.
func (d *differ) appendChildren(todo []inodePair, s inodePair) []inodePair {
	if len(s.path) >= d.b.quota.Path {
		return todo
	}
	x, y := s.a.dirEntries(), s.b.dirEntries()
	for len(x) > 0 || len(y) > 0 {
		var n inodePair
		switch {
		case len(y) == 0 || len(x) > 0 && x[0].name < y[0].name:
			n = inodePair{joinName(s.path, x[0].name), d.a.table.get(x[0].ino), nil}
			x = x[1:]
		case len(x) == 0 || y[0].name < x[0].name:
			n = inodePair{joinName(s.path, y[0].name), nil, d.b.table.get(y[0].ino)}
			y = y[1:]
		default:
			n = inodePair{"", d.a.table.get(x[0].ino), d.b.table.get(y[0].ino)}
			if d.mayDiffer(n) {
				n.path = joinName(s.path, x[0].name)
			}
			x, y = x[1:], y[1:]
		}
		if n.path != "" {
			todo = append(todo, n)
		}
	}
	return todo
}

// mayDiffer reports whether a pair must be visited.
func (d *differ) mayDiffer(s inodePair) bool {
	if s.a == s.b {
		return s.a.isDir() && (d.all || d.nearA[s.a.ino] || d.nearB[s.b.ino])
	}
	return true
}

// dirEntries returns the entries of a directory, and none for another inode.
func (in *inode) dirEntries() []entry {
	if in == nil || !in.isDir() {
		return nil
	}
	return in.dir.entriesAfter("", -1)
}

// equal reports whether two inodes are the same for Diff. It does not look at
// the entries of directories.
func equal(a, b *inode) bool {
	if a.mode != b.mode || a.uid != b.uid || a.gid != b.gid || a.rdev != b.rdev || a.target != b.target {
		return false
	}
	return !a.mode.IsRegular() || sameContent(a, b)
}

func sameContent(a, b *inode) bool {
	if a.size != b.size {
		return false
	}
	for i := range max(len(a.blocks), len(b.blocks)) {
		if !sameBlock(a.blockAt(i), b.blockAt(i)) {
			return false
		}
	}
	return true
}

func (in *inode) blockAt(i int) *block {
	if i >= len(in.blocks) {
		return nil
	}
	return in.blocks[i]
}

// sameBlock reports whether two blocks have the same data, except for zeros at
// the end. A block that can't be read differs.
func sameBlock(a, b *block) bool {
	if a == b {
		return true
	}
	if a != nil && b != nil {
		x, y := a.saved.Load(), b.saved.Load()
		if x != nil && y != nil && x.key == y.key {
			return true
		}
	}
	x, err := a.loadData()
	if err != nil {
		return false
	}
	y, err := b.loadData()
	if err != nil {
		return false
	}
	if len(x) > len(y) {
		x, y = y, x
	}
	return bytes.Equal(x, y[:len(x)]) && isAllZero(y[len(x):])
}

func isAllZero(p []byte) bool {
	for _, c := range p {
		if c != 0 {
			return false
		}
	}
	return true
}
