package syntax

import "strings"

// paramExp reads ${ }, the position being after the brace.
func (p *parser) paramExp(start int, c ctx) Part {
	if !p.enter() {
		return nil
	}
	defer p.leave()
	e := &ParamExp{Pos: p.pos(start), Quoted: c.quoted()}
	if !p.paramName(e) || !p.paramIndex(e) || !p.paramOp(e, c) || p.peek() != '}' {
		if p.err != nil {
			return nil
		}
		p.badParam(e, c)
	}
	if p.peek() != '}' {
		p.unclosed(start, "}")
		return nil
	}
	p.i++
	e.Raw = p.src[start:p.i]
	return e
}

// badParam passes over the rest of what is no parameter expansion.
func (p *parser) badParam(e *ParamExp, c ctx) {
	*e = ParamExp{Pos: e.Pos, Quoted: e.Quoted, Bad: true}
	p.parts(operandCtx(c))
}

// operandCtx is the context of the word in ${x-word} found in c.
func operandCtx(c ctx) ctx {
	switch c {
	case ctxDoc, ctxParamD:
		return ctxParamD
	case ctxDbl, ctxParamQ, ctxArith, ctxBracket, ctxFor, ctxOffset:
		return ctxParamQ
	}
	return ctxParam
}

// paramName reads prefixes and the name.
func (p *parser) paramName(e *ParamExp) bool {
	p.i = p.skipCont(p.i)
	switch c := p.peek(); {
	case c == '#' && p.lengthOf(p.skipCont(p.i+1)):
		e.Length = true
		p.i = p.skipCont(p.i + 1)
	case c == '!' && indirectOf(p.at(p.skipCont(p.i+1))):
		e.Indirect = true
		p.i = p.skipCont(p.i + 1)
	}
	c := p.peek()
	switch {
	case isNameStart(c):
		e.Name = p.name()
	case isDigit(c):
		from := p.i
		for isDigit(p.peek()) {
			p.i++
		}
		e.Name = p.src[from:p.i]
	case isSpecialParam(c):
		e.Name = p.src[p.i : p.i+1]
		p.i++
	default:
		return false
	}
	p.i = p.skipCont(p.i)
	return true
}

// lengthOf reports whether the '#' before offset j asks for a length; else it
// is the parameter '#'.
func (p *parser) lengthOf(j int) bool {
	c := p.at(j)
	if isName(c) {
		return true
	}
	if c == '@' || c == '*' {
		n := p.at(j + 1)
		return n == '}' || n == '['
	}
	return isSpecialParam(c) && p.at(j+1) == '}'
}

func indirectOf(c byte) bool {
	return isName(c) || c == '@' || c == '*' || c == '#' || c == '?'
}

// paramIndex reads a subscript.
func (p *parser) paramIndex(e *ParamExp) bool {
	if p.peek() != '[' {
		return true
	}
	if !isNameStart(e.Name[0]) {
		return false
	}
	p.i++
	e.Index = p.index()
	return e.Index != nil
}

// index reads a subscript and its closing bracket. It returns nil when there
// is none.
func (p *parser) index() *Index {
	if !p.enter() {
		return nil
	}
	defer p.leave()
	if k := p.peek(); (k == '@' || k == '*') && p.at(p.i+1) == ']' {
		p.i += 2
		if k == '@' {
			return &Index{Kind: IndexAt}
		}
		return &Index{Kind: IndexStar}
	}
	at := p.i
	w := p.word(ctxIndex)
	if p.err != nil {
		return nil
	}
	if p.peek() != ']' {
		p.unclosed(at-1, "]")
		return nil
	}
	x := &Index{Word: w, Arith: p.arithOf(at, p.i, w.Parts)}
	p.i++
	return x
}

// paramOp reads the operation and its operands.
func (p *parser) paramOp(e *ParamExp, c ctx) bool {
	b := p.peek()
	if b == '}' || e.Length {
		return b == '}'
	}
	switch b {
	case ':':
		p.i++
		if op := defaultOp(p.peek()); op != ParamNone {
			p.i++
			return p.operand(e, op+1, operandCtx(c))
		}
		return p.slice(e)
	case '-', '=', '?', '+':
		p.i++
		return p.operand(e, defaultOp(b), operandCtx(c))
	case '#', '%':
		p.i++
		op := ParamTrimPrefix
		if b == '%' {
			op = ParamTrimSuffix
		}
		if p.follow(b) {
			op++
		}
		return p.operand(e, op, ctxParam)
	case '/':
		p.i++
		return p.replace(e)
	case '^', ',', '~':
		p.i++
		return p.caseOp(e, b)
	case '@':
		p.i++
		return p.transform(e)
	case '*':
		if e.Indirect && e.Index == nil && p.at(p.i+1) == '}' && isNameStart(e.Name[0]) {
			e.Op = ParamNames
			p.i++
			return true
		}
	}
	return false
}

func defaultOp(b byte) ParamOp {
	switch b {
	case '-':
		return ParamDefault
	case '=':
		return ParamAssign
	case '?':
		return ParamError
	case '+':
		return ParamAlt
	}
	return ParamNone
}

func (p *parser) caseOp(e *ParamExp, b byte) bool {
	op := ParamUpper
	switch b {
	case ',':
		op = ParamLower
	case '~':
		op = ParamToggle
	}
	if p.follow(b) {
		op++
	}
	return p.operand(e, op, ctxParam)
}

// operand reads the word of an operation.
func (p *parser) operand(e *ParamExp, op ParamOp, c ctx) bool {
	e.Op = op
	if p.peek() != '}' {
		e.Arg = p.word(c)
	}
	return p.err == nil
}

// replace reads ${x/…}, the position being after the first slash.
func (p *parser) replace(e *ParamExp) bool {
	e.Op = ParamReplace
	switch p.peek() {
	case '/':
		e.Op = ParamReplaceAll
		p.i++
	case '#':
		e.Op = ParamReplaceStart
		p.i++
	case '%':
		e.Op = ParamReplaceEnd
		p.i++
	}
	if p.peek() == '}' {
		return true
	}
	if p.peek() != '/' {
		e.Arg = p.word(ctxRepl)
	} else if e.Op == ParamReplaceAll {
		e.Arg = p.slashFirst()
	}
	if p.err != nil {
		return false
	}
	if p.peek() != '/' {
		return true
	}
	p.i++
	e.Repl = p.word(ctxParam)
	return p.err == nil
}

// slashFirst reads a pattern that begins with a slash, as in ${x////-}.
func (p *parser) slashFirst() *Word {
	start := p.i
	w := pieces{c: ctxRepl, start: start, seg: start}
	p.i++
	p.scan(&w)
	if p.err != nil {
		return nil
	}
	return &Word{Pos: p.pos(start), Parts: w.parts, Raw: p.src[start:p.i]}
}

// slice reads ${x:off:len}, the position being after the first colon.
func (p *parser) slice(e *ParamExp) bool {
	e.Op = ParamSlice
	e.Off = p.offset()
	if p.err == nil && p.peek() == ':' {
		p.i++
		e.Len = p.offset()
	}
	return p.err == nil
}

func (p *parser) offset() *Arith {
	at := p.i
	parts := p.parts(ctxOffset)
	if p.err != nil {
		return nil
	}
	return p.arithOf(at, p.i, parts)
}

// transform reads ${x@Q} and ${!x@}.
func (p *parser) transform(e *ParamExp) bool {
	if p.peek() == '}' {
		if !e.Indirect || e.Index != nil || !isNameStart(e.Name[0]) {
			return false
		}
		e.Op = ParamNamesAt
		return true
	}
	e.Op = ParamTransform
	c := p.peek()
	if strings.IndexByte("QEPAakKuUL", c) < 0 || p.at(p.i+1) != '}' {
		return false
	}
	e.Arg = p.word(ctxParam)
	return p.err == nil
}
