package regex

import "strings"

// bracket parses a bracket expression.
func (p *parser) bracket() (*node, error) {
	if p.classMistake() {
		return nil, &Error{Reason: ClassSyntax}
	}
	p.pos++
	negated := p.accept("^")
	var s set
	merge := 1024 // spans of s from which those that touch are merged
	for first := true; ; first = false {
		if p.pos == len(p.src) {
			if first && p.o.Syntax != Perl {
				return nil, &Error{Reason: BadPattern}
			}
			return nil, &Error{Reason: UnmatchedBracket}
		}
		if p.src[p.pos] == ']' && !first {
			p.pos++
			break
		}
		item, err := p.bracketItem()
		if err != nil {
			return nil, err
		}
		s = append(s, item...)
		if len(s) > merge {
			p.budget.Tick(len(s))
			s = s.sortAndMerge()
			p.mem.alloc(spanBytes * len(s))
			merge = max(merge, 2*len(s))
		}
	}
	p.budget.Tick(1 + len(s))
	return p.bracketNode(s.sortAndMerge(), negated), nil
}

// bracketNode returns the node of a set: it folds case first, then complements.
func (p *parser) bracketNode(s set, negated bool) *node {
	if p.icase {
		s = s.foldCase()
	}
	if p.o.Bytes {
		s = s.intersect(everyByte)
	}
	if negated {
		s = p.all.without(s)
		if p.o.Newline && p.o.Syntax != Perl {
			s = s.without(setOf('\n'))
		}
	}
	s = p.noNewline(s)
	p.mem.alloc(spanBytes * len(s))
	return &node{op: nSet, set: s}
}

// classMistake reports whether the pattern has [:space:] instead of [[:space:]], which grep and sed
// reject.
func (p *parser) classMistake() bool {
	rest := p.src[p.pos:]
	end := strings.IndexByte(rest, ']')
	return p.o.Dialect <= Grep && p.o.Syntax != Perl && end > 3 && rest[1] == ':' && rest[end-1] == ':'
}

// accept skips s if it is next and reports whether it was.
func (p *parser) accept(s string) bool {
	if strings.HasPrefix(p.src[p.pos:], s) {
		p.pos += len(s)
		return true
	}
	return false
}

// bracketItem parses a class, a character or a range.
func (p *parser) bracketItem() (set, error) {
	if s, ok, err := p.bracketClass(); ok || err != nil {
		return s, err
	}
	lo, err := p.bracketChar()
	if err != nil {
		return nil, err
	}
	rest := p.src[p.pos:]
	if len(rest) < 2 || rest[0] != '-' || rest[1] == ']' {
		return setOf(lo), nil
	}
	p.pos++
	if strings.HasPrefix(p.src[p.pos:], "[:") {
		return nil, &Error{Reason: BadRange}
	}
	hi, err := p.bracketChar()
	if err != nil {
		return nil, err
	}
	if hi < lo {
		return nil, &Error{Reason: BadRange}
	}
	return set{{lo, hi}}, nil
}

// bracketClass parses [:name:], or Perl's shorthands such as \d.
func (p *parser) bracketClass() (set, bool, error) {
	rest := p.src[p.pos:]
	if p.o.Syntax == Perl && len(rest) > 1 && rest[0] == '\\' {
		return p.perlClass()
	}
	if !strings.HasPrefix(rest, "[:") {
		return nil, false, nil
	}
	end := strings.Index(rest[2:], ":]")
	if end < 0 {
		return nil, false, &Error{Reason: UnmatchedBracket}
	}
	name := rest[2 : 2+end]
	negated := p.o.Syntax == Perl && strings.HasPrefix(name, "^")
	name = strings.TrimPrefix(name, map[bool]string{true: "^"}[negated])
	if p.icase && (name == "upper" || name == "lower") {
		name = "alpha"
	}
	s, ok := posixClass(name, p.o.Bytes || p.o.Syntax == Perl)
	if !ok {
		return nil, false, &Error{Reason: BadClass}
	}
	if negated {
		s = p.all.without(s)
	}
	p.pos += 2 + end + 2
	return s, true, nil
}

// bracketChar parses one character: plain, [.x.] or [=x=].
func (p *parser) bracketChar() (rune, error) {
	if p.pos == len(p.src) {
		return 0, &Error{Reason: UnmatchedBracket}
	}
	rest := p.src[p.pos:]
	switch {
	case strings.HasPrefix(rest, "[."), strings.HasPrefix(rest, "[="):
		return p.collatingChar(rest[1:2])
	case rest[0] == '\\' && p.o.Dialect == Awk && len(rest) > 1:
		p.pos++
		return p.awkEscape(), nil
	case rest[0] == '\\' && p.o.Syntax == Perl && len(rest) > 1:
		return p.perlBracketChar()
	}
	return p.next(), nil
}

// awkEscape parses an escaped character inside awk's brackets, after its backslash.
func (p *parser) awkEscape() rune {
	r := p.next()
	if i := strings.IndexRune("nrtfvab", r); i >= 0 {
		return rune("\n\r\t\f\v\a\b"[i])
	}
	return r
}

// collatingChar parses [.x.] or [=x=]; only names of one character exist.
func (p *parser) collatingChar(mark string) (rune, error) {
	end := strings.Index(p.src[p.pos+2:], mark+"]")
	if end < 0 {
		return 0, &Error{Reason: UnmatchedBracket}
	}
	name := p.src[p.pos+2 : p.pos+2+end]
	sub := &parser{src: name, o: p.o}
	p.pos += 2 + end + 2
	if name == "" {
		return 0, &Error{Reason: BadCollation}
	}
	r := sub.next()
	if sub.pos == len(name) {
		return r, nil
	}
	return 0, &Error{Reason: BadCollation}
}
