package shell

import (
	"errors"
	"math/bits"
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll/shell/syntax"
)

// calc is a compiled arithmetic expression.
type calc func(in *interp) int64

// maxArithDepth limits how deep variables may refer to other expressions.
const maxArithDepth = 1024

// arithStop is the panic that unwinds a failed expression to tryArith.
type arithStop struct{}

// arith compiles an expression; if it fails, the command line is aborted.
func (c *compiler) arith(a *syntax.Arith) func(in *interp) int64 {
	f := c.arithExpr(a)
	return func(in *interp) int64 {
		if !in.recoverErrors {
			return f(in)
		}
		name := in.cmdName
		in.recoverErrors, in.cmdName = false, ""
		n := f(in)
		in.recoverErrors, in.cmdName = true, name
		return n
	}
}

// tryArith runs f; ok is false when it failed and printed an error.
func (in *interp) tryArith(f calc, prefix string) (n int64, ok bool) {
	trying, name, depth, nested := in.recoverErrors, in.cmdName, in.depth, in.nested
	in.recoverErrors, in.cmdName = true, prefix
	defer func() {
		in.recoverErrors, in.cmdName, in.depth, in.nested = trying, name, depth, nested
		if in.arithFailed {
			in.arithFailed = false
			_ = recover() // it is arithStop: no other panic leaves arithFailed set
		}
	}()
	return f(in), true
}

// arithFail reports an error of an expression and does not return.
func (in *interp) arithFail(err error) {
	text := in.arithMessage(err)
	if in.cmdName != "" {
		text = in.cmdName + ": " + text
	}
	in.errorf("%s", text)
	if in.recoverErrors {
		in.arithFailed = true
		panic(arithStop{})
	}
	in.abortArith()
}

// abortArith ends the command line with status 1 after a printed error.
func (in *interp) abortArith() {
	index := in.index
	in.depth, in.nested, in.index = 0, 0, false
	if index && (len(in.frames) == 0 || in.frames[0].fn != "main") {
		in.exitOnError(1) // bash abandons the whole text of -c
	}
	in.abortLine(1)
}

// arithMessage formats an error as bash does. The message about a malformed
// constant names only the constant.
func (in *interp) arithMessage(err error) string {
	var e *syntax.ArithError
	if !errors.As(err, &e) {
		return err.Error()
	}
	expr, token := trimStart(e.Expr), e.Token
	n := 0
	for n < len(token) && token[0] >= '0' && token[0] <= '9' && (isNameByte(token[n]) || token[n] == '#' || token[n] == '@') {
		n++
	}
	if n > 0 && (n < len(token) || n < len(expr)) {
		if _, err := syntax.ParseArith(token[:n], syntax.Options{}); err != nil {
			expr, token = token[:n], token[:n]
		}
	}
	expr, token = shorten(expr), shorten(token)
	if token == "" {
		return expr + ": " + e.Msg
	}
	return expr + ": " + e.Msg + ` (error token is "` + token + `")`
}

// evalText evaluates text after its expansion.
func (in *interp) evalText(text string) int64 {
	in.chargeWork(1 + len(text)>>6)
	if n, ok := plainInt(text); ok {
		return n
	}
	expr, err := syntax.ParseArith(text, in.valueOptions())
	if err != nil {
		in.arithFail(err)
	}
	if expr == nil {
		return 0
	}
	in.arithLevel(text)
	ac := &arithCompiler{c: &compiler{}, text: text}
	n := ac.expr(expr)(in)
	in.depth--
	return n
}

// plainInt parses a decimal number in the form that most variables have.
func plainInt(s string) (int64, bool) {
	neg := len(s) > 1 && s[0] == '-'
	d := s
	if neg {
		d = s[1:]
	}
	if d == "" || len(d) > 18 || d[0] == '0' && len(d) > 1 {
		return 0, s == ""
	}
	var n int64
	for i := 0; i < len(d); i++ {
		if d[i] < '0' || d[i] > '9' {
			return 0, false
		}
		n = n*10 + int64(d[i]-'0')
	}
	if neg {
		n = -n
	}
	return n, true
}

// arithExpr compiles an expression with expansions: see syntax.Arith.
func (c *compiler) arithExpr(a *syntax.Arith) calc {
	if a == nil {
		return func(*interp) int64 { return 0 }
	}
	if a.Err != nil {
		err := a.Err
		return func(in *interp) int64 {
			in.arithFail(err)
			return 0
		}
	}
	text := c.arithText(a.Word)
	dynamic := func(in *interp) int64 {
		in.chargeWork(1)
		return in.evalText(text(in))
	}
	if a.Expr == nil {
		if strings.TrimSpace(a.Raw) == "" {
			return func(*interp) int64 { return 0 }
		}
		return dynamic
	}
	ac := &arithCompiler{c: c, text: a.Raw}
	f := ac.expr(a.Expr)
	if len(a.Dollars) == 0 {
		return f
	}
	return c.withDollars(a, f)
}

// withDollars runs f with the values of the expansions in the expression if
// all of them are numbers; other values form a new expression.
func (c *compiler) withDollars(a *syntax.Arith, f calc) calc {
	parts := make([]func(in *interp) string, len(a.Dollars))
	for i, d := range a.Dollars {
		parts[i] = c.arithText(&syntax.Word{Pos: a.Pos, Parts: []syntax.Part{d}})
	}
	lits := make([]string, 0, len(parts)+1)
	lits = append(lits, splitAround(a)...)
	return func(in *interp) int64 {
		var few [4]int64
		var vals []int64
		if len(parts) <= len(few) {
			vals = few[:len(parts)]
		} else {
			vals = make([]int64, len(parts))
		}
		texts, plain := in.dollarTexts(parts, vals)
		if plain {
			saved := in.dollars
			in.dollars = append([]int64(nil), vals...)
			n := f(in)
			in.dollars = saved
			return n
		}
		var b strings.Builder
		for i, t := range texts {
			b.WriteString(lits[i])
			b.WriteString(t)
		}
		b.WriteString(lits[len(texts)])
		in.chargeWork(1 + b.Len()>>4)
		return in.evalText(b.String())
	}
}

// dollarTexts expands the expansions of an expression; plain reports whether
// all of them are decimal numbers without a sign.
func (in *interp) dollarTexts(parts []func(in *interp) string, vals []int64) (texts []string, plain bool) {
	plain = true
	texts = make([]string, len(parts))
	for i, p := range parts {
		texts[i] = p(in)
		n, ok := plainInt(texts[i])
		if !ok || texts[i] == "" || n < 0 || texts[i][0] == '-' {
			plain = false
		}
		vals[i] = n
	}
	return texts, plain
}

// splitAround returns the text of the expression between its expansions.
func splitAround(a *syntax.Arith) []string {
	lits := []string{""}
	for _, p := range a.Word.Parts {
		if l, ok := p.(*syntax.Lit); ok {
			lits[len(lits)-1] += l.Value
		} else {
			lits = append(lits, "")
		}
	}
	return lits
}

// arithCompiler compiles one expression. Its methods are named for the nodes.
type arithCompiler struct {
	c    *compiler
	text string
	divs int // number of divisions so far, to find their text
}

func (ac *arithCompiler) expr(e syntax.ArithExpr) calc {
	switch e := e.(type) {
	case nil:
		return func(*interp) int64 { return 0 }
	case *syntax.ArithNum:
		n := e.Value
		return func(*interp) int64 { return n }
	case *syntax.ArithVar:
		return ac.variable(e)
	case *syntax.ArithDollar:
		i := e.N
		return func(in *interp) int64 { return in.dollars[i] }
	case *syntax.ArithUnary:
		return ac.unary(e)
	case *syntax.ArithIncDec:
		return ac.incDec(e)
	case *syntax.ArithBinary:
		return ac.binary(e)
	case *syntax.ArithAssign:
		return ac.assign(e)
	case *syntax.ArithTernary:
		cond, x, y := ac.expr(e.Cond), ac.expr(e.X), ac.expr(e.Y)
		return func(in *interp) int64 {
			if cond(in) != 0 {
				return x(in)
			}
			return y(in)
		}
	}
	panic("shell: unknown expression in the tree")
}

func (ac *arithCompiler) unary(e *syntax.ArithUnary) calc {
	x := ac.expr(e.X)
	switch e.Op {
	case syntax.ArithSub:
		return func(in *interp) int64 { return -x(in) }
	case syntax.ArithNot:
		return func(in *interp) int64 { return ^x(in) }
	case syntax.ArithLNot:
		return func(in *interp) int64 { return boolToInt(x(in) == 0) }
	}
	return x
}

func boolToInt(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// lvalue is a variable or element that an expression reads and writes.
type lvalue struct {
	r       ref
	get     func(in *interp) int64
	resolve func(in *interp) ref // evaluates the subscript of r once; nil if there is none
}

func (ac *arithCompiler) lvalue(x *syntax.ArithVar) lvalue {
	l := lvalue{r: ref{name: x.Name, sub: ac.c.subscript(x.Index)}}
	l.get = ac.variable(x)
	if l.r.sub != nil && l.r.sub.all == 0 {
		l.resolve = l.evalSubscriptOnce
	}
	return l
}

// evalSubscriptOnce evaluates the subscript, so that reading and writing use
// the same element.
func (l *lvalue) evalSubscriptOnce(in *interp) ref {
	v, t, ok := in.find(ref{name: l.r.name})
	if ok && t.sub == nil && v != nil && v.attrs&attrAssoc != 0 {
		return ref{name: l.r.name, sub: constKey(l.r.sub.key(in))}
	}
	return ref{name: l.r.name, sub: constIndex(l.r.sub.num(in))}
}

// variable compiles reading a variable.
func (ac *arithCompiler) variable(x *syntax.ArithVar) calc {
	name := x.Name
	if x.Index == nil {
		return func(in *interp) int64 {
			if v := in.m[name]; v != nil && v.num && v.attrs&attrNameref == 0 {
				return v.n
			}
			return in.arithVar(name)
		}
	}
	r := ref{name: name, sub: ac.c.subscript(x.Index)}
	return func(in *interp) int64 { return in.arithElem(r) }
}

func (in *interp) arithVar(name string) int64 {
	in.refLevel(name)
	s, ok := in.get(name)
	in.nested--
	if !ok {
		in.arithUnset(name)
		return 0
	}
	return in.evalText(s)
}

// arithLevel increments in.depth, the nesting of expressions in variables.
func (in *interp) arithLevel(text string) {
	if in.depth++; in.depth > maxArithDepth {
		in.tooDeep(text)
	}
}

// refLevel increments in.nested, the nesting of subscripts.
func (in *interp) refLevel(name string) {
	if in.nested++; in.nested > maxArithDepth {
		in.tooDeep(name)
	}
}

func (in *interp) tooDeep(text string) {
	in.depth, in.nested = 0, 0
	in.arithFail(&syntax.ArithError{Expr: text, Msg: "expression recursion level exceeded", Token: text})
}

func (in *interp) arithElem(r ref) int64 {
	in.refLevel(r.name)
	s, ok := in.refText(r)
	in.nested--
	if !ok {
		if in.lookupVar(r.name) == nil {
			in.arithUnset(r.name)
		}
		return 0
	}
	return in.evalText(s)
}

func (in *interp) arithUnset(name string) {
	if in.optOn(optNounset) {
		in.errorf("%s: unbound variable", name)
		in.exitOnError(in.unboundStatus())
	}
}

// arithStore assigns the result of an expression.
func (in *interp) arithStore(r ref, n int64) {
	ok := false
	if r.sub == nil {
		ok = in.setInt(r.name, n)
	} else {
		ok = in.assignRef(r, strconv.FormatInt(n, 10), false)
	}
	if !ok {
		if in.recoverErrors {
			in.arithFailed = true
			panic(arithStop{})
		}
		in.abortArith()
	}
}

func (ac *arithCompiler) incDec(e *syntax.ArithIncDec) calc {
	l := ac.lvalue(e.X)
	delta := int64(1)
	if e.Dec {
		delta = -1
	}
	post := int64(0)
	if e.Post {
		post = delta
	}
	if l.resolve == nil {
		r, get := l.r, l.get
		return func(in *interp) int64 {
			n := get(in) + delta
			in.arithStore(r, n)
			return n - post
		}
	}
	return func(in *interp) int64 {
		r := l.resolve(in)
		n := in.arithElem(r) + delta
		in.arithStore(r, n)
		return n - post
	}
}

func (ac *arithCompiler) assign(e *syntax.ArithAssign) calc {
	l := ac.lvalue(e.X)
	k := ac.countDivision(e.Op)
	y := ac.expr(e.Y)
	if e.Op == syntax.ArithNone {
		return func(in *interp) int64 {
			n := y(in)
			in.arithStore(l.r, n)
			return n
		}
	}
	op := ac.binaryOp(e.Op, k, true)
	return func(in *interp) int64 {
		r, old := l.r, int64(0)
		if l.resolve != nil {
			r = l.resolve(in)
			old = in.arithElem(r)
		} else {
			old = l.get(in)
		}
		n := op(in, old, y(in))
		in.arithStore(r, n)
		return n
	}
}

func (ac *arithCompiler) binary(e *syntax.ArithBinary) calc {
	x := ac.expr(e.X)
	k := ac.countDivision(e.Op)
	y := ac.expr(e.Y)
	switch e.Op {
	case syntax.ArithAdd:
		return func(in *interp) int64 { return x(in) + y(in) }
	case syntax.ArithSub:
		return func(in *interp) int64 { return x(in) - y(in) }
	case syntax.ArithMul:
		return func(in *interp) int64 { return x(in) * y(in) }
	case syntax.ArithLt:
		if n, ok := e.Y.(*syntax.ArithNum); ok {
			limit := n.Value
			return func(in *interp) int64 { return boolToInt(x(in) < limit) }
		}
		return func(in *interp) int64 { return boolToInt(x(in) < y(in)) }
	case syntax.ArithLAnd:
		return func(in *interp) int64 { return boolToInt(x(in) != 0 && y(in) != 0) }
	case syntax.ArithLOr:
		return func(in *interp) int64 { return boolToInt(x(in) != 0 || y(in) != 0) }
	case syntax.ArithComma:
		return func(in *interp) int64 {
			x(in)
			return y(in)
		}
	}
	op := ac.binaryOp(e.Op, k, false)
	return func(in *interp) int64 {
		a := x(in)
		return op(in, a, y(in))
	}
}

// binaryOp returns the function of a binary operator; k is the number of
// divisions up to it.
func (ac *arithCompiler) binaryOp(op syntax.ArithOp, k int, assign bool) func(in *interp, a, b int64) int64 {
	text := ac.text
	if op == syntax.ArithDiv || op == syntax.ArithRem {
		return func(in *interp, a, b int64) int64 {
			if b == 0 {
				in.arithFail(&syntax.ArithError{
					Expr: trimStart(text), Msg: "division by 0", Token: divisorText(text, k, assign),
				})
			}
			if op == syntax.ArithDiv {
				return a / b
			}
			return a % b
		}
	}
	if op == syntax.ArithPow {
		return func(in *interp, a, b int64) int64 {
			if b < 0 {
				in.arithFail(&syntax.ArithError{
					Expr: trimStart(text), Msg: "exponent less than 0", Token: afterExponent(text, k),
				})
			}
			return intPower(a, b)
		}
	}
	f := plainOperator(op)
	return func(_ *interp, a, b int64) int64 { return f(a, b) }
}

func plainOperator(op syntax.ArithOp) func(a, b int64) int64 {
	switch op {
	case syntax.ArithAdd:
		return func(a, b int64) int64 { return a + b }
	case syntax.ArithSub:
		return func(a, b int64) int64 { return a - b }
	case syntax.ArithMul:
		return func(a, b int64) int64 { return a * b }
	case syntax.ArithShl:
		return func(a, b int64) int64 { return a << (uint64(b) & 63) }
	case syntax.ArithShr:
		return func(a, b int64) int64 { return a >> (uint64(b) & 63) }
	case syntax.ArithAnd:
		return func(a, b int64) int64 { return a & b }
	case syntax.ArithOr:
		return func(a, b int64) int64 { return a | b }
	case syntax.ArithXor:
		return func(a, b int64) int64 { return a ^ b }
	case syntax.ArithEq:
		return func(a, b int64) int64 { return boolToInt(a == b) }
	case syntax.ArithNe:
		return func(a, b int64) int64 { return boolToInt(a != b) }
	case syntax.ArithLt:
		return func(a, b int64) int64 { return boolToInt(a < b) }
	case syntax.ArithLe:
		return func(a, b int64) int64 { return boolToInt(a <= b) }
	case syntax.ArithGt:
		return func(a, b int64) int64 { return boolToInt(a > b) }
	case syntax.ArithGe:
		return func(a, b int64) int64 { return boolToInt(a >= b) }
	}
	return func(_, b int64) int64 { return b }
}

// intPower computes a to the power of b, with the overflow of repeated
// multiplication.
func intPower(a, b int64) int64 {
	n := int64(1)
	for range bits.Len64(uint64(b)) {
		if b&1 != 0 {
			n *= a
		}
		a *= a
		b >>= 1
	}
	return n
}

// countDivision counts the operators / % and ** in the order of the text.
func (ac *arithCompiler) countDivision(op syntax.ArithOp) int {
	if op == syntax.ArithDiv || op == syntax.ArithRem || op == syntax.ArithPow {
		ac.divs++
	}
	return ac.divs
}

// operatorAt returns the end of the k-th operator / % or ** in the text.
func operatorAt(text string, k int) int {
	depth := 0
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '[':
			depth++
		case c == ']':
			depth--
		case depth > 0:
		case c == '*' && i+1 < len(text) && text[i+1] == '*':
			i++
			k--
		case c == '/' || c == '%':
			k--
		}
		if k == 0 {
			return i + 1
		}
	}
	return len(text)
}

func trimStart(s string) string { return strings.TrimLeft(s, " \t\n") }

// divisorText returns the text that an error about the k-th division shows.
func divisorText(text string, k int, assign bool) string {
	rest := text[operatorAt(text, k):]
	if !assign {
		return trimStart(rest)
	}
	rest = trimStart(strings.TrimPrefix(rest, "="))
	i := 0
	for i < len(rest) && isNameByte(rest[i]) {
		i++
	}
	if after := trimStart(rest[i:]); after != "" {
		return after
	}
	return rest
}

// afterExponent returns the text that an error about an exponent shows: the
// token after it, or the last one.
func afterExponent(text string, k int) string {
	rest := trimStart(text[operatorAt(text, k):])
	i := 0
	for i < len(rest) && strings.IndexByte("+-~! \t(", rest[i]) >= 0 {
		i++
	}
	start := i
	for i < len(rest) && isNameByte(rest[i]) {
		i++
	}
	if after := trimStart(rest[i:]); after != "" {
		return after
	}
	return rest[start:]
}
