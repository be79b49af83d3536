package regex

import (
	"strconv"
	"strings"
	"unicode"
)

// perlAlt parses the alternatives of a Perl pattern up to the end or a closing parenthesis. Flags
// that change inside stay in effect until there.
func (p *parser) perlAlt() (*node, error) {
	p.depth++
	defer func() { p.depth-- }()
	if p.depth > maxDepth/4 {
		return nil, &Error{Reason: TooBig}
	}
	icase, multi, dotall, extended := p.icase, p.multi, p.dotall, p.extended
	defer func() { p.icase, p.multi, p.dotall, p.extended = icase, multi, dotall, extended }()
	var subs []*node
	for {
		n, err := p.perlSeq()
		if err != nil {
			return nil, err
		}
		subs = append(subs, n)
		if !p.accept("|") {
			return joinAlternatives(subs), nil
		}
	}
}

// perlSeq parses one alternative.
func (p *parser) perlSeq() (*node, error) {
	var seq []*node
	for {
		p.skipSpace()
		if p.pos == len(p.src) || p.src[p.pos] == '|' || p.src[p.pos] == ')' {
			return concatOrEmpty(seq), nil
		}
		p.budget.Tick(1)
		p.mem.alloc(2 * atomBytes)
		if p.accept(`\Q`) {
			seq = append(seq, p.readQuoted()...)
			continue
		}
		n, err := p.perlAtom()
		if err != nil {
			return nil, err
		}
		if n == nil {
			continue
		}
		if n, err = p.perlRepeat(n); err != nil {
			return nil, err
		}
		seq = append(seq, n)
	}
}

// skipSpace skips the white space and comments that (?x) ignores.
func (p *parser) skipSpace() {
	for p.extended && p.pos < len(p.src) {
		switch p.src[p.pos] {
		case ' ', '\t', '\n', '\r', '\f', '\v':
			p.pos++
		case '#':
			end := strings.IndexByte(p.src[p.pos:], '\n')
			if end < 0 {
				end = len(p.src) - p.pos - 1
			}
			p.pos += end + 1
		default:
			return
		}
	}
}

// readQuoted reads the characters up to \E.
func (p *parser) readQuoted() []*node {
	end := strings.Index(p.src[p.pos:], `\E`)
	stop, skip := len(p.src), 0
	if end >= 0 {
		stop, skip = p.pos+end, 2
	}
	var seq []*node
	p.mem.alloc(atomBytes * (stop - p.pos))
	for p.pos < stop {
		p.budget.Tick(1)
		seq = append(seq, p.charNode(p.next()))
	}
	p.pos += skip
	return seq
}

// perlRepeat parses the quantifiers of n.
func (p *parser) perlRepeat(n *node) (*node, error) {
	p.skipSpace()
	lo, hi, ok := p.perlQuantifier()
	if !ok {
		return n, nil
	}
	if hi >= 0 && lo > hi || max(lo, hi) > maxRepeat {
		return nil, p.perlError("numbers out of order in {} quantifier", p.pos)
	}
	lazy := p.accept("?")
	possessive := !lazy && p.accept("+")
	if n.op == nAssert {
		if lo == 0 {
			return &node{op: nEmpty}, nil
		}
		return n, nil
	}
	n = repeatNode(n, lo, hi, lazy)
	if possessive {
		n = wrapNode(nAtomic, n)
	}
	if p.pos < len(p.src) && strings.IndexByte("*+?", p.src[p.pos]) >= 0 {
		return nil, p.perlError("quantifier does not follow a repeatable item", p.pos)
	}
	return n, nil
}

// perlQuantifier parses *, +, ? or {m,n}.
func (p *parser) perlQuantifier() (lo, hi int, ok bool) {
	switch {
	case p.accept("*"):
		return 0, -1, true
	case p.accept("+"):
		return 1, -1, true
	case p.accept("?"):
		return 0, 1, true
	case !strings.HasPrefix(p.src[p.pos:], "{"):
		return 0, 0, false
	}
	at := p.pos
	p.pos++
	lo = p.readNumber()
	hi = lo
	if p.accept(",") {
		hi = p.readNumber()
	}
	if lo < 0 || !p.accept("}") {
		p.pos = at
		return 0, 0, false
	}
	return lo, hi, true
}

// perlError returns an error with PCRE's wording and the offset.
func (p *parser) perlError(what string, at int) error {
	return &Error{Reason: BadPattern, Detail: what + " (at offset " + strconv.Itoa(at) + ")"}
}

// perlAtom parses one item; it returns nil for items that only change the parser's state.
func (p *parser) perlAtom() (*node, error) {
	switch p.src[p.pos] {
	case '(':
		return p.perlGroup()
	case '[':
		return p.bracket()
	case '.':
		p.pos++
		s := p.all
		if !p.dotall {
			s = s.without(setOf('\n'))
		}
		return &node{op: nSet, set: p.noNewline(s)}, nil
	case '^':
		p.pos++
		return p.perlEdge(atLineStart, atTextStart), nil
	case '$':
		p.pos++
		return p.perlEdge(atLineEnd, atLastLine), nil
	case '\\':
		return p.perlEscape()
	case '*', '+', '?':
		return nil, p.perlError("quantifier does not follow a repeatable item", p.pos)
	}
	return p.charNode(p.next()), nil
}

// perlEdge returns the assertion multi in multi-line mode, otherwise single.
func (p *parser) perlEdge(multi, single assertion) *node {
	if p.multi {
		return &node{op: nAssert, assert: multi}
	}
	return &node{op: nAssert, assert: single}
}

// perlEscape parses a backslash and the characters that belong to it.
func (p *parser) perlEscape() (*node, error) {
	if p.pos+1 == len(p.src) {
		return nil, p.perlError(`\ at end of pattern`, p.pos+1)
	}
	if a, ok := perlAsserts[p.src[p.pos+1]]; ok {
		p.pos += 2
		return &node{op: nAssert, assert: a}, nil
	}
	switch c := p.src[p.pos+1]; c {
	case 'K':
		p.pos += 2
		return &node{op: nKeep}, nil
	case 'E':
		p.pos += 2
		return nil, nil
	case 'R':
		p.pos += 2
		crlf := concatNodes(p.charNode('\r'), p.charNode('\n'))
		return wrapNode(nAtomic, joinNodes(nAlt, []*node{crlf, {op: nSet, set: set{{'\n', '\r'}, {0x85, 0x85}, {0x2028, 0x2029}}}})), nil
	case 'k', 'g':
		return p.perlNamedRef()
	}
	if c := p.src[p.pos+1]; c >= '1' && c <= '9' {
		return p.perlRef()
	}
	s, ok, err := p.perlClass()
	if err != nil {
		return nil, err
	}
	if ok {
		s = p.noNewline(s)
		p.mem.alloc(spanBytes * len(s))
		return &node{op: nSet, set: s}, nil
	}
	r, err := p.perlBracketChar()
	if err != nil {
		return nil, err
	}
	return p.charNode(r), nil
}

var perlAsserts = map[byte]assertion{
	'A': atTextStart, 'z': atTextEnd, 'Z': atLastLine, 'b': atWordEdge, 'B': atNoWordEdge, 'G': atTextStart,
}

// perlRef parses \N: a back-reference, or an octal character if there is no such group.
func (p *parser) perlRef() (*node, error) {
	at := p.pos
	p.pos++
	n := p.readNumber()
	if n > len(p.closed) && n > 9 {
		p.pos = at
		r, err := p.perlBracketChar()
		if err != nil {
			return nil, err
		}
		return p.charNode(r), nil
	}
	if n > len(p.closed) {
		return nil, p.perlError("reference to non-existent subpattern", p.pos)
	}
	return &node{op: nBackref, index: n}, nil
}

// perlNamedRef parses \k<name>, \k{name}, \k'name', \gN, \g{N} or \g{name}.
func (p *parser) perlNamedRef() (*node, error) {
	p.pos += 2
	if p.pos < len(p.src) && p.src[p.pos-1] == 'g' && strings.IndexByte("-0123456789", p.src[p.pos]) >= 0 {
		back := p.accept("-")
		return p.numberedRef(p.readNumber(), back)
	}
	name, ok := p.readDelimitedName()
	if !ok {
		return nil, p.perlError(`\k is not followed by a name`, p.pos)
	}
	if n, err := strconv.Atoi(name); err == nil {
		return p.numberedRef(max(n, -n), n < 0)
	}
	for i, have := range p.names {
		if have == name {
			return &node{op: nBackref, index: i + 1}, nil
		}
	}
	return nil, p.perlError("reference to non-existent subpattern", p.pos)
}

// numberedRef returns the reference to group n; back counts from the last group opened.
func (p *parser) numberedRef(n int, back bool) (*node, error) {
	if back {
		n = len(p.names) + 1 - n
	}
	if n < 1 || n > len(p.names) {
		return nil, p.perlError("reference to non-existent subpattern", p.pos)
	}
	return &node{op: nBackref, index: n}, nil
}

// readDelimitedName reads a name in <>, {} or quotes.
func (p *parser) readDelimitedName() (string, bool) {
	if p.pos == len(p.src) {
		return "", false
	}
	open := strings.IndexByte("<{'", p.src[p.pos])
	if open < 0 {
		return "", false
	}
	end := strings.IndexByte(p.src[p.pos+1:], ">}'"[open])
	if end < 1 {
		return "", false
	}
	name := p.src[p.pos+1 : p.pos+1+end]
	p.pos += end + 2
	return name, true
}

// perlClass parses an escape that stands for a set.
func (p *parser) perlClass() (set, bool, error) {
	c := p.src[p.pos+1]
	var s set
	switch c | 0x20 {
	case 'd':
		s = digitSet
	case 'w':
		s = set{{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}}
	case 's':
		s = set{{'\t', '\r'}, {' ', ' '}}
	case 'h':
		s = set{{'\t', '\t'}, {' ', ' '}, {0xA0, 0xA0}, {0x1680, 0x1680}, {0x2000, 0x200A}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}}
	case 'v':
		s = set{{'\n', '\r'}, {0x85, 0x85}, {0x2028, 0x2029}}
	case 'p':
		return p.perlProperty(c == 'P')
	case 'n':
		if c == 'n' {
			return nil, false, nil
		}
		s = setOf('\n')
	default:
		return nil, false, nil
	}
	p.pos += 2
	if c < 'a' {
		s = p.all.without(s)
	}
	return s, true, nil
}

// perlProperty parses \pL, \p{Lu}, \p{Greek} or \p{^L}.
func (p *parser) perlProperty(negated bool) (set, bool, error) {
	p.pos += 2
	if p.pos == len(p.src) {
		return nil, false, p.perlError(`malformed \P or \p sequence`, p.pos)
	}
	name := p.src[p.pos : p.pos+1]
	if name == "{" {
		var ok bool
		if name, ok = p.readDelimitedName(); !ok {
			return nil, false, p.perlError(`malformed \P or \p sequence`, p.pos)
		}
	} else {
		p.pos++
	}
	if rest, ok := strings.CutPrefix(name, "^"); ok {
		name, negated = rest, !negated
	}
	key := strconv.FormatBool(negated) + name
	if s, ok := p.sets[key]; ok {
		return s, true, nil
	}
	tab := unicode.Categories[name]
	if tab == nil {
		tab = unicode.Scripts[name]
	}
	if tab == nil && name != "Any" {
		return nil, false, p.perlError(`unknown property name after \P or \p`, p.pos)
	}
	s := everyRune
	if tab != nil {
		s = fromTables(tab)
	}
	if negated {
		s = p.all.without(s)
	}
	p.mem.alloc(spanBytes * len(s))
	p.sets[key] = s
	return s, true, nil
}

// perlBracketChar parses an escaped character.
func (p *parser) perlBracketChar() (rune, error) {
	p.pos++
	c := p.src[p.pos]
	if i := strings.IndexByte("nrtfaeb", c); i >= 0 {
		p.pos++
		return rune("\n\r\t\f\a\x1b\b"[i]), nil
	}
	switch c {
	case 'x':
		p.pos++
		return p.readHex()
	case 'c':
		if p.pos+1 < len(p.src) {
			p.pos += 2
			return rune(p.src[p.pos-1]&^0x20) ^ 0x40, nil
		}
	case '0', '1', '2', '3', '4', '5', '6', '7':
		return p.readOctal(), nil
	case 'o':
		if strings.HasPrefix(p.src[p.pos:], "o{") {
			p.pos += 2
			r := p.readOctal()
			p.accept("}")
			return r, nil
		}
	}
	if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' {
		return 0, p.perlError("unrecognized character follows \\", p.pos)
	}
	return p.next(), nil
}

// readOctal reads up to three octal digits.
func (p *parser) readOctal() rune {
	var r rune
	for n := 0; n < 3 && p.pos < len(p.src) && p.src[p.pos] >= '0' && p.src[p.pos] <= '7'; n++ {
		r = r*8 + rune(p.src[p.pos]-'0')
		p.pos++
	}
	return r
}

// readHex reads up to two hexadecimal digits, or any number of them in braces.
func (p *parser) readHex() (rune, error) {
	digits := ""
	if strings.HasPrefix(p.src[p.pos:], "{") {
		var ok bool
		if digits, ok = p.readDelimitedName(); !ok {
			return 0, p.perlError(`missing terminating } for hexadecimal`, p.pos)
		}
	} else {
		end := p.pos
		for end < len(p.src) && end < p.pos+2 && strings.IndexByte("0123456789abcdefABCDEF", p.src[end]) >= 0 {
			end++
		}
		digits = p.src[p.pos:end]
		p.pos = end
	}
	if digits == "" {
		return 0, nil
	}
	v, err := strconv.ParseUint(digits, 16, 32)
	if err != nil || v > unicode.MaxRune {
		return 0, p.perlError(`character code point value in \x{} or \o{} is too large`, p.pos)
	}
	return rune(v), nil
}
