package regex

import (
	"strings"
	"unicode/utf8"
)

// parser parses a pattern of any syntax.
type parser struct {
	src    string
	pos    int
	o      Options
	all    set
	names  []string // one for every group opened so far
	closed []bool   // whether a back-reference may name the group
	depth  int
	mem    *account
	budget Budget
	sets   map[string]set // shorthands such as \W and \p{L}, by name

	// Perl only.
	icase, multi, dotall, extended bool
}

// parse parses a pattern and returns its tree and the names of its groups. It charges the tree to
// mem.
func parse(pattern string, o Options, mem *account) (*node, []string, error) {
	p := &parser{src: pattern, o: o, all: everyRune, mem: mem, budget: mem.budget, sets: map[string]set{}}
	if o.Bytes {
		p.all = everyByte
	}
	p.icase, p.multi, p.dotall = o.IgnoreCase, o.Newline || o.Lines, o.DotAll
	var n *node
	var err error
	switch o.Syntax {
	case Fixed:
		n = p.parseFixed()
	case Perl:
		n, err = p.perlAlt()
		if err == nil && p.pos < len(p.src) {
			err = &Error{Reason: UnmatchedClose, Detail: "unmatched closing parenthesis"}
		}
	default:
		n, err = p.alternatives(0)
	}
	if err != nil {
		return nil, nil, err
	}
	if n.depth > maxDepth {
		return nil, nil, &Error{Reason: TooBig}
	}
	return n, p.names, nil
}

// parseFixed parses a pattern without operators. As in grep, a newline separates alternatives.
func (p *parser) parseFixed() *node {
	p.mem.alloc(atomBytes * (strings.Count(p.src, "\n") + 1))
	lines := strings.Split(p.src, "\n")
	subs := make([]*node, len(lines))
	for i, line := range lines {
		sub := &parser{src: line, o: p.o, all: p.all, icase: p.icase}
		var seq []*node
		for sub.pos < len(line) {
			p.mem.alloc(atomBytes)
			p.budget.Tick(1)
			seq = append(seq, sub.charNode(sub.next()))
		}
		subs[i] = concatOrEmpty(seq)
	}
	return joinAlternatives(subs)
}

// concatOrEmpty returns a node that matches seq in order; an empty seq matches the empty text.
func concatOrEmpty(seq []*node) *node {
	if len(seq) == 0 {
		return &node{op: nEmpty}
	}
	return concatNodes(seq...)
}

// next reads one character.
func (p *parser) next() rune {
	c := p.src[p.pos]
	if c < utf8.RuneSelf {
		p.pos++
		return rune(c)
	}
	if p.o.Bytes {
		p.pos++
		return rune(c)
	}
	r, w := utf8.DecodeRuneInString(p.src[p.pos:])
	p.pos += w
	if r == utf8.RuneError && w == 1 {
		return rawBase + rune(c)
	}
	return r
}

// charNode returns the node of a literal character of the pattern.
func (p *parser) charNode(r rune) *node {
	s := setOf(r)
	if p.icase {
		s = s.foldCase()
	}
	if p.o.Bytes {
		s = s.intersect(everyByte)
	}
	return &node{op: nSet, set: s, letter: len(s) > 0}
}

// isERE reports whether the syntax is extended.
func (p *parser) isERE() bool { return p.o.Syntax == ERE }

// isLenient reports whether the dialect accepts malformed repetitions.
func (p *parser) isLenient() bool { return p.o.Dialect == Grep || p.o.Dialect == Awk }

// atOperator reports whether the operator op is at the position, with or without a backslash as the
// syntax requires.
func (p *parser) atOperator(op byte) bool {
	rest := p.src[p.pos:]
	if p.isERE() {
		return len(rest) > 0 && rest[0] == op
	}
	return len(rest) > 1 && rest[0] == '\\' && rest[1] == op
}

// skipOp skips one operator.
func (p *parser) skipOp() {
	if !p.isERE() {
		p.pos++
	}
	p.pos++
}

// alternatives parses alternatives separated by |, up to the end or a closing parenthesis.
func (p *parser) alternatives(level int) (*node, error) {
	if level > maxDepth/2 {
		return nil, &Error{Reason: TooBig}
	}
	var subs []*node
	for {
		n, err := p.branch(level)
		if err != nil {
			return nil, err
		}
		subs = append(subs, n)
		switch {
		case p.atOperator('|'):
			p.skipOp()
		case p.atNewlineAlt():
			p.pos++
		default:
			return joinAlternatives(subs), nil
		}
	}
}

// atNewlineAlt reports whether a newline separates alternatives here, as in grep.
func (p *parser) atNewlineAlt() bool {
	return p.o.Dialect == Grep && p.pos < len(p.src) && p.src[p.pos] == '\n'
}

// atClose reports whether a closing parenthesis that is an operator is at the position.
func (p *parser) atClose(level int) bool {
	return p.atOperator(')') && (level > 0 || !p.closeMayStray())
}

// closeMayStray reports whether an unmatched closing parenthesis is an ordinary character.
func (p *parser) closeMayStray() bool {
	return p.isERE() && (p.isLenient() || p.o.Dialect == Posix)
}

// branch parses one alternative.
func (p *parser) branch(level int) (*node, error) {
	var seq []*node
	start := true
	for p.pos < len(p.src) && !p.atOperator('|') && !p.atNewlineAlt() {
		if p.atClose(level) {
			if level == 0 {
				return nil, &Error{Reason: UnmatchedClose}
			}
			break
		}
		p.budget.Tick(1)
		n, anchor, err := p.piece(level, start)
		if err != nil {
			return nil, err
		}
		if n != nil {
			seq = append(seq, n)
		}
		start = n == nil && start || anchor
	}
	return concatOrEmpty(seq), nil
}

// piece parses an atom with its repetitions. The node is nil for a repetition with nothing to
// repeat; anchor reports that nothing can be repeated after the node.
func (p *parser) piece(level int, start bool) (n *node, anchor bool, err error) {
	p.mem.alloc(atomBytes)
	if start {
		skipped, err := p.strayOperator()
		if err != nil || skipped {
			return nil, false, err
		}
	}
	if a, ok := p.anchor(start, level); ok {
		return a, true, nil
	}
	n, err = p.atom(level)
	if err != nil {
		return nil, false, err
	}
	if n.op == nAssert {
		return n, true, nil
	}
	for {
		lo, hi, ok, err := p.operator()
		if err != nil || !ok {
			return n, false, err
		}
		p.mem.alloc(2 * nodeBytes)
		n = repeatNode(n, lo, hi, false)
		if p.repeatsAgain() {
			return nil, false, &Error{Reason: BadRepeat}
		}
		if n.depth > maxDepth {
			return nil, false, &Error{Reason: TooBig}
		}
	}
}

// repeatsAgain reports whether a second repetition follows in a BRE that allows only one.
func (p *parser) repeatsAgain() bool {
	return !p.isERE() && !p.isLenient() && (p.atOperator('{') || p.pos < len(p.src) && p.src[p.pos] == '*')
}

// strayOperator handles a repetition at the beginning of an alternative: an error, or skipped in
// lenient dialects.
func (p *parser) strayOperator() (skipped bool, err error) {
	rest := p.src[p.pos:]
	if !p.isERE() {
		if strings.HasPrefix(rest, `\{`) && !p.isLenient() {
			return false, &Error{Reason: BadRepeat}
		}
		return false, nil
	}
	switch rest[0] {
	case '*', '+', '?':
		if !p.isLenient() {
			return false, &Error{Reason: BadRepeat}
		}
		p.pos++
		return true, nil
	case '{':
		if !p.isLenient() {
			return false, &Error{Reason: BadRepeat}
		}
		at := p.pos
		_, _, ok, err := p.interval()
		if err != nil || ok {
			return ok, err
		}
		p.pos = at
	}
	return false, nil
}

// anchor parses ^ or $ if it is an anchor at this position.
func (p *parser) anchor(start bool, level int) (*node, bool) {
	switch p.src[p.pos] {
	case '^':
		if !p.isERE() && !(start && p.caretHere()) {
			return nil, false
		}
		p.pos++
		return &node{op: nAssert, assert: atLineStart}, true
	case '$':
		if !p.isERE() && !p.dollarHere(level) {
			return nil, false
		}
		p.pos++
		return &node{op: nAssert, assert: atLineEnd}, true
	}
	return nil, false
}

// caretHere reports whether a BRE's ^ is at the beginning of the pattern, a group or an
// alternative.
func (p *parser) caretHere() bool {
	before := p.src[:p.pos]
	return before == "" || strings.HasSuffix(before, `\(`) || strings.HasSuffix(before, `\|`) ||
		p.o.Dialect == Grep && strings.HasSuffix(before, "\n")
}

// dollarHere reports whether a BRE's $ is at the end of the pattern, a group or an alternative.
func (p *parser) dollarHere(level int) bool {
	rest := p.src[p.pos+1:]
	return rest == "" || strings.HasPrefix(rest, `\)`) || strings.HasPrefix(rest, `\|`) ||
		p.o.Dialect == Grep && rest[0] == '\n'
}

// operator parses one repetition.
func (p *parser) operator() (lo, hi int, ok bool, err error) {
	if p.pos == len(p.src) {
		return 0, 0, false, nil
	}
	switch {
	case p.src[p.pos] == '*':
		p.pos++
		return 0, -1, true, nil
	case p.atOperator('+'):
		p.skipOp()
		return 1, -1, true, nil
	case p.atOperator('?'):
		p.skipOp()
		return 0, 1, true, nil
	case p.atOperator('{'):
		at := p.pos
		lo, hi, ok, err = p.interval()
		if !ok {
			p.pos = at
		}
		return lo, hi, ok, err
	}
	return 0, 0, false, nil
}

// interval parses {m}, {m,}, {,n} or {m,n}.
func (p *parser) interval() (lo, hi int, ok bool, err error) {
	p.skipOp()
	lo = p.readNumber()
	switch {
	case p.pos < len(p.src) && p.src[p.pos] == ',':
		p.pos++
		hi = p.readNumber()
		lo = max(lo, 0)
	case lo < 0:
		return p.badInterval(p.pos >= len(p.src))
	default:
		hi = lo
	}
	if !p.atOperator('}') {
		return p.badInterval(p.pos >= len(p.src))
	}
	p.skipOp()
	if hi >= 0 && lo > hi {
		return 0, 0, false, &Error{Reason: BadInterval}
	}
	if max(lo, hi) > maxRepeat {
		return 0, 0, false, &Error{Reason: TooBig}
	}
	return lo, hi, true, nil
}

// badInterval returns the error of a malformed interval; lenient EREs have none.
func (p *parser) badInterval(ended bool) (lo, hi int, ok bool, err error) {
	switch {
	case p.isERE() && p.isLenient():
		return 0, 0, false, nil
	case ended:
		return 0, 0, false, &Error{Reason: UnmatchedBrace}
	}
	return 0, 0, false, &Error{Reason: BadInterval}
}

// readNumber reads digits; it returns -1 if there are none.
func (p *parser) readNumber() int {
	n := -1
	for p.pos < len(p.src) && p.src[p.pos] >= '0' && p.src[p.pos] <= '9' {
		n = min(max(n, 0)*10+int(p.src[p.pos]-'0'), maxRepeat+1)
		p.pos++
	}
	return n
}

// atom parses a group, a bracket expression, an escape or a character.
func (p *parser) atom(level int) (*node, error) {
	if p.atOperator('(') {
		return p.group(level)
	}
	switch p.src[p.pos] {
	case '[':
		return p.bracket()
	case '.':
		p.pos++
		return &node{op: nSet, set: p.dotSet()}, nil
	case '\\':
		return p.escape()
	}
	return p.charNode(p.next()), nil
}

// dotSet returns the characters that '.' matches.
func (p *parser) dotSet() set {
	if p.o.Newline || p.o.Lines {
		return p.all.without(setOf('\n'))
	}
	return p.all
}

// group parses a group in parentheses.
func (p *parser) group(level int) (*node, error) {
	p.skipOp()
	index := p.openGroup("")
	n, err := p.alternatives(level + 1)
	if err != nil {
		return nil, err
	}
	if !p.atOperator(')') {
		return nil, &Error{Reason: UnmatchedParen}
	}
	p.skipOp()
	return p.closeGroup(n, index), nil
}

// openGroup adds a group and returns its index.
func (p *parser) openGroup(name string) int {
	p.names = append(p.names, name)
	p.closed = append(p.closed, false)
	return len(p.names)
}

// closeGroup returns the node of a group; from now on back-references may name it.
func (p *parser) closeGroup(n *node, index int) *node {
	p.closed[index-1] = true
	g := wrapNode(nGroup, n)
	g.index = index
	return g
}

// escape parses a backslash and the characters that belong to it.
func (p *parser) escape() (*node, error) {
	p.pos++
	if p.pos == len(p.src) {
		return nil, &Error{Reason: TrailingBackslash}
	}
	c := p.src[p.pos]
	if a, ok := gnuAsserts[c]; ok {
		p.pos++
		return &node{op: nAssert, assert: a}, nil
	}
	switch c {
	case 'w', 'W', 's', 'S':
		p.pos++
		return &node{op: nSet, set: p.shorthand(c)}, nil
	case '1', '2', '3', '4', '5', '6', '7', '8', '9':
		if p.o.Dialect == Awk {
			break
		}
		p.pos++
		return p.backref(int(c - '0'))
	}
	return p.charNode(p.next()), nil
}

var gnuAsserts = map[byte]assertion{
	'<': atWordStart, '>': atWordEnd, 'b': atWordEdge, 'B': atNoWordEdge, '`': atTextStart, '\'': atTextEnd,
}

// backref returns the node of a reference to group n.
func (p *parser) backref(n int) (*node, error) {
	if n > len(p.closed) || !p.closed[n-1] {
		return nil, &Error{Reason: BadReference}
	}
	return &node{op: nBackref, index: n}, nil
}

// shorthand returns the set of \w, \W, \s or \S.
func (p *parser) shorthand(c byte) set {
	if s, ok := p.sets[string(rune(c))]; ok {
		return s
	}
	s := spaceSet
	if c|0x20 == 'w' {
		s = wordSet()
	}
	if p.o.Bytes {
		s = s.intersect(set{{0, 0x7F}})
	}
	if c < 'a' {
		s = p.all.without(s)
	}
	s = p.noNewline(s)
	p.sets[string(rune(c))] = s
	return s
}

// noNewline removes the newline from s if no match may contain one.
func (p *parser) noNewline(s set) set {
	if p.o.Lines {
		return s.without(setOf('\n'))
	}
	return s
}
