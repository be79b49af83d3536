package syntax

import "strings"

// paramExp parses ${ } from the position after the brace.
func (p *parser) paramExp(start int, c context) Part {
	if !p.enterLevel() {
		return nil
	}
	defer p.leaveLevel()
	e := &ParamExp{Pos: p.posAt(start), Quoted: c.isQuoted()}
	if !p.paramName(e) || !p.paramIndex(e) || !p.paramOp(e, c) || p.peekByte() != '}' {
		if p.err != nil {
			return nil
		}
		p.badParam(e, c)
	}
	if p.peekByte() != '}' {
		p.failUnclosed(start, "}")
		return nil
	}
	p.i++
	e.Raw = p.src[start:p.i]
	return e
}

// badParam skips the rest of an invalid parameter expansion.
func (p *parser) badParam(e *ParamExp, c context) {
	*e = ParamExp{Pos: e.Pos, Quoted: e.Quoted, Bad: true}
	p.parseParts(operandCtx(c))
}

// operandCtx returns the context of the word in ${x-word} within c.
func operandCtx(c context) context {
	switch c {
	case ctxDoc, ctxParamD:
		return ctxParamD
	case ctxDbl, ctxParamQ, ctxArith, ctxBracket, ctxFor, ctxOffset:
		return ctxParamQ
	}
	return ctxParam
}

// paramName parses the prefixes # and !, and the name.
func (p *parser) paramName(e *ParamExp) bool {
	p.i = p.skipCont(p.i)
	switch c := p.peekByte(); {
	case c == '#' && p.lengthOf(p.skipCont(p.i+1)):
		e.Length = true
		p.i = p.skipCont(p.i + 1)
	case c == '!' && indirectOf(p.byteAt(p.skipCont(p.i+1))):
		e.Indirect = true
		p.i = p.skipCont(p.i + 1)
	}
	c := p.peekByte()
	switch {
	case isNameStart(c):
		e.Name = p.name()
	case isDigit(c):
		from := p.i
		for isDigit(p.peekByte()) {
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

// lengthOf reports whether the '#' before offset j requests a length; otherwise
// it is the parameter '#'.
func (p *parser) lengthOf(j int) bool {
	c := p.byteAt(j)
	if isName(c) {
		return true
	}
	if c == '@' || c == '*' {
		n := p.byteAt(j + 1)
		return n == '}' || n == '['
	}
	return isSpecialParam(c) && p.byteAt(j+1) == '}'
}

func indirectOf(c byte) bool {
	return isName(c) || c == '@' || c == '*' || c == '#' || c == '?'
}

// paramIndex parses a subscript.
func (p *parser) paramIndex(e *ParamExp) bool {
	if p.peekByte() != '[' {
		return true
	}
	if !isNameStart(e.Name[0]) {
		return false
	}
	p.i++
	e.Index = p.parseIndex()
	return e.Index != nil
}

// parseIndex parses a subscript and its closing bracket. It returns nil if
// there is none.
func (p *parser) parseIndex() *Index {
	if !p.enterLevel() {
		return nil
	}
	defer p.leaveLevel()
	if k := p.peekByte(); (k == '@' || k == '*') && p.byteAt(p.i+1) == ']' {
		p.i += 2
		if k == '@' {
			return &Index{Kind: IndexAt}
		}
		return &Index{Kind: IndexStar}
	}
	at := p.i
	w := p.parseWord(ctxIndex)
	if p.err != nil {
		return nil
	}
	if p.peekByte() != ']' {
		p.failUnclosed(at-1, "]")
		return nil
	}
	x := &Index{Word: w, Arith: p.arithOf(at, p.i, w.Parts)}
	p.i++
	return x
}

// paramOp parses the operation and its operands.
func (p *parser) paramOp(e *ParamExp, c context) bool {
	b := p.peekByte()
	if b == '}' || e.Length {
		return b == '}'
	}
	switch b {
	case ':':
		p.i++
		if op := defaultOp(p.peekByte()); op != ParamNone {
			p.i++
			return p.parseOperand(e, op+1, operandCtx(c))
		}
		return p.parseSlice(e)
	case '-', '=', '?', '+':
		p.i++
		return p.parseOperand(e, defaultOp(b), operandCtx(c))
	case '#', '%':
		p.i++
		op := ParamTrimPrefix
		if b == '%' {
			op = ParamTrimSuffix
		}
		if p.acceptByte(b) {
			op++
		}
		return p.parseOperand(e, op, ctxParam)
	case '/':
		p.i++
		return p.parseReplace(e)
	case '^', ',', '~':
		p.i++
		return p.caseOp(e, b)
	case '@':
		p.i++
		return p.parseTransform(e)
	case '*':
		if e.Indirect && e.Index == nil && p.byteAt(p.i+1) == '}' && isNameStart(e.Name[0]) {
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
	if p.acceptByte(b) {
		op++
	}
	return p.parseOperand(e, op, ctxParam)
}

// parseOperand parses the word of an operation.
func (p *parser) parseOperand(e *ParamExp, op ParamOp, c context) bool {
	e.Op = op
	if p.peekByte() != '}' {
		e.Arg = p.parseWord(c)
	}
	return p.err == nil
}

// parseReplace parses ${x/…} from the position after the first slash.
func (p *parser) parseReplace(e *ParamExp) bool {
	e.Op = ParamReplace
	switch p.peekByte() {
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
	if p.peekByte() == '}' {
		return true
	}
	if p.peekByte() != '/' {
		e.Arg = p.parseWord(ctxRepl)
	} else if e.Op == ParamReplaceAll {
		e.Arg = p.slashFirst()
	}
	if p.err != nil {
		return false
	}
	if p.peekByte() != '/' {
		return true
	}
	p.i++
	e.Repl = p.parseWord(ctxParam)
	return p.err == nil
}

// slashFirst parses a pattern that begins with a slash, as in ${x////-}.
func (p *parser) slashFirst() *Word {
	start := p.i
	w := pieces{c: ctxRepl, start: start, seg: start}
	p.i++
	p.scan(&w)
	if p.err != nil {
		return nil
	}
	return &Word{Pos: p.posAt(start), Parts: w.parts, Raw: p.src[start:p.i]}
}

// parseSlice parses ${x:off:len} from the position after the first colon.
func (p *parser) parseSlice(e *ParamExp) bool {
	e.Op = ParamSlice
	e.Off = p.parseOffset()
	if p.err == nil && p.peekByte() == ':' {
		p.i++
		e.Len = p.parseOffset()
	}
	return p.err == nil
}

func (p *parser) parseOffset() *Arith {
	at := p.i
	parts := p.parseParts(ctxOffset)
	if p.err != nil {
		return nil
	}
	return p.arithOf(at, p.i, parts)
}

// parseTransform parses ${x@Q} and ${!x@}.
func (p *parser) parseTransform(e *ParamExp) bool {
	if p.peekByte() == '}' {
		if !e.Indirect || e.Index != nil || !isNameStart(e.Name[0]) {
			return false
		}
		e.Op = ParamNamesAt
		return true
	}
	e.Op = ParamTransform
	c := p.peekByte()
	if strings.IndexByte("QEPAakKuUL", c) < 0 || p.byteAt(p.i+1) != '}' {
		return false
	}
	e.Arg = p.parseWord(ctxParam)
	return p.err == nil
}
