package awk

import (
	"slices"
	"strings"
)

// compiler compiles the tree into closures over one interpreter.
type compiler struct {
	in       *interp
	fn       *function // nil outside of functions
	line     int
	depth    int
	maxDepth int // greatest depth so far
}

// maxTree is the maximum depth of an expression's tree; a chain of operators is as deep as it is
// long.
const maxTree = 5000

// enterNesting counts a level of the tree.
func (c *compiler) enterNesting() {
	c.depth++
	c.maxDepth = max(c.maxDepth, c.depth)
	if c.depth > maxTree {
		c.in.fatal(c.line, "expression too long")
	}
	c.in.tick(1)
}

// leaveNesting ends a level of the tree.
func (c *compiler) leaveNesting() { c.depth-- }

// code is a compiled built-in; the field that is set is the class of its result.
type code struct {
	num numFn
	str strFn
	val valFn
}

// typeOf returns the class of an expression's values, or uninit if it isn't known.
func typeOf(e expr) class {
	switch e := e.(type) {
	case *numLit, *unaryExpr, *binaryExpr, *logicExpr, *match, *inExpr, *incExpr, *getlineExpr:
		return number
	case *strLit, *concat:
		return str
	case *regexLit:
		if !e.typed {
			return number
		}
	case *assignExpr:
		if e.op != tAssign {
			return number
		}
	case *groupExpr:
		if len(e.list) == 1 {
			return typeOf(e.list[0])
		}
	case *builtinExpr:
		return builtins[e.name].yields
	}
	return uninit
}

// compileValue compiles e to a function that returns its value.
func (c *compiler) compileValue(e expr) valFn {
	c.enterNesting()
	defer c.leaveNesting()
	switch typeOf(e) {
	case number:
		f := c.compileNum(e)
		return func() value { return value{n: f(), k: number} }
	case str:
		f := c.compileStr(e)
		return func() value { return value{s: f(), k: str} }
	}
	return c.compileMixed(e)
}

// compileMixed compiles an expression whose class is known only at run time.
func (c *compiler) compileMixed(e expr) valFn {
	in := c.in
	switch e := e.(type) {
	case *varRef:
		return c.compileVariable(e)
	case *indexRef:
		ptr := c.compileElement(e)
		return func() value { return *ptr() }
	case *fieldRef:
		return c.compileField(e)
	case *groupExpr:
		return c.compileValue(c.onlyExpr(e))
	case *condExpr:
		cond, a, b := c.compileCond(e.c), c.compileValue(e.a), c.compileValue(e.b)
		return func() value {
			if cond() {
				return a()
			}
			return b()
		}
	case *assignExpr:
		return c.compileAssign(e)
	case *callExpr:
		return c.compileCall(e)
	case *builtinExpr:
		return c.compileBuiltin(e).val
	case *regexLit:
		v := value{s: e.src, k: regexVal}
		return func() value { return v }
	}
	in.fatal(c.line, "expression of unknown kind %T", e)
	return nil
}

// onlyExpr returns the expression in parentheses, which must not be a list.
func (c *compiler) onlyExpr(g *groupExpr) expr {
	if len(g.list) != 1 {
		c.in.fatal(c.line, "list used as a value")
	}
	return g.list[0]
}

// compileNum compiles e to a function that returns its value as a number.
func (c *compiler) compileNum(e expr) numFn {
	c.enterNesting()
	defer c.leaveNesting()
	in := c.in
	switch e := e.(type) {
	case *numLit:
		n := e.v
		return func() float64 { return n }
	case *groupExpr:
		return c.compileNum(c.onlyExpr(e))
	case *unaryExpr:
		return c.compileUnary(e)
	case *binaryExpr:
		return c.compileBinary(e)
	case *logicExpr, *match, *inExpr:
		f := c.compileCond(e)
		return func() float64 { return boolNum(f()) }
	case *incExpr:
		return c.compileIncrement(e)
	case *assignExpr:
		return c.compileAssignNum(e)
	case *getlineExpr:
		return c.compileGetline(e)
	case *varRef:
		return c.compileVariableNum(e)
	case *fieldRef:
		return c.compileFieldNum(e)
	case *indexRef:
		ptr := c.compileElement(e)
		return func() float64 { return in.numOf(ptr()) }
	case *regexLit:
		if !e.typed {
			f := c.compileCond(e)
			return func() float64 { return boolNum(f()) }
		}
	case *condExpr:
		cond, a, b := c.compileCond(e.c), c.compileNum(e.a), c.compileNum(e.b)
		return func() float64 {
			if cond() {
				return a()
			}
			return b()
		}
	case *builtinExpr:
		if typeOf(e) == number {
			return c.compileBuiltin(e).num
		}
	}
	if typeOf(e) == str {
		f := c.compileStr(e)
		return func() float64 {
			v := strValue(f())
			in.tick(1)
			return in.numOf(&v)
		}
	}
	f := c.compileMixed(e)
	return func() float64 { v := f(); return in.numOf(&v) }
}

// compileStr compiles e to a function that returns its value as a string.
func (c *compiler) compileStr(e expr) strFn {
	c.enterNesting()
	defer c.leaveNesting()
	in := c.in
	switch e := e.(type) {
	case *strLit:
		s := e.s
		return func() string { return s }
	case *numLit:
		return c.compileConstant(e.v)
	case *groupExpr:
		return c.compileStr(c.onlyExpr(e))
	case *concat:
		return c.compileConcat(e.parts)
	case *fieldRef:
		return c.compileFieldText(e)
	case *indexRef:
		ptr := c.compileElement(e)
		return func() string { return ptr().asString(in.convfmt) }
	case *builtinExpr:
		if typeOf(e) == str {
			return c.compileBuiltin(e).str
		}
	}
	if typeOf(e) == number {
		f := c.compileNum(e)
		return func() string { return formatNumber(f(), in.convfmt) }
	}
	f := c.compileMixed(e)
	return func() string { v := f(); return v.asString(in.convfmt) }
}

// compileConstant compiles a number as a string. The text of an integer doesn't depend on CONVFMT.
func (c *compiler) compileConstant(n float64) strFn {
	in := c.in
	if n == float64(int64(n)) {
		s := formatNumber(n, "%.6g")
		return func() string { return s }
	}
	return func() string { return formatNumber(n, in.convfmt) }
}

// compileCond compiles e to a function that reports whether it is true.
func (c *compiler) compileCond(e expr) boolFn {
	c.enterNesting()
	defer c.leaveNesting()
	switch e := e.(type) {
	case *groupExpr:
		return c.compileCond(c.onlyExpr(e))
	case *logicExpr:
		l, r := c.compileCond(e.l), c.compileCond(e.r)
		if e.op == tAnd {
			return func() bool { return l() && r() }
		}
		return func() bool { return l() || r() }
	case *unaryExpr:
		if e.op == tNot {
			f := c.compileCond(e.e)
			return func() bool { return !f() }
		}
	case *regexLit:
		if !e.typed {
			return c.compileMatch(&match{l: &fieldRef{&numLit{0}}, r: e})
		}
	case *match:
		return c.compileMatch(e)
	case *inExpr:
		return c.compileIn(e)
	case *binaryExpr:
		if e.op >= tEQ && e.op <= tNE || e.op == tLT || e.op == tGT {
			return c.compileCompare(e)
		}
	}
	switch typeOf(e) {
	case number:
		f := c.compileNum(e)
		return func() bool { return f() != 0 }
	case str:
		f := c.compileStr(e)
		return func() bool { return f() != "" }
	}
	f := c.compileMixed(e)
	return func() bool { v := f(); return v.isTrue() }
}

// compileConcat compiles a concatenation.
func (c *compiler) compileConcat(parts []expr) strFn {
	in := c.in
	fs := make([]strFn, len(parts))
	for i, p := range parts {
		fs[i] = c.compileStr(p)
	}
	switch len(fs) {
	case 1:
		return fs[0]
	case 2:
		l, r := fs[0], fs[1]
		return func() string {
			a := l()
			b := r()
			in.chargeTemp(len(a) + len(b))
			return a + b
		}
	case 3:
		f, g, h := fs[0], fs[1], fs[2]
		return func() string {
			x := f()
			y := g()
			z := h()
			in.chargeTemp(len(x) + len(y) + len(z))
			return x + y + z
		}
	}
	return func() string {
		var few [8]string
		list := few[:0]
		if len(fs) > len(few) {
			in.chargeTemp(16 * len(fs))
			list = make([]string, 0, len(fs))
		}
		n := 0
		for _, f := range fs {
			s := f()
			n += len(s)
			list = append(list, s)
		}
		in.chargeTemp(n)
		return strings.Join(list, "")
	}
}

// staticRegex returns the source of a regular expression literal, and reports whether e is one.
func staticRegex(e expr) (string, bool) {
	if g, ok := e.(*groupExpr); ok && len(g.list) == 1 {
		e = g.list[0]
	}
	r, ok := e.(*regexLit)
	if !ok {
		return "", false
	}
	return r.src, true
}

// compileRegexSource compiles an expression used as a regular expression to a function that returns
// its source.
func (c *compiler) compileRegexSource(e expr) strFn {
	if src, ok := staticRegex(e); ok {
		c.in.checkRegex(src, c.line)
		return func() string { return src }
	}
	return c.compileStr(e)
}

// checkRegex exits with an error if a regular expression of the program is malformed.
func (in *interp) checkRegex(src string, line int) {
	if _, err := in.regexes.lookupRegex(src); err != nil {
		in.hasFailed, in.status = true, 1
		in.printMessage(line, "error: %s: /%s/", err, src)
		in.exitProgram()
	}
}

// compileMatch compiles the operators ~ and !~.
func (c *compiler) compileMatch(e *match) boolFn {
	in, line, not := c.in, c.line, e.not
	l, src := c.compileStr(e.l), c.compileRegexSource(e.r)
	var st regexSite
	return func() bool {
		s := l()
		return in.matchesIn(st.compiledFor(in, src(), line), s) != not
	}
}

// compileIn compiles the operator in.
func (c *compiler) compileIn(e *inExpr) boolFn {
	in := c.in
	arr := c.compileArray(e.arr)
	key := c.compileSubscript(e.subs)
	return func() bool {
		k := key()
		in.tick(1)
		return arr().find(k) != nil
	}
}

// compileCompare compiles a comparison to a condition.
func (c *compiler) compileCompare(e *binaryExpr) boolFn {
	lt, rt := typeOf(e.l), typeOf(e.r)
	if lt == number && rt == number {
		return compareNums(e.op, c.compileNum(e.l), c.compileNum(e.r))
	}
	in := c.in
	var order func() int
	if lt == str || rt == str {
		l, r := c.compileStr(e.l), c.compileStr(e.r)
		if e.op == tEQ {
			return func() bool {
				a := l()
				b := r()
				return a == b || in.ignoreCase && in.compareText(a, b) == 0
			}
		}
		order = func() int { a := l(); b := r(); in.tickBytes(min(len(a), len(b))); return in.compareText(a, b) }
	} else {
		l, r := c.compileValue(e.l), c.compileValue(e.r)
		order = func() int { a := l(); b := r(); return in.compare(&a, &b) }
	}
	switch e.op {
	case tEQ:
		return func() bool { return order() == 0 }
	case tNE:
		return func() bool { return order() != 0 }
	case tLT:
		return func() bool { return order() < 0 }
	case tLE:
		return func() bool { return order() <= 0 }
	case tGE:
		return func() bool { return order() >= 0 }
	}
	return func() bool { return order() > 0 }
}

// compareNums returns the condition for a comparison of numbers.
func compareNums(op kind, l, r numFn) boolFn {
	switch op {
	case tEQ:
		return func() bool { a := l(); return a == r() }
	case tNE:
		return func() bool { a := l(); return a != r() }
	case tLT:
		return func() bool { a := l(); return a < r() }
	case tLE:
		return func() bool { a := l(); return a <= r() }
	case tGE:
		return func() bool { a := l(); return a >= r() }
	}
	return func() bool { a := l(); return a > r() }
}

// compileSubscript compiles a list of subscripts to a key.
func (c *compiler) compileSubscript(subs []expr) strFn {
	if len(subs) == 1 {
		return c.compileStr(subs[0])
	}
	in := c.in
	fs := make([]strFn, len(subs))
	for i, s := range subs {
		fs[i] = c.compileStr(s)
	}
	return func() string {
		parts := make([]string, len(fs))
		n := 0
		for i, f := range fs {
			parts[i] = f()
			n += len(parts[i]) + len(in.subsep)
		}
		in.chargeTemp(n)
		return strings.Join(parts, in.subsep)
	}
}

// compileElement compiles an array element to a function that returns a pointer to its value; it
// creates the element if needed.
func (c *compiler) compileElement(e *indexRef) func() *value {
	find, in, line := c.compileElem(e), c.in, c.line
	return func() *value {
		x := find()
		if x.sub != nil {
			in.fatal(line, "attempt to use an array in a scalar context")
		}
		return &x.v
	}
}

// compileElem compiles an array element to a function that returns it.
func (c *compiler) compileElem(e *indexRef) func() *elem {
	in := c.in
	arr := c.compileArray(e.arr)
	if len(e.subs) == 1 && typeOf(e.subs[0]) != str {
		return c.compileElemByValue(arr, e.subs[0])
	}
	key := c.compileSubscript(e.subs)
	return func() *elem {
		k := key()
		return in.elemAt(arr(), k)
	}
}

// compileElemByValue compiles an element whose subscript may be a number.
func (c *compiler) compileElemByValue(arr func() *array, sub expr) func() *elem {
	in := c.in
	if typeOf(sub) == number {
		f := c.compileNum(sub)
		return func() *elem { return in.elemAtFloat(arr, f()) }
	}
	f := c.compileValue(sub)
	return func() *elem {
		v := f()
		if v.k == number {
			return in.elemAtFloat(arr, v.n)
		}
		return in.elemAt(arr(), v.s)
	}
}

// elemAtFloat returns the element with a number as subscript.
func (in *interp) elemAtFloat(arr func() *array, n float64) *elem {
	if i := int64(n); float64(i) == n && i > -1e14 && i < 1e14 {
		return in.elemAtNum(arr(), i)
	}
	return in.elemAt(arr(), formatNumber(n, in.convfmt))
}

// compileArray compiles a name or an element that is used as an array.
func (c *compiler) compileArray(e expr) func() *array {
	in, line := c.in, c.line
	switch e := e.(type) {
	case *groupExpr:
		return c.compileArray(c.onlyExpr(e))
	case *varRef:
		if e.sym.fn == nil {
			return c.compileGlobalArray(e.sym)
		}
		i, name := e.sym.index, e.sym.name
		return func() *array {
			s := &in.stack[in.fp+i]
			if s.arr == nil {
				if s.v.k != uninit {
					in.fatal(line, "attempt to use scalar parameter `%s' as an array", name)
				}
				s.arr, s.own = in.newArray(name), true
			}
			return s.arr
		}
	case *indexRef:
		find := c.compileElem(e)
		return func() *array {
			x := find()
			if x.sub == nil {
				if x.v.k != uninit {
					in.fatal(line, "attempt to use a scalar value as array")
				}
				x.sub = in.newArray("")
			}
			return x.sub
		}
	}
	in.fatal(line, "attempt to use a value as an array")
	return nil
}

// compileGlobalArray compiles a global that is used as an array.
func (c *compiler) compileGlobalArray(s *symbol) func() *array {
	in, line := c.in, c.line
	if s.array == nil {
		s.array = &array{name: s.name}
	}
	a := s.array
	if slices.Contains(scalarNames, s.name) {
		return func() *array {
			in.fatal(line, "attempt to use scalar `%s' as an array", s.name)
			return nil
		}
	}
	return func() *array {
		if s.cell != nil && s.cell.k != uninit {
			in.fatal(line, "attempt to use scalar `%s' as an array", s.name)
		}
		return a
	}
}
