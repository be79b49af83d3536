package syntax

// parseAssignment parses name=…, name+=… or name[…]=… . It returns nil, and
// consumes nothing, for other text.
func (p *parser) parseAssignment() *Assign {
	start := p.i
	if !isNameStart(p.peekByte()) {
		return nil
	}
	j := p.i + 1
	for isName(p.byteAt(j)) {
		j++
	}
	switch c := p.byteAt(j); {
	case c == '=', c == '[', c == '+' && p.byteAt(j+1) == '=':
	case c == '\\' && p.byteAt(j+1) == '\n':
	default:
		return nil
	}
	a := &Assign{Pos: p.posAt(start), Name: p.name()}
	p.countNode()
	if p.peekByte() == '[' {
		p.i++
		a.Index = p.parseIndex()
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
	case p.peekByte() == '=':
		p.i++
	case p.peekByte() == '+' && p.byteAt(p.i+1) == '=':
		a.Append = true
		p.i += 2
	default:
		return false
	}
	return true
}

func (p *parser) assignValue(a *Assign) {
	switch c := p.peekByte(); {
	case c == '(':
		p.i++
		a.Array = p.parseArray()
	case c == 0 || c == ' ' || c == '\t' || c == '\n' || c == ';' || c == '&' || c == '|' || c == ')':
	default:
		if v := p.parseWord(ctxWord); v.Raw != "" {
			a.Value = v
		}
	}
}

// parseArray parses a compound value from the position after the parenthesis.
func (p *parser) parseArray() *Array {
	paren := p.i - 1
	arr := &Array{Pos: p.posAt(paren)}
	if !p.enterLevel() {
		return arr
	}
	defer p.leaveLevel()
	tok, have, outer := p.tok, p.haveToken, p.inArray
	p.haveToken, p.inArray = false, true
	for p.err == nil {
		p.skipBlanks()
		if p.peekByte() == '[' {
			if a := p.parseElement(); a != nil {
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
			p.tok, p.haveToken, p.inArray = tok, have, outer
			return arr
		case tokEOF:
			p.failUnclosed(paren, ")")
		default:
			p.failUnexpected()
		}
		p.consumeToken()
	}
	return arr
}

// parseElement parses [index]=value; it returns nil, and consumes nothing, if
// the text is a plain word.
func (p *parser) parseElement() *Assign {
	start := p.i
	a := &Assign{Pos: p.posAt(start)}
	p.i++
	a.Index = p.parseIndex()
	if p.err != nil {
		return nil
	}
	if a.Index == nil || !p.assignOp(a) {
		p.i = start
		return nil
	}
	p.countNode()
	if v := p.parseWord(ctxWord); v.Raw != "" {
		a.Value = v
	}
	return a
}
