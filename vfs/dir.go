package vfs

import (
	"slices"
	"strings"
)

// leafMax is the number of names in one leaf of a directory. A directory
// with fewer is one sorted slice.
const leafMax = 64

// entry is one name in a directory.
type entry struct {
	name string
	ino  uint64
}

// leaf is a run of names in order.
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

// leaf returns the index of the leaf that a name belongs to.
func (d *dir) leaf(name string) int {
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

// search returns where a name is in a leaf, or would be.
func (l *leaf) search(name string) (int, bool) {
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
	l := d.leaves[d.leaf(name)]
	if i, ok := l.search(name); ok {
		return l.entries[i].ino
	}
	return 0
}

// own returns leaf i as one that e may change.
func (d *dir) own(e *epoch, i int) *leaf {
	l := d.leaves[i]
	if l.owner == e {
		return l
	}
	c := &leaf{owner: e, entries: make([]entry, len(l.entries), len(l.entries)+1)}
	copy(c.entries, l.entries)
	d.leaves[i] = c
	return c
}

// insert adds a name that is not there.
func (d *dir) insert(e *epoch, name string, ino uint64) {
	it := entry{strings.Clone(name), ino}
	d.len++
	if len(d.leaves) == 0 {
		d.leaves = append(d.leaves, &leaf{owner: e, entries: []entry{it}})
		return
	}
	i := d.leaf(name)
	l := d.own(e, i)
	at, _ := l.search(name)
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

// remove takes out a name that is there.
func (d *dir) remove(e *epoch, name string) {
	i := d.leaf(name)
	l := d.own(e, i)
	at, _ := l.search(name)
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

// all yields the names in order.
func (d *dir) all(yield func(entry) bool) {
	for _, l := range d.leaves {
		for _, it := range l.entries {
			if !yield(it) {
				return
			}
		}
	}
}

// after returns up to n entries that follow a name in order; n < 0 is all.
func (d *dir) after(name string, n int) []entry {
	if n < 0 || n > d.len {
		n = d.len
	}
	if n == 0 {
		return nil
	}
	out := make([]entry, 0, n)
	i := d.leaf(name)
	at, found := d.leaves[i].search(name)
	if found {
		at++
	}
	for ; i < len(d.leaves) && len(out) < n; i, at = i+1, 0 {
		part := d.leaves[i].entries[at:]
		out = append(out, part[:min(len(part), n-len(out))]...)
	}
	return out
}
