package syntax

// dollar reads what a '$' begins; alone it is text.
func (p *parser) dollar(w *pieces) {
	start := p.i
	j := p.skipCont(p.i + 1)
	c := p.at(j)
	switch {
	case isNameStart(c):
		p.i = j
		name := p.name()
		p.add(w, start, &ParamExp{
			Pos: p.pos(start), Name: name, Short: true,
			Quoted: w.c.quoted(), Raw: p.src[start:p.i],
		})
	case isDigit(c) || isSpecialParam(c):
		p.i = j + 1
		p.add(w, start, &ParamExp{
			Pos: p.pos(start), Name: p.src[j : j+1], Short: true,
			Quoted: w.c.quoted(), Raw: p.src[start:p.i],
		})
	case c == '{':
		p.i = j + 1
		p.add(w, start, p.paramExp(start, w.c))
	case c == '(':
		p.i = j
		p.add(w, start, p.dollarParen(start))
	case c == '[':
		p.i = j + 1
		p.add(w, start, p.dollarBracket(start))
	case c == '\'' && !w.c.quoted():
		p.i = j
		p.add(w, start, p.dollarSingle(start))
	case c == '"' && (!w.c.quoted() || w.c == ctxParamQ):
		p.i = j
		part := p.dblQuoted()
		if d, ok := part.(*DblQuoted); ok {
			d.Dollar = true
		}
		p.add(w, start, part)
	default:
		p.i++
	}
}

func isSpecialParam(c byte) bool {
	switch c {
	case '@', '*', '#', '?', '-', '$', '!':
		return true
	}
	return false
}

// name reads a name, which a line continuation may interrupt.
func (p *parser) name() string {
	start := p.i
	for isName(p.peek()) {
		p.i++
	}
	if p.peek() != '\\' || p.at(p.i+1) != '\n' {
		return p.src[start:p.i]
	}
	buf := []byte(p.src[start:p.i])
	for {
		p.i = p.skipCont(p.i)
		if !isName(p.peek()) {
			return string(buf)
		}
		buf = append(buf, p.src[p.i])
		p.i++
	}
}

// dollarParen reads $(( )) or $( ), the position being on the parenthesis.
func (p *parser) dollarParen(start int) Part {
	if !p.enter() {
		return nil
	}
	defer p.leave()
	if m, ok := p.memo[start]; ok && (p.spec > 0 || !m.alias) {
		p.i = m.end
		return m.part
	}
	p.i++
	inner := p.skipCont(p.i)
	if p.at(inner) == '(' && !p.notAr[start] {
		back := p.i
		p.i = inner + 1
		if x, ok := p.tryArith(start); ok {
			part := &ArithExp{Pos: p.pos(start), X: x}
			p.remember(start, part, false)
			return part
		}
		if p.err != nil {
			return nil
		}
		p.i = back
	}
	return p.cmdSubst(start)
}

// remember keeps a substitution that was read while trying.
func (p *parser) remember(start int, part Part, alias bool) {
	if p.trying == 0 || p.err != nil {
		return
	}
	if p.memo == nil {
		p.memo = make(map[int]memoSub)
	}
	p.memo[start] = memoSub{part, p.i, alias}
}

// tryArith reads an expression and its "))"; start is where the construct
// began. ok is false when it is no expression but commands.
func (p *parser) tryArith(start int) (x *Arith, ok bool) {
	docs := len(p.pending)
	at := p.i
	p.trying++
	p.spec++
	parts := p.parts(ctxArith)
	p.spec--
	p.trying--
	if p.err != nil {
		return nil, false
	}
	if p.peek() != ')' {
		p.unclosed(start, ")")
		return nil, false
	}
	end := p.i
	p.i = p.skipCont(p.i + 1)
	if p.peek() == 0 && p.src[start] == '$' {
		p.unclosed(start, ")")
		return nil, false
	}
	if p.peek() != ')' {
		p.pending = p.pending[:docs]
		if p.notAr == nil {
			p.notAr = make(map[int]bool)
		}
		p.notAr[start] = true
		return nil, false
	}
	p.i++
	return p.arithOf(at, end, parts), true
}

// dollarBracket reads $[ ], the position being after the bracket.
func (p *parser) dollarBracket(start int) Part {
	if !p.enter() {
		return nil
	}
	defer p.leave()
	at := p.i
	parts := p.parts(ctxBracket)
	if p.peek() != ']' {
		p.unclosed(start, "]")
		return nil
	}
	x := p.arithOf(at, p.i, parts)
	p.i++
	return &ArithExp{Pos: p.pos(start), X: x, Bracket: true}
}

// cmdSubst reads $( ), the position being after the parenthesis.
func (p *parser) cmdSubst(start int) Part {
	s := &CmdSubst{Pos: p.pos(start)}
	first := p.i
	hit := p.aliasHit
	p.aliasHit = false
	s.Stmts = p.nested()
	if p.err != nil {
		return nil
	}
	s.Raw = p.src[start:p.i]
	if p.aliasHit && p.spec == 0 {
		p.again(s, p.src[first:p.i-1])
	}
	p.remember(start, s, p.aliasHit)
	p.aliasHit = p.aliasHit || hit
	return s
}

// again reads the text of a substitution with its aliases, whose mistakes are
// then found when it is expanded.
func (p *parser) again(s *CmdSubst, text string) {
	c := p.child(text, s.Pos.Line)
	s.Stmts = c.script()
	p.adopt(c)
	s.Err = c.err
	p.aliasHit = false
}

// procSubst reads <( ) or >( ) from the position.
func (p *parser) procSubst() Part {
	if !p.enter() {
		return nil
	}
	defer p.leave()
	start := p.i
	s := &ProcSubst{Pos: p.pos(start), Out: p.src[p.i] == '>'}
	p.i += 2
	s.Stmts = p.nested()
	if p.err != nil {
		return nil
	}
	s.Raw = p.src[start:p.i]
	return s
}

// nested reads statements up to the parenthesis that ends a substitution.
// Here-documents of the line around wait until it is read.
func (p *parser) nested() []*Stmt {
	tok, have, words := p.tok, p.have, p.words
	outer := p.pending
	regex, glob, array := p.regex, p.extglob, p.inArray
	p.inArray = false
	p.have, p.pending, p.regex, p.extglob = false, nil, false, p.shopt
	p.spec++
	p.subst++
	stmts := p.list()
	if t := p.next(lexCmd); p.err == nil && t.kind == tokEOF {
		p.endOfSubst()
	} else if t.kind != tokRParen {
		p.unexpected()
	}
	p.subst--
	p.spec--
	if p.err != nil {
		return nil
	}
	p.tok, p.have, p.words = tok, have, words
	p.pending = append(outer, p.pending...)
	p.regex, p.extglob, p.inArray = regex, glob, array
	return stmts
}

// endOfSubst is an input that ends within $( ).
func (p *parser) endOfSubst() {
	at := p.pos(len(p.src))
	if at.Col > 1 {
		at.Line++
	}
	p.fail(&Error{
		Line: int(at.Line), Col: int(at.Col), Incomplete: true, Token: ")",
		Msg: "unexpected EOF while looking for matching `)'",
	})
}
