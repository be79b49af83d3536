package awk

import (
	"fmt"
	"slices"
)

// expr parses an expression.
func (p *parser) expr() expr {
	p.enter()
	defer p.leave()
	tick(p.bud, 1)
	c := p.or()
	if p.kind() != tQuestion {
		return c
	}
	p.advance()
	p.newlines()
	a := p.expr()
	p.newlines()
	p.expect(tColon)
	p.newlines()
	return &condExpr{c, a, p.expr()}
}

func (p *parser) or() expr {
	l := p.and()
	for p.kind() == tOr {
		p.advance()
		p.newlines()
		l = &logicExpr{tOr, l, p.and()}
	}
	return l
}

func (p *parser) and() expr {
	l := p.in()
	for p.kind() == tAnd {
		p.advance()
		p.newlines()
		l = &logicExpr{tAnd, l, p.in()}
	}
	return l
}

func (p *parser) in() expr {
	l := p.match()
	for p.kind() == tIn && !p.noIn {
		p.advance()
		if p.kind() != tName {
			p.unexpected()
		}
		subs := []expr{l}
		if g, ok := l.(*groupExpr); ok {
			subs = g.list
		}
		l = &inExpr{subs, p.arrayRef()}
	}
	if g, ok := l.(*groupExpr); ok && len(g.list) > 1 && !p.noGT {
		p.unexpected()
	}
	return l
}

func (p *parser) match() expr {
	l := p.comparison()
	for k := p.kind(); k == tMatch || k == tNoMatch; k = p.kind() {
		p.advance()
		l = &match{k == tNoMatch, l, p.comparison()}
	}
	return l
}

func (p *parser) comparison() expr {
	l := p.concat(false)
	for {
		k := p.kind()
		switch k {
		case tLT, tLE, tEQ, tNE, tGE:
		case tGT:
			if p.noGT {
				return l
			}
		default:
			return l
		}
		p.advance()
		l = &binaryExpr{k, l, p.concat(false)}
	}
}

// concat parses operands side by side and the getline at the end of a pipe.
// The destination of a print has no pipe.
func (p *parser) concat(dest bool) expr {
	l := p.additive()
	for {
		switch {
		case p.startsOperand():
			r := p.additive()
			if c, ok := l.(*concat); ok {
				c.parts = append(c.parts, r)
			} else {
				l = &concat{[]expr{l, r}}
			}
		case !dest && (p.kind() == tPipe || p.kind() == tPipeAnd) && p.peek(1) == tGetline:
			op := p.advance().kind
			p.advance()
			l = &getlineExpr{op: op, src: l, l: p.optionalLvalue()}
		default:
			return l
		}
	}
}

// startsOperand reports whether an operand follows that is concatenated to
// what was read. Signs don't: they add and subtract.
func (p *parser) startsOperand() bool {
	switch p.kind() {
	case tNumber, tString, tRegex, tTypedRegex, tName, tCall, tIndirect, tFunc, tDollar, tNot, tLparen, tIncr, tDecr:
		return true
	}
	return false
}

func (p *parser) additive() expr {
	l := p.multiplicative()
	for k := p.kind(); k == tPlus || k == tMinus; k = p.kind() {
		p.advance()
		l = &binaryExpr{k, l, p.multiplicative()}
	}
	return l
}

func (p *parser) multiplicative() expr {
	l := p.unary()
	for k := p.kind(); k == tMul || k == tDiv || k == tMod; k = p.kind() {
		t := p.advance()
		r := p.unary()
		p.checkDivision(t, l, r)
		l = &binaryExpr{k, l, r}
	}
	return l
}

// checkDivision refuses a division of constants by zero, as gawk does.
func (p *parser) checkDivision(t *token, l, r expr) {
	_, lc := l.(*numLit)
	n, rc := r.(*numLit)
	switch {
	case !lc || !rc || n.v != 0:
	case t.kind == tDiv:
		p.complain(t, "error: division by zero attempted")
	case t.kind == tMod:
		p.complain(t, "error: division by zero attempted in `%%'")
	}
}

func (p *parser) unary() expr {
	switch k := p.kind(); k {
	case tNot, tMinus, tPlus:
		p.enter()
		defer p.leave()
		p.advance()
		e := p.unary()
		if n, ok := e.(*numLit); ok && k == tMinus && n.v != 0 {
			return &numLit{-n.v}
		}
		return &unaryExpr{k, e}
	}
	return p.power()
}

func (p *parser) power() expr {
	l := p.postfix()
	if p.kind() != tPow {
		return l
	}
	p.advance()
	p.enter()
	defer p.leave()
	switch k := p.kind(); k {
	case tMinus, tPlus, tNot: // 2^-3
		p.advance()
		return &binaryExpr{tPow, l, &unaryExpr{k, p.powerOperand()}}
	}
	return &binaryExpr{tPow, l, p.powerOperand()}
}

func (p *parser) powerOperand() expr {
	if k := p.kind(); k == tMinus || k == tPlus || k == tNot {
		return p.unary()
	}
	return p.power()
}

// postfix parses an operand with the operators that change it: ++, -- and
// the assignments, which bind to the variable on their left wherever it is.
func (p *parser) postfix() expr {
	e := p.primary()
	if !isLvalue(e) {
		return e
	}
	if v, ok := e.(*varRef); ok && p.kind() >= tAssign && p.kind() <= tPowAssign {
		v.sym.assigned = true
	}
	switch k := p.kind(); k {
	case tIncr:
		p.advance()
		return &incExpr{post: true, delta: 1, l: e}
	case tDecr:
		p.advance()
		return &incExpr{post: true, delta: -1, l: e}
	case tAssign, tAddAssign, tSubAssign, tMulAssign, tDivAssign, tModAssign, tPowAssign:
		p.advance()
		p.newlines()
		return &assignExpr{op: assignOps[k-tAssign], l: e, r: p.expr()}
	}
	return e
}

var assignOps = [...]kind{tAssign, tPlus, tMinus, tMul, tDiv, tMod, tPow}

func isLvalue(e expr) bool {
	switch e.(type) {
	case *varRef, *indexRef, *fieldRef:
		return true
	}
	return false
}

func (p *parser) primary() expr {
	t := p.tok()
	switch t.kind {
	case tNumber:
		p.advance()
		return &numLit{t.num}
	case tString:
		p.advance()
		return &strLit{t.text}
	case tRegex, tTypedRegex:
		p.advance()
		return &regexLit{src: t.text, typed: t.kind == tTypedRegex}
	case tLparen:
		return p.group()
	case tDollar:
		p.advance()
		p.enter()
		defer p.leave()
		return &fieldRef{p.fieldOperand()}
	case tIncr, tDecr:
		return p.preInc()
	case tName:
		if p.known[t.text] && p.params[t.text] == nil {
			return p.call()
		}
		return p.arrayRef()
	case tCall, tIndirect:
		return p.call()
	case tFunc:
		return p.builtin()
	case tGetline:
		return p.getline()
	}
	p.unexpected()
	return nil
}

// fieldOperand parses what follows a dollar: it binds tighter than any
// binary operator.
func (p *parser) fieldOperand() expr {
	switch k := p.kind(); k {
	case tMinus, tPlus, tNot:
		p.advance()
		p.enter()
		defer p.leave()
		return &unaryExpr{k, p.fieldOperand()}
	}
	return p.primary()
}

func (p *parser) preInc() expr {
	t := p.advance()
	delta := 1.0
	if t.kind == tDecr {
		delta = -1
	}
	p.enter()
	defer p.leave()
	e := p.primary()
	if g, ok := e.(*groupExpr); ok && len(g.list) == 1 {
		e = g.list[0]
	}
	if isLvalue(e) {
		return &incExpr{delta: delta, l: e}
	}
	p.pos--
	p.unexpected()
	return nil
}

func (p *parser) group() expr {
	p.advance()
	noIn, noGT := p.noIn, p.noGT
	p.noIn, p.noGT = false, false
	list := p.exprList()
	p.expect(tRparen)
	p.noIn, p.noGT = noIn, noGT
	if len(list) > 1 && p.kind() != tIn && !p.noGT {
		p.unexpected()
	}
	return &groupExpr{list}
}

// variable returns the reference to the variable named by t.
func (p *parser) variable(t *token) *varRef {
	if s := p.params[t.text]; s != nil {
		return &varRef{s}
	}
	if p.known[t.text] {
		p.complain(t, "error: function `%s' called with space between name and `('\nor used as a variable or an array", t.text)
	}
	s := p.prog.globals[t.text]
	if s == nil {
		s = &symbol{name: t.text, line: t.line}
		p.prog.globals[t.text] = s
	}
	return &varRef{s}
}

// arrayRef parses a name with its subscripts, if any.
func (p *parser) arrayRef() expr {
	v := p.variable(p.advance())
	var e expr = v
	for p.kind() == tLbracket {
		p.use(v.sym, symArray)
		p.advance()
		noIn, noGT := p.noIn, p.noGT
		p.noIn, p.noGT = false, false
		subs := p.exprList()
		p.noIn, p.noGT = noIn, noGT
		p.expect(tRbracket)
		e = &indexRef{e, subs}
	}
	return e
}

// use notes that a name is used as k.
func (p *parser) use(s *symbol, k symKind) {
	switch {
	case s.kind == symUnknown && s.assigned && s.fn == nil:
		p.bailTo.err = &SyntaxError{
			Where: where(p.srcs[p.tok().src]), Line: p.tok().line, Fatal: true,
			Msg: "fatal: attempt to use scalar `" + s.name + "' as an array",
		}
		panic(p.bailTo)
	case s.kind == symUnknown:
		s.kind = k
	case s.kind != k && s.fn != nil:
		s.kind = symBoth
	}
}

func (p *parser) args(close kind) []expr {
	noIn, noGT := p.noIn, p.noGT
	p.noIn, p.noGT = false, false
	var list []expr
	p.newlines()
	for p.kind() != close {
		list = append(list, p.expr())
		p.newlines()
		if p.kind() != close {
			p.expect(tComma)
			p.newlines()
		}
	}
	p.advance()
	p.noIn, p.noGT = noIn, noGT
	return list
}

func (p *parser) call() expr {
	t := p.advance()
	c := &callExpr{name: t.text, line: t.line}
	if t.kind == tIndirect {
		c.indirect = p.variable(t)
	} else {
		c.fn = p.lookupFunc(t.text)
	}
	p.expect(tLparen)
	p.enter()
	defer p.leave()
	c.args = p.args(tRparen)
	p.calls = append(p.calls, c)
	return c
}

func (p *parser) builtin() expr {
	t := p.advance()
	b := &builtinExpr{name: t.text, line: t.line}
	p.enter()
	defer p.leave()
	if p.kind() == tLparen {
		p.advance()
		b.paren = true
		b.args = p.args(tRparen)
	} else if t.text != "length" {
		p.unexpected()
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
			p.use(v.sym, symArray)
		}
	}
	return b
}

// getline parses the forms without a pipe.
func (p *parser) getline() expr {
	p.advance()
	g := &getlineExpr{l: p.optionalLvalue()}
	if p.kind() == tLT {
		p.advance()
		g.op = tLT
		g.src = p.getlineSource()
	}
	return g
}

// getlineSource parses the file of a getline: one operand, no concatenation.
func (p *parser) getlineSource() expr {
	p.enter()
	defer p.leave()
	e := p.primary()
	if isLvalue(e) {
		switch p.kind() {
		case tIncr:
			p.advance()
			return &incExpr{post: true, delta: 1, l: e}
		case tDecr:
			p.advance()
			return &incExpr{post: true, delta: -1, l: e}
		}
	}
	return e
}

func (p *parser) optionalLvalue() expr {
	switch p.kind() {
	case tDollar:
		p.advance()
		p.enter()
		defer p.leave()
		return &fieldRef{p.fieldOperand()}
	case tName:
		return p.arrayRef()
	}
	return nil
}
