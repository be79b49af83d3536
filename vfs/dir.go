package vfs

import (
	"slices"
	"strings"
)

// leafMax is the maximum number of names in one leaf of a directory. A
// directory with fewer is one sorted slice.
const leafMax = 64

// entry is one name in a directory.
type entry struct {
	name string
	ino  uint64
}

// leaf is a sorted run of names.
type leaf struct {
	owner   *epoch
	entries []entry
}

// dir is the content of a directory: leaves in order, none of them empty.
// The list of leaves belongs to the inode, each leaf to its owner.
type dir struct {
	leaves  []*leaf
	len     int
	subdirs int
}

func (d *dir) clone() *dir {
	return &dir{leaves: slices.Clone(d.leaves), len: d.len, subdirs: d.subdirs}
}

// leafIndex returns the index of the leaf that a name belongs to.
func (d *dir) leafIndex(name string) int {
	lo, hi := 0, len(d.leaves)
	for lo+1 < hi {
		mid := int(uint(lo+hi) / 2)
		if d.leaves[mid].entries[0].name <= name {
			lo = mid
		} else {
			hi = mid
		}
	}
	return lo
}

// searchName returns the index of a name in a leaf, or where it would be.
func (l *leaf) searchName(name string) (int, bool) {
	lo, hi := 0, len(l.entries)
	for lo < hi {
		mid := int(uint(lo+hi) / 2)
		switch c := strings.Compare(l.entries[mid].name, name); {
		case c < 0:
			lo = mid + 1
		case c == 0:
			return mid, true
		default:
			hi = mid
		}
	}
	return lo, false
}

// find returns the inode number of a name, or 0.
func (d *dir) find(name string) uint64 {
	if d.len == 0 {
		return 0
	}
	l := d.leaves[d.leafIndex(name)]
	if i, ok := l.searchName(name); ok {
		return l.entries[i].ino
	}
	return 0
}

// ownLeaf returns leaf i as one that e may change.
func (d *dir) ownLeaf(e *epoch, i int) *leaf {
	l := d.leaves[i]
	if l.owner == e {
		return l
	}
	c := &leaf{owner: e, entries: make([]entry, len(l.entries), len(l.entries)+1)}
	copy(c.entries, l.entries)
	d.leaves[i] = c
	return c
}

// insertName adds a name that is not in the directory yet.
func (d *dir) insertName(e *epoch, name string, ino uint64) {
	it := entry{strings.Clone(name), ino}
	d.len++
	if len(d.leaves) == 0 {
		d.leaves = append(d.leaves, &leaf{owner: e, entries: []entry{it}})
		return
	}
	i := d.leafIndex(name)
	l := d.ownLeaf(e, i)
	at, _ := l.searchName(name)
	if len(l.entries) < leafMax {
		l.entries = slices.Insert(l.entries, at, it)
		return
	}
	if at == leafMax && i == len(d.leaves)-1 { // names arrive in order
		d.leaves = append(d.leaves, &leaf{owner: e, entries: []entry{it}})
		return
	}
	right := &leaf{owner: e, entries: slices.Clone(l.entries[leafMax/2:])}
	clear(l.entries[leafMax/2:])
	l.entries = l.entries[:leafMax/2]
	d.leaves = slices.Insert(d.leaves, i+1, right)
	if at > leafMax/2 {
		l, at = right, at-leafMax/2
	}
	l.entries = slices.Insert(l.entries, at, it)
}

// removeName removes a name that is in the directory.
func (d *dir) removeName(e *epoch, name string) {
	i := d.leafIndex(name)
	l := d.ownLeaf(e, i)
	at, _ := l.searchName(name)
	l.entries = slices.Delete(l.entries, at, at+1)
	d.len--
	if len(l.entries) == 0 {
		d.leaves = slices.Delete(d.leaves, i, i+1)
		return
	}
	if i+1 < len(d.leaves) && len(l.entries)+len(d.leaves[i+1].entries) <= leafMax/2 {
		l.entries = append(l.entries, d.leaves[i+1].entries...)
		d.leaves = slices.Delete(d.leaves, i+1, i+2)
	}
}

// allEntries yields the entries, sorted by name.
func (d *dir) allEntries(yield func(entry) bool) {
	for _, l := range d.leaves {
		for _, it := range l.entries {
			if !yield(it) {
				return
			}
		}
	}
}

// entriesAfter returns up to n entries that follow a name in order; n < 0
// means all.
func (d *dir) entriesAfter(name string, n int) []entry {
	if n < 0 || n > d.len {
		n = d.len
	}
	if n == 0 {
		return nil
	}
	out := make([]entry, 0, n)
	i := d.leafIndex(name)
	at, found := d.leaves[i].searchName(name)
	if found {
		at++
	}
	for ; i < len(d.leaves) && len(out) < n; i, at = i+1, 0 {
		part := d.leaves[i].entries[at:]
		out = append(out, part[:min(len(part), n-len(out))]...)
	}
	return out
}
