package awk

import "unsafe"

// scalarNames are the built-in variables that are not arrays.
var scalarNames = []string{
	"NR", "NF", "FNR", "FS", "RS", "OFS", "ORS", "SUBSEP", "CONVFMT", "OFMT", "IGNORECASE", "FIELDWIDTHS",
	"FPAT", "FILENAME", "RT", "RSTART", "RLENGTH", "ARGC", "ARGIND", "ERRNO",
}

// counterAccess returns functions that read and write NF, NR or FNR, which the interpreter stores
// as numbers; they are nil for other names.
func (in *interp) counterAccess(name string, line int) (get numFn, set func(float64)) {
	switch name {
	case "NF":
		return func() float64 { return float64(in.numFields()) }, func(n float64) { in.setNF(line, in.checkNF(line, n)) }
	case "NR":
		return func() float64 { return in.nr }, func(n float64) { in.nr = n }
	case "FNR":
		return func() float64 { return in.fnr }, func(n float64) { in.fnr = n }
	}
	return nil, nil
}

// checkNF returns n as a value of NF.
func (in *interp) checkNF(line int, n float64) int {
	if n < 0 {
		in.fatal(line, "NF set to negative value")
	}
	return int(min(n, maxFields+1))
}

// assignHook returns the function to call after an assignment to a variable, or nil.
func (in *interp) assignHook(s *symbol, line int) func() {
	if s.fn != nil {
		return nil
	}
	v := s.cell
	text := func(p *string) func() { return func() { *p = v.asString(in.convfmt) } }
	switch s.name {
	case "FS":
		return func() { in.fs = v.asString(in.convfmt); in.useFS(line) }
	case "RS":
		return func() { in.rs = v.asString(in.convfmt); in.useRS(line) }
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
		return func() { in.ignoreCase = v.isTrue(); in.useRS(line) }
	case "FIELDWIDTHS":
		return func() { in.fieldwidths = v.asString(in.convfmt); in.useFieldwidths(line) }
	case "FPAT":
		return func() { in.fpat = v.asString(in.convfmt); in.useFPAT(line) }
	}
	return nil
}

// useRS updates the field splitter after a change of RS or IGNORECASE.
func (in *interp) useRS(line int) {
	switch in.next.(type) {
	case charSplitter, regexSplitter, eachSplitter:
		in.useFS(line)
	}
}

// cellOf returns the cell with the value of a global.
func (c *compiler) cellOf(s *symbol) *value {
	if s.cell == nil {
		s.cell = &value{}
	}
	return s.cell
}

// compileVariable compiles a variable to its value.
func (c *compiler) compileVariable(e *varRef) valFn {
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
	if get, _ := in.counterAccess(s.name, line); get != nil {
		return func() value { return numValue(get()) }
	}
	p := c.cellOf(s)
	return func() value { return *p }
}

// compileVariableNum compiles a variable to its value as a number.
func (c *compiler) compileVariableNum(e *varRef) numFn {
	in := c.in
	if e.sym.fn == nil && e.sym.kind != symArray {
		if get, _ := c.in.counterAccess(e.sym.name, c.line); get != nil {
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
	f := c.compileVariable(e)
	return func() float64 { v := f(); return in.numOf(&v) }
}

// compileFieldIndex compiles the number of a field; ok reports that it is the constant i.
func (c *compiler) compileFieldIndex(e *fieldRef) (f func() int, i int, ok bool) {
	in, line := c.in, c.line
	if n, isConst := e.e.(*numLit); isConst && n.v >= 0 && n.v < maxFields {
		return func() int { return int(n.v) }, int(n.v), true
	}
	num := c.compileNum(e.e)
	return func() int { return in.fieldIndex(line, num()) }, 0, false
}

// compileField compiles a field to its value.
func (c *compiler) compileField(e *fieldRef) valFn {
	in := c.in
	f, i, ok := c.compileFieldIndex(e)
	switch {
	case ok && i == 0:
		return func() value { return inValue(in.recordText()) }
	case ok:
		return func() value { return in.fieldValue(i) }
	}
	return func() value {
		i := f()
		if i == 0 {
			return inValue(in.recordText())
		}
		return in.fieldValue(i)
	}
}

// compileFieldText compiles a field to its text.
func (c *compiler) compileFieldText(e *fieldRef) strFn {
	in := c.in
	f, i, ok := c.compileFieldIndex(e)
	switch {
	case ok && i == 0:
		return in.recordText
	case ok:
		return func() string { return in.fieldText(i) }
	}
	return func() string {
		i := f()
		if i == 0 {
			return in.recordText()
		}
		return in.fieldText(i)
	}
}

// compileFieldNum compiles a field to its value as a number.
func (c *compiler) compileFieldNum(e *fieldRef) numFn {
	in := c.in
	f, i, ok := c.compileFieldIndex(e)
	if ok && i > 0 {
		return func() float64 {
			v := in.fieldValue(i)
			return in.numOf(&v)
		}
	}
	return func() float64 {
		if i := f(); i > 0 {
			v := in.fieldValue(i)
			return in.numOf(&v)
		}
		v := inValue(in.recordText())
		return in.numOf(&v)
	}
}

// compilePointer compiles a variable or element to a function that returns a pointer to its value,
// and a function to call after a change, or nil. Both are nil for fields and counters.
func (c *compiler) compilePointer(e expr) (ptr func() *value, after func()) {
	in, line := c.in, c.line
	switch e := e.(type) {
	case *indexRef:
		return c.compileElement(e), nil
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
		if get, _ := in.counterAccess(s.name, line); get != nil {
			return nil, nil
		}
		p := c.cellOf(s)
		return func() *value { return p }, in.assignHook(s, line)
	}
	return nil, nil
}

// compileModify compiles a change of a field or counter. The returned function calls f with the old
// value and stores the result.
func (c *compiler) compileModify(l expr) func(f func(value) value) value {
	in, line := c.in, c.line
	switch l := l.(type) {
	case *fieldRef:
		index, _, _ := c.compileFieldIndex(l)
		return func(f func(value) value) value {
			i := index()
			var old value
			if i == 0 {
				old = inValue(in.recordText())
			} else {
				old = in.fieldValue(i)
			}
			v := f(old)
			in.setField(line, i, v)
			return v
		}
	case *varRef:
		get, set := in.counterAccess(l.sym.name, line)
		return func(f func(value) value) value {
			v := f(numValue(get()))
			set(in.numOf(&v))
			return v
		}
	}
	in.fatal(line, "assignment to something that is no variable")
	return nil
}

// compileAssign compiles an assignment to its value. The right side is evaluated first.
func (c *compiler) compileAssign(e *assignExpr) valFn {
	if e.op != tAssign {
		f := c.compileAssignNum(e)
		return func() value { return numValue(f()) }
	}
	if f := c.compileAppend(e); f != nil {
		return f
	}
	in := c.in
	rhs := c.compileValue(e.r)
	ptr, after := c.compilePointer(e.l)
	switch {
	case ptr == nil:
		modify := c.compileModify(e.l)
		return func() value {
			v := rhs()
			return modify(func(value) value { return v })
		}
	case after != nil:
		return func() value {
			v := rhs()
			in.storeValue(ptr(), v)
			after()
			return v
		}
	}
	return func() value {
		v := rhs()
		in.storeValue(ptr(), v)
		return v
	}
}

// compileAppend compiles s = s … so that the string grows in place: its bytes are in a buffer with
// spare room, and earlier values refer to a prefix of it.
func (c *compiler) compileAppend(e *assignExpr) valFn {
	l, ok := e.l.(*varRef)
	r, isConcat := e.r.(*concat)
	if !ok || !isConcat {
		return nil
	}
	if first, same := r.parts[0].(*varRef); !same || first.sym != l.sym {
		return nil
	}
	ptr, after := c.compilePointer(l)
	if ptr == nil || after != nil {
		return nil
	}
	in, tail := c.in, c.compileConcat(r.parts[1:])
	var buf []byte
	return func() value {
		t := tail()
		p := ptr()
		s := p.asString(in.convfmt)
		n := len(s) + len(t)
		if n < 64 {
			v := strValue(s + t)
			in.storeValue(p, v)
			return v
		}
		if len(buf) != len(s) || len(s) == 0 || unsafe.StringData(s) != unsafe.SliceData(buf) || cap(buf) < n {
			room := n + n/2
			in.charge(int64(room - cap(buf)))
			in.flushCharges()
			buf = append(make([]byte, 0, room), s...)
		}
		buf = append(buf, t...)
		in.tickBytes(len(t))
		in.charge(int64(n - len(p.s)))
		*p = strValue(unsafeString(buf))
		return *p
	}
}

// compileAssignNum compiles an assignment to its value as a number.
func (c *compiler) compileAssignNum(e *assignExpr) numFn {
	in := c.in
	if e.op == tAssign && typeOf(e.r) != number {
		f := c.compileAssign(e)
		return func() float64 { v := f(); return in.numOf(&v) }
	}
	rhs := c.compileNum(e.r)
	ptr, after := c.compilePointer(e.l)
	op := c.arithFunc(e.op)
	if ptr == nil {
		modify := c.compileModify(e.l)
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
