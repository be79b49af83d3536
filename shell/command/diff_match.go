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

// diffBox is a stretch of the problem: lines xoff to xlim of the one side, yoff
// to ylim of the other.
type diffBox struct{ xoff, xlim, yoff, ylim int }

// diffFront is how far a search has spread: from diagonal lo to hi.
type diffFront struct{ lo, hi int }

// spread widens the front by one diagonal on each side, or narrows it at the
// border of the box; beyond is what the diagonals outside hold.
func (f *diffFront) spread(reach []int32, zero int, box diffBox, beyond int32) {
	if f.lo > box.xoff-box.ylim {
		f.lo--
		reach[zero+f.lo-1] = beyond
	} else {
		f.lo++
	}
	if f.hi < box.xlim-box.yoff {
		f.hi++
		reach[zero+f.hi+1] = beyond
	} else {
		f.hi--
	}
}

// split looks from both ends for the middle of a shortest path.
func (d *diffSearch) split(xoff, xlim, yoff, ylim int, exact bool) diffSplit {
	box := diffBox{xoff, xlim, yoff, ylim}
	fmid, bmid := xoff-yoff, xlim-ylim
	fore, back := diffFront{fmid, fmid}, diffFront{bmid, bmid}
	odd := (fmid-bmid)&1 != 0
	d.fore[d.zero+fmid], d.back[d.zero+bmid] = int32(xoff), int32(xlim)
	for c := 1; ; c++ {
		d.p.Tick(1 + (fore.hi-fore.lo+back.hi-back.lo)/8)
		fore.spread(d.fore, d.zero, box, -1)
		if x, k, met := d.ahead(box, fore, back, odd); met {
			return diffSplit{x, x - k, true, true}
		}
		back.spread(d.back, d.zero, box, 1<<31-1)
		if x, k, met := d.behind(box, fore, back, !odd); met {
			return diffSplit{x, x - k, true, true}
		}
		if !exact && c >= d.dear {
			return d.giveUp(box, fore, back)
		}
	}
}

// ahead takes the search from the beginning one step further and reports where
// it meets the other one, if it can in this step.
func (d *diffSearch) ahead(box diffBox, fore, back diffFront, can bool) (x, k int, met bool) {
	a, b, z, fd := d.a.keep, d.b.keep, d.zero, d.fore
	for k := fore.hi; k >= fore.lo; k -= 2 {
		x := int(max(fd[z+k-1]+1, fd[z+k+1]))
		y := x - k
		for x < box.xlim && y < box.ylim && a[x] == b[y] {
			x++
			y++
		}
		fd[z+k] = int32(x)
		if can && back.lo <= k && k <= back.hi && int(d.back[z+k]) <= x {
			return x, k, true
		}
	}
	return 0, 0, false
}

// behind takes the search from the end one step further.
func (d *diffSearch) behind(box diffBox, fore, back diffFront, can bool) (x, k int, met bool) {
	a, b, z, bd := d.a.keep, d.b.keep, d.zero, d.back
	for k := back.hi; k >= back.lo; k -= 2 {
		x := int(min(bd[z+k-1], bd[z+k+1]-1))
		y := x - k
		for box.xoff < x && box.yoff < y && a[x-1] == b[y-1] {
			x--
			y--
		}
		bd[z+k] = int32(x)
		if can && fore.lo <= k && k <= fore.hi && x <= int(d.fore[z+k]) {
			return x, k, true
		}
	}
	return 0, 0, false
}

// giveUp splits where the search has come furthest.
func (d *diffSearch) giveUp(box diffBox, fore, back diffFront) diffSplit {
	fbest, fx := -1, 0
	for k := fore.hi; k >= fore.lo; k -= 2 {
		x := min(int(d.fore[d.zero+k]), box.xlim)
		y := x - k
		if box.ylim < y {
			x, y = box.ylim+k, box.ylim
		}
		if x+y > fbest {
			fbest, fx = x+y, x
		}
	}
	bbest, bx := 1<<40, 0
	for k := back.hi; k >= back.lo; k -= 2 {
		x := max(box.xoff, int(d.back[d.zero+k]))
		y := x - k
		if y < box.yoff {
			x, y = box.yoff+k, box.yoff
		}
		if x+y < bbest {
			bbest, bx = x+y, x
		}
	}
	if (box.xlim+box.ylim)-bbest < fbest-(box.xoff+box.yoff) {
		return diffSplit{fx, fbest - fx, true, false}
	}
	return diffSplit{bx, bbest - bx, false, true}
}

// marks are the changed lines of one side.
type marks []bool

func (m marks) at(i int) bool { return i >= 0 && i < len(m) && m[i] }

// past returns the first line at or after i that is not changed.
func (m marks) past(i int) int {
	for m.at(i) {
		i++
	}
	return i
}

// before returns the last line before i that is not changed.
func (m marks) before(i int) int {
	for i--; m.at(i); i-- {
	}
	return i
}

// shift moves each run of changes as far down as it goes, joining runs that
// meet, and back to where the other side has a change too.
func (d *diffSearch) shift(side, other *diffSide) {
	ch, och := marks(side.changed[1:]), marks(other.changed[1:])
	end := len(side.class)
	for i, j := 0, 0; ; {
		for i < end && !ch[i] {
			j = och.past(j) + 1
			i++
		}
		if i == end {
			return
		}
		i, j = d.shiftRun(side.class, ch, och, i, och.past(j))
		d.p.Tick(1)
	}
}

// shiftRun moves the run of changes that begins at start; j is the line of the
// other side that corresponds to its end. It returns both after the move.
func (d *diffSearch) shiftRun(class []int32, ch, och marks, start, j int) (int, int) {
	end := len(class)
	i, corresponding := ch.past(start), end
	for {
		length := i - start
		for start > 0 && class[start-1] == class[i-1] {
			start--
			i--
			ch[start], ch[i] = true, false
			for ch.at(start - 1) {
				start--
			}
			j = och.before(j)
			d.p.Tick(1)
		}
		corresponding = end
		if och.at(j - 1) {
			corresponding = i
		}
		for i != end && class[start] == class[i] {
			ch[start], ch[i] = false, true
			start++
			i = ch.past(i)
			if next := och.past(j + 1); next > j+1 {
				corresponding = i
				j = next
			} else {
				j++
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
		j = och.before(j)
	}
	return i, j
}
