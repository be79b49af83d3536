package regex

import (
	"encoding/binary"
	"math"
	"slices"
)

// mode selects what an automaton finds.
type mode uint8

const (
	exists  mode = iota // the end of the match that ends first
	longest             // the end of the longest among the leftmost matches
	reverse             // scanning backwards: the beginning of a match that ends at a given position
)

// cacheLimit is the maximum memory of one automaton in bytes; a full cache is emptied.
const cacheLimit = 2 << 20

// separator divides the threads of a state in a longest automaton by where they began, earlier ones
// first.
const separator = -1

const (
	unknown  = math.MinInt32
	tickUnit = 32      // bytes scanned for one unit of work
	chunk    = 1 << 15 // bytes scanned between two charges to the budget
)

// dstate is a set of instructions that wait for the next character.
type dstate struct {
	pcs   []int32
	kind  uint8 // of the neighbour just passed
	seed  bool  // a match may still begin here
	match bool  // a match ends before the character that led here
}

// isDead reports whether no match can end any more.
func (s *dstate) isDead() bool { return len(s.pcs) == 0 && !s.seed }

// dfa is an automaton that is built while it runs. A transition is the row of the next state, or
// the row's complement if that state is dead or matches.
type dfa struct {
	p      *prog
	mode   mode
	trans  []int32
	states []dstate
	index  map[string]int32
	starts [2 * kinds]int32
	mem    int64
	gen    int // counts how often the cache was emptied

	seen   sparse // instructions followed at this position
	next   sparse // instructions of the next state
	stack  []int32
	list   []int32
	key    []byte
	preds  []int32 // predecessors of every instruction, from predAt[pc] to predAt[pc+1]
	predAt []int32
}

// newDFA returns an automaton of mode m with an empty cache.
func newDFA(p *prog, m mode) *dfa {
	d := &dfa{p: p, mode: m, index: map[string]int32{}}
	d.seen.setCapacity(len(p.insts))
	d.next.setCapacity(len(p.insts))
	for i := range d.starts {
		d.starts[i] = unknown
	}
	if m == reverse {
		d.listPredecessors()
	}
	return d
}

// sparse is a set of small numbers that can be emptied at no cost.
type sparse struct {
	dense, where []int32
}

// setCapacity makes room for the numbers below n.
func (s *sparse) setCapacity(n int) {
	s.dense = make([]int32, 0, n)
	s.where = make([]int32, n)
}

// has reports whether x is in the set.
func (s *sparse) has(x int32) bool {
	i := s.where[x]
	return int(i) < len(s.dense) && s.dense[i] == x
}

// add adds x and reports whether it is new.
func (s *sparse) add(x int32) bool {
	if s.has(x) {
		return false
	}
	s.where[x] = int32(len(s.dense))
	s.dense = append(s.dense, x)
	return true
}

// reset empties the set.
func (s *sparse) reset() { s.dense = s.dense[:0] }

// listPredecessors computes the predecessors of every instruction.
func (d *dfa) listPredecessors() {
	n := len(d.p.insts)
	d.predAt = make([]int32, n+1)
	each := func(f func(to, from int32)) {
		for pc := range d.p.insts {
			i := &d.p.insts[pc]
			if i.op == iMatch {
				continue
			}
			f(i.out, int32(pc))
			if i.op == iSplit || i.op == iCheck {
				f(i.alt, int32(pc))
			}
		}
	}
	each(func(to, _ int32) { d.predAt[to+1]++ })
	for i := range n {
		d.predAt[i+1] += d.predAt[i]
	}
	d.preds = make([]int32, d.predAt[n])
	fill := slices.Clone(d.predAt)
	each(func(to, from int32) {
		d.preds[fill[to]] = from
		fill[to]++
	})
}

// scanForward scans src[from:to] and returns where the match that the mode selects ends, or -1.
func (d *dfa) scanForward(t text, from, to int, b Budget) int {
	s := d.startRow(t.kindBefore(d.p, from), from == 0 || !d.p.anchored, b)
	end := -1
	ascii, src, trans := &d.p.ascii, t.src, d.trans
	for i := from; i < to; {
		stop := min(i+chunk, to)
		b.Tick(1 + (stop-i)/tickUnit)
		for i < stop {
			nx := trans[int(s)+int(ascii[src[i]])]
			if nx >= 0 {
				s = nx
				i++
				continue
			}
			w := 1
			if nx == unknown {
				nx, w = d.computeTransition(s, src, i, b)
				trans = d.trans
			}
			if nx < 0 && d.recordMatch(^nx, i, &end) {
				return end
			}
			s = max(nx, ^nx)
			i += w
		}
	}
	nx := d.nextRow(s, d.p.edgeColumn(t.kindAfter(d.p, to)), b)
	if nx < 0 && d.states[int(^nx)/d.p.ncol].match {
		return to
	}
	return end
}

// computeTransition computes an unknown transition and returns it with the width of its character.
func (d *dfa) computeTransition(s int32, src []byte, i int, b Budget) (nx int32, width int) {
	col, width := d.p.colAt(src, i)
	return d.nextRow(s, col, b), width
}

// recordMatch stores i as the end of a match if the state at row matches, and reports whether the
// scan is over.
func (d *dfa) recordMatch(row int32, i int, end *int) bool {
	st := &d.states[int(row)/d.p.ncol]
	if st.match {
		*end = i
	}
	return st.match && d.mode == exists || st.isDead()
}

// scanBackward scans back from end, no further than from, and returns where the longest match that
// ends there begins. If log isn't nil, it logs the states passed.
func (d *dfa) scanBackward(t text, end, from int, log *walker, b Budget) int {
	s := d.startRow(t.kindAfter(d.p, end), false, b)
	begin := -1
	ascii, src := &d.p.ascii, t.src
	if log != nil {
		log.log = log.log[:0]
		log.logState(s, 1, b)
	}
	for i := end; i > from; {
		if (end-i)%chunk == 0 {
			b.Tick(1 + min(chunk, i-from)/tickUnit)
		}
		nx := d.trans[int(s)+int(ascii[src[i-1]])]
		w := 1
		if nx == unknown {
			var col int
			col, w = d.p.colBefore(src, i)
			nx = d.nextRow(s, col, b)
		}
		if nx < 0 {
			nx = ^nx
			st := &d.states[int(nx)/d.p.ncol]
			if st.match {
				begin = i
			}
			if st.isDead() {
				return begin
			}
		}
		s = nx
		i -= w
		if log != nil {
			log.logState(s, w, b)
		}
	}
	nx := d.nextRow(s, d.p.edgeColumn(t.kindBefore(d.p, from)), b)
	if nx < 0 && d.states[int(^nx)/d.p.ncol].match {
		return from
	}
	return begin
}

// startRow returns the row of the state before the first character.
func (d *dfa) startRow(kind uint8, seed bool, b Budget) int32 {
	which := int(kind)
	if seed {
		which += int(kinds)
	}
	if s := d.starts[which]; s != unknown {
		return s
	}
	d.list = d.list[:0]
	d.next.reset()
	if d.mode == reverse {
		d.list = append(d.list, 0) // the match instruction
	} else if seed {
		d.addReachable(d.p.start)
		slices.Sort(d.list)
	}
	if !d.p.asserts {
		kind = 0
	}
	s := d.rowOfList(kind, seed && !d.p.anchored, false, b)
	if s < 0 {
		s = ^s
	}
	d.starts[which] = s
	return s
}

// nextRow returns the transition of the state at row s for a column; it stores new ones.
func (d *dfa) nextRow(s int32, col int, b Budget) int32 {
	at := int(s) + col
	if d.trans[at] != unknown {
		return d.trans[at]
	}
	st := d.states[int(s)/d.p.ncol]
	gen := d.gen
	d.list = d.list[:0]
	d.seen.reset()
	d.next.reset()
	var nx int32
	kind := uint8(0)
	if d.p.asserts {
		kind = d.p.kind[col]
	}
	if d.mode == reverse {
		match := d.stepBack(st, col)
		slices.Sort(d.list)
		nx = d.rowOfList(kind, false, match, b)
	} else {
		match, seed := d.stepForward(st, col)
		nx = d.rowOfList(kind, seed, match, b)
	}
	b.Tick(1 + (len(d.seen.dense)+len(d.list))/4)
	if gen == d.gen && col != 0 {
		d.trans[at] = nx
	}
	return nx
}

// stepForward moves every thread over a character. It reports whether a match ended before the
// character and whether a match may begin after it.
func (d *dfa) stepForward(st dstate, col int) (match, seed bool) {
	group := 0 // where the current group begins in list
	for _, pc := range st.pcs {
		if pc == separator {
			if match {
				break
			}
			group = d.closeGroup(group)
			continue
		}
		if d.advanceThread(pc, st.kind, col) {
			match = true
			if d.mode == exists {
				d.list = d.list[:0]
				return true, false
			}
		}
	}
	group = d.closeGroup(group)
	if st.seed && !match && col < d.p.ncol-int(kinds) {
		d.addReachable(d.p.start)
		d.closeGroup(group)
		seed = true
	}
	if n := len(d.list); n > 0 && d.list[n-1] == separator {
		d.list = d.list[:n-1]
	}
	if d.mode == exists {
		slices.Sort(d.list)
	}
	return match, seed
}

// closeGroup sorts the threads of a group and begins the next one.
func (d *dfa) closeGroup(group int) int {
	if d.mode == exists || len(d.list) == group {
		return group
	}
	slices.Sort(d.list[group:])
	d.list = append(d.list, separator)
	return len(d.list)
}

// advanceThread follows pc at the current position and steps over the character where a set
// contains it. It reports whether the match is reached before the character.
func (d *dfa) advanceThread(pc int32, prev uint8, col int) (match bool) {
	next := d.p.kind[col]
	d.stack = append(d.stack[:0], pc)
	for len(d.stack) > 0 {
		pc := d.stack[len(d.stack)-1]
		d.stack = d.stack[:len(d.stack)-1]
		if !d.seen.add(pc) {
			continue
		}
		i := &d.p.insts[pc]
		switch i.op {
		case iMatch:
			match = true
		case iSet:
			if d.p.setContains(i.arg, col) {
				base := len(d.stack)
				d.addReachableAbove(i.out, base)
			}
		case iAssert:
			if d.p.assertionHolds(i.arg, prev, next) {
				d.stack = append(d.stack, i.out)
			}
		case iSplit, iCheck:
			d.stack = append(d.stack, i.alt, i.out)
		case iSave, iMark:
			d.stack = append(d.stack, i.out)
		}
	}
	return match
}

// addReachable adds to list the instructions that can be reached from pc without a character or an
// assertion.
func (d *dfa) addReachable(pc int32) { d.addReachableAbove(pc, len(d.stack)) }

// addReachableAbove is like addReachable and leaves the stack below base alone.
func (d *dfa) addReachableAbove(pc int32, base int) {
	d.stack = append(d.stack, pc)
	for len(d.stack) > base {
		pc := d.stack[len(d.stack)-1]
		d.stack = d.stack[:len(d.stack)-1]
		if !d.next.add(pc) {
			continue
		}
		i := &d.p.insts[pc]
		switch i.op {
		case iMatch, iSet, iAssert:
			d.list = append(d.list, pc)
		case iSplit, iCheck:
			d.stack = append(d.stack, i.alt, i.out)
		case iSave, iMark:
			d.stack = append(d.stack, i.out)
		}
	}
}

// stepBack lists the sets that contain the character and lead to st, and reports whether the
// program can begin there.
func (d *dfa) stepBack(st dstate, col int) (match bool) {
	prev := d.p.kind[col]
	d.stack = append(d.stack[:0], st.pcs...)
	for len(d.stack) > 0 {
		pc := d.stack[len(d.stack)-1]
		d.stack = d.stack[:len(d.stack)-1]
		if !d.seen.add(pc) {
			continue
		}
		if pc == d.p.start {
			match = true
		}
		for _, from := range d.preds[d.predAt[pc]:d.predAt[pc+1]] {
			d.stepBackTo(from, col, prev, st.kind)
		}
	}
	return match
}

// stepBackTo steps back to one instruction: over the character if it is a set, otherwise onto the
// stack.
func (d *dfa) stepBackTo(from int32, col int, prev, next uint8) {
	i := &d.p.insts[from]
	switch {
	case i.op == iSet:
		if d.p.setContains(i.arg, col) && d.next.add(from) {
			d.list = append(d.list, from)
		}
	case i.op != iAssert || d.p.assertionHolds(i.arg, prev, next):
		d.stack = append(d.stack, from)
	}
}

// rowOfList returns the row of the state that list describes, complemented if the state is dead or
// matches. It adds new states.
func (d *dfa) rowOfList(kind uint8, seed, match bool, b Budget) int32 {
	flags := kind
	if seed {
		flags |= 1 << 4
	}
	if match {
		flags |= 1 << 5
	}
	d.key = append(d.key[:0], flags)
	for _, pc := range d.list {
		d.key = binary.LittleEndian.AppendUint32(d.key, uint32(pc))
	}
	if s, ok := d.index[string(d.key)]; ok {
		return s
	}
	cost := int64(len(d.key)+4*len(d.list)+4*d.p.ncol) + 160
	if d.mem+cost > cacheLimit && len(d.states) > 1 {
		d.emptyCache(b)
	}
	b.Alloc(cost)
	d.mem += cost
	row := int32(len(d.trans))
	for range d.p.ncol {
		d.trans = append(d.trans, unknown)
	}
	st := dstate{pcs: slices.Clone(d.list), kind: kind, seed: seed, match: match}
	d.states = append(d.states, st)
	s := row
	if match || st.isDead() {
		s = ^row
	}
	d.index[string(d.key)] = s
	return s
}

// emptyCache removes all states and returns their memory to b.
func (d *dfa) emptyCache(b Budget) {
	b.Free(d.mem)
	d.mem = 0
	d.gen++
	d.trans, d.states = nil, nil
	clear(d.index)
	for i := range d.starts {
		d.starts[i] = unknown
	}
}
