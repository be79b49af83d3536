package awk

import (
	"fmt"
	"slices"
)

// parseExpr parses an expression.
func (p *parser) parseExpr() expr {
	p.enterNesting()
	defer p.leaveNesting()
	tickBudget(p.bud, 1)
	c := p.parseOr()
	if p.currentKind() != tQuestion {
		return c
	}
	p.nextToken()
	p.skipNewlines()
	a := p.parseExpr()
	p.skipNewlines()
	p.expectToken(tColon)
	p.skipNewlines()
	return &condExpr{c, a, p.parseExpr()}
}

// parseOr parses operands of ||.
func (p *parser) parseOr() expr {
	l := p.parseAnd()
	for p.currentKind() == tOr {
		p.nextToken()
		p.skipNewlines()
		l = &logicExpr{tOr, l, p.parseAnd()}
	}
	return l
}

// parseAnd parses operands of &&.
func (p *parser) parseAnd() expr {
	l := p.parseIn()
	for p.currentKind() == tAnd {
		p.nextToken()
		p.skipNewlines()
		l = &logicExpr{tAnd, l, p.parseIn()}
	}
	return l
}

// parseIn parses operands of in.
func (p *parser) parseIn() expr {
	l := p.parseMatch()
	for p.currentKind() == tIn && !p.noIn {
		p.nextToken()
		if p.currentKind() != tName {
			p.failUnexpected()
		}
		subs := []expr{l}
		if g, ok := l.(*groupExpr); ok {
			subs = g.list
		}
		l = &inExpr{subs, p.parseArrayRef()}
	}
	if g, ok := l.(*groupExpr); ok && len(g.list) > 1 && !p.noGT {
		p.failUnexpected()
	}
	return l
}

// parseMatch parses operands of ~ and !~.
func (p *parser) parseMatch() expr {
	l := p.parseComparison()
	for k := p.currentKind(); k == tMatch || k == tNoMatch; k = p.currentKind() {
		p.nextToken()
		l = &match{k == tNoMatch, l, p.parseComparison()}
	}
	return l
}

// parseComparison parses operands of comparisons.
func (p *parser) parseComparison() expr {
	l := p.parseConcat(false)
	for {
		k := p.currentKind()
		switch k {
		case tLT, tLE, tEQ, tNE, tGE:
		case tGT:
			if p.noGT {
				return l
			}
		default:
			return l
		}
		p.nextToken()
		l = &binaryExpr{k, l, p.parseConcat(false)}
	}
}

// parseConcat parses a concatenation, and getline at the end of a pipe. The destination of a print
// has no pipe.
func (p *parser) parseConcat(dest bool) expr {
	l := p.parseAdditive()
	for {
		switch {
		case p.startsOperand():
			r := p.parseAdditive()
			if c, ok := l.(*concat); ok {
				c.parts = append(c.parts, r)
			} else {
				l = &concat{[]expr{l, r}}
			}
		case !dest && (p.currentKind() == tPipe || p.currentKind() == tPipeAnd) && p.peekKind(1) == tGetline:
			op := p.nextToken().kind
			p.nextToken()
			l = &getlineExpr{op: op, src: l, l: p.parseOptionalLvalue()}
		default:
			return l
		}
	}
}

// startsOperand reports whether an operand of a concatenation follows. Signs don't count, because
// they add and subtract.
func (p *parser) startsOperand() bool {
	switch p.currentKind() {
	case tNumber, tString, tRegex, tTypedRegex, tName, tCall, tIndirect, tFunc, tDollar, tNot, tLparen, tIncr, tDecr:
		return true
	}
	return false
}

// parseAdditive parses operands of + and -.
func (p *parser) parseAdditive() expr {
	l := p.parseMultiplicative()
	for k := p.currentKind(); k == tPlus || k == tMinus; k = p.currentKind() {
		p.nextToken()
		l = &binaryExpr{k, l, p.parseMultiplicative()}
	}
	return l
}

// parseMultiplicative parses operands of *, / and %.
func (p *parser) parseMultiplicative() expr {
	l := p.parseUnary()
	for k := p.currentKind(); k == tMul || k == tDiv || k == tMod; k = p.currentKind() {
		t := p.nextToken()
		r := p.parseUnary()
		p.checkDivision(t, l, r)
		l = &binaryExpr{k, l, r}
	}
	return l
}

// checkDivision rejects a division of constants by zero, as gawk does.
func (p *parser) checkDivision(t *token, l, r expr) {
	_, lc := l.(*numLit)
	n, rc := r.(*numLit)
	switch {
	case !lc || !rc || n.v != 0:
	case t.kind == tDiv:
		p.failPlain(t, "error: division by zero attempted")
	case t.kind == tMod:
		p.failPlain(t, "error: division by zero attempted in `%%'")
	}
}

// parseUnary parses signs and negations.
func (p *parser) parseUnary() expr {
	switch k := p.currentKind(); k {
	case tNot, tMinus, tPlus:
		p.enterNesting()
		defer p.leaveNesting()
		p.nextToken()
		e := p.parseUnary()
		if n, ok := e.(*numLit); ok && k == tMinus && n.v != 0 {
			return &numLit{-n.v}
		}
		return &unaryExpr{k, e}
	}
	return p.parsePower()
}

// parsePower parses operands of ^, which associates to the right.
func (p *parser) parsePower() expr {
	l := p.parsePostfix()
	if p.currentKind() != tPow {
		return l
	}
	p.nextToken()
	p.enterNesting()
	defer p.leaveNesting()
	switch k := p.currentKind(); k {
	case tMinus, tPlus, tNot: // 2^-3
		p.nextToken()
		return &binaryExpr{tPow, l, &unaryExpr{k, p.parsePowerOperand()}}
	}
	return &binaryExpr{tPow, l, p.parsePowerOperand()}
}

// parsePowerOperand parses the right operand of ^.
func (p *parser) parsePowerOperand() expr {
	if k := p.currentKind(); k == tMinus || k == tPlus || k == tNot {
		return p.parseUnary()
	}
	return p.parsePower()
}

// parsePostfix parses an operand with ++, -- or an assignment; assignments bind to the variable on
// their left in any context.
func (p *parser) parsePostfix() expr {
	e := p.parsePrimary()
	if !isLvalue(e) {
		return e
	}
	if v, ok := e.(*varRef); ok && p.currentKind() >= tAssign && p.currentKind() <= tPowAssign {
		v.sym.assigned = true
	}
	switch k := p.currentKind(); k {
	case tIncr:
		p.nextToken()
		return &incExpr{post: true, delta: 1, l: e}
	case tDecr:
		p.nextToken()
		return &incExpr{post: true, delta: -1, l: e}
	case tAssign, tAddAssign, tSubAssign, tMulAssign, tDivAssign, tModAssign, tPowAssign:
		p.nextToken()
		p.skipNewlines()
		return &assignExpr{op: assignOps[k-tAssign], l: e, r: p.parseExpr()}
	}
	return e
}

// assignOps are the operators of the assignments, from tAssign.
var assignOps = [...]kind{tAssign, tPlus, tMinus, tMul, tDiv, tMod, tPow}

// isLvalue reports whether e can be assigned to.
func isLvalue(e expr) bool {
	switch e.(type) {
	case *varRef, *indexRef, *fieldRef:
		return true
	}
	return false
}

// parsePrimary parses an operand without operators around it.
func (p *parser) parsePrimary() expr {
	t := p.current()
	switch t.kind {
	case tNumber:
		p.nextToken()
		return &numLit{t.num}
	case tString:
		p.nextToken()
		return &strLit{t.text}
	case tRegex, tTypedRegex:
		p.nextToken()
		return &regexLit{src: t.text, typed: t.kind == tTypedRegex}
	case tLparen:
		return p.parseGroup()
	case tDollar:
		p.nextToken()
		p.enterNesting()
		defer p.leaveNesting()
		return &fieldRef{p.parseFieldOperand()}
	case tIncr, tDecr:
		return p.parsePreInc()
	case tName:
		if p.known[t.text] && p.params[t.text] == nil {
			return p.parseCall()
		}
		return p.parseArrayRef()
	case tCall, tIndirect:
		return p.parseCall()
	case tFunc:
		return p.parseBuiltin()
	case tGetline:
		return p.parseGetline()
	}
	p.failUnexpected()
	return nil
}

// parseFieldOperand parses the operand of $, which binds tighter than any binary operator.
func (p *parser) parseFieldOperand() expr {
	switch k := p.currentKind(); k {
	case tMinus, tPlus, tNot:
		p.nextToken()
		p.enterNesting()
		defer p.leaveNesting()
		return &unaryExpr{k, p.parseFieldOperand()}
	}
	return p.parsePrimary()
}

// parsePreInc parses ++ or -- with its operand.
func (p *parser) parsePreInc() expr {
	t := p.nextToken()
	delta := 1.0
	if t.kind == tDecr {
		delta = -1
	}
	p.enterNesting()
	defer p.leaveNesting()
	e := p.parsePrimary()
	if g, ok := e.(*groupExpr); ok && len(g.list) == 1 {
		e = g.list[0]
	}
	if isLvalue(e) {
		return &incExpr{delta: delta, l: e}
	}
	p.pos--
	p.failUnexpected()
	return nil
}

// parseGroup parses an expression or a list in parentheses.
func (p *parser) parseGroup() expr {
	p.nextToken()
	noIn, noGT := p.noIn, p.noGT
	p.noIn, p.noGT = false, false
	list := p.parseExprList()
	p.expectToken(tRparen)
	p.noIn, p.noGT = noIn, noGT
	if len(list) > 1 && p.currentKind() != tIn && !p.noGT {
		p.failUnexpected()
	}
	return &groupExpr{list}
}

// variableRef returns the reference to the variable named by t.
func (p *parser) variableRef(t *token) *varRef {
	if s := p.params[t.text]; s != nil {
		return &varRef{s}
	}
	if p.known[t.text] {
		p.failPlain(t, "error: function `%s' called with space between name and `('\nor used as a variable or an array", t.text)
	}
	s := p.prog.globals[t.text]
	if s == nil {
		s = &symbol{name: t.text, line: t.line}
		p.prog.globals[t.text] = s
	}
	return &varRef{s}
}

// parseArrayRef parses a name with its subscripts, if any.
func (p *parser) parseArrayRef() expr {
	v := p.variableRef(p.nextToken())
	var e expr = v
	for p.currentKind() == tLbracket {
		p.markUse(v.sym, symArray)
		p.nextToken()
		noIn, noGT := p.noIn, p.noGT
		p.noIn, p.noGT = false, false
		subs := p.parseExprList()
		p.noIn, p.noGT = noIn, noGT
		p.expectToken(tRbracket)
		e = &indexRef{e, subs}
	}
	return e
}

// markUse records that a name is used as k.
func (p *parser) markUse(s *symbol, k symKind) {
	switch {
	case s.kind == symUnknown && s.assigned && s.fn == nil:
		p.bailTo.err = &SyntaxError{
			Where: sourceName(p.srcs[p.current().src]), Line: p.current().line, Fatal: true,
			Msg: "fatal: attempt to use scalar `" + s.name + "' as an array",
		}
		panic(p.bailTo)
	case s.kind == symUnknown:
		s.kind = k
	case s.kind != k && s.fn != nil:
		s.kind = symBoth
	}
}

// parseArgs parses arguments up to the token close.
func (p *parser) parseArgs(close kind) []expr {
	noIn, noGT := p.noIn, p.noGT
	p.noIn, p.noGT = false, false
	var list []expr
	p.skipNewlines()
	for p.currentKind() != close {
		list = append(list, p.parseExpr())
		p.skipNewlines()
		if p.currentKind() != close {
			p.expectToken(tComma)
			p.skipNewlines()
		}
	}
	p.nextToken()
	p.noIn, p.noGT = noIn, noGT
	return list
}

// parseCall parses a call of a function of the program.
func (p *parser) parseCall() expr {
	t := p.nextToken()
	c := &callExpr{name: t.text, line: t.line}
	if t.kind == tIndirect {
		c.indirect = p.variableRef(t)
	} else {
		c.fn = p.lookupFunc(t.text)
	}
	p.expectToken(tLparen)
	p.enterNesting()
	defer p.leaveNesting()
	c.args = p.parseArgs(tRparen)
	p.calls = append(p.calls, c)
	return c
}

// parseBuiltin parses a call of a built-in function.
func (p *parser) parseBuiltin() expr {
	t := p.nextToken()
	b := &builtinExpr{name: t.text, line: t.line}
	p.enterNesting()
	defer p.leaveNesting()
	if p.currentKind() == tLparen {
		p.nextToken()
		b.paren = true
		b.args = p.parseArgs(tRparen)
	} else if t.text != "length" {
		p.failUnexpected()
	}
	spec := builtins[t.text]
	if len(b.args) < spec.min || len(b.args) > spec.max {
		p.failAt(&p.toks[p.pos-1], fmt.Sprintf("%d is invalid as number of arguments for %s", len(b.args), t.text))
	}
	if (t.text == "sub" || t.text == "gsub") && len(b.args) == 3 && !isLvalue(b.args[2]) {
		if _, isText := b.args[2].(*strLit); !isText {
			p.failAt(&p.toks[p.pos-1], t.text+" third parameter is not a changeable object")
		}
	}
	for i, a := range b.args {
		if v, ok := a.(*varRef); ok && slices.Contains(spec.arrays, i) {
			p.markUse(v.sym, symArray)
		}
	}
	return b
}

// parseGetline parses the forms of getline without a pipe.
func (p *parser) parseGetline() expr {
	p.nextToken()
	g := &getlineExpr{l: p.parseOptionalLvalue()}
	if p.currentKind() == tLT {
		p.nextToken()
		g.op = tLT
		g.src = p.parseGetlineSource()
	}
	return g
}

// parseGetlineSource parses the file of a getline: one operand, without concatenation.
func (p *parser) parseGetlineSource() expr {
	p.enterNesting()
	defer p.leaveNesting()
	e := p.parsePrimary()
	if isLvalue(e) {
		switch p.currentKind() {
		case tIncr:
			p.nextToken()
			return &incExpr{post: true, delta: 1, l: e}
		case tDecr:
			p.nextToken()
			return &incExpr{post: true, delta: -1, l: e}
		}
	}
	return e
}

// parseOptionalLvalue parses the variable of a getline, if any.
func (p *parser) parseOptionalLvalue() expr {
	switch p.currentKind() {
	case tDollar:
		p.nextToken()
		p.enterNesting()
		defer p.leaveNesting()
		return &fieldRef{p.parseFieldOperand()}
	case tName:
		return p.parseArrayRef()
	}
	return nil
}
