package command

import (
	"github.com/atoll-sandbox/atoll/internal/kernel"
)

// diffSide is one of the two files: its lines as numbers, equal where the
// lines count as equal, and which of them are changed.
type diffSide struct {
	class   []int32
	changed []bool // one longer at both ends: line i is at i+1
	keep    []int32
	place   []int32 // of the kept lines in class
}

func newDiffSide(class []int32) *diffSide {
	return &diffSide{class: class, changed: make([]bool, len(class)+2)}
}

// diffSearch finds a shortest way from one side to the other, as GNU diff does:
// lines without a partner are set apart, the rest is split by its middle snake,
// and runs of changes are then moved to where they read best.
type diffSearch struct {
	p       *kernel.Proc
	a, b    *diffSide
	minimal bool
	dear    int // give up looking for the best split after this many steps
	fore    []int32
	back    []int32
	cost    int64
	zero    int // where diagonal 0 is in fore and back
}

// diffSplit is a place to part a problem in two.
type diffSplit struct {
	x, y           int
	loBest, hiBest bool // the halves must be solved exactly
}

// match marks what is changed on both sides; classes is how many numbers the
// lines have.
func (d *diffSearch) match(classes int) {
	d.discard(classes)
	n := len(d.a.keep) + len(d.b.keep) + 3
	d.charge(int64(n) * 8)
	d.fore, d.back = make([]int32, n), make([]int32, n)
	d.zero = len(d.b.keep) + 1
	root := 1
	for ; n != 0; n >>= 2 {
		root <<= 1
	}
	d.dear = max(4096, root)
	d.compare(0, len(d.a.keep), 0, len(d.b.keep), d.minimal)
	d.shift(d.a, d.b)
	d.shift(d.b, d.a)
	d.p.Free(d.cost)
}

func (d *diffSearch) charge(n int64) {
	d.p.Alloc(n)
	d.cost += n
}

// compare marks the changes between two stretches of the kept lines.
func (d *diffSearch) compare(xoff, xlim, yoff, ylim int, exact bool) {
	a, b := d.a.keep, d.b.keep
	for {
		for xoff < xlim && yoff < ylim && a[xoff] == b[yoff] {
			xoff++
			yoff++
		}
		for xoff < xlim && yoff < ylim && a[xlim-1] == b[ylim-1] {
			xlim--
			ylim--
		}
		d.p.Tick(1)
		switch {
		case xoff == xlim:
			for ; yoff < ylim; yoff++ {
				d.b.changed[d.b.place[yoff]+1] = true
			}
			return
		case yoff == ylim:
			for ; xoff < xlim; xoff++ {
				d.a.changed[d.a.place[xoff]+1] = true
			}
			return
		}
		s := d.split(xoff, xlim, yoff, ylim, exact)
		// The smaller half by recursion, the other one in the next turn: the
		// depth stays that of a logarithm.
		if s.x-xoff+s.y-yoff < xlim-s.x+ylim-s.y {
			d.compare(xoff, s.x, yoff, s.y, s.loBest)
			xoff, yoff, exact = s.x, s.y, s.hiBest
		} else {
			d.compare(s.x, xlim, s.y, ylim, s.hiBest)
			xlim, ylim, exact = s.x, s.y, s.loBest
		}
	}
}

// split looks from both ends for the middle of a shortest path.
func (d *diffSearch) split(xoff, xlim, yoff, ylim int, exact bool) diffSplit {
	a, b, z := d.a.keep, d.b.keep, d.zero
	dmin, dmax := xoff-ylim, xlim-yoff
	fmid, bmid := xoff-yoff, xlim-ylim
	fmin, fmax, bmin, bmax := fmid, fmid, bmid, bmid
	odd := (fmid-bmid)&1 != 0
	fd, bd := d.fore, d.back
	fd[z+fmid], bd[z+bmid] = int32(xoff), int32(xlim)
	for c := 1; ; c++ {
		d.p.Tick(1 + (fmax-fmin+bmax-bmin)/8)
		if fmin > dmin {
			fmin--
			fd[z+fmin-1] = -1
		} else {
			fmin++
		}
		if fmax < dmax {
			fmax++
			fd[z+fmax+1] = -1
		} else {
			fmax--
		}
		for k := fmax; k >= fmin; k -= 2 {
			x := int(max(fd[z+k-1]+1, fd[z+k+1]))
			y := x - k
			for x < xlim && y < ylim && a[x] == b[y] {
				x++
				y++
			}
			fd[z+k] = int32(x)
			if odd && bmin <= k && k <= bmax && int(bd[z+k]) <= x {
				return diffSplit{x, y, true, true}
			}
		}
		if bmin > dmin {
			bmin--
			bd[z+bmin-1] = 1<<31 - 1
		} else {
			bmin++
		}
		if bmax < dmax {
			bmax++
			bd[z+bmax+1] = 1<<31 - 1
		} else {
			bmax--
		}
		for k := bmax; k >= bmin; k -= 2 {
			x := int(min(bd[z+k-1], bd[z+k+1]-1))
			y := x - k
			for xoff < x && yoff < y && a[x-1] == b[y-1] {
				x--
				y--
			}
			bd[z+k] = int32(x)
			if !odd && fmin <= k && k <= fmax && x <= int(fd[z+k]) {
				return diffSplit{x, y, true, true}
			}
		}
		if !exact && c >= d.dear {
			return d.giveUp(xoff, xlim, yoff, ylim, [4]int{fmin, fmax, bmin, bmax})
		}
	}
}

// giveUp splits where the search has come furthest.
func (d *diffSearch) giveUp(xoff, xlim, yoff, ylim int, reach [4]int) diffSplit {
	fbest, fx := -1, 0
	for k := reach[1]; k >= reach[0]; k -= 2 {
		x := min(int(d.fore[d.zero+k]), xlim)
		y := x - k
		if ylim < y {
			x, y = ylim+k, ylim
		}
		if x+y > fbest {
			fbest, fx = x+y, x
		}
	}
	bbest, bx := 1<<40, 0
	for k := reach[3]; k >= reach[2]; k -= 2 {
		x := max(xoff, int(d.back[d.zero+k]))
		y := x - k
		if y < yoff {
			x, y = yoff+k, yoff
		}
		if x+y < bbest {
			bbest, bx = x+y, x
		}
	}
	if (xlim+ylim)-bbest < fbest-(xoff+yoff) {
		return diffSplit{fx, fbest - fx, true, false}
	}
	return diffSplit{bx, bbest - bx, false, true}
}

// shift moves each run of changes as far down as it goes, joining runs that
// meet, and back to where the other side has a change too.
func (d *diffSearch) shift(side, other *diffSide) {
	ch, och, class := side.changed[1:], other.changed[1:], side.class
	at := func(list []bool, i int) bool { return i >= 0 && i < len(list) && list[i] }
	end := len(class)
	for i, j := 0, 0; ; {
		for i < end && !ch[i] {
			for at(och, j) {
				j++
			}
			j++
			i++
		}
		if i == end {
			return
		}
		start := i
		for at(ch, i) {
			i++
		}
		for at(och, j) {
			j++
		}
		corresponding := end
		for {
			length := i - start
			for start > 0 && class[start-1] == class[i-1] {
				start--
				i--
				ch[start], ch[i] = true, false
				for at(ch, start-1) {
					start--
				}
				for j--; at(och, j); j-- {
				}
				d.p.Tick(1)
			}
			corresponding = end
			if at(och, j-1) {
				corresponding = i
			}
			for i != end && class[start] == class[i] {
				ch[start], ch[i] = false, true
				start++
				for i++; at(ch, i); i++ {
				}
				for j++; at(och, j); j++ {
					corresponding = i
				}
				d.p.Tick(1)
			}
			if length == i-start {
				break
			}
		}
		for corresponding < i {
			start--
			i--
			ch[start], ch[i] = true, false
			for j--; at(och, j); j-- {
			}
		}
		d.p.Tick(1)
	}
}
