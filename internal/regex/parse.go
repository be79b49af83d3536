package regex

import (
	"strings"
	"unicode/utf8"
)

// parser reads a pattern of any syntax.
type parser struct {
	src    string
	pos    int
	o      Options
	all    set
	names  []string // one for every group opened so far
	closed []bool   // groups that a back-reference may name
	depth  int
	budget Budget

	// Perl
	icase, multi, dotall, extended bool
}

func parse(pattern string, o Options) (*node, []string, error) {
	p := &parser{src: pattern, o: o, all: everyRune, budget: o.Budget}
	if o.Bytes {
		p.all = everyByte
	}
	if p.budget == nil {
		p.budget = unlimited{}
	}
	p.icase, p.multi, p.dotall = o.IgnoreCase, o.Newline || o.Lines, o.DotAll
	var n *node
	var err error
	switch o.Syntax {
	case Fixed:
		n = p.fixed()
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

// fixed reads a pattern that has no operators; as for grep, a newline
// separates alternatives.
func (p *parser) fixed() *node {
	lines := strings.Split(p.src, "\n")
	subs := make([]*node, len(lines))
	for i, line := range lines {
		sub := &parser{src: line, o: p.o, all: p.all, icase: p.icase}
		var seq []*node
		for sub.pos < len(line) {
			seq = append(seq, sub.char(sub.next()))
		}
		subs[i] = sequence(seq)
	}
	return alternate(subs)
}

func sequence(seq []*node) *node {
	if len(seq) == 0 {
		return &node{op: nEmpty}
	}
	return concat(seq...)
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

// char is the node of one character as it stands in a pattern.
func (p *parser) char(r rune) *node {
	s := one(r)
	if p.icase {
		s = s.folded()
	}
	if p.o.Bytes {
		s = s.clip(everyByte)
	}
	return &node{op: nSet, set: s, letter: len(s) > 0}
}

func (p *parser) ere() bool { return p.o.Syntax == ERE }

func (p *parser) loose() bool { return p.o.Dialect == Grep || p.o.Dialect == Awk }

// looking reports whether the operator op, spelled with or without a backslash
// as the syntax has it, stands at the position.
func (p *parser) looking(op byte) bool {
	rest := p.src[p.pos:]
	if p.ere() {
		return len(rest) > 0 && rest[0] == op
	}
	return len(rest) > 1 && rest[0] == '\\' && rest[1] == op
}

func (p *parser) skipOp() {
	if !p.ere() {
		p.pos++
	}
	p.pos++
}

// alternatives reads what is between | operators, up to the end or a closing
// parenthesis.
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
		case p.looking('|'):
			p.skipOp()
		case p.atNewlineAlt():
			p.pos++
		default:
			return alternate(subs), nil
		}
	}
}

// atNewlineAlt reports whether a newline separates alternatives here, as it
// does for grep.
func (p *parser) atNewlineAlt() bool {
	return p.o.Dialect == Grep && p.pos < len(p.src) && p.src[p.pos] == '\n'
}

// atClose reports whether a closing parenthesis that means something stands
// here.
func (p *parser) atClose(level int) bool {
	return p.looking(')') && (level > 0 || !p.looseClose())
}

func (p *parser) looseClose() bool {
	return p.ere() && (p.loose() || p.o.Dialect == Posix)
}

func (p *parser) branch(level int) (*node, error) {
	var seq []*node
	start := true
	for p.pos < len(p.src) && !p.looking('|') && !p.atNewlineAlt() {
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
	return sequence(seq), nil
}

// piece reads an atom with its repetitions. A nil node is an operator that
// had nothing to repeat; anchor says that nothing can be repeated after it.
func (p *parser) piece(level int, start bool) (n *node, anchor bool, err error) {
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
		n = repeat(n, lo, hi, false)
		if p.repeatsAgain() {
			return nil, false, &Error{Reason: BadRepeat}
		}
		if n.depth > maxDepth {
			return nil, false, &Error{Reason: TooBig}
		}
	}
}

// repeatsAgain reports whether a second repetition follows where a BRE has none.
func (p *parser) repeatsAgain() bool {
	return !p.ere() && !p.loose() && (p.looking('{') || p.pos < len(p.src) && p.src[p.pos] == '*')
}

// strayOperator deals with a repetition that has nothing before it.
func (p *parser) strayOperator() (skipped bool, err error) {
	rest := p.src[p.pos:]
	if !p.ere() {
		if strings.HasPrefix(rest, `\{`) && !p.loose() {
			return false, &Error{Reason: BadRepeat}
		}
		return false, nil
	}
	switch rest[0] {
	case '*', '+', '?':
		if !p.loose() {
			return false, &Error{Reason: BadRepeat}
		}
		p.pos++
		return true, nil
	case '{':
		if !p.loose() {
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

// anchor reads ^ or $ where it is one.
func (p *parser) anchor(start bool, level int) (*node, bool) {
	switch p.src[p.pos] {
	case '^':
		if !p.ere() && !(start && p.caretHere()) {
			return nil, false
		}
		p.pos++
		return &node{op: nAssert, assert: atLineStart}, true
	case '$':
		if !p.ere() && !p.dollarHere(level) {
			return nil, false
		}
		p.pos++
		return &node{op: nAssert, assert: atLineEnd}, true
	}
	return nil, false
}

// caretHere reports whether a BRE's ^ opens the pattern, a group or an
// alternative.
func (p *parser) caretHere() bool {
	before := p.src[:p.pos]
	return before == "" || strings.HasSuffix(before, `\(`) || strings.HasSuffix(before, `\|`) ||
		p.o.Dialect == Grep && strings.HasSuffix(before, "\n")
}

// dollarHere reports whether a BRE's $ closes the pattern, a group or an
// alternative.
func (p *parser) dollarHere(level int) bool {
	rest := p.src[p.pos+1:]
	return rest == "" || strings.HasPrefix(rest, `\)`) || strings.HasPrefix(rest, `\|`) ||
		p.o.Dialect == Grep && rest[0] == '\n'
}

// operator reads one repetition.
func (p *parser) operator() (lo, hi int, ok bool, err error) {
	if p.pos == len(p.src) {
		return 0, 0, false, nil
	}
	switch {
	case p.src[p.pos] == '*':
		p.pos++
		return 0, -1, true, nil
	case p.looking('+'):
		p.skipOp()
		return 1, -1, true, nil
	case p.looking('?'):
		p.skipOp()
		return 0, 1, true, nil
	case p.looking('{'):
		at := p.pos
		lo, hi, ok, err = p.interval()
		if !ok {
			p.pos = at
		}
		return lo, hi, ok, err
	}
	return 0, 0, false, nil
}

// interval reads {m}, {m,}, {,n} or {m,n}.
func (p *parser) interval() (lo, hi int, ok bool, err error) {
	p.skipOp()
	lo = p.number()
	switch {
	case p.pos < len(p.src) && p.src[p.pos] == ',':
		p.pos++
		hi = p.number()
		lo = max(lo, 0)
	case lo < 0:
		return p.badInterval(p.pos >= len(p.src))
	default:
		hi = lo
	}
	if !p.looking('}') {
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

func (p *parser) badInterval(ended bool) (lo, hi int, ok bool, err error) {
	switch {
	case p.ere() && p.loose():
		return 0, 0, false, nil
	case ended:
		return 0, 0, false, &Error{Reason: UnmatchedBrace}
	}
	return 0, 0, false, &Error{Reason: BadInterval}
}

// number reads digits; -1 means that there are none.
func (p *parser) number() int {
	n := -1
	for p.pos < len(p.src) && p.src[p.pos] >= '0' && p.src[p.pos] <= '9' {
		n = min(max(n, 0)*10+int(p.src[p.pos]-'0'), maxRepeat+1)
		p.pos++
	}
	return n
}

// atom reads what can be repeated.
func (p *parser) atom(level int) (*node, error) {
	if p.looking('(') {
		return p.group(level)
	}
	switch p.src[p.pos] {
	case '[':
		return p.bracket()
	case '.':
		p.pos++
		return &node{op: nSet, set: p.dot()}, nil
	case '\\':
		return p.escape()
	}
	return p.char(p.next()), nil
}

// dot returns what '.' matches.
func (p *parser) dot() set {
	if p.o.Newline || p.o.Lines {
		return p.all.without(one('\n'))
	}
	return p.all
}

func (p *parser) group(level int) (*node, error) {
	p.skipOp()
	index := p.open("")
	n, err := p.alternatives(level + 1)
	if err != nil {
		return nil, err
	}
	if !p.looking(')') {
		return nil, &Error{Reason: UnmatchedParen}
	}
	p.skipOp()
	return p.close(n, index), nil
}

func (p *parser) open(name string) int {
	p.names = append(p.names, name)
	p.closed = append(p.closed, false)
	return len(p.names)
}

func (p *parser) close(n *node, index int) *node {
	p.closed[index-1] = true
	g := over(nGroup, n)
	g.index = index
	return g
}

// escape reads a backslash and what follows.
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
	return p.char(p.next()), nil
}

var gnuAsserts = map[byte]assertion{
	'<': atWordStart, '>': atWordEnd, 'b': atWordEdge, 'B': atNoWordEdge, '`': atTextStart, '\'': atTextEnd,
}

func (p *parser) backref(n int) (*node, error) {
	if n > len(p.closed) || !p.closed[n-1] {
		return nil, &Error{Reason: BadReference}
	}
	return &node{op: nBackref, index: n}, nil
}

// shorthand returns the set of \w, \W, \s or \S.
func (p *parser) shorthand(c byte) set {
	s := spaceSet
	if c|0x20 == 'w' {
		s = wordSet()
	}
	if p.o.Bytes {
		s = s.clip(set{{0, 0x7F}})
	}
	if c < 'a' {
		s = p.all.without(s)
	}
	return p.noNewline(s)
}

// noNewline takes the newline out of s where no match may hold one.
func (p *parser) noNewline(s set) set {
	if p.o.Lines {
		return s.without(one('\n'))
	}
	return s
}
