package regex

import (
	"slices"
	"unicode/utf8"
)

// instOp is the kind of an instruction.
type instOp uint8

const (
	iMatch  instOp = iota
	iSet           // a character of set arg, then out
	iSplit         // out, otherwise alt
	iSave          // store the position in slot arg, then out
	iAssert        // if assertion arg holds, out
	iMark          // store the position in loop arg, then out
	iCheck         // out if the position differs from loop arg, otherwise alt
	iBack          // the text that group arg matched, then out
	iLook          // if the program at alt matches (negated: doesn't), out; arg is the width to step back
	iAtomic        // the first match of the program at alt, then out
	iAccept        // the program of a look-around or atomic group matches
)

// inst is one instruction.
type inst struct {
	op       instOp
	negated  bool
	behind   bool
	optional bool // iSave: the group is in a loop and may match nothing
	arg      int32
	out, alt int32
}

// The kinds of neighbours that assertions distinguish.
const (
	kindOther uint8 = iota
	kindWord
	kindNewline
	kindRaw // a byte that is not part of a character: a word character for glibc, but not for grep -w
	kindEdge
	kinds
)

// prog is a pattern as a program over columns. A column is a class of characters that no set of the
// pattern distinguishes.
type prog struct {
	insts    []inst
	start    int32
	slots    int
	width    int // number of characters of every match, or -1 if it varies
	loops    int
	regular  bool // has no back-references or look-around
	backrefs bool
	icase    bool
	perl     bool // the first match is the result, not the longest
	anchored bool
	asserts  bool
	newline  bool // ^ and $ match at lines
	lines    bool
	bytes    bool

	ascii  [256]uint16 // column of a byte; 0 means that the byte must be decoded
	lows   []rune      // first characters of the intervals
	cols   []uint16    // column of each interval
	ncol   int         // number of columns, including those of the edges
	kind   []uint8     // of each column
	member [][]uint64  // for each set, a bit per column
}

// compiler compiles a tree into a program. It works from the end to the beginning, so that the
// successor of every instruction already has an index.
type compiler struct {
	p      *prog
	sets   []set
	index  map[string]int32
	kept   *account // of what the program keeps
	budget Budget
	full   bool
}

// compileTree compiles a tree with that many groups.
func compileTree(tree *node, groups int, o Options, kept *account) (*prog, error) {
	c := &compiler{
		p: &prog{
			regular: true, perl: o.Syntax == Perl, newline: o.Newline || o.Lines, lines: o.Lines,
			bytes: o.Bytes, icase: o.IgnoreCase, slots: 2 * (groups + 1),
		},
		index:  map[string]int32{},
		kept:   kept,
		budget: kept.budget,
	}
	c.p.anchored = tree.isAnchored(o)
	c.p.width = -1
	if w, ok := tree.fixedWidth(); ok {
		c.p.width = w
	}
	match := c.emitInst(inst{op: iMatch})
	c.p.start = c.emitNode(tree, match)
	if c.full {
		return nil, &Error{Reason: TooBig}
	}
	if err := c.partitionChars(); err != nil {
		return nil, err
	}
	return c.p, nil
}

// emitInst appends an instruction and returns its index.
func (c *compiler) emitInst(i inst) int32 {
	if len(c.p.insts) >= maxProg {
		c.full = true
		return 0
	}
	c.budget.Tick(1)
	c.kept.alloc(instCost)
	c.p.insts = append(c.p.insts, i)
	return int32(len(c.p.insts) - 1)
}

// emitNode emits n with the successor next and returns the index where it begins.
func (c *compiler) emitNode(n *node, next int32) int32 {
	if c.full {
		return 0
	}
	switch n.op {
	case nSet:
		return c.emitInst(inst{op: iSet, arg: c.indexOfSet(n.set), out: next})
	case nConcat:
		for _, s := range slices.Backward(n.subs) {
			next = c.emitNode(s, next)
		}
		return next
	case nAlt:
		at := c.emitNode(n.subs[len(n.subs)-1], next)
		for _, s := range slices.Backward(n.subs[:len(n.subs)-1]) {
			at = c.emitInst(inst{op: iSplit, out: c.emitNode(s, next), alt: at})
		}
		return at
	case nRepeat:
		return c.emitRepeat(n, next)
	case nGroup:
		return c.emitGroup(n, next, false)
	case nAssert:
		c.p.asserts = true
		return c.emitInst(inst{op: iAssert, arg: int32(n.assert), out: next})
	case nBackref:
		c.p.regular, c.p.backrefs = false, true
		return c.emitInst(inst{op: iBack, arg: int32(n.index), out: next})
	case nLook:
		c.p.regular, c.p.asserts = false, true
		sub := c.emitNode(n.subs[0], c.emitInst(inst{op: iAccept}))
		return c.emitInst(inst{op: iLook, arg: int32(n.min), behind: n.behind, negated: n.negated, alt: sub, out: next})
	case nAtomic:
		c.p.regular = false
		sub := c.emitNode(n.subs[0], c.emitInst(inst{op: iAccept}))
		return c.emitInst(inst{op: iAtomic, alt: sub, out: next})
	case nKeep:
		c.p.regular = false
		return c.emitInst(inst{op: iSave, arg: 0, out: next})
	}
	return next
}

// emitGroup emits a group with the successor next; optional reports that a loop repeats it.
func (c *compiler) emitGroup(n *node, next int32, optional bool) int32 {
	at := c.emitInst(inst{op: iSave, arg: int32(2*n.index + 1), out: next, optional: optional})
	return c.emitInst(inst{op: iSave, arg: int32(2 * n.index), out: c.emitNode(n.subs[0], at)})
}

// emitBody emits a repeated node, in a copy that a match may leave out.
func (c *compiler) emitBody(n *node, next int32) int32 {
	if n.op == nGroup {
		return c.emitGroup(n, next, true)
	}
	return c.emitNode(n, next)
}

// emitRepeat emits the copies for the repetition n, with the optional ones nested.
func (c *compiler) emitRepeat(n *node, next int32) int32 {
	sub := n.subs[0]
	at := next
	copies := n.min
	switch {
	case n.max < 0 && n.min > 0 && !(sub.op == nGroup && sub.matchesEmpty()):
		at = c.emitLoop(n, next, true)
		copies--
	case n.max < 0:
		at = c.emitLoop(n, next, false)
	default:
		for i := n.min; i < n.max && !c.full; i++ {
			at = c.emitSplit(n.lazy, c.emitBody(sub, at), next)
		}
	}
	for i := 0; i < copies && !c.full; i++ {
		at = c.emitNode(sub, at)
	}
	return at
}

// emitSplit emits a fork between the loop's body and its exit; a lazy one prefers the exit.
func (c *compiler) emitSplit(lazy bool, in, out int32) int32 {
	if lazy {
		in, out = out, in
	}
	return c.emitInst(inst{op: iSplit, out: in, alt: out})
}

// emitLoop emits a loop over n's body. If the body can match nothing, the loop checks that every
// round moves the position.
func (c *compiler) emitLoop(n *node, next int32, atLeastOnce bool) int32 {
	split := c.emitSplit(n.lazy, 0, next)
	back := split
	watched := n.subs[0].matchesEmpty()
	loop := int32(c.p.loops)
	if watched {
		c.p.loops++
		back = c.emitInst(inst{op: iCheck, arg: loop, out: split, alt: next})
	}
	body := c.emitBody(n.subs[0], back)
	if watched {
		body = c.emitInst(inst{op: iMark, arg: loop, out: body})
	}
	if c.full {
		return 0
	}
	if n.lazy {
		c.p.insts[split].alt = body
	} else {
		c.p.insts[split].out = body
	}
	if atLeastOnce {
		return body
	}
	return split
}

// indexOfSet returns the index of s; equal sets share one.
func (c *compiler) indexOfSet(s set) int32 {
	key := make([]byte, 0, 8*len(s))
	for _, x := range s {
		key = utf8.AppendRune(key, x.lo)
		key = append(key, byte(x.lo>>16), byte(x.lo>>8), byte(x.lo), byte(x.hi>>16), byte(x.hi>>8), byte(x.hi))
	}
	if i, ok := c.index[string(key)]; ok {
		return i
	}
	c.budget.Tick(1 + len(s)/8)
	c.kept.alloc(len(key) + setCost)
	i := int32(len(c.sets))
	c.index[string(key)] = i
	c.sets = append(c.sets, s)
	return i
}

// partitionChars divides all characters into columns.
func (c *compiler) partitionChars() error {
	p := c.p
	sets := c.sets
	special := 0
	if p.asserts {
		sets = append(slices.Clip(sets), c.wordChars(), setOf('\n'), c.rawBytes())
		special = 3
	}
	spans := 0
	for _, s := range sets {
		spans += len(s)
	}
	c.kept.alloc(spans * intervalCost)
	lows := make([]rune, 0, 3+2*spans)
	lows = append(lows, 0, utf8.RuneSelf, rawBase)
	for _, s := range sets {
		for _, x := range s {
			lows = append(lows, x.lo, x.hi+1)
		}
	}
	c.budget.Tick(len(lows))
	slices.Sort(lows)
	p.lows = slices.Compact(lows)
	cols := make([]int32, len(p.lows)) // the class of each interval
	classes := int32(1)
	for _, s := range sets {
		classes = c.splitClasses(cols, classes, s)
	}
	if classes > 60000 {
		return &Error{Reason: TooBig}
	}
	c.numberColumns(cols, int(classes))
	c.fillMembership(sets[:len(sets)-special])
	if p.asserts {
		c.fillKinds(sets[len(sets)-special:])
	} else {
		p.kind = make([]uint8, p.ncol)
	}
	for k := range int(kinds) {
		p.kind[p.ncol-int(kinds)+k] = uint8(k)
	}
	return nil
}

// wordChars returns the word characters of assertions.
func (c *compiler) wordChars() set {
	if c.p.perl || c.p.bytes {
		return set{{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}}
	}
	return wordSet()
}

// rawBytes returns the characters that stand for bytes outside of UTF-8.
func (c *compiler) rawBytes() set {
	if c.p.perl || c.p.bytes {
		return nil
	}
	return set{{rawBase, rawEnd}}
}

// splitClasses splits every class into its characters in s and the others, and returns the new
// number of classes.
func (c *compiler) splitClasses(cols []int32, classes int32, s set) int32 {
	p := c.p
	size := make(map[int32]int, 8)
	var inside []int
	for _, x := range s {
		i, _ := slices.BinarySearch(p.lows, x.lo)
		for ; i < len(p.lows) && p.lows[i] <= x.hi; i++ {
			inside = append(inside, i)
			size[cols[i]]++
		}
	}
	c.budget.Tick(1 + len(inside)/4 + len(cols)/64)
	total := make(map[int32]int, len(size))
	for _, k := range cols {
		if _, ok := size[k]; ok {
			total[k]++
		}
	}
	split := make(map[int32]int32, len(size))
	for _, i := range inside {
		k := cols[i]
		if total[k] == size[k] {
			continue
		}
		to, ok := split[k]
		if !ok {
			to = classes
			classes++
			split[k] = to
		}
		cols[i] = to
	}
	return classes
}

// numberColumns numbers the columns from 1 and fills the table of bytes.
func (c *compiler) numberColumns(cols []int32, classes int) {
	p := c.p
	p.cols = make([]uint16, len(cols))
	for i, k := range cols {
		p.cols[i] = uint16(k + 1)
	}
	p.ncol = 1 + classes + int(kinds)
	limit := utf8.RuneSelf
	if p.bytes {
		limit = 256
	}
	for b := range limit {
		p.ascii[b] = uint16(p.colOf(rune(b)))
	}
}

// fillMembership computes the columns of each set.
func (c *compiler) fillMembership(sets []set) {
	p := c.p
	words := (p.ncol + 63) / 64
	c.kept.alloc(len(sets) * (24 + 8*words))
	p.member = make([][]uint64, len(sets))
	for k, s := range sets {
		m := make([]uint64, words)
		c.markColumns(m, s)
		p.member[k] = m
	}
}

// markColumns sets the bits of the columns in s.
func (c *compiler) markColumns(m []uint64, s set) {
	p := c.p
	for _, x := range s {
		i, _ := slices.BinarySearch(p.lows, x.lo)
		for ; i < len(p.lows) && p.lows[i] <= x.hi; i++ {
			m[p.cols[i]/64] |= 1 << (p.cols[i] % 64)
			c.budget.Tick(1)
		}
	}
}

// fillKinds sets the kind of each column from the sets of word characters, newlines and raw bytes.
func (c *compiler) fillKinds(special []set) {
	p := c.p
	p.kind = make([]uint8, p.ncol)
	for i, s := range special {
		m := make([]uint64, (p.ncol+63)/64)
		c.markColumns(m, s)
		for col := range p.ncol {
			if m[col/64]&(1<<(col%64)) != 0 {
				p.kind[col] = kindWord + uint8(i)
			}
		}
	}
}

// colOf returns the column of a character.
func (p *prog) colOf(r rune) int {
	lo, hi := 0, len(p.lows)
	for lo+1 < hi {
		mid := int(uint(lo+hi) >> 1)
		if p.lows[mid] <= r {
			lo = mid
		} else {
			hi = mid
		}
	}
	return int(p.cols[lo])
}

// setContains reports whether a set contains a column.
func (p *prog) setContains(set int32, col int) bool {
	return p.member[set][col>>6]&(1<<(uint(col)&63)) != 0
}

// edgeColumn returns the column for a neighbour of kind k outside of the match.
func (p *prog) edgeColumn(k uint8) int { return p.ncol - int(kinds) + int(k) }

// assertionHolds reports whether an assertion is true between two neighbours.
func (p *prog) assertionHolds(a int32, prev, next uint8) bool {
	switch assertion(a) {
	case atTextStart:
		return prev == kindEdge || p.lines && prev == kindNewline
	case atTextEnd:
		return next == kindEdge || p.lines && next == kindNewline
	case atLineStart:
		return prev == kindEdge || p.newline && prev == kindNewline
	case atLineEnd, atLastLine:
		return next == kindEdge || p.newline && next == kindNewline
	case atWordStart:
		return !inWord(prev) && inWord(next)
	case atWordEnd:
		return inWord(prev) && !inWord(next)
	case atWordEdge:
		return inWord(prev) != inWord(next)
	case atNoWordEdge:
		return inWord(prev) == inWord(next)
	case atNoWordBefore:
		return prev != kindWord
	case atNoWordAfter:
		return next != kindWord
	}
	return false
}

// inWord reports whether glibc takes a neighbour of that kind for a part of a word.
func inWord(kind uint8) bool { return kind == kindWord || kind == kindRaw }
