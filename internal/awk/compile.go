package awk

import (
	"slices"
	"strings"
)

// compiler turns the tree into closures over one interpreter.
type compiler struct {
	in    *interp
	fn    *function // nil outside of functions
	line  int
	depth int
	most  int // the deepest seen
}

// maxTree bounds how deep the tree of an expression may be: chains of
// operators are as deep as they are long.
const maxTree = 5000

func (c *compiler) enter() {
	c.depth++
	c.most = max(c.most, c.depth)
	if c.depth > maxTree {
		c.in.fatal(c.line, "expression too long")
	}
	c.in.tick(1)
}

func (c *compiler) leave() { c.depth-- }

// code is a compiled built-in: the one field that is set says what it yields.
type code struct {
	num numFn
	str strFn
	val valFn
}

// typeOf says what an expression always yields, uninit if that is not known.
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

// val compiles e for its value.
func (c *compiler) val(e expr) valFn {
	c.enter()
	defer c.leave()
	switch typeOf(e) {
	case number:
		f := c.num(e)
		return func() value { return value{n: f(), k: number} }
	case str:
		f := c.str(e)
		return func() value { return value{s: f(), k: str} }
	}
	return c.mixed(e)
}

// mixed compiles an expression whose type is known only at run time.
func (c *compiler) mixed(e expr) valFn {
	in := c.in
	switch e := e.(type) {
	case *varRef:
		return c.variable(e)
	case *indexRef:
		ptr := c.element(e)
		return func() value { return *ptr() }
	case *fieldRef:
		return c.field(e)
	case *groupExpr:
		return c.val(c.only(e))
	case *condExpr:
		cond, a, b := c.cond(e.c), c.val(e.a), c.val(e.b)
		return func() value {
			if cond() {
				return a()
			}
			return b()
		}
	case *assignExpr:
		return c.assign(e)
	case *callExpr:
		return c.call(e)
	case *builtinExpr:
		return c.builtin(e).val
	case *regexLit:
		v := value{s: e.src, k: regexVal}
		return func() value { return v }
	}
	in.fatal(c.line, "expression of unknown kind %T", e)
	return nil
}

func (c *compiler) only(g *groupExpr) expr {
	if len(g.list) != 1 {
		c.in.fatal(c.line, "list used as a value")
	}
	return g.list[0]
}

// num compiles e for its value as a number.
func (c *compiler) num(e expr) numFn {
	c.enter()
	defer c.leave()
	in := c.in
	switch e := e.(type) {
	case *numLit:
		n := e.v
		return func() float64 { return n }
	case *groupExpr:
		return c.num(c.only(e))
	case *unaryExpr:
		return c.unary(e)
	case *binaryExpr:
		return c.binary(e)
	case *logicExpr, *match, *inExpr:
		f := c.cond(e)
		return func() float64 { return boolNum(f()) }
	case *incExpr:
		return c.increment(e)
	case *assignExpr:
		return c.assignNum(e)
	case *getlineExpr:
		return c.getline(e)
	case *varRef:
		return c.variableNum(e)
	case *fieldRef:
		return c.fieldNum(e)
	case *indexRef:
		ptr := c.element(e)
		return func() float64 { return in.numOf(ptr()) }
	case *regexLit:
		if !e.typed {
			f := c.cond(e)
			return func() float64 { return boolNum(f()) }
		}
	case *condExpr:
		cond, a, b := c.cond(e.c), c.num(e.a), c.num(e.b)
		return func() float64 {
			if cond() {
				return a()
			}
			return b()
		}
	case *builtinExpr:
		if typeOf(e) == number {
			return c.builtin(e).num
		}
	}
	if typeOf(e) == str {
		f := c.str(e)
		return func() float64 {
			v := strValue(f())
			in.tick(1)
			return in.numOf(&v)
		}
	}
	f := c.mixed(e)
	return func() float64 { v := f(); return in.numOf(&v) }
}

// str compiles e for its value as a string.
func (c *compiler) str(e expr) strFn {
	c.enter()
	defer c.leave()
	in := c.in
	switch e := e.(type) {
	case *strLit:
		s := e.s
		return func() string { return s }
	case *numLit:
		return c.constant(e.v)
	case *groupExpr:
		return c.str(c.only(e))
	case *concat:
		return c.concat(e.parts)
	case *fieldRef:
		return c.fieldText(e)
	case *indexRef:
		ptr := c.element(e)
		return func() string { return ptr().str(in.convfmt) }
	case *builtinExpr:
		if typeOf(e) == str {
			return c.builtin(e).str
		}
	}
	if typeOf(e) == number {
		f := c.num(e)
		return func() string { return formatNumber(f(), in.convfmt) }
	}
	f := c.mixed(e)
	return func() string { v := f(); return v.str(in.convfmt) }
}

// constant compiles a number as a string. Integers never change their form.
func (c *compiler) constant(n float64) strFn {
	in := c.in
	if n == float64(int64(n)) {
		s := formatNumber(n, "%.6g")
		return func() string { return s }
	}
	return func() string { return formatNumber(n, in.convfmt) }
}

// cond compiles e for whether it is true.
func (c *compiler) cond(e expr) boolFn {
	c.enter()
	defer c.leave()
	switch e := e.(type) {
	case *groupExpr:
		return c.cond(c.only(e))
	case *logicExpr:
		l, r := c.cond(e.l), c.cond(e.r)
		if e.op == tAnd {
			return func() bool { return l() && r() }
		}
		return func() bool { return l() || r() }
	case *unaryExpr:
		if e.op == tNot {
			f := c.cond(e.e)
			return func() bool { return !f() }
		}
	case *regexLit:
		if !e.typed {
			return c.matchOf(&match{l: &fieldRef{&numLit{0}}, r: e})
		}
	case *match:
		return c.matchOf(e)
	case *inExpr:
		return c.member(e)
	case *binaryExpr:
		if e.op >= tEQ && e.op <= tNE || e.op == tLT || e.op == tGT {
			return c.compare(e)
		}
	}
	switch typeOf(e) {
	case number:
		f := c.num(e)
		return func() bool { return f() != 0 }
	case str:
		f := c.str(e)
		return func() bool { return f() != "" }
	}
	f := c.mixed(e)
	return func() bool { v := f(); return v.truth() }
}

// concat compiles operands side by side.
func (c *compiler) concat(parts []expr) strFn {
	in := c.in
	fs := make([]strFn, len(parts))
	for i, p := range parts {
		fs[i] = c.str(p)
	}
	switch len(fs) {
	case 1:
		return fs[0]
	case 2:
		l, r := fs[0], fs[1]
		return func() string {
			a := l()
			b := r()
			in.reserve(len(a) + len(b))
			return a + b
		}
	case 3:
		f, g, h := fs[0], fs[1], fs[2]
		return func() string {
			x := f()
			y := g()
			z := h()
			in.reserve(len(x) + len(y) + len(z))
			return x + y + z
		}
	}
	return func() string {
		var few [8]string
		list := few[:0]
		n := 0
		for _, f := range fs {
			s := f()
			n += len(s)
			list = append(list, s)
		}
		in.reserve(n)
		return strings.Join(list, "")
	}
}

// staticRegex returns the source of an expression that is a regular
// expression in the program's text.
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

// regex compiles an expression used as a regular expression to a function
// that returns its source.
func (c *compiler) regexSource(e expr) strFn {
	if src, ok := staticRegex(e); ok {
		c.in.checkRegex(src, c.line)
		return func() string { return src }
	}
	return c.str(e)
}

// checkRegex refuses a regular expression of the program's text that is bad.
func (in *interp) checkRegex(src string, line int) {
	if _, err := in.regexes.lookup(src); err != nil {
		in.fataled, in.status = true, 1
		in.message(line, "error: %s: /%s/", err, src)
		in.exit()
	}
}

func (c *compiler) matchOf(e *match) boolFn {
	in, line, not := c.in, c.line, e.not
	l, src := c.str(e.l), c.regexSource(e.r)
	var st site
	return func() bool {
		s := l()
		return in.matches(st.at(in, src(), line), s) != not
	}
}

func (c *compiler) member(e *inExpr) boolFn {
	in := c.in
	arr := c.array(e.arr)
	key := c.subscript(e.subs)
	return func() bool {
		k := key()
		in.tick(1)
		return arr().find(k) != nil
	}
}

// compare compiles a comparison to a condition.
func (c *compiler) compare(e *binaryExpr) boolFn {
	lt, rt := typeOf(e.l), typeOf(e.r)
	if lt == number && rt == number {
		return compareNums(e.op, c.num(e.l), c.num(e.r))
	}
	in := c.in
	var order func() int
	if lt == str || rt == str {
		l, r := c.str(e.l), c.str(e.r)
		if e.op == tEQ {
			return func() bool {
				a := l()
				b := r()
				return a == b || in.ignoreCase && in.compareText(a, b) == 0
			}
		}
		order = func() int { a := l(); b := r(); in.work(min(len(a), len(b))); return in.compareText(a, b) }
	} else {
		l, r := c.val(e.l), c.val(e.r)
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

// subscript compiles subscripts to a key.
func (c *compiler) subscript(subs []expr) strFn {
	if len(subs) == 1 {
		return c.str(subs[0])
	}
	in := c.in
	fs := make([]strFn, len(subs))
	for i, s := range subs {
		fs[i] = c.str(s)
	}
	return func() string {
		parts := make([]string, len(fs))
		n := 0
		for i, f := range fs {
			parts[i] = f()
			n += len(parts[i]) + len(in.subsep)
		}
		in.reserve(n)
		return strings.Join(parts, in.subsep)
	}
}

// element compiles a subscripted array to a function that returns where the
// element's value is, made if need be.
func (c *compiler) element(e *indexRef) func() *value {
	find, in, line := c.elem(e), c.in, c.line
	return func() *value {
		x := find()
		if x.sub != nil {
			in.fatal(line, "attempt to use an array in a scalar context")
		}
		return &x.v
	}
}

func (c *compiler) elem(e *indexRef) func() *elem {
	in := c.in
	arr := c.array(e.arr)
	if len(e.subs) == 1 && typeOf(e.subs[0]) != str {
		return c.elemByValue(arr, e.subs[0])
	}
	key := c.subscript(e.subs)
	return func() *elem {
		k := key()
		return in.at(arr(), k)
	}
}

// elemByValue finds an element by a subscript that may be a number.
func (c *compiler) elemByValue(arr func() *array, sub expr) func() *elem {
	in := c.in
	if typeOf(sub) == number {
		f := c.num(sub)
		return func() *elem { return in.atFloat(arr, f()) }
	}
	f := c.val(sub)
	return func() *elem {
		v := f()
		if v.k == number {
			return in.atFloat(arr, v.n)
		}
		return in.at(arr(), v.s)
	}
}

func (in *interp) atFloat(arr func() *array, n float64) *elem {
	if i := int64(n); float64(i) == n && i > -1e14 && i < 1e14 {
		return in.atNum(arr(), i)
	}
	return in.at(arr(), formatNumber(n, in.convfmt))
}

// array compiles a name or an element used as an array.
func (c *compiler) array(e expr) func() *array {
	in, line := c.in, c.line
	switch e := e.(type) {
	case *groupExpr:
		return c.array(c.only(e))
	case *varRef:
		if e.sym.fn == nil {
			return c.globalArray(e.sym)
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
		find := c.elem(e)
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

func (c *compiler) globalArray(s *symbol) func() *array {
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
