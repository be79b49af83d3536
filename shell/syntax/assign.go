package syntax

// assignment reads name=…, name+=… or name[…]=… . It returns nil, and
// consumes nothing, when there is none.
func (p *parser) assignment() *Assign {
	start := p.i
	if !isNameStart(p.peek()) {
		return nil
	}
	j := p.i + 1
	for isName(p.at(j)) {
		j++
	}
	switch c := p.at(j); {
	case c == '=', c == '[', c == '+' && p.at(j+1) == '=':
	case c == '\\' && p.at(j+1) == '\n':
	default:
		return nil
	}
	a := &Assign{Pos: p.pos(start), Name: p.name()}
	p.node()
	if p.peek() == '[' {
		p.i++
		a.Index = p.index()
		if p.err != nil {
			return nil
		}
	}
	if !p.assignOp(a) {
		p.i = start
		return nil
	}
	p.assignValue(a)
	return a
}

// assignOp consumes = or +=.
func (p *parser) assignOp(a *Assign) bool {
	switch {
	case p.peek() == '=':
		p.i++
	case p.peek() == '+' && p.at(p.i+1) == '=':
		a.Append = true
		p.i += 2
	default:
		return false
	}
	return true
}

func (p *parser) assignValue(a *Assign) {
	switch c := p.peek(); {
	case c == '(':
		p.i++
		a.Array = p.array()
	case c == 0 || c == ' ' || c == '\t' || c == '\n' || c == ';' || c == '&' || c == '|' || c == ')':
	default:
		if v := p.word(ctxWord); v.Raw != "" {
			a.Value = v
		}
	}
}

// array reads a compound value, the position being after the parenthesis.
func (p *parser) array() *Array {
	paren := p.i - 1
	arr := &Array{Pos: p.pos(paren)}
	if !p.enter() {
		return arr
	}
	defer p.leave()
	tok, have, outer := p.tok, p.have, p.inArray
	p.have, p.inArray = false, true
	for p.err == nil {
		p.skipBlanks()
		if p.peek() == '[' {
			if a := p.element(); a != nil {
				arr.Elems = append(arr.Elems, ArrayElem{Assign: a})
				continue
			}
		}
		t := p.next(lexPlain)
		switch t.kind {
		case tokWord:
			arr.Elems = append(arr.Elems, ArrayElem{Word: t.word})
		case tokNewline:
		case tokRParen:
			p.tok, p.have, p.inArray = tok, have, outer
			return arr
		case tokEOF:
			p.unclosed(paren, ")")
		default:
			p.unexpected()
		}
		p.take()
	}
	return arr
}

// element reads [index]=value; it returns nil, and consumes nothing, when the
// text is a plain word.
func (p *parser) element() *Assign {
	start := p.i
	a := &Assign{Pos: p.pos(start)}
	p.i++
	a.Index = p.index()
	if p.err != nil {
		return nil
	}
	if a.Index == nil || !p.assignOp(a) {
		p.i = start
		return nil
	}
	p.node()
	if v := p.word(ctxWord); v.Raw != "" {
		a.Value = v
	}
	return a
}
