package syntax

import "strings"

// maxArith limits the operators of one expression, and so the depth of its
// tree; maxParens limits the recursion of the parser.
const (
	maxArith  = 10000
	maxParens = 1000
)

// placeholder represents an expansion in the text of an expression.
const placeholder = 0

// arithOf parses the expression in the window from offset at to end, whose
// parts were parsed before.
func (p *parser) arithOf(at, end int, parts []Part) *Arith {
	p.countNode()
	raw := p.src[at:end]
	a := &Arith{Pos: p.posAt(at), Raw: raw, Word: &Word{Pos: p.posAt(at), Parts: parts, Raw: raw}}
	text, subs, ok := arithTemplate(parts)
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

// arithTemplate returns the text of an expression with a placeholder for each
// expansion. ok is false if there are quotes, or if an expansion is adjacent
// to a name or number.
func arithTemplate(parts []Part) (text string, subs []Part, ok bool) {
	if len(parts) == 0 {
		return "", nil, true
	}
	if len(parts) == 1 {
		if l, ok := parts[0].(*Lit); ok {
			return l.Value, nil, strings.IndexByte(l.Value, '\'') < 0
		}
	}
	var b strings.Builder
	glued := false // the last byte would join the next operand
	for _, part := range parts {
		switch part := part.(type) {
		case *Lit:
			v := part.Value
			if v == "" {
				continue
			}
			if strings.IndexByte(v, '\'') >= 0 || len(subs) > 0 && glued && joinsOperand(v[0]) {
				return "", nil, false
			}
			b.WriteString(v)
			glued = joinsOperand(v[len(v)-1])
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

func joinsOperand(c byte) bool { return isName(c) || c == '#' || c == '@' || c == '$' || c >= 0x80 }

// arithParser parses one expression by operator precedence, in the order of
// bash's parser, so that errors show the same text. Its methods are named for
// the grammar rules.
type arithParser struct {
	p       *parser
	text    string
	line    int32
	subs    []Part // expansions of the placeholders
	nsub    int    // number of placeholders read
	dollars []Part

	i     int // next byte
	start int // of the last token, which errors show
	op    ArithOp
	kind  arithToken
	val   int64
	node  ArithExpr // of an operand that is not a number
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
	x.nextToken()
	if x.kind == arithEnd && x.err == nil {
		return nil, nil
	}
	e := x.comma()
	if x.err == nil && x.kind != arithEnd {
		x.setError("syntax error in expression")
	}
	if x.err != nil {
		return nil, x.err
	}
	return e, nil
}

// setError records the first error, at the current token, and ends the input.
func (x *arithParser) setError(msg string) {
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

// countOperator counts an operator against the limit.
func (x *arithParser) countOperator() {
	x.ops++
	x.p.countNode()
	if x.ops > maxArith {
		x.setError("expression recursion level exceeded")
	}
}

// prec is the precedence of the binary operators.
var prec = [...]int8{
	ArithComma: 1, ArithLOr: 4, ArithLAnd: 5, ArithOr: 6, ArithXor: 7, ArithAnd: 8,
	ArithEq: 9, ArithNe: 9, ArithLt: 10, ArithLe: 10, ArithGt: 10, ArithGe: 10,
	ArithShl: 11, ArithShr: 11, ArithAdd: 12, ArithSub: 12, ArithMul: 13, ArithDiv: 13, ArithRem: 13,
	ArithPow: 14,
}

func (x *arithParser) comma() ArithExpr {
	e := x.assign()
	for x.kind == arithOp && x.op == ArithComma {
		x.countOperator()
		x.nextToken()
		e = &ArithBinary{Op: ArithComma, X: e, Y: x.assign()}
	}
	return e
}

func (x *arithParser) assign() ArithExpr {
	x.depth++
	defer func() { x.depth-- }()
	if x.depth > maxParens {
		x.setError("expression recursion level exceeded")
		return nil
	}
	e := x.ternary()
	if x.kind != arithAssign {
		return e
	}
	v, ok := e.(*ArithVar)
	if !ok {
		x.setError("attempted assignment to non-variable")
		return nil
	}
	op := x.op
	x.countOperator()
	x.nextToken()
	if x.kind == arithEnd {
		x.setError("syntax error: operand expected")
	}
	return &ArithAssign{Op: op, X: v, Y: x.assign()}
}

func (x *arithParser) ternary() ArithExpr {
	cond := x.binary(4)
	if x.kind != arithQuestion {
		return cond
	}
	x.countOperator()
	x.nextToken()
	if x.kind == arithEnd || x.kind == arithColon {
		x.setError("expression expected")
		return nil
	}
	yes := x.comma()
	if x.kind != arithColon {
		x.setError("`:' expected for conditional expression")
		return nil
	}
	x.nextToken()
	if x.kind == arithEnd {
		x.setError("expression expected")
		return nil
	}
	x.depth++
	defer func() { x.depth-- }()
	if x.depth > maxParens {
		x.setError("expression recursion level exceeded")
		return nil
	}
	return &ArithTernary{Cond: cond, X: yes, Y: x.ternary()}
}

// binary parses operators of at least precedence low.
func (x *arithParser) binary(low int8) ArithExpr {
	e := x.unary()
	for x.kind == arithOp && prec1(x.op) >= low {
		op := x.op
		x.countOperator()
		from := x.i
		x.nextToken()
		b := &ArithBinary{Op: op, X: e}
		if op == ArithPow {
			b.Y = x.power()
			b.Rest = x.textFrom(x.start)
		} else {
			b.Y = x.binary(prec1(op) + 1)
		}
		if op == ArithDiv || op == ArithRem {
			b.Rest = x.textFrom(from)
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

// textFrom returns the text from an offset on, without leading blanks.
func (x *arithParser) textFrom(from int) string {
	if from >= len(x.text) {
		return ""
	}
	return strings.TrimLeft(x.text[from:], " \t\n")
}

// power parses the right side of **, which is right-associative.
func (x *arithParser) power() ArithExpr {
	x.depth++
	defer func() { x.depth-- }()
	if x.depth > maxParens {
		x.setError("expression recursion level exceeded")
		return nil
	}
	return x.binary(prec[ArithPow])
}

func (x *arithParser) unary() ArithExpr {
	x.depth++
	defer func() { x.depth-- }()
	if x.depth > maxParens {
		x.setError("expression recursion level exceeded")
		return nil
	}
	switch x.kind {
	case arithOp:
		switch x.op {
		case ArithLNot, ArithNot, ArithAdd, ArithSub:
			op := x.op
			x.countOperator()
			x.nextToken()
			return &ArithUnary{Op: op, X: x.unary()}
		}
	case arithInc, arithDec:
		dec := x.kind == arithDec
		x.nextToken()
		v, ok := x.node.(*ArithVar)
		if x.kind != arithOperand || !ok {
			x.setError("identifier expected after pre-increment or pre-decrement")
			return nil
		}
		x.nextToken()
		x.countOperator()
		return &ArithIncDec{X: v, Dec: dec}
	}
	return x.primary()
}

func (x *arithParser) primary() ArithExpr {
	switch x.kind {
	case arithOpen:
		x.nextToken()
		e := x.comma()
		if x.kind != arithClose {
			x.setError("missing `)'")
			return nil
		}
		x.nextToken()
		return e
	case arithNumber:
		n := &ArithNum{Value: x.val}
		x.countOperator()
		x.nextToken()
		return n
	case arithOperand:
		e := x.node
		x.countOperator()
		x.nextToken()
		v, ok := e.(*ArithVar)
		if ok && (x.kind == arithInc || x.kind == arithDec) {
			e = &ArithIncDec{X: v, Dec: x.kind == arithDec, Post: true}
			x.nextToken()
		}
		return e
	}
	x.setError("syntax error: operand expected")
	return nil
}
