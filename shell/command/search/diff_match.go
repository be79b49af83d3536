package search

import "github.com/atoll-sandbox/atoll/internal/unix/kernel"

// diffSide is a file to compare: the classes of its lines, equal numbers for equal lines, and
// which lines are changed.
type diffSide struct {
	class   []int32
	changed []bool // one longer at both ends: line i is at i+1
	keep    []int32
	place   []int32 // index of each kept line in class
}

func newDiffSide(class []int32) *diffSide {
	return &diffSide{class: class, changed: make([]bool, len(class)+2)}
}

// diffSearch finds a shortest edit script from one side to the other with the algorithm of GNU diff:
// lines without a partner are discarded, the rest is divided at its middle snake, and runs of
// changes are then shifted to where they read best.
type diffSearch struct {
	p        *kernel.Proc
	a, b     *diffSide
	minimal  bool
	maxSteps int // the search for the best split gives up after this many steps
	fore     []int32
	back     []int32
	cost     int64
	zero     int // index of diagonal 0 in fore and back
}

// diffSplit is a point that divides a problem in two.
type diffSplit struct {
	x, y           int
	loBest, hiBest bool // the halves must be solved exactly
}

// markChanges marks the changed lines of both sides; classes is the number of classes of lines.
func (d *diffSearch) markChanges(classes int) {
	d.discardLines(classes)
	n := len(d.a.keep) + len(d.b.keep) + 3
	d.chargeMemory(int64(n) * 8)
	d.fore, d.back = make([]int32, n), make([]int32, n)
	d.zero = len(d.b.keep) + 1
	root := 1
	for ; n != 0; n >>= 2 {
		root <<= 1
	}
	d.maxSteps = max(4096, root)
	d.compare(0, len(d.a.keep), 0, len(d.b.keep), d.minimal)
	d.shiftRuns(d.a, d.b)
	d.shiftRuns(d.b, d.a)
	d.p.Free(d.cost)
}

func (d *diffSearch) chargeMemory(n int64) {
	d.p.Alloc(n)
	d.cost += n
}

// compare marks the changes between two ranges of the kept lines.
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
		s := d.findMiddle(xoff, xlim, yoff, ylim, exact)
		// The smaller half is solved by recursion, the larger one by iteration, so that the depth of
		// the recursion is logarithmic.
		if s.x-xoff+s.y-yoff < xlim-s.x+ylim-s.y {
			d.compare(xoff, s.x, yoff, s.y, s.loBest)
			xoff, yoff, exact = s.x, s.y, s.hiBest
		} else {
			d.compare(s.x, xlim, s.y, ylim, s.hiBest)
			xlim, ylim, exact = s.x, s.y, s.loBest
		}
	}
}

// diffBox is a part of the problem: lines xoff to xlim of one side, yoff to ylim of the other.
type diffBox struct{ xoff, xlim, yoff, ylim int }

// diffFront is the range of diagonals that a search has reached: from lo to hi.
type diffFront struct{ lo, hi int }

// widen widens the front by one diagonal on each side, or narrows it at the border of the box;
// beyond is the value for diagonals outside.
func (f *diffFront) widen(reach []int32, zero int, box diffBox, beyond int32) {
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

// findMiddle searches from both ends for the middle of a shortest path.
func (d *diffSearch) findMiddle(xoff, xlim, yoff, ylim int, exact bool) diffSplit {
	box := diffBox{xoff, xlim, yoff, ylim}
	fmid, bmid := xoff-yoff, xlim-ylim
	fore, back := diffFront{fmid, fmid}, diffFront{bmid, bmid}
	odd := (fmid-bmid)&1 != 0
	d.fore[d.zero+fmid], d.back[d.zero+bmid] = int32(xoff), int32(xlim)
	for c := 1; ; c++ {
		d.p.Tick(1 + (fore.hi-fore.lo+back.hi-back.lo)/8)
		fore.widen(d.fore, d.zero, box, -1)
		if x, k, met := d.stepForward(box, fore, back, odd); met {
			return diffSplit{x, x - k, true, true}
		}
		back.widen(d.back, d.zero, box, 1<<31-1)
		if x, k, met := d.stepBackward(box, fore, back, !odd); met {
			return diffSplit{x, x - k, true, true}
		}
		if !exact && c >= d.maxSteps {
			return d.giveUp(box, fore, back)
		}
	}
}

// stepForward advances the search from the beginning by one step. If can is set, it reports where
// the search meets the one from the end.
func (d *diffSearch) stepForward(box diffBox, fore, back diffFront, can bool) (x, k int, met bool) {
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

// stepBackward advances the search from the end by one step.
func (d *diffSearch) stepBackward(box diffBox, fore, back diffFront, can bool) (x, k int, met bool) {
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

// giveUp splits at the point that the search has reached farthest.
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

func (m marks) isMarked(i int) bool { return i >= 0 && i < len(m) && m[i] }

// nextUnmarked returns the first line at or after i that is not changed.
func (m marks) nextUnmarked(i int) int {
	for m.isMarked(i) {
		i++
	}
	return i
}

// previousUnmarked returns the last line before i that is not changed.
func (m marks) previousUnmarked(i int) int {
	for i--; m.isMarked(i); i-- {
	}
	return i
}

// shiftRuns moves each run of changes as far down as possible, joining runs that meet, and then back
// up to where the other side has a change too.
func (d *diffSearch) shiftRuns(side, other *diffSide) {
	ch, och := marks(side.changed[1:]), marks(other.changed[1:])
	end := len(side.class)
	for i, j := 0, 0; ; {
		for i < end && !ch[i] {
			j = och.nextUnmarked(j) + 1
			i++
		}
		if i == end {
			return
		}
		i, j = d.shiftRun(side.class, ch, och, i, och.nextUnmarked(j))
		d.p.Tick(1)
	}
}

// shiftRun moves the run of changes that begins at start; j is the line of the other side that
// corresponds to its end. It returns the end of the run and that line after the move.
func (d *diffSearch) shiftRun(class []int32, ch, och marks, start, j int) (int, int) {
	end := len(class)
	i, corresponding := ch.nextUnmarked(start), end
	for {
		length := i - start
		for start > 0 && class[start-1] == class[i-1] {
			start--
			i--
			ch[start], ch[i] = true, false
			for ch.isMarked(start - 1) {
				start--
			}
			j = och.previousUnmarked(j)
			d.p.Tick(1)
		}
		corresponding = end
		if och.isMarked(j - 1) {
			corresponding = i
		}
		for i != end && class[start] == class[i] {
			ch[start], ch[i] = false, true
			start++
			i = ch.nextUnmarked(i)
			if next := och.nextUnmarked(j + 1); next > j+1 {
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
		j = och.previousUnmarked(j)
	}
	return i, j
}
