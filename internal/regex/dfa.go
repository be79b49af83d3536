package regex

import (
	"encoding/binary"
	"math"
	"slices"
)

// mode is what an automaton looks for.
type mode uint8

const (
	exists  mode = iota // the end of the match that ends first
	longest             // the end of the leftmost match, the longest of them
	reverse             // backwards: the beginning of the match that ends here
)

// cacheLimit bounds the memory of one automaton; a full cache starts afresh.
const cacheLimit = 2 << 20

// separator parts, in a state of a longest automaton, the threads that began
// at different places, earlier ones first.
const separator = -1

const (
	unknown  = math.MinInt32
	tickUnit = 32      // bytes scanned for one unit of work
	chunk    = 1 << 15 // bytes scanned between two looks at the budget
)

// dstate is a set of instructions that are waiting for the next character.
type dstate struct {
	pcs   []int32
	kind  uint8 // of the neighbour just passed
	seed  bool  // a match may still begin here
	match bool  // a match ends before the character that led here
}

// dead reports whether no match can end any more.
func (s *dstate) dead() bool { return len(s.pcs) == 0 && !s.seed }

// dfa is an automaton that is built while it runs. Transitions hold the row of
// the next state, or its complement when that state is dead or matches.
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
	preds  []int32 // of every instruction, from predAt[pc] to predAt[pc+1]
	predAt []int32
}

func newDFA(p *prog, m mode) *dfa {
	d := &dfa{p: p, mode: m, index: map[string]int32{}}
	d.seen.grow(len(p.insts))
	d.next.grow(len(p.insts))
	for i := range d.starts {
		d.starts[i] = unknown
	}
	if m == reverse {
		d.invert()
	}
	return d
}

// sparse is a set of small numbers that is emptied at no cost.
type sparse struct {
	dense, where []int32
}

func (s *sparse) grow(n int) {
	s.dense = make([]int32, 0, n)
	s.where = make([]int32, n)
}

func (s *sparse) has(x int32) bool {
	i := s.where[x]
	return int(i) < len(s.dense) && s.dense[i] == x
}

func (s *sparse) add(x int32) bool {
	if s.has(x) {
		return false
	}
	s.where[x] = int32(len(s.dense))
	s.dense = append(s.dense, x)
	return true
}

func (s *sparse) clear() { s.dense = s.dense[:0] }

// invert lists the predecessors of every instruction.
func (d *dfa) invert() {
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

// forward scans src[from:to] and returns where the match that the mode asks
// for ends, or -1.
func (d *dfa) forward(t text, from, to int, b Budget) int {
	s := d.begin(t.before(d.p, from), from == 0 || !d.p.anchored, b)
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
				nx, w = d.miss(s, src, i, b)
				trans = d.trans
			}
			if nx < 0 && d.passed(^nx, i, &end) {
				return end
			}
			s = max(nx, ^nx)
			i += w
		}
	}
	nx := d.step(s, d.p.edge(t.after(d.p, to)), b)
	if nx < 0 && d.states[int(^nx)/d.p.ncol].match {
		return to
	}
	return end
}

// miss finds a transition that isn't known yet and the width of its character.
func (d *dfa) miss(s int32, src []byte, i int, b Budget) (nx int32, width int) {
	col, width := d.p.colAt(src, i)
	return d.step(s, col, b), width
}

// passed looks at a state that needs it, notes the match that ends at i, and
// reports whether the scan is over.
func (d *dfa) passed(row int32, i int, end *int) bool {
	st := &d.states[int(row)/d.p.ncol]
	if st.match {
		*end = i
	}
	return st.match && d.mode == exists || st.dead()
}

// backward scans back from end, no further than from, and returns where the
// longest match that ends there begins. The states passed go to log when it
// isn't nil.
func (d *dfa) backward(t text, end, from int, log *walker, b Budget) int {
	s := d.begin(t.after(d.p, end), false, b)
	begin := -1
	ascii, src := &d.p.ascii, t.src
	if log != nil {
		log.log = log.log[:0]
		log.note(s, 1, b)
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
			nx = d.step(s, col, b)
		}
		if nx < 0 {
			nx = ^nx
			st := &d.states[int(nx)/d.p.ncol]
			if st.match {
				begin = i
			}
			if st.dead() {
				return begin
			}
		}
		s = nx
		i -= w
		if log != nil {
			log.note(s, w, b)
		}
	}
	nx := d.step(s, d.p.edge(t.before(d.p, from)), b)
	if nx < 0 && d.states[int(^nx)/d.p.ncol].match {
		return from
	}
	return begin
}

// begin returns the row of the state before the first character.
func (d *dfa) begin(kind uint8, seed bool, b Budget) int32 {
	which := int(kind)
	if seed {
		which += int(kinds)
	}
	if s := d.starts[which]; s != unknown {
		return s
	}
	d.list = d.list[:0]
	d.next.clear()
	if d.mode == reverse {
		d.list = append(d.list, 0) // the match
	} else if seed {
		d.follow(d.p.start)
		slices.Sort(d.list)
	}
	if !d.p.asserts {
		kind = 0
	}
	s := d.state(kind, seed && !d.p.anchored, false, b)
	if s < 0 {
		s = ^s
	}
	d.starts[which] = s
	return s
}

// step finds the transition of the state at row s for a column, and notes it.
func (d *dfa) step(s int32, col int, b Budget) int32 {
	at := int(s) + col
	if d.trans[at] != unknown {
		return d.trans[at]
	}
	st := d.states[int(s)/d.p.ncol]
	gen := d.gen
	d.list = d.list[:0]
	d.seen.clear()
	d.next.clear()
	var nx int32
	kind := uint8(0)
	if d.p.asserts {
		kind = d.p.kind[col]
	}
	if d.mode == reverse {
		match := d.stepBack(st, col)
		slices.Sort(d.list)
		nx = d.state(kind, false, match, b)
	} else {
		match, seed := d.stepOn(st, col)
		nx = d.state(kind, seed, match, b)
	}
	b.Tick(1 + (len(d.seen.dense)+len(d.list))/4)
	if gen == d.gen && col != 0 {
		d.trans[at] = nx
	}
	return nx
}

// stepOn moves every thread over a character.
func (d *dfa) stepOn(st dstate, col int) (match, seed bool) {
	group := 0 // where the current group begins in list
	for _, pc := range st.pcs {
		if pc == separator {
			if match {
				break
			}
			group = d.closeGroup(group)
			continue
		}
		if d.move(pc, st.kind, col) {
			match = true
			if d.mode == exists {
				d.list = d.list[:0]
				return true, false
			}
		}
	}
	group = d.closeGroup(group)
	if st.seed && !match && col < d.p.ncol-int(kinds) {
		d.follow(d.p.start)
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

// move follows pc at the current position and takes the character where a set
// has it. It reports whether the match is reached before the character.
func (d *dfa) move(pc int32, prev uint8, col int) (match bool) {
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
			if d.p.takes(i.arg, col) {
				base := len(d.stack)
				d.followOn(i.out, base)
			}
		case iAssert:
			if d.p.holds(i.arg, prev, next) {
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

// follow adds to list what can be reached from pc without a character or an
// assertion.
func (d *dfa) follow(pc int32) { d.followOn(pc, len(d.stack)) }

func (d *dfa) followOn(pc int32, base int) {
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

// stepBack finds the sets that take a character and lead to st, and whether
// the program can begin there.
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

// stepBackTo goes back to one instruction: over the character, or to follow it
// further.
func (d *dfa) stepBackTo(from int32, col int, prev, next uint8) {
	i := &d.p.insts[from]
	switch {
	case i.op == iSet:
		if d.p.takes(i.arg, col) && d.next.add(from) {
			d.list = append(d.list, from)
		}
	case i.op != iAssert || d.p.holds(i.arg, prev, next):
		d.stack = append(d.stack, from)
	}
}

// state returns the row of the state that list describes, complemented when it
// needs a look.
func (d *dfa) state(kind uint8, seed, match bool, b Budget) int32 {
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
		d.release(b)
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
	if match || st.dead() {
		s = ^row
	}
	d.index[string(d.key)] = s
	return s
}

// release empties the cache.
func (d *dfa) release(b Budget) {
	b.Free(d.mem)
	d.mem = 0
	d.gen++
	d.trans, d.states = nil, nil
	clear(d.index)
	for i := range d.starts {
		d.starts[i] = unknown
	}
}
