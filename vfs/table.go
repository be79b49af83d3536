package vfs

import (
	"slices"
	"sync/atomic"
)

const fan = 32

// page holds the inodes of fan successive numbers.
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

// table finds inodes by number. Its value is copied by snapshots; groups and
// pages are shared until their owner changes.
type table struct {
	owner  *epoch
	groups []*group
	low    uint64 // no number below is free
}

func split(ino uint64) (g, p, n int) {
	return int(ino / (fan * fan)), int(ino / fan % fan), int(ino % fan)
}

// get returns the inode with the number, or nil.
func (t *table) get(ino uint64) *inode {
	g, p, n := split(ino)
	if g >= len(t.groups) || t.groups[g] == nil {
		return nil
	}
	pg := t.groups[g].pages[p]
	if pg == nil {
		return nil
	}
	return pg.nodes[n]
}

// group returns a group that e may change, making it if need be.
func (t *table) group(e *epoch, i int) *group {
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

// page returns a page of the group that e may change.
func (g *group) page(e *epoch, i int) *page {
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

// put enters an inode under its number.
func (t *table) put(e *epoch, in *inode) {
	gi, pi, n := split(in.ino)
	g := t.group(e, gi)
	p := g.page(e, pi)
	if p.nodes[n] == nil {
		p.used++
		g.used++
	}
	p.nodes[n] = in
}

// remove takes out the inode with the number.
func (t *table) remove(e *epoch, ino uint64) {
	gi, pi, n := split(ino)
	g := t.group(e, gi)
	p := g.page(e, pi)
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

// free returns the lowest number that is neither used nor in taken.
func (t *table) free(taken map[uint64]*handle) uint64 {
	ino := max(t.low, rootIno)
	for {
		g, p, n := split(ino)
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

// pages yields all pages with their numbers, in order.
func (t *table) pages(yield func(*page, uint64) bool) {
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

// inodes yields the inodes of a page, in order.
func (p *page) inodes(yield func(*inode) bool) {
	for _, in := range p.nodes {
		if in != nil && !yield(in) {
			return
		}
	}
}
