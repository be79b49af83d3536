package regex

import (
	"strconv"
	"strings"
	"unicode"
)

// perlAlt reads the alternatives of a Perl pattern up to the end or a closing
// parenthesis. Flags that change inside last until there.
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
			return alternate(subs), nil
		}
	}
}

func (p *parser) perlSeq() (*node, error) {
	var seq []*node
	for {
		p.skipSpace()
		if p.pos == len(p.src) || p.src[p.pos] == '|' || p.src[p.pos] == ')' {
			return sequence(seq), nil
		}
		p.budget.Tick(1)
		if p.accept(`\Q`) {
			seq = append(seq, p.quoted()...)
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

// skipSpace skips what (?x) ignores.
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

func (p *parser) quoted() []*node {
	end := strings.Index(p.src[p.pos:], `\E`)
	stop, skip := len(p.src), 0
	if end >= 0 {
		stop, skip = p.pos+end, 2
	}
	var seq []*node
	for p.pos < stop {
		seq = append(seq, p.char(p.next()))
	}
	p.pos += skip
	return seq
}

// perlRepeat reads the quantifiers of n.
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
	n = repeat(n, lo, hi, lazy)
	if possessive {
		n = over(nAtomic, n)
	}
	if p.pos < len(p.src) && strings.IndexByte("*+?", p.src[p.pos]) >= 0 {
		return nil, p.perlError("quantifier does not follow a repeatable item", p.pos)
	}
	return n, nil
}

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
	lo = p.number()
	hi = lo
	if p.accept(",") {
		hi = p.number()
	}
	if lo < 0 || !p.accept("}") {
		p.pos = at
		return 0, 0, false
	}
	return lo, hi, true
}

func (p *parser) perlError(what string, at int) error {
	return &Error{Reason: BadPattern, Detail: what + " (at offset " + strconv.Itoa(at) + ")"}
}

// perlAtom reads one item; nil means that it was only an instruction to the
// parser.
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
			s = s.without(one('\n'))
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
	return p.char(p.next()), nil
}

func (p *parser) perlEdge(multi, single assertion) *node {
	if p.multi {
		return &node{op: nAssert, assert: multi}
	}
	return &node{op: nAssert, assert: single}
}

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
		crlf := concat(p.char('\r'), p.char('\n'))
		return over(nAtomic, join(nAlt, []*node{crlf, {op: nSet, set: set{{'\n', '\r'}, {0x85, 0x85}, {0x2028, 0x2029}}}})), nil
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
		return &node{op: nSet, set: p.noNewline(s)}, nil
	}
	r, err := p.perlBracketChar()
	if err != nil {
		return nil, err
	}
	return p.char(r), nil
}

var perlAsserts = map[byte]assertion{
	'A': atTextStart, 'z': atTextEnd, 'Z': atLastLine, 'b': atWordEdge, 'B': atNoWordEdge, 'G': atTextStart,
}

func (p *parser) perlRef() (*node, error) {
	at := p.pos
	p.pos++
	n := p.number()
	if n > len(p.closed) && n > 9 {
		p.pos = at
		r, err := p.perlBracketChar()
		if err != nil {
			return nil, err
		}
		return p.char(r), nil
	}
	if n > len(p.closed) {
		return nil, p.perlError("reference to non-existent subpattern", p.pos)
	}
	return &node{op: nBackref, index: n}, nil
}

// perlNamedRef reads \k<name>, \k{name}, \k'name', \gN, \g{N} or \g{name}.
func (p *parser) perlNamedRef() (*node, error) {
	p.pos += 2
	if p.pos < len(p.src) && p.src[p.pos-1] == 'g' && strings.IndexByte("-0123456789", p.src[p.pos]) >= 0 {
		back := p.accept("-")
		return p.numbered(p.number(), back)
	}
	name, ok := p.delimited()
	if !ok {
		return nil, p.perlError(`\k is not followed by a name`, p.pos)
	}
	if n, err := strconv.Atoi(name); err == nil {
		return p.numbered(max(n, -n), n < 0)
	}
	for i, have := range p.names {
		if have == name {
			return &node{op: nBackref, index: i + 1}, nil
		}
	}
	return nil, p.perlError("reference to non-existent subpattern", p.pos)
}

func (p *parser) numbered(n int, back bool) (*node, error) {
	if back {
		n = len(p.names) + 1 - n
	}
	if n < 1 || n > len(p.names) {
		return nil, p.perlError("reference to non-existent subpattern", p.pos)
	}
	return &node{op: nBackref, index: n}, nil
}

// delimited reads a name in <>, {} or quotes.
func (p *parser) delimited() (string, bool) {
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

// perlClass reads an escape that stands for a set.
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
		s = one('\n')
	default:
		return nil, false, nil
	}
	p.pos += 2
	if c < 'a' {
		s = p.all.without(s)
	}
	return s, true, nil
}

// perlProperty reads \pL, \p{Lu}, \p{Greek} or \p{^L}.
func (p *parser) perlProperty(negated bool) (set, bool, error) {
	p.pos += 2
	if p.pos == len(p.src) {
		return nil, false, p.perlError(`malformed \P or \p sequence`, p.pos)
	}
	name := p.src[p.pos : p.pos+1]
	if name == "{" {
		var ok bool
		if name, ok = p.delimited(); !ok {
			return nil, false, p.perlError(`malformed \P or \p sequence`, p.pos)
		}
	} else {
		p.pos++
	}
	if rest, ok := strings.CutPrefix(name, "^"); ok {
		name, negated = rest, !negated
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
	return s, true, nil
}

// perlBracketChar reads an escaped character.
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
		return p.hex()
	case 'c':
		if p.pos+1 < len(p.src) {
			p.pos += 2
			return rune(p.src[p.pos-1]&^0x20) ^ 0x40, nil
		}
	case '0', '1', '2', '3', '4', '5', '6', '7':
		return p.octal(), nil
	case 'o':
		if strings.HasPrefix(p.src[p.pos:], "o{") {
			p.pos += 2
			r := p.octal()
			p.accept("}")
			return r, nil
		}
	}
	if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' {
		return 0, p.perlError("unrecognized character follows \\", p.pos)
	}
	return p.next(), nil
}

func (p *parser) octal() rune {
	var r rune
	for n := 0; n < 3 && p.pos < len(p.src) && p.src[p.pos] >= '0' && p.src[p.pos] <= '7'; n++ {
		r = r*8 + rune(p.src[p.pos]-'0')
		p.pos++
	}
	return r
}

func (p *parser) hex() (rune, error) {
	digits := ""
	if strings.HasPrefix(p.src[p.pos:], "{") {
		var ok bool
		if digits, ok = p.delimited(); !ok {
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
