package vfs

import (
	"slices"
	"sync/atomic"
)

// fan is the number of children of each level of the table.
const fan = 32

// page holds the inodes of fan consecutive numbers.
type page struct {
	owner *epoch
	used  int
	saved atomic.Pointer[savedPage]
	nodes [fan]*inode
}

// group holds fan pages.
type group struct {
	owner *epoch
	used  int
	pages [fan]*page
}

// table finds inodes by number. Snapshots copy the table itself; groups and
// pages are shared, and copied when another owner changes them.
type table struct {
	owner  *epoch
	groups []*group
	low    uint64 // no lower number is free
}

// splitIno returns the group, page and slot of an inode number.
func splitIno(ino uint64) (g, p, n int) {
	return int(ino / (fan * fan)), int(ino / fan % fan), int(ino % fan)
}

// get returns the inode with the number, or nil.
func (t *table) get(ino uint64) *inode {
	g, p, n := splitIno(ino)
	if g >= len(t.groups) || t.groups[g] == nil {
		return nil
	}
	pg := t.groups[g].pages[p]
	if pg == nil {
		return nil
	}
	return pg.nodes[n]
}

// writableGroup returns a group that e may change, creating it if it is missing.
func (t *table) writableGroup(e *epoch, i int) *group {
	if t.owner != e {
		t.groups = slices.Clone(t.groups)
		t.owner = e
	}
	for len(t.groups) <= i {
		t.groups = append(t.groups, nil)
	}
	g := t.groups[i]
	switch {
	case g == nil:
		g = &group{owner: e}
	case g.owner != e:
		g = &group{owner: e, used: g.used, pages: g.pages}
	default:
		return g
	}
	t.groups[i] = g
	return g
}

// writablePage returns a page of the group that e may change.
func (g *group) writablePage(e *epoch, i int) *page {
	p := g.pages[i]
	switch {
	case p == nil:
		p = &page{owner: e}
	case p.owner != e:
		p = &page{owner: e, used: p.used, nodes: p.nodes}
	default:
		return p
	}
	g.pages[i] = p
	return p
}

// put stores an inode under its number.
func (t *table) put(e *epoch, in *inode) {
	gi, pi, n := splitIno(in.ino)
	g := t.writableGroup(e, gi)
	p := g.writablePage(e, pi)
	if p.nodes[n] == nil {
		p.used++
		g.used++
	}
	p.nodes[n] = in
}

// removeInode removes the inode with the number.
func (t *table) removeInode(e *epoch, ino uint64) {
	gi, pi, n := splitIno(ino)
	g := t.writableGroup(e, gi)
	p := g.writablePage(e, pi)
	p.nodes[n] = nil
	p.used--
	g.used--
	if p.used == 0 {
		g.pages[pi] = nil
	}
	if g.used == 0 {
		t.groups[gi] = nil
	}
	t.low = min(t.low, ino)
}

// lowestFree returns the lowest number that is neither used nor in taken.
func (t *table) lowestFree(taken map[uint64]*handle) uint64 {
	ino := max(t.low, rootIno)
	for {
		g, p, n := splitIno(ino)
		switch {
		case g >= len(t.groups) || t.groups[g] == nil:
		case p == 0 && n == 0 && t.groups[g].used == fan*fan:
			ino += fan * fan
			continue
		case t.groups[g].pages[p] == nil:
		case n == 0 && t.groups[g].pages[p].used == fan:
			ino += fan
			continue
		case t.groups[g].pages[p].nodes[n] != nil:
			ino++
			continue
		}
		if _, ok := taken[ino]; !ok {
			break
		}
		ino++
	}
	if len(taken) == 0 {
		t.low = ino
	}
	return ino
}

// allPages yields all pages with their numbers, in order.
func (t *table) allPages(yield func(*page, uint64) bool) {
	for i, g := range t.groups {
		if g == nil {
			continue
		}
		for j, p := range g.pages {
			if p != nil && !yield(p, uint64(i*fan+j)) {
				return
			}
		}
	}
}

// allInodes yields the inodes of a page, in order.
func (p *page) allInodes(yield func(*inode) bool) {
	for _, in := range p.nodes {
		if in != nil && !yield(in) {
			return
		}
	}
}
