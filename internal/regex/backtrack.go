package regex

import (
	"bytes"
	"slices"
	"unicode/utf8"
)

// backtracker tries the paths of a program one after the other. It serves what
// automata can't: back-references, look-around and Perl's preferences. Where a
// place in the program and in the text decide alone how it goes on, places that
// failed are remembered once a run has become long, which keeps it linear.
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
	first   []bool // columns that a match may begin with
}

// frame is a path not taken yet, or a value to put back on the way to one.
type frame struct {
	kind frameKind
	pc   int32 // or the slot
	pos  int   // or the value
}

type frameKind uint8

const (
	tryPath frameKind = iota
	putCap
	putLoop
)

// anywhere, as the place where a match must end, is no condition.
const anywhere = -1

func newBacktracker(p *prog) *backtracker { return &backtracker{p: p, want: anywhere} }

const (
	memoAfter  = 1 << 14 // steps
	tickEvery  = 256     // steps
	stackKeep  = 1 << 12 // frames
	frameBytes = 24
)

// search tries every beginning from at on.
func (m *backtracker) search(t text, at int, caps []int, b Budget) bool {
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

// mayBegin reports whether a match may begin with a character of column col;
// column 0 stands for the end of the text.
func (m *backtracker) mayBegin(col int) bool {
	if m.first == nil {
		m.first = m.p.firstColumns()
	}
	return m.first[col]
}

// firstColumns finds the columns a match may begin with.
func (p *prog) firstColumns() []bool {
	first := make([]bool, p.ncol)
	var seen sparse
	seen.grow(len(p.insts))
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
				first[col] = first[col] || p.takes(i.arg, col)
			}
		case iSplit, iCheck:
			stack = append(stack, i.out, i.alt)
		case iSave, iMark, iAssert:
			stack = append(stack, i.out)
		case iLook:
			stack = append(stack, i.out)
		case iAtomic:
			stack = append(stack, i.alt)
		default: // nothing is known about what follows
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
	m.trim()
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

// trim gives back what a long run has taken.
func (m *backtracker) trim() {
	if cap(m.stack) > stackKeep {
		m.b.Free(int64(cap(m.stack)) * frameBytes)
		m.stack = nil
	}
	if m.visited != nil {
		m.b.Free(int64(len(m.visited)) * 8)
		m.visited = nil
	}
}

func (m *backtracker) push(f frame) {
	if len(m.stack) == cap(m.stack) {
		was := cap(m.stack)
		m.stack = slices.Grow(m.stack, max(64, was))
		if was <= stackKeep {
			was = 0
		}
		if cap(m.stack) > stackKeep {
			m.b.Alloc(int64(cap(m.stack)-was) * frameBytes)
		}
	}
	m.stack = append(m.stack, f)
}

// pop goes back to the last path not taken, no further down than base.
func (m *backtracker) pop(base int) (pc int32, pos int, ok bool) {
	for len(m.stack) > base {
		f := m.stack[len(m.stack)-1]
		m.stack = m.stack[:len(m.stack)-1]
		switch f.kind {
		case tryPath:
			return f.pc, f.pos, true
		case putCap:
			m.caps[f.pc] = f.pos
		case putLoop:
			m.loops[f.pc] = f.pos
		}
	}
	return 0, 0, false
}

// commit forgets the paths above base; what they would put back stays.
func (m *backtracker) commit(base int) {
	keep := m.stack[:base]
	for _, f := range m.stack[base:] {
		if f.kind != tryPath {
			keep = append(keep, f)
		}
	}
	m.stack = keep
}

// tick counts a step and turns the memory of failures on in long runs.
func (m *backtracker) tick() {
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

// again reports whether pc has been here before, and remembers it.
func (m *backtracker) again(pc int32, pos int) bool {
	if !m.memo {
		return false
	}
	k := int64(pc)*int64(len(m.t.src)-m.from+1) + int64(pos-m.from)
	bit := uint64(1) << (k & 63)
	was := m.visited[k>>6]&bit != 0
	m.visited[k>>6] |= bit
	return was
}

// exec runs from pc until the program accepts or no path above base is left.
func (m *backtracker) exec(pc int32, pos, base int) (int, bool) {
	for {
		m.tick()
		i := &m.p.insts[pc]
		next, ok := i.out, true
		switch i.op {
		case iMatch:
			if m.done(pos) {
				return pos, true
			}
			ok = false
		case iAccept:
			return pos, true
		case iSet:
			pos, ok = m.take(i, pos)
		case iSplit:
			if ok = !m.again(pc, pos); ok {
				m.push(frame{tryPath, i.alt, pos})
			}
		case iSave:
			m.push(frame{putCap, i.arg, m.caps[i.arg]})
			m.caps[i.arg] = pos
		case iAssert:
			ok = m.p.holds(i.arg, m.t.before(m.p, pos), m.t.after(m.p, pos))
			ok = ok || assertion(i.arg) == atLastLine && m.lastLine(pos)
		case iMark:
			m.push(frame{putLoop, i.arg, m.loops[i.arg]})
			m.loops[i.arg] = pos
		case iCheck:
			if m.loops[i.arg] == pos {
				next = i.alt
			}
		case iBack:
			pos, ok = m.backref(int(i.arg), pos)
		case iLook, iAtomic:
			if ok = !m.again(pc, pos); ok {
				pos, ok = m.nested(pc, pos)
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

// done reports whether the match that ends at pos is the one that was looked
// for.
func (m *backtracker) done(pos int) bool {
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

func (m *backtracker) take(i *inst, pos int) (int, bool) {
	if pos == len(m.t.src) {
		return pos, false
	}
	col, w := m.p.colAt(m.t.src, pos)
	return pos + w, m.p.takes(i.arg, col)
}

func (m *backtracker) lastLine(pos int) bool {
	return pos == len(m.t.src)-1 && m.t.src[pos] == '\n'
}

func (m *backtracker) backref(group, pos int) (int, bool) {
	lo, hi := m.caps[2*group], m.caps[2*group+1]
	if lo < 0 || hi < lo || pos+hi-lo > len(m.t.src) {
		return pos, false
	}
	m.steps += (hi - lo) / 16
	end := pos + hi - lo
	was, here := m.t.src[lo:hi], m.t.src[pos:end]
	return end, bytes.Equal(was, here) || m.p.icase && bytes.EqualFold(was, here)
}

// nested runs the program of a look-around or an atomic group.
func (m *backtracker) nested(pc int32, pos int) (int, bool) {
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
	m.again(pc, pos)
	if !ok {
		return pos, i.op == iLook && i.negated
	}
	if i.negated {
		m.undo(base)
		return pos, false
	}
	m.commit(base)
	if i.op == iLook {
		return pos, true
	}
	return end, true
}

// undo puts back everything above base.
func (m *backtracker) undo(base int) {
	for {
		if _, _, ok := m.pop(base); !ok {
			return
		}
	}
}
