package awk

// stackPerLevel is what one level of the tree takes of Go's stack, about;
// maxStack bounds what calls of functions take in all.
const (
	stackPerLevel = 320
	maxStack      = 200 << 20
)

// function compiles the body of a function.
func (in *interp) function(f *function) {
	c := &compiler{in: in, fn: f, line: f.line}
	f.run = c.list(f.body)
	f.depth = c.most + 4
}

// argument compiles an argument to what the callee's slot becomes.
func (c *compiler) argument(a expr, param symKind) func() slot {
	in := c.in
	v, isVar := a.(*varRef)
	wantsArray := param == symArray || param == symBoth
	switch {
	case isVar && v.sym.fn != nil:
		i, name := v.sym.index, v.sym.name
		isArray := v.sym.kind == symArray || v.sym.kind == symBoth
		return func() slot {
			s := &in.stack[in.fp+i]
			if s.arr == nil && s.v.k == uninit && (param == symArray || isArray && wantsArray) {
				s.arr, s.own = in.newArray(name), true
			}
			return slot{v: s.v, arr: s.arr}
		}
	case isVar && v.sym.kind == symArray:
		arr := c.array(v)
		return func() slot { return slot{arr: arr()} }
	case wantsArray:
		if ix, ok := a.(*indexRef); ok {
			find := c.elem(ix)
			return func() slot { return in.elemSlot(find(), param) }
		}
	}
	f := c.val(a)
	return func() slot { return slot{v: f()} }
}

// elemSlot passes an element: its array if it is one or may become one.
func (in *interp) elemSlot(e *elem, param symKind) slot {
	if e.sub == nil && param == symArray && e.v.k == uninit {
		e.sub = in.newArray("")
	}
	if e.sub != nil {
		return slot{arr: e.sub}
	}
	return slot{v: e.v}
}

// call compiles a call of a user's function.
func (c *compiler) call(e *callExpr) valFn {
	if e.indirect != nil {
		return c.indirect(e)
	}
	in, line, fn := c.in, c.line, e.fn
	args := make([]func() slot, len(e.args))
	for i, a := range e.args {
		args[i] = c.argument(a, fn.params[i].kind)
	}
	return func() value { return in.call(fn, args, line) }
}

// indirect compiles a call of the function whose name a variable holds.
func (c *compiler) indirect(e *callExpr) valFn {
	in, line := c.in, c.line
	name := c.str(e.indirect)
	args := make([]func() slot, len(e.args))
	for i, a := range e.args {
		kind := symScalar
		if v, ok := a.(*varRef); ok {
			kind = v.sym.kind
		}
		args[i] = c.argument(a, kind)
	}
	return func() value {
		n := name()
		fn := in.prog.funcs[n]
		if fn == nil || !fn.defined {
			in.fatal(line, "function called indirectly through `%s' does not exist", e.name)
		}
		if len(args) > len(fn.params) {
			in.fatal(line, "function `%s' called with more arguments than declared", n)
		}
		return in.call(fn, args, line)
	}
}

// call runs a function in a frame of its own.
func (in *interp) call(fn *function, args []func() slot, line int) value {
	in.turnCall()
	base := len(in.stack)
	for range fn.params {
		in.stack = append(in.stack, slot{})
	}
	for i, a := range args {
		s := a()
		in.charge(int64(len(s.v.s)))
		in.stack[base+i] = s
	}
	return in.enter(fn, base, line)
}

func (in *interp) turnCall() {
	in.steps -= 2
	if in.steps < 0 {
		in.tock()
	}
}

// enter runs a function whose frame begins at base and drops the frame.
func (in *interp) enter(fn *function, base, line int) value {
	cost := fn.depth*stackPerLevel + len(fn.params)*64
	in.deep += cost
	if in.deep > maxStack {
		in.fatal(line, "function `%s' calls itself too deeply", fn.name)
	}
	in.charge(int64(cost))
	fp, tempBase := in.fp, in.tempBase
	in.fp, in.tempBase = base, in.temp
	in.depth++
	in.ret = value{}
	fn.run()
	v := in.ret
	in.ret = value{}
	in.depth--
	in.fp, in.tempBase = fp, tempBase
	for i := range fn.params {
		s := &in.stack[base+i]
		in.charge(-int64(len(s.v.s)))
		if s.own {
			in.dropArray(s.arr)
		}
		*s = slot{}
	}
	in.stack = in.stack[:base]
	in.deep -= cost
	in.charge(-int64(cost))
	return v
}

// callWith calls a function with ready arguments.
func (in *interp) callWith(fn *function, slots []slot, line int) value {
	in.turnCall()
	base := len(in.stack)
	for i := range fn.params {
		s := slot{}
		if i < len(slots) {
			s = slots[i]
			in.charge(int64(len(s.v.s)))
		}
		in.stack = append(in.stack, s)
	}
	return in.enter(fn, base, line)
}

// leave abandons the record from within a function.
func (in *interp) leave(how ctl) {
	in.unwinding, in.jump = leaving, how
	panic(leaving)
}

// getline compiles all the forms of getline.
func (c *compiler) getline(e *getlineExpr) numFn {
	in, line := c.in, c.line
	var set func(value)
	if e.l != nil {
		set = c.setter(e.l)
	}
	if e.op == tEOF {
		if set == nil {
			return func() float64 { return float64(in.nextMain(nil, line)) }
		}
		return func() float64 {
			var v value
			n := in.nextMain(&v, line)
			if n > 0 {
				set(v)
				in.charge(-int64(len(v.s)))
			}
			return float64(n)
		}
	}
	src := c.str(e.src)
	op := e.op
	return func() float64 {
		r := in.readerFor(op, src())
		if r == nil {
			return -1
		}
		rec, rt, ok := in.readRecord(r, line)
		if !ok {
			if r.err != nil {
				in.setErrno(r.err)
				return -1
			}
			return 0
		}
		in.setRT(rt)
		if set != nil {
			set(inValue(rec))
		} else {
			in.setRecord(rec)
		}
		return 1
	}
}
