package regex

import "slices"

// walker fills groups the way glibc does: among all paths between the ends of the match, it chooses
// at every fork the alternative that comes first in the pattern.
type walker struct {
	log   []int32 // states of the reverse automaton, from the end of the match back
	seen  sparse
	stack []step
	trail []mark
	prev  []int // groups after the last group that consumed a character
}

// step is an instruction to follow and the length of the trail that leads to it.
type step struct {
	pc    int32
	trail int32
}

// mark is a boundary of a group on the path.
type mark struct {
	slot     int32
	optional bool
	pos      int
}

// fillGroups sets caps for the match that ends at end and begins at from or later.
func (w *walker) fillGroups(r *Regexp, t text, from, end int, caps []int, b Budget) {
	p := r.prog
	if w.seen.where == nil {
		w.seen.setCapacity(len(p.insts))
	}
	gen := r.rev.gen
	begin := r.rev.scanBackward(t, end, from, w, b)
	if gen != r.rev.gen || int(w.size()) > logLimit {
		w.log = nil
		w.fillByBacktracking(r, t, begin, end, caps, b)
		return
	}
	w.trail = w.trail[:0]
	prev := t.kindBefore(p, begin)
	for pos, pc := begin, p.start; ; {
		if (pos-begin)%1024 == 0 {
			b.Tick(64)
		}
		col, width := p.edgeColumn(kindEdge), 0
		next := uint8(0)
		if pos < len(t.src) {
			col, width = p.colAt(t.src, pos)
		}
		if p.asserts {
			next = t.kindAfter(p, pos)
		}
		states := r.rev.states[int(w.log[end-pos])/p.ncol].pcs
		if pc = w.choosePath(p, pc, states, prev, next, pos); pc <= 0 {
			break
		}
		pc = p.insts[pc].out
		pos += width
		prev = p.kind[col]
	}
	w.applyTrail(caps)
	caps[0], caps[1] = begin, end
	if len(w.log) > 1<<16 {
		b.Free(w.size())
		w.log = nil
	}
}

// logLimit limits the log's memory; the backtracker fills the groups of longer matches.
const logLimit = 64 << 20

// size returns the log's memory in bytes.
func (w *walker) size() int64 { return 4 * int64(cap(w.log)) }

// logState appends a state to the log, once for each byte.
func (w *walker) logState(s int32, n int, b Budget) {
	if cap(w.log)-len(w.log) < n {
		w.growLog(n, b)
	}
	for range n {
		w.log = append(w.log, s)
	}
}

// growLog makes room for n more states, after it has charged the larger log.
func (w *walker) growLog(n int, b Budget) {
	size := max(len(w.log)+n, 2*cap(w.log), 64)
	if cap(w.log) > 1<<18 {
		size = max(len(w.log)+n, cap(w.log)+cap(w.log)/2)
	}
	b.Alloc(4 * int64(size))
	grown := make([]int32, len(w.log), size)
	copy(grown, w.log)
	b.Free(w.size())
	w.log = grown
}

// choosePath follows the program from pc at one position and returns the first instruction from
// which the end can be reached: a set, or the match at index 0.
func (w *walker) choosePath(p *prog, pc int32, good []int32, prev, next uint8, pos int) int32 {
	w.seen.reset()
	w.stack = append(w.stack[:0], step{pc, int32(len(w.trail))})
	for len(w.stack) > 0 {
		s := w.stack[len(w.stack)-1]
		w.stack = w.stack[:len(w.stack)-1]
		if !w.seen.add(s.pc) {
			continue
		}
		w.trail = w.trail[:s.trail]
		i := &p.insts[s.pc]
		switch i.op {
		case iSet, iMatch:
			if _, ok := slices.BinarySearch(good, s.pc); ok {
				return s.pc
			}
		case iSplit, iCheck:
			w.stack = append(w.stack, step{i.alt, s.trail}, step{i.out, s.trail})
		case iAssert:
			if p.assertionHolds(i.arg, prev, next) {
				w.stack = append(w.stack, step{i.out, s.trail})
			}
		case iSave:
			w.trail = append(w.trail, mark{i.arg, i.optional, pos})
			w.stack = append(w.stack, step{i.out, s.trail + 1})
		case iMark:
			w.stack = append(w.stack, step{i.out, s.trail})
		}
	}
	return -1
}

// applyTrail converts the trail into groups. A group that a loop repeated without consuming
// anything keeps its earlier value, and so do the groups inside.
func (w *walker) applyTrail(caps []int) {
	w.prev = append(w.prev[:0], caps...)
	for _, m := range w.trail {
		k := int(m.slot)
		if k|1 >= len(caps) {
			continue
		}
		switch {
		case k&1 == 0:
			caps[k], caps[k+1] = m.pos, -1
		case caps[k-1] < m.pos:
			caps[k] = m.pos
			copy(w.prev, caps)
		case m.optional && w.prev[k-1] != -1:
			copy(caps, w.prev)
		default:
			caps[k] = m.pos
		}
	}
}

// fillByBacktracking fills groups without the log, for automata that outgrew their cache.
func (w *walker) fillByBacktracking(r *Regexp, t text, begin, end int, caps []int, b Budget) {
	if r.back == nil {
		r.back = newBacktracker(r.prog)
	}
	r.back.want = end
	r.back.run(t, begin, caps, b)
	r.back.want = anywhere
}
