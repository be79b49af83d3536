package regex

import "strings"

// perlGroup parses any construct that begins with a parenthesis.
func (p *parser) perlGroup() (*node, error) {
	p.pos++
	if strings.HasPrefix(p.src[p.pos:], "*") {
		return nil, &Error{Reason: NotSupported, Detail: "verbs such as (*SKIP) are not supported"}
	}
	if !p.accept("?") {
		return p.perlCapture("")
	}
	switch {
	case p.accept("#"):
		end := strings.IndexByte(p.src[p.pos:], ')')
		if end < 0 {
			return nil, p.perlError("missing ) after (?# comment", len(p.src))
		}
		p.pos += end + 1
		return nil, nil
	case p.accept(":"):
		return p.perlBody()
	case p.accept("="):
		return p.perlLook(false, false)
	case p.accept("!"):
		return p.perlLook(false, true)
	case p.accept("<="):
		return p.perlLook(true, false)
	case p.accept("<!"):
		return p.perlLook(true, true)
	case p.accept(">"):
		n, err := p.perlBody()
		if err != nil {
			return nil, err
		}
		return wrapNode(nAtomic, n), nil
	case p.accept("P="):
		return p.perlOldRef()
	case p.accept("P<"), strings.HasPrefix(p.src[p.pos:], "<"), strings.HasPrefix(p.src[p.pos:], "'"):
		if p.src[p.pos-1] == '<' {
			p.pos--
		}
		name, ok := p.readDelimitedName()
		if !ok {
			return nil, p.perlError("subpattern name expected", p.pos)
		}
		return p.perlCapture(name)
	}
	return p.perlFlags()
}

// perlOldRef parses Python's (?P=name).
func (p *parser) perlOldRef() (*node, error) {
	end := strings.IndexByte(p.src[p.pos:], ')')
	if end < 0 {
		return nil, p.perlError("missing closing parenthesis", len(p.src))
	}
	name := p.src[p.pos : p.pos+end]
	p.pos += end + 1
	for i, have := range p.names {
		if have == name && name != "" {
			return &node{op: nBackref, index: i + 1}, nil
		}
	}
	return nil, p.perlError("reference to non-existent subpattern", p.pos)
}

// perlBody parses alternatives and the parenthesis that closes them.
func (p *parser) perlBody() (*node, error) {
	n, err := p.perlAlt()
	if err != nil {
		return nil, err
	}
	if !p.accept(")") {
		return nil, p.perlError("missing closing parenthesis", len(p.src))
	}
	return n, nil
}

// perlCapture parses a capturing group; name may be empty.
func (p *parser) perlCapture(name string) (*node, error) {
	index := p.openGroup(name)
	n, err := p.perlBody()
	if err != nil {
		return nil, err
	}
	return p.closeGroup(n, index), nil
}

// perlLook parses a look-around. A look-behind is split into its alternatives; each must match a
// fixed number of characters.
func (p *parser) perlLook(behind, negated bool) (*node, error) {
	at := p.pos
	n, err := p.perlBody()
	if err != nil {
		return nil, err
	}
	if !behind {
		l := wrapNode(nLook, n)
		l.negated = negated
		return l, nil
	}
	alts := []*node{n}
	if n.op == nAlt {
		alts = n.subs
	}
	looks := make([]*node, len(alts))
	for i, a := range alts {
		w, ok := a.fixedWidth()
		if !ok {
			return nil, p.perlError("lookbehind assertion is not fixed length", at)
		}
		l := wrapNode(nLook, a)
		l.negated, l.behind, l.min = negated, true, w
		looks[i] = l
	}
	if negated {
		return concatNodes(looks...), nil
	}
	return joinNodes(nAlt, looks), nil
}

// fixedWidth returns how many characters n matches, if that number is fixed.
func (n *node) fixedWidth() (int, bool) {
	switch n.op {
	case nSet:
		return 1, true
	case nEmpty, nAssert, nLook, nKeep:
		return 0, true
	case nGroup, nAtomic:
		return n.subs[0].fixedWidth()
	case nRepeat:
		w, ok := n.subs[0].fixedWidth()
		return w * n.min, ok && n.min == n.max && w*n.min <= maxRepeat
	case nConcat:
		sum := 0
		for _, s := range n.subs {
			w, ok := s.fixedWidth()
			if sum += w; !ok || sum > maxRepeat {
				return 0, false
			}
		}
		return sum, true
	case nAlt:
		first, ok := n.subs[0].fixedWidth()
		for _, s := range n.subs[1:] {
			w, one := s.fixedWidth()
			ok = ok && one && w == first
		}
		return first, ok
	}
	return 0, false
}

// perlFlags parses (?i), (?i:…) and the like.
func (p *parser) perlFlags() (*node, error) {
	icase, multi, dotall, extended := p.icase, p.multi, p.dotall, p.extended
	on := true
	for p.pos < len(p.src) {
		c := p.src[p.pos]
		p.pos++
		switch c {
		case '-':
			on = false
		case '^':
			p.icase, p.multi, p.dotall, p.extended = false, p.o.Newline || p.o.Lines, false, false
		case 'i':
			p.icase = on
		case 'm':
			p.multi = on || p.o.Lines
		case 's':
			p.dotall = on
		case 'x':
			p.extended = on
		case ')':
			return nil, nil
		case ':':
			n, err := p.perlBody()
			p.icase, p.multi, p.dotall, p.extended = icase, multi, dotall, extended
			return n, err
		default:
			return nil, p.perlError("unrecognized character after (? or (?-", p.pos-1)
		}
	}
	return nil, p.perlError("missing closing parenthesis", len(p.src))
}
