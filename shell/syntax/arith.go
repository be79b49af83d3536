package syntax

import "strings"

// maxArith bounds the operators of one expression, and with them the depth of
// its tree; maxParens bounds what its parser recurses for.
const (
	maxArith  = 10000
	maxParens = 1000
)

// placeholder stands for an expansion in the text of an expression.
const placeholder = 0

// arithOf reads the expression in the window from offset at to end, whose
// parts have been read.
func (p *parser) arithOf(at, end int, parts []Part) *Arith {
	p.node()
	raw := p.src[at:end]
	a := &Arith{Pos: p.pos(at), Raw: raw, Word: &Word{Pos: p.pos(at), Parts: parts, Raw: raw}}
	text, subs, ok := template(parts)
	if !ok {
		return a
	}
	x := arithParser{p: p, text: text, subs: subs, line: a.Pos.Line}
	expr, err := x.parse()
	switch {
	case err == nil:
		a.Expr, a.Dollars = expr, x.dollars
	case len(subs) == 0:
		a.Err = err
	}
	return a
}

// template returns the text of an expression with a placeholder for each
// expansion. ok is false when there are quotes, or when an expansion touches
// a name or number.
func template(parts []Part) (text string, subs []Part, ok bool) {
	if len(parts) == 0 {
		return "", nil, true
	}
	if len(parts) == 1 {
		if l, ok := parts[0].(*Lit); ok {
			return l.Value, nil, strings.IndexByte(l.Value, '\'') < 0
		}
	}
	var b strings.Builder
	glued := false // the last byte would join what follows
	for _, part := range parts {
		switch part := part.(type) {
		case *Lit:
			v := part.Value
			if v == "" {
				continue
			}
			if strings.IndexByte(v, '\'') >= 0 || len(subs) > 0 && glued && joins(v[0]) {
				return "", nil, false
			}
			b.WriteString(v)
			glued = joins(v[len(v)-1])
		case *ParamExp, *CmdSubst, *ArithExp:
			if glued {
				return "", nil, false
			}
			b.WriteByte(placeholder)
			subs = append(subs, part)
			glued = true
		default:
			return "", nil, false
		}
	}
	return b.String(), subs, true
}

func joins(c byte) bool { return isName(c) || c == '#' || c == '@' || c == '$' || c >= 0x80 }

// arithParser parses one expression by precedence, as bash's does, so that
// errors name the same text.
type arithParser struct {
	p       *parser
	text    string
	line    int32
	subs    []Part // what the placeholders stand for
	nsub    int    // placeholders read
	dollars []Part

	i     int // next byte
	start int // of the last token: what errors point at
	op    ArithOp
	kind  arithToken
	val   int64
	node  ArithExpr // of an operand that is no number
	ops   int
	depth int
	err   *ArithError
}

type arithToken uint8

const (
	arithEnd arithToken = iota
	arithOp
	arithAssign // = or op=
	arithNumber
	arithOperand
	arithInc
	arithDec
	arithOpen
	arithClose
	arithQuestion
	arithColon
)

func (x *arithParser) parse() (ArithExpr, *ArithError) {
	x.lex()
	if x.kind == arithEnd && x.err == nil {
		return nil, nil
	}
	e := x.comma()
	if x.err == nil && x.kind != arithEnd {
		x.fail("syntax error in expression")
	}
	if x.err != nil {
		return nil, x.err
	}
	return e, nil
}

func (x *arithParser) fail(msg string) {
	if x.err == nil {
		tok := ""
		if x.start < len(x.text) {
			tok = x.text[x.start:]
		}
		x.err = &ArithError{Expr: x.text, Msg: msg, Token: tok}
	}
	x.i = len(x.text)
	x.kind = arithEnd
}

// grow counts an operator.
func (x *arithParser) grow() {
	x.ops++
	x.p.node()
	if x.ops > maxArith {
		x.fail("expression recursion level exceeded")
	}
}

// prec is the binding strength of the binary operators.
var prec = [...]int8{
	ArithComma: 1, ArithLOr: 4, ArithLAnd: 5, ArithOr: 6, ArithXor: 7, ArithAnd: 8,
	ArithEq: 9, ArithNe: 9, ArithLt: 10, ArithLe: 10, ArithGt: 10, ArithGe: 10,
	ArithShl: 11, ArithShr: 11, ArithAdd: 12, ArithSub: 12, ArithMul: 13, ArithDiv: 13, ArithRem: 13,
	ArithPow: 14,
}

func (x *arithParser) comma() ArithExpr {
	e := x.assign()
	for x.kind == arithOp && x.op == ArithComma {
		x.grow()
		x.lex()
		e = &ArithBinary{Op: ArithComma, X: e, Y: x.assign()}
	}
	return e
}

func (x *arithParser) assign() ArithExpr {
	x.depth++
	defer func() { x.depth-- }()
	if x.depth > maxParens {
		x.fail("expression recursion level exceeded")
		return nil
	}
	e := x.ternary()
	if x.kind != arithAssign {
		return e
	}
	v, ok := e.(*ArithVar)
	if !ok {
		x.fail("attempted assignment to non-variable")
		return nil
	}
	op := x.op
	x.grow()
	x.lex()
	if x.kind == arithEnd {
		x.fail("syntax error: operand expected")
	}
	return &ArithAssign{Op: op, X: v, Y: x.assign()}
}

func (x *arithParser) ternary() ArithExpr {
	cond := x.binary(4)
	if x.kind != arithQuestion {
		return cond
	}
	x.grow()
	x.lex()
	if x.kind == arithEnd || x.kind == arithColon {
		x.fail("expression expected")
		return nil
	}
	yes := x.comma()
	if x.kind != arithColon {
		x.fail("`:' expected for conditional expression")
		return nil
	}
	x.lex()
	if x.kind == arithEnd {
		x.fail("expression expected")
		return nil
	}
	x.depth++
	defer func() { x.depth-- }()
	if x.depth > maxParens {
		x.fail("expression recursion level exceeded")
		return nil
	}
	return &ArithTernary{Cond: cond, X: yes, Y: x.ternary()}
}

// binary reads operators that bind at least as strongly as low.
func (x *arithParser) binary(low int8) ArithExpr {
	e := x.unary()
	for x.kind == arithOp && prec1(x.op) >= low {
		op := x.op
		x.grow()
		from := x.i
		x.lex()
		b := &ArithBinary{Op: op, X: e}
		if op == ArithPow {
			b.Y = x.power()
			b.Rest = x.rest(x.start)
		} else {
			b.Y = x.binary(prec1(op) + 1)
		}
		if op == ArithDiv || op == ArithRem {
			b.Rest = x.rest(from)
		}
		e = b
	}
	return e
}

func prec1(op ArithOp) int8 {
	if int(op) >= len(prec) || op == ArithComma {
		return 0
	}
	return prec[op]
}

// rest returns the text from an offset on, without leading blanks.
func (x *arithParser) rest(from int) string {
	if from >= len(x.text) {
		return ""
	}
	return strings.TrimLeft(x.text[from:], " \t\n")
}

// power reads the right side of **, which groups to the right.
func (x *arithParser) power() ArithExpr {
	x.depth++
	defer func() { x.depth-- }()
	if x.depth > maxParens {
		x.fail("expression recursion level exceeded")
		return nil
	}
	return x.binary(prec[ArithPow])
}

func (x *arithParser) unary() ArithExpr {
	x.depth++
	defer func() { x.depth-- }()
	if x.depth > maxParens {
		x.fail("expression recursion level exceeded")
		return nil
	}
	switch x.kind {
	case arithOp:
		switch x.op {
		case ArithLNot, ArithNot, ArithAdd, ArithSub:
			op := x.op
			x.grow()
			x.lex()
			return &ArithUnary{Op: op, X: x.unary()}
		}
	case arithInc, arithDec:
		dec := x.kind == arithDec
		x.lex()
		v, ok := x.node.(*ArithVar)
		if x.kind != arithOperand || !ok {
			x.fail("identifier expected after pre-increment or pre-decrement")
			return nil
		}
		x.lex()
		x.grow()
		return &ArithIncDec{X: v, Dec: dec}
	}
	return x.primary()
}

func (x *arithParser) primary() ArithExpr {
	switch x.kind {
	case arithOpen:
		x.lex()
		e := x.comma()
		if x.kind != arithClose {
			x.fail("missing `)'")
			return nil
		}
		x.lex()
		return e
	case arithNumber:
		n := &ArithNum{Value: x.val}
		x.grow()
		x.lex()
		return n
	case arithOperand:
		e := x.node
		x.grow()
		x.lex()
		v, ok := e.(*ArithVar)
		if ok && (x.kind == arithInc || x.kind == arithDec) {
			e = &ArithIncDec{X: v, Dec: x.kind == arithDec, Post: true}
			x.lex()
		}
		return e
	}
	x.fail("syntax error: operand expected")
	return nil
}
