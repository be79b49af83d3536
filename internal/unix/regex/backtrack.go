package regex

import (
	"bytes"
	"slices"
	"unicode/utf8"
)

// backtracker tries the paths of a program one after the other. It serves the features that
// automata lack: back-references, look-around and Perl's order of preference. Where the rest of a
// path depends only on the position in the program and in the text, a long run records the
// positions that failed, which keeps it linear.
type backtracker struct {
	p    *prog
	t    text
	b    Budget
	want int // where a match must end, or anywhere

	caps    []int
	best    []int
	loops   []int
	stack   []frame
	steps   int
	memo    bool
	visited []uint64
	from    int
	first   []bool // columns with which a match may begin
}

// frame is a path to try later, or a value to restore on the way back to one.
type frame struct {
	kind frameKind
	pc   int32 // of the path, or the slot or loop to restore
	pos  int   // of the path, or the value to restore
}

// frameKind is the kind of a frame.
type frameKind uint8

const (
	tryPath frameKind = iota
	restoreCap
	restoreLoop
)

// anywhere allows a match to end at any position.
const anywhere = -1

// newBacktracker returns a backtracker for p.
func newBacktracker(p *prog) *backtracker { return &backtracker{p: p, want: anywhere} }

const (
	memoAfter  = 1 << 14 // steps after which failures are recorded
	tickEvery  = 256     // steps between two charges to the budget
	stackKeep  = 1 << 12 // frames of a stack that is kept between runs
	frameBytes = 24
)

// searchFrom looks for a match that begins at at or later.
func (m *backtracker) searchFrom(t text, at int, caps []int, b Budget) bool {
	if m.p.anchored && at > 0 {
		return false
	}
	for n := 0; ; n++ {
		if n%1024 == 1023 {
			b.Tick(32)
		}
		col, w := 0, 1
		if at < len(t.src) {
			col, w = m.p.colAt(t.src, at)
		}
		if m.mayBegin(col) && m.run(t, at, caps, b) {
			return true
		}
		if at == len(t.src) || m.p.anchored {
			return false
		}
		at += w
	}
}

// mayBegin reports whether a match may begin with a character of column col; column 0 stands for
// the end of the text.
func (m *backtracker) mayBegin(col int) bool {
	if m.first == nil {
		m.first = m.p.firstColumns()
	}
	return m.first[col]
}

// firstColumns computes the columns with which a match may begin.
func (p *prog) firstColumns() []bool {
	first := make([]bool, p.ncol)
	var seen sparse
	seen.setCapacity(len(p.insts))
	stack := []int32{p.start}
	for len(stack) > 0 {
		pc := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if !seen.add(pc) {
			continue
		}
		i := &p.insts[pc]
		switch i.op {
		case iSet:
			for col := range first {
				first[col] = first[col] || p.setContains(i.arg, col)
			}
		case iSplit, iCheck:
			stack = append(stack, i.out, i.alt)
		case iSave, iMark, iAssert:
			stack = append(stack, i.out)
		case iLook:
			stack = append(stack, i.out)
		case iAtomic:
			stack = append(stack, i.alt)
		default: // anything may follow
			for col := range first {
				first[col] = true
			}
			return first
		}
	}
	return first
}

// run looks for a match that begins at at.
func (m *backtracker) run(t text, at int, caps []int, b Budget) bool {
	m.t, m.b, m.from = t, b, at
	m.caps = append(m.caps[:0], slices.Repeat([]int{-1}, m.p.slots)...)
	if len(m.loops) < m.p.loops {
		m.loops = make([]int, m.p.loops)
	}
	m.best = m.best[:0]
	m.stack = m.stack[:0]
	m.steps, m.memo = 0, false
	m.caps[0] = at
	_, ok := m.exec(m.p.start, at, 0)
	m.releaseMemory()
	b.Tick(1 + m.steps%tickEvery/4)
	if !ok && len(m.best) == 0 {
		return false
	}
	if !ok {
		m.caps = append(m.caps[:0], m.best...)
	}
	copy(caps, m.caps)
	return true
}

// releaseMemory frees the large buffers of a long run.
func (m *backtracker) releaseMemory() {
	if cap(m.stack) > stackKeep {
		m.b.Free(int64(cap(m.stack)) * frameBytes)
		m.stack = nil
	}
	if m.visited != nil {
		m.b.Free(int64(len(m.visited)) * 8)
		m.visited = nil
	}
}

// push adds a frame and charges a large stack to the budget.
func (m *backtracker) push(f frame) {
	if len(m.stack) == cap(m.stack) {
		m.growStack()
	}
	m.stack = append(m.stack, f)
}

// growStack doubles the stack, after it has charged what is large.
func (m *backtracker) growStack() {
	was := cap(m.stack)
	size := max(64, 2*was)
	if size > stackKeep {
		charged := int64(was)
		if was <= stackKeep {
			charged = 0
		}
		m.b.Alloc((int64(size) - charged) * frameBytes)
	}
	grown := make([]frame, was, size)
	copy(grown, m.stack)
	m.stack = grown
}

// pop removes frames, not below base, until it finds a path to try; it restores values on the way.
func (m *backtracker) pop(base int) (pc int32, pos int, ok bool) {
	for len(m.stack) > base {
		f := m.stack[len(m.stack)-1]
		m.stack = m.stack[:len(m.stack)-1]
		switch f.kind {
		case tryPath:
			return f.pc, f.pos, true
		case restoreCap:
			m.caps[f.pc] = f.pos
		case restoreLoop:
			m.loops[f.pc] = f.pos
		}
	}
	return 0, 0, false
}

// dropPaths removes the paths above base and keeps the values to restore.
func (m *backtracker) dropPaths(base int) {
	keep := m.stack[:base]
	for _, f := range m.stack[base:] {
		if f.kind != tryPath {
			keep = append(keep, f)
		}
	}
	m.stack = keep
}

// countStep counts a step, charges the budget and makes long runs record failures.
func (m *backtracker) countStep() {
	m.steps++
	if m.steps%tickEvery != 0 {
		return
	}
	m.b.Tick(tickEvery / 4)
	if m.steps >= memoAfter && !m.memo && !m.p.backrefs {
		m.memo = true
		words := (int64(len(m.p.insts))*int64(len(m.t.src)-m.from+1) + 63) / 64
		m.b.Alloc(words * 8)
		m.visited = make([]uint64, words)
	}
}

// seenBefore reports whether the run was at pc and pos before, and records the visit.
func (m *backtracker) seenBefore(pc int32, pos int) bool {
	if !m.memo {
		return false
	}
	k := int64(pc)*int64(len(m.t.src)-m.from+1) + int64(pos-m.from)
	bit := uint64(1) << (k & 63)
	was := m.visited[k>>6]&bit != 0
	m.visited[k>>6] |= bit
	return was
}

// exec runs from pc until the program matches or no path above base is left.
func (m *backtracker) exec(pc int32, pos, base int) (int, bool) {
	for {
		m.countStep()
		i := &m.p.insts[pc]
		next, ok := i.out, true
		switch i.op {
		case iMatch:
			if m.acceptEnd(pos) {
				return pos, true
			}
			ok = false
		case iAccept:
			return pos, true
		case iSet:
			pos, ok = m.matchSet(i, pos)
		case iSplit:
			if ok = !m.seenBefore(pc, pos); ok {
				m.push(frame{tryPath, i.alt, pos})
			}
		case iSave:
			m.push(frame{restoreCap, i.arg, m.caps[i.arg]})
			m.caps[i.arg] = pos
		case iAssert:
			ok = m.p.assertionHolds(i.arg, m.t.kindBefore(m.p, pos), m.t.kindAfter(m.p, pos))
			ok = ok || assertion(i.arg) == atLastLine && m.atFinalNewline(pos)
		case iMark:
			m.push(frame{restoreLoop, i.arg, m.loops[i.arg]})
			m.loops[i.arg] = pos
		case iCheck:
			if m.loops[i.arg] == pos {
				next = i.alt
			}
		case iBack:
			pos, ok = m.matchBackref(int(i.arg), pos)
		case iLook, iAtomic:
			if ok = !m.seenBefore(pc, pos); ok {
				pos, ok = m.runNested(pc, pos)
			}
		}
		if !ok {
			if next, pos, ok = m.pop(base); !ok {
				return 0, false
			}
		}
		pc = next
	}
}

// acceptEnd reports whether a match that ends at pos is final. If a longer one may follow, it keeps
// the longest so far.
func (m *backtracker) acceptEnd(pos int) bool {
	if m.want != anywhere && pos != m.want {
		return false
	}
	if m.p.perl || m.want != anywhere || pos == len(m.t.src) {
		m.caps[1] = pos
		return true
	}
	if len(m.best) == 0 || pos > m.best[1] {
		m.best = append(m.best[:0], m.caps...)
		m.best[1] = pos
	}
	return false
}

// matchSet matches one character of a set and returns the position after it.
func (m *backtracker) matchSet(i *inst, pos int) (int, bool) {
	if pos == len(m.t.src) {
		return pos, false
	}
	col, w := m.p.colAt(m.t.src, pos)
	return pos + w, m.p.setContains(i.arg, col)
}

// atFinalNewline reports whether pos is before a newline that ends the text.
func (m *backtracker) atFinalNewline(pos int) bool {
	return pos == len(m.t.src)-1 && m.t.src[pos] == '\n'
}

// matchBackref matches the text of a group again and returns the position after it.
func (m *backtracker) matchBackref(group, pos int) (int, bool) {
	lo, hi := m.caps[2*group], m.caps[2*group+1]
	if lo < 0 || hi < lo || pos+hi-lo > len(m.t.src) {
		return pos, false
	}
	m.steps += (hi - lo) / 16
	end := pos + hi - lo
	was, here := m.t.src[lo:hi], m.t.src[pos:end]
	return end, bytes.Equal(was, here) || m.p.icase && bytes.EqualFold(was, here)
}

// runNested runs the program of a look-around or an atomic group.
func (m *backtracker) runNested(pc int32, pos int) (int, bool) {
	i := &m.p.insts[pc]
	at := pos
	if i.behind {
		for range i.arg {
			if at == 0 {
				return pos, i.negated
			}
			at--
			for !m.p.bytes && at > 0 && !utf8.RuneStart(m.t.src[at]) {
				at--
			}
		}
	}
	base := len(m.stack)
	end, ok := m.exec(i.alt, at, base)
	m.seenBefore(pc, pos)
	if !ok {
		return pos, i.op == iLook && i.negated
	}
	if i.negated {
		m.undoPaths(base)
		return pos, false
	}
	m.dropPaths(base)
	if i.op == iLook {
		return pos, true
	}
	return end, true
}

// undoPaths restores all values above base and drops the paths.
func (m *backtracker) undoPaths(base int) {
	for {
		if _, _, ok := m.pop(base); !ok {
			return
		}
	}
}
