package awk

import (
	"math"
	"math/rand"
)

// builtin is a built-in function: its number of arguments, the indices of those that are arrays,
// and the class of its results.
type builtin struct {
	min, max int
	arrays   []int
	yields   class
}

// builtins are the built-in functions.
var builtins = map[string]builtin{
	"length": {0, 1, nil, number}, "substr": {2, 3, nil, str}, "index": {2, 2, nil, number},
	"split": {2, 4, []int{1, 3}, number}, "patsplit": {2, 4, []int{1, 3}, number},
	"sub": {2, 3, nil, number}, "gsub": {2, 3, nil, number}, "gensub": {3, 4, nil, str},
	"match": {2, 3, []int{2}, number}, "sprintf": {1, 1 << 20, nil, str},
	"tolower": {1, 1, nil, str}, "toupper": {1, 1, nil, str},
	"sin": {1, 1, nil, number}, "cos": {1, 1, nil, number}, "atan2": {2, 2, nil, number},
	"exp": {1, 1, nil, number}, "log": {1, 1, nil, number}, "sqrt": {1, 1, nil, number},
	"int": {1, 1, nil, number}, "rand": {0, 0, nil, number}, "srand": {0, 1, nil, number},
	"system": {1, 1, nil, number}, "close": {1, 2, nil, number}, "fflush": {0, 1, nil, number},
	"systime": {0, 0, nil, number}, "strftime": {0, 3, nil, str}, "mktime": {1, 2, nil, number},
	"and": {2, 1 << 20, nil, number}, "or": {2, 1 << 20, nil, number}, "xor": {2, 1 << 20, nil, number},
	"lshift": {2, 2, nil, number}, "rshift": {2, 2, nil, number}, "compl": {1, 1, nil, number},
	"strtonum": {1, 1, nil, number}, "asort": {1, 3, []int{0, 1}, number}, "asorti": {1, 3, []int{0, 1}, number},
	"isarray": {1, 1, nil, number}, "typeof": {1, 2, nil, str}, "mkbool": {1, 1, nil, number},
	"dcgettext": {1, 3, nil, str}, "bindtextdomain": {1, 2, nil, str},
}

// compileBuiltin compiles a call of a built-in function.
func (c *compiler) compileBuiltin(e *builtinExpr) code {
	c.line = max(c.line, e.line)
	switch e.name {
	case "length":
		return code{num: c.compileLength(e)}
	case "substr":
		return code{str: c.compileSubstr(e)}
	case "index":
		return code{num: c.compileIndex(e)}
	case "split", "patsplit":
		return code{num: c.compileSplit(e)}
	case "sub", "gsub":
		return code{num: c.compileSubstitute(e)}
	case "gensub":
		return code{str: c.compileGensub(e)}
	case "match":
		return code{num: c.compileMatchFunc(e)}
	case "sprintf":
		return code{str: c.compileSprintf(e)}
	case "tolower", "toupper":
		return code{str: c.compileChangeCase(e)}
	case "and", "or", "xor", "lshift", "rshift", "compl":
		return code{num: c.compileBits(e)}
	case "system", "close", "fflush":
		return code{num: c.compileIO(e)}
	case "strftime":
		return code{str: c.compileStrftime(e)}
	case "systime", "mktime":
		return code{num: c.compileTimeFunc(e)}
	case "asort", "asorti":
		return code{num: c.compileAsort(e)}
	case "isarray":
		f := c.compileTypeof(e.args[0])
		return code{num: func() float64 { return boolNum(f() == "array") }}
	case "typeof":
		return code{str: c.compileTypeof(e.args[0])}
	case "dcgettext", "bindtextdomain":
		return code{str: c.compileStr(e.args[0])}
	}
	return code{num: c.compileMath(e)}
}

// compileMath compiles functions of numbers.
func (c *compiler) compileMath(e *builtinExpr) numFn {
	in, line := c.in, c.line
	switch e.name {
	case "rand":
		return func() float64 { return in.randomSource().Float64() }
	case "srand":
		return c.compileSrand(e)
	case "atan2":
		y, x := c.compileNum(e.args[0]), c.compileNum(e.args[1])
		return func() float64 { a := y(); return math.Atan2(a, x()) }
	case "strtonum":
		f := c.compileValue(e.args[0])
		return func() float64 { v := f(); return strtonum(v) }
	}
	f := c.compileNum(e.args[0])
	switch e.name {
	case "sin":
		return func() float64 { return math.Sin(f()) }
	case "cos":
		return func() float64 { return math.Cos(f()) }
	case "exp":
		return func() float64 { return math.Exp(f()) }
	case "log":
		return func() float64 {
			n := f()
			if n < 0 {
				in.printWarning(line, "log: received negative argument %s", formatNumber(n, "%.6g"))
				return math.Copysign(math.NaN(), -1)
			}
			return math.Log(n)
		}
	case "sqrt":
		return func() float64 {
			n := f()
			if n < 0 {
				in.printWarning(line, "sqrt: called with negative argument %s", formatNumber(n, "%.6g"))
				return math.Copysign(math.NaN(), -1)
			}
			return math.Sqrt(n)
		}
	case "mkbool":
		return func() float64 { return boolNum(f() != 0) }
	}
	return func() float64 { return math.Trunc(f()) }
}

// randomSource returns the generator of rand, with seed 0 at first.
func (in *interp) randomSource() *rand.Rand {
	if in.rnd == nil {
		in.rnd = rand.New(rand.NewSource(0))
	}
	return in.rnd
}

// compileSrand compiles srand.
func (c *compiler) compileSrand(e *builtinExpr) numFn {
	in := c.in
	seed := func() float64 { return float64(in.currentTime().Unix()) }
	if len(e.args) == 1 {
		seed = c.compileNum(e.args[0])
	}
	return func() float64 {
		old := in.seed
		in.seed = seed()
		in.rnd = rand.New(rand.NewSource(int64(in.seed)))
		return old
	}
}

// strtonum converts to a number; it also accepts hexadecimal and octal numbers.
func strtonum(v value) float64 {
	if v.k == number {
		return v.n
	}
	if s := v.s; len(s) > 1 && s[0] == '0' && (s[1]|0x20 == 'x' || isDigit(s[1])) {
		_, n := scanSourceNumber(s)
		return n
	}
	return toNumber(v.s)
}

// isArray reports whether an argument is the name of an array.
func (c *compiler) isArray(e expr) bool {
	v, ok := e.(*varRef)
	return ok && (v.sym.kind == symArray || v.sym.kind == symBoth)
}

// compileLength compiles length.
func (c *compiler) compileLength(e *builtinExpr) numFn {
	in := c.in
	if len(e.args) == 0 {
		return func() float64 { return float64(in.charCount(in.recordText())) }
	}
	a := e.args[0]
	if g, ok := a.(*groupExpr); ok && len(g.list) == 1 {
		a = g.list[0]
	}
	if ix, ok := a.(*indexRef); ok {
		find := c.compileElem(ix)
		return func() float64 {
			x := find()
			if x.sub != nil {
				return float64(x.sub.len())
			}
			return float64(in.charCount(x.v.asString(in.convfmt)))
		}
	}
	if v, ok := a.(*varRef); ok && v.sym.fn != nil {
		i := v.sym.index
		return func() float64 {
			s := &in.stack[in.fp+i]
			if s.arr != nil {
				return float64(s.arr.len())
			}
			return float64(in.charCount(s.v.asString(in.convfmt)))
		}
	}
	if c.isArray(a) {
		arr := c.compileArray(a)
		return func() float64 { return float64(arr().len()) }
	}
	s := c.compileStr(a)
	return func() float64 { return float64(in.charCount(s())) }
}

// compileTypeof compiles typeof, and the test of isarray.
func (c *compiler) compileTypeof(e expr) strFn {
	in := c.in
	switch e := e.(type) {
	case *varRef:
		if e.sym.fn != nil {
			i := e.sym.index
			return func() string {
				s := &in.stack[in.fp+i]
				if s.arr != nil {
					return "array"
				}
				return typeName(s.v, "untyped")
			}
		}
		if e.sym.kind == symArray {
			return func() string { return "array" }
		}
		if get, _ := in.counterAccess(e.sym.name, 0); get == nil {
			p := c.cellOf(e.sym)
			return func() string { return typeName(*p, "untyped") }
		}
	case *indexRef:
		find := c.compileElem(e)
		return func() string {
			x := find()
			if x.sub != nil {
				return "array"
			}
			return typeName(x.v, "untyped")
		}
	}
	f := c.compileValue(e)
	if ref, ok := e.(*fieldRef); ok {
		index, _, _ := c.compileFieldIndex(ref)
		return func() string {
			if i := index(); i > in.numFields() {
				return "unassigned"
			}
			return typeName(f(), "unassigned")
		}
	}
	return func() string { return typeName(f(), "unassigned") }
}

// typeName returns typeof's name for v; none is the name of an unset value.
func typeName(v value, none string) string {
	v.resolveClass()
	switch v.k {
	case uninit:
		return none
	case number:
		return "number"
	case numeric:
		return "strnum"
	case regexVal:
		return "regexp"
	}
	return "string"
}

// compileBits compiles the functions of bits.
func (c *compiler) compileBits(e *builtinExpr) numFn {
	in, line, name := c.in, c.line, e.name
	fs := make([]numFn, len(e.args))
	for i, a := range e.args {
		fs[i] = c.compileNum(a)
	}
	arg := func(i int) uint64 {
		n := fs[i]()
		if n < 0 {
			in.fatal(line, "%s: argument %d negative value %s is not allowed", name, i+1, formatNumber(n, "%.6g"))
		}
		return uint64(n)
	}
	switch name {
	case "compl":
		return func() float64 { return float64(^arg(0) & (1<<53 - 1)) }
	case "lshift":
		return func() float64 { a := arg(0); return float64(a << arg(1) & (1<<53 - 1)) }
	case "rshift":
		return func() float64 { a := arg(0); return float64(a >> arg(1)) }
	}
	op := map[string]func(a, b uint64) uint64{
		"and": func(a, b uint64) uint64 { return a & b },
		"or":  func(a, b uint64) uint64 { return a | b },
		"xor": func(a, b uint64) uint64 { return a ^ b },
	}[name]
	return func() float64 {
		r := arg(0)
		for i := 1; i < len(fs); i++ {
			r = op(r, arg(i))
		}
		return float64(r)
	}
}

// compileIO compiles system, close and fflush.
func (c *compiler) compileIO(e *builtinExpr) numFn {
	in := c.in
	args := make([]strFn, len(e.args))
	for i, a := range e.args {
		args[i] = c.compileStr(a)
	}
	switch e.name {
	case "system":
		return func() float64 {
			cmd := args[0]()
			in.flushAll()
			if in.cfg.System == nil {
				return 127
			}
			return float64(in.cfg.System(cmd))
		}
	case "close":
		return func() float64 {
			name, how := args[0](), ""
			if len(args) > 1 {
				how = args[1]()
			}
			return in.closeNamed(name, how)
		}
	}
	return func() float64 {
		if len(args) == 0 {
			in.flushAll()
			return 0
		}
		return in.flushNamed(args[0]())
	}
}

// flushNamed flushes the streams of that name and returns the result of fflush.
func (in *interp) flushNamed(name string) float64 {
	if name == "" {
		in.flushAll()
		return 0
	}
	r := -1.0
	for _, st := range in.open {
		if st.name == name && st.w != nil && st.w.Flush() == nil {
			r = 0
		}
	}
	if name == "/dev/stdout" && in.out.Flush() == nil {
		r = 0
	}
	return r
}

// compileAsort compiles asort and asorti.
func (c *compiler) compileAsort(e *builtinExpr) numFn {
	in, byIndex := c.in, e.name == "asorti"
	src := c.compileArray(e.args[0])
	dst := src
	if len(e.args) > 1 {
		dst = c.compileArray(e.args[1])
	}
	how := func() string {
		if byIndex {
			return "@ind_str_asc"
		}
		return "@val_type_asc"
	}
	if len(e.args) > 2 {
		how = c.compileStr(e.args[2])
	}
	return func() float64 {
		from := src()
		list := in.sortedBy(from, how())
		values := make([]value, len(list))
		in.charge(int64(len(list)) * 40)
		in.flushCharges()
		for i, x := range list {
			values[i] = x.v
			if byIndex {
				values[i] = strValue(x.subscript())
			}
		}
		to := dst()
		in.deleteAll(to)
		for i, v := range values {
			in.tick(1)
			in.setNum(to, int64(i+1), v)
		}
		in.charge(-int64(len(list)) * 40)
		return float64(len(values))
	}
}

// sortedBy returns the elements in the order how.
func (in *interp) sortedBy(a *array, how string) []*elem {
	list := make([]*elem, 0, a.len())
	for _, e := range a.order {
		if !e.dead {
			list = append(list, e)
		}
	}
	in.sortElems(list, how)
	return list
}

// userOrder returns a comparison by a function of the program.
func (in *interp) userOrder(name string) func(a, b *elem) int {
	fn := in.prog.funcs[name]
	if fn == nil || !fn.defined || len(fn.params) < 4 {
		in.fatal(0, "sort comparison function `%s' is not defined", name)
	}
	key := func(e *elem) slot {
		if e.isNum {
			return slot{v: inValue(e.subscript())}
		}
		return slot{v: strValue(e.key)}
	}
	val := func(e *elem) slot {
		if e.sub != nil {
			return slot{arr: e.sub}
		}
		return slot{v: e.v}
	}
	return func(a, b *elem) int {
		v := in.callWith(fn, []slot{key(a), val(a), key(b), val(b)}, 0)
		switch n := v.asNumber(); {
		case n < 0:
			return -1
		case n > 0:
			return 1
		}
		return 0
	}
}
