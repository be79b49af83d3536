package syntax

// parseDollar parses an expansion that begins with '$'; a single '$' is text.
func (p *parser) parseDollar(w *pieces) {
	start := p.i
	j := p.skipCont(p.i + 1)
	c := p.byteAt(j)
	switch {
	case isNameStart(c):
		p.i = j
		name := p.name()
		p.add(w, start, &ParamExp{
			Pos: p.posAt(start), Name: name, Short: true,
			Quoted: w.c.isQuoted(), Raw: p.src[start:p.i],
		})
	case isDigit(c) || isSpecialParam(c):
		p.i = j + 1
		p.add(w, start, &ParamExp{
			Pos: p.posAt(start), Name: p.src[j : j+1], Short: true,
			Quoted: w.c.isQuoted(), Raw: p.src[start:p.i],
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
	case c == '\'' && !w.c.isQuoted():
		p.i = j
		p.add(w, start, p.dollarSingle(start))
	case c == '"' && (!w.c.isQuoted() || w.c == ctxParamQ):
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

// name reads a name, which may contain line continuations.
func (p *parser) name() string {
	start := p.i
	for isName(p.peekByte()) {
		p.i++
	}
	if p.peekByte() != '\\' || p.byteAt(p.i+1) != '\n' {
		return p.src[start:p.i]
	}
	buf := []byte(p.src[start:p.i])
	for {
		p.i = p.skipCont(p.i)
		if !isName(p.peekByte()) {
			return string(buf)
		}
		buf = append(buf, p.src[p.i])
		p.i++
	}
}

// dollarParen parses $(( )) or $( ) from the parenthesis on.
func (p *parser) dollarParen(start int) Part {
	if !p.enterLevel() {
		return nil
	}
	defer p.leaveLevel()
	if m, ok := p.memo[start]; ok && (p.speculative > 0 || !m.alias) {
		p.i = m.end
		return m.part
	}
	p.i++
	inner := p.skipCont(p.i)
	if p.byteAt(inner) == '(' && !p.notArith[start] {
		back := p.i
		p.i = inner + 1
		if x, ok := p.tryArith(start); ok {
			part := &ArithExp{Pos: p.posAt(start), X: x}
			p.rememberSubst(start, part, false)
			return part
		}
		if p.err != nil {
			return nil
		}
		p.i = back
	}
	return p.cmdSubst(start)
}

// rememberSubst caches a substitution that was parsed speculatively.
func (p *parser) rememberSubst(start int, part Part, alias bool) {
	if p.trying == 0 || p.err != nil {
		return
	}
	if p.memo == nil {
		p.memo = make(map[int]memoSub)
	}
	p.memo[start] = memoSub{part, p.i, alias}
}

// tryArith parses an expression and its "))"; start is the beginning of the
// construct. ok is false if the text is not an expression but commands.
func (p *parser) tryArith(start int) (x *Arith, ok bool) {
	docs := len(p.pending)
	at := p.i
	p.trying++
	p.speculative++
	parts := p.parseParts(ctxArith)
	p.speculative--
	p.trying--
	if p.err != nil {
		return nil, false
	}
	if p.peekByte() != ')' {
		p.failUnclosed(start, ")")
		return nil, false
	}
	end := p.i
	p.i = p.skipCont(p.i + 1)
	if p.peekByte() == 0 && p.src[start] == '$' {
		p.failUnclosed(start, ")")
		return nil, false
	}
	if p.peekByte() != ')' {
		p.pending = p.pending[:docs]
		if p.notArith == nil {
			p.notArith = make(map[int]bool)
		}
		p.notArith[start] = true
		return nil, false
	}
	p.i++
	return p.arithOf(at, end, parts), true
}

// dollarBracket parses $[ ] from the position after the bracket.
func (p *parser) dollarBracket(start int) Part {
	if !p.enterLevel() {
		return nil
	}
	defer p.leaveLevel()
	at := p.i
	parts := p.parseParts(ctxBracket)
	if p.peekByte() != ']' {
		p.failUnclosed(start, "]")
		return nil
	}
	x := p.arithOf(at, p.i, parts)
	p.i++
	return &ArithExp{Pos: p.posAt(start), X: x, Bracket: true}
}

// cmdSubst parses $( ) from the position after the parenthesis.
func (p *parser) cmdSubst(start int) Part {
	s := &CmdSubst{Pos: p.posAt(start)}
	first := p.i
	hit := p.aliasHit
	p.aliasHit = false
	s.Stmts = p.parseNested()
	if p.err != nil {
		return nil
	}
	s.Raw = p.src[start:p.i]
	if p.aliasHit && p.speculative == 0 {
		p.reparseSubst(s, p.src[first:p.i-1])
	}
	p.rememberSubst(start, s, p.aliasHit)
	p.aliasHit = p.aliasHit || hit
	return s
}

// reparseSubst parses the text of a substitution again, with its aliases; its
// errors are then reported when it is expanded.
func (p *parser) reparseSubst(s *CmdSubst, text string) {
	c := p.newChild(text, s.Pos.Line)
	s.Stmts = c.parseScript()
	p.adoptCosts(c)
	s.Err = c.err
	p.aliasHit = false
}

// procSubst parses <( ) or >( ).
func (p *parser) procSubst() Part {
	if !p.enterLevel() {
		return nil
	}
	defer p.leaveLevel()
	start := p.i
	s := &ProcSubst{Pos: p.posAt(start), Out: p.src[p.i] == '>'}
	p.i += 2
	s.Stmts = p.parseNested()
	if p.err != nil {
		return nil
	}
	s.Raw = p.src[start:p.i]
	return s
}

// parseNested parses statements up to the parenthesis that ends a
// substitution. Pending here-documents of the enclosing line wait until then.
func (p *parser) parseNested() []*Stmt {
	tok, have, words := p.tok, p.haveToken, p.words
	outer := p.pending
	regex, glob, array := p.regex, p.extglob, p.inArray
	p.inArray = false
	p.haveToken, p.pending, p.regex, p.extglob = false, nil, false, p.shopt
	p.speculative++
	p.subst++
	stmts := p.list()
	if t := p.next(lexCmd); p.err == nil && t.kind == tokEOF {
		p.failInSubst()
	} else if t.kind != tokRParen {
		p.failUnexpected()
	}
	p.subst--
	p.speculative--
	if p.err != nil {
		return nil
	}
	p.tok, p.haveToken, p.words = tok, have, words
	p.pending = append(outer, p.pending...)
	p.regex, p.extglob, p.inArray = regex, glob, array
	return stmts
}

// failInSubst sets the error for an input that ends within $( ).
func (p *parser) failInSubst() {
	at := p.posAt(len(p.src))
	if at.Col > 1 {
		at.Line++
	}
	p.setError(&Error{
		Line: int(at.Line), Col: int(at.Col), Incomplete: true, Token: ")",
		Msg: "unexpected EOF while looking for matching `)'",
	})
}
