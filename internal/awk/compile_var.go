package awk

import (
	"math"
	"unsafe"
)

// scalarNames are the built-in variables that are no arrays.
var scalarNames = []string{
	"NR", "NF", "FNR", "FS", "RS", "OFS", "ORS", "SUBSEP", "CONVFMT", "OFMT", "IGNORECASE", "FIELDWIDTHS",
	"FPAT", "FILENAME", "RT", "RSTART", "RLENGTH", "ARGC", "ARGIND", "ERRNO",
}

// counter returns how to read and write a variable that the interpreter
// keeps in a form of its own.
func (in *interp) counter(name string, line int) (get numFn, set func(float64)) {
	switch name {
	case "NF":
		return func() float64 { return float64(in.nf()) }, func(n float64) { in.setNF(line, in.fieldCount(line, n)) }
	case "NR":
		return func() float64 { return in.nr }, func(n float64) { in.nr = n }
	case "FNR":
		return func() float64 { return in.fnr }, func(n float64) { in.fnr = n }
	}
	return nil, nil
}

func (in *interp) fieldCount(line int, n float64) int {
	if n < 0 {
		in.fatal(line, "NF set to negative value")
	}
	return int(min(n, maxFields+1))
}

// hook returns what must happen when a variable has been assigned, nil for
// most.
func (in *interp) hook(s *symbol, line int) func() {
	if s.fn != nil {
		return nil
	}
	v := s.cell
	text := func(p *string) func() { return func() { *p = v.str(in.convfmt) } }
	switch s.name {
	case "FS":
		return func() { in.fs = v.str(in.convfmt); in.useFS(line) }
	case "RS":
		return func() { in.rs = v.str(in.convfmt); in.useRS(line) }
	case "OFS":
		return text(&in.ofs)
	case "ORS":
		return text(&in.ors)
	case "SUBSEP":
		return text(&in.subsep)
	case "CONVFMT":
		return text(&in.convfmt)
	case "OFMT":
		return text(&in.ofmt)
	case "IGNORECASE":
		return func() { in.ignoreCase = v.truth(); in.useRS(line) }
	case "FIELDWIDTHS":
		return func() { in.fieldwidths = v.str(in.convfmt); in.useFieldwidths(line) }
	case "FPAT":
		return func() { in.fpat = v.str(in.convfmt); in.useFPAT(line) }
	}
	return nil
}

// useRS fits the way to split fields to a new RS or IGNORECASE.
func (in *interp) useRS(line int) {
	switch in.next.(type) {
	case charSplitter, regexSplitter, eachSplitter:
		in.useFS(line)
	}
}

// cellOf returns where the value of a global is.
func (c *compiler) cellOf(s *symbol) *value {
	if s.cell == nil {
		s.cell = &value{}
	}
	return s.cell
}

// variable compiles a variable for its value.
func (c *compiler) variable(e *varRef) valFn {
	in, line, s := c.in, c.line, e.sym
	if s.fn != nil {
		i := s.index
		return func() value {
			l := &in.stack[in.fp+i]
			if l.arr != nil {
				in.fatal(line, "attempt to use array `%s' in a scalar context", s.name)
			}
			return l.v
		}
	}
	if s.kind == symArray {
		return func() value {
			in.fatal(line, "attempt to use array `%s' in a scalar context", s.name)
			return value{}
		}
	}
	if get, _ := in.counter(s.name, line); get != nil {
		return func() value { return numValue(get()) }
	}
	p := c.cellOf(s)
	return func() value { return *p }
}

func (c *compiler) variableNum(e *varRef) numFn {
	in := c.in
	if e.sym.fn == nil && e.sym.kind != symArray {
		if get, _ := c.in.counter(e.sym.name, c.line); get != nil {
			return get
		}
		p := c.cellOf(e.sym)
		return func() float64 {
			if p.k == number {
				return p.n
			}
			return in.numOf(p)
		}
	}
	f := c.variable(e)
	return func() float64 { v := f(); return in.numOf(&v) }
}

// index compiles the number of a field; ok says that it is the constant i.
func (c *compiler) index(e *fieldRef) (f func() int, i int, ok bool) {
	in, line := c.in, c.line
	if n, isConst := e.e.(*numLit); isConst && n.v >= 0 && n.v < maxFields {
		return func() int { return int(n.v) }, int(n.v), true
	}
	num := c.num(e.e)
	return func() int { return in.fieldIndex(line, num()) }, 0, false
}

func (c *compiler) field(e *fieldRef) valFn {
	in := c.in
	f, i, ok := c.index(e)
	switch {
	case ok && i == 0:
		return func() value { return inValue(in.text()) }
	case ok:
		return func() value { return in.field(i) }
	}
	return func() value {
		i := f()
		if i == 0 {
			return inValue(in.text())
		}
		return in.field(i)
	}
}

func (c *compiler) fieldText(e *fieldRef) strFn {
	in := c.in
	f, i, ok := c.index(e)
	switch {
	case ok && i == 0:
		return in.text
	case ok:
		return func() string { return in.fieldStr(i) }
	}
	return func() string {
		i := f()
		if i == 0 {
			return in.text()
		}
		return in.fieldStr(i)
	}
}

func (c *compiler) fieldNum(e *fieldRef) numFn {
	in := c.in
	f, i, ok := c.index(e)
	if ok && i > 0 {
		return func() float64 {
			if in.owned {
				v := in.field(i)
				return in.numOf(&v)
			}
			v := in.field(i)
			return in.numOf(&v)
		}
	}
	return func() float64 {
		if i := f(); i > 0 {
			v := in.field(i)
			return in.numOf(&v)
		}
		v := inValue(in.text())
		return in.numOf(&v)
	}
}

// pointer compiles a variable or an element that is stored as a value to
// where it is, with what is to happen after a change. It returns nil for
// fields and counters.
func (c *compiler) pointer(e expr) (ptr func() *value, after func()) {
	in, line := c.in, c.line
	switch e := e.(type) {
	case *indexRef:
		return c.element(e), nil
	case *varRef:
		s := e.sym
		if s.fn != nil {
			i := s.index
			return func() *value {
				l := &in.stack[in.fp+i]
				if l.arr != nil {
					in.fatal(line, "attempt to use array `%s' in a scalar context", s.name)
				}
				return &l.v
			}, nil
		}
		if s.kind == symArray {
			return func() *value {
				in.fatal(line, "attempt to use array `%s' in a scalar context", s.name)
				return nil
			}, nil
		}
		if get, _ := in.counter(s.name, line); get != nil {
			return nil, nil
		}
		p := c.cellOf(s)
		return func() *value { return p }, in.hook(s, line)
	}
	return nil, nil
}

// modify compiles a change of a field or a counter: the function that it
// returns calls f with the old value and stores the new one.
func (c *compiler) modify(l expr) func(f func(value) value) value {
	in, line := c.in, c.line
	switch l := l.(type) {
	case *fieldRef:
		index, _, _ := c.index(l)
		return func(f func(value) value) value {
			i := index()
			var old value
			if i == 0 {
				old = inValue(in.text())
			} else {
				old = in.field(i)
			}
			v := f(old)
			in.setField(line, i, v)
			return v
		}
	case *varRef:
		get, set := in.counter(l.sym.name, line)
		return func(f func(value) value) value {
			v := f(numValue(get()))
			set(in.numOf(&v))
			return v
		}
	}
	in.fatal(line, "assignment to something that is no variable")
	return nil
}

// assign compiles an assignment for its value. The right side is evaluated
// first.
func (c *compiler) assign(e *assignExpr) valFn {
	if e.op != tAssign {
		f := c.assignNum(e)
		return func() value { return numValue(f()) }
	}
	if f := c.appendAssign(e); f != nil {
		return f
	}
	in := c.in
	rhs := c.val(e.r)
	ptr, after := c.pointer(e.l)
	switch {
	case ptr == nil:
		modify := c.modify(e.l)
		return func() value {
			v := rhs()
			return modify(func(value) value { return v })
		}
	case after != nil:
		return func() value {
			v := rhs()
			in.store(ptr(), v)
			after()
			return v
		}
	}
	return func() value {
		v := rhs()
		in.store(ptr(), v)
		return v
	}
}

// appendAssign compiles s = s … so that the string grows in place: its bytes
// are in a buffer with room, of which earlier values see only their part.
func (c *compiler) appendAssign(e *assignExpr) valFn {
	l, ok := e.l.(*varRef)
	r, isConcat := e.r.(*concat)
	if !ok || !isConcat {
		return nil
	}
	if first, same := r.parts[0].(*varRef); !same || first.sym != l.sym {
		return nil
	}
	ptr, after := c.pointer(l)
	if ptr == nil || after != nil {
		return nil
	}
	in, tail := c.in, c.concat(r.parts[1:])
	var buf []byte
	return func() value {
		t := tail()
		p := ptr()
		s := p.str(in.convfmt)
		n := len(s) + len(t)
		if n < 64 {
			v := strValue(s + t)
			in.store(p, v)
			return v
		}
		if len(buf) != len(s) || len(s) == 0 || unsafe.StringData(s) != unsafe.SliceData(buf) || cap(buf) < n {
			room := n + n/2
			in.charge(int64(room - cap(buf)))
			in.settle()
			buf = append(make([]byte, 0, room), s...)
		}
		buf = append(buf, t...)
		in.work(len(t))
		in.charge(int64(n - len(p.s)))
		*p = strValue(text(buf))
		return *p
	}
}

// assignNum compiles an assignment for its value as a number.
func (c *compiler) assignNum(e *assignExpr) numFn {
	in := c.in
	if e.op == tAssign && typeOf(e.r) != number {
		f := c.assign(e)
		return func() float64 { v := f(); return in.numOf(&v) }
	}
	rhs := c.num(e.r)
	ptr, after := c.pointer(e.l)
	op := c.arith(e.op)
	if ptr == nil {
		modify := c.modify(e.l)
		return func() float64 {
			r := rhs()
			v := modify(func(old value) value { return numValue(op(in.numOf(&old), r)) })
			return in.numOf(&v)
		}
	}
	set := func(p *value, n float64) {
		if p.s != "" {
			in.charge(-int64(len(p.s)))
		}
		*p = numValue(n)
		if after != nil {
			after()
		}
	}
	switch e.op {
	case tAssign:
		return func() float64 { r := rhs(); set(ptr(), r); return r }
	case tPlus:
		return func() float64 {
			r := rhs()
			p := ptr()
			if p.k == number && after == nil {
				p.n += r
				return p.n
			}
			n := in.numOf(p) + r
			set(p, n)
			return n
		}
	}
	return func() float64 {
		r := rhs()
		p := ptr()
		n := op(in.numOf(p), r)
		set(p, n)
		return n
	}
}

// arith returns the function of an arithmetic operator.
func (c *compiler) arith(op kind) func(a, b float64) float64 {
	in, line := c.in, c.line
	switch op {
	case tPlus:
		return func(a, b float64) float64 { return a + b }
	case tMinus:
		return func(a, b float64) float64 { return a - b }
	case tMul:
		return func(a, b float64) float64 { return a * b }
	case tDiv:
		return func(a, b float64) float64 {
			if b == 0 {
				in.fatal(line, "division by zero attempted")
			}
			return a / b
		}
	case tMod:
		return func(a, b float64) float64 {
			if b == 0 {
				in.fatal(line, "division by zero attempted in `%%'")
			}
			return modulo(a, b)
		}
	case tPow:
		return power
	}
	return func(_, b float64) float64 { return b }
}

// modulo is the remainder with the sign of a.
func modulo(a, b float64) float64 {
	if x, y := int64(a), int64(b); float64(x) == a && float64(y) == b && x > 0 {
		return float64(x % y)
	}
	return math.Mod(a, b)
}

// power is exact for small integers.
func power(a, b float64) float64 {
	if b == math.Trunc(b) && b >= 0 && b <= 64 {
		r := 1.0
		for n := int(b); n > 0; n >>= 1 {
			if n&1 == 1 {
				r *= a
			}
			a *= a
		}
		return r
	}
	if whole, half := math.Modf(b); half == 0.5 && whole <= 64 && a >= 0 {
		return power(a, whole) * math.Sqrt(a) // closer than Pow
	}
	if a < 0 && b != math.Trunc(b) {
		return math.Copysign(math.NaN(), -1)
	}
	return math.Pow(a, b)
}

func (c *compiler) binary(e *binaryExpr) numFn {
	switch e.op {
	case tPlus, tMinus, tMul, tDiv, tMod, tPow:
	default:
		f := c.compare(e)
		return func() float64 { return boolNum(f()) }
	}
	l, r := c.num(e.l), c.num(e.r)
	switch e.op {
	case tPlus:
		return func() float64 { a := l(); return a + r() }
	case tMinus:
		return func() float64 { a := l(); return a - r() }
	case tMul:
		return func() float64 { a := l(); return a * r() }
	}
	op := c.arith(e.op)
	return func() float64 { a := l(); return op(a, r()) }
}

func (c *compiler) unary(e *unaryExpr) numFn {
	if e.op == tNot {
		f := c.cond(e.e)
		return func() float64 { return boolNum(!f()) }
	}
	f := c.num(e.e)
	if e.op == tMinus {
		return func() float64 { return -f() }
	}
	return f
}

// increment compiles ++ and --.
func (c *compiler) increment(e *incExpr) numFn {
	in := c.in
	delta, back := e.delta, 0.0
	if e.post {
		back = e.delta
	}
	ptr, after := c.pointer(e.l)
	if ptr == nil {
		modify := c.modify(e.l)
		return func() float64 {
			v := modify(func(old value) value { return numValue(in.numOf(&old) + delta) })
			return v.num() - back
		}
	}
	return func() float64 {
		p := ptr()
		if p.k == number && after == nil {
			p.n += delta
			return p.n - back
		}
		n := in.numOf(p)
		in.charge(-int64(len(p.s)))
		*p = numValue(n + delta)
		if after != nil {
			after()
		}
		return n + delta - back
	}
}
