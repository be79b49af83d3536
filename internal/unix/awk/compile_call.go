package awk

// stackPerLevel is the approximate use of Go's stack by one level of the tree; maxStack limits the
// use by all calls of functions. Both are in bytes.
const (
	stackPerLevel = 320
	maxStack      = 200 << 20
)

// compileFunction compiles the body of a function.
func (in *interp) compileFunction(f *function) {
	c := &compiler{in: in, fn: f, line: f.line}
	f.run = c.compileList(f.body)
	f.depth = c.maxDepth + 4
}

// compileArgument compiles an argument to a function that returns the callee's slot.
func (c *compiler) compileArgument(a expr, param symKind) func() slot {
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
		arr := c.compileArray(v)
		return func() slot { return slot{arr: arr()} }
	case wantsArray:
		if ix, ok := a.(*indexRef); ok {
			find := c.compileElem(ix)
			return func() slot { return in.slotOf(find(), param) }
		}
	}
	f := c.compileValue(a)
	return func() slot { return slot{v: f()} }
}

// slotOf returns the slot for an element: its array if it is one or may become one, otherwise its
// value.
func (in *interp) slotOf(e *elem, param symKind) slot {
	if e.sub == nil && param == symArray && e.v.k == uninit {
		e.sub = in.newArray("")
	}
	if e.sub != nil {
		return slot{arr: e.sub}
	}
	return slot{v: e.v}
}

// compileCall compiles a call of a function of the program.
func (c *compiler) compileCall(e *callExpr) valFn {
	if e.indirect != nil {
		return c.compileIndirectCall(e)
	}
	in, line, fn := c.in, c.line, e.fn
	args := make([]func() slot, len(e.args))
	for i, a := range e.args {
		args[i] = c.compileArgument(a, fn.params[i].kind)
	}
	return func() value { return in.callFunction(fn, args, line) }
}

// compileIndirectCall compiles a call of the function that a variable names.
func (c *compiler) compileIndirectCall(e *callExpr) valFn {
	in, line := c.in, c.line
	name := c.compileStr(e.indirect)
	args := make([]func() slot, len(e.args))
	for i, a := range e.args {
		kind := symScalar
		if v, ok := a.(*varRef); ok {
			kind = v.sym.kind
		}
		args[i] = c.compileArgument(a, kind)
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
		return in.callFunction(fn, args, line)
	}
}

// callFunction calls a function in a new frame.
func (in *interp) callFunction(fn *function, args []func() slot, line int) value {
	in.countCall()
	base := len(in.stack)
	for range fn.params {
		in.stack = append(in.stack, slot{})
	}
	for i, a := range args {
		s := a()
		in.charge(int64(len(s.v.s)))
		in.stack[base+i] = s
	}
	return in.runFrame(fn, base, line)
}

// countCall counts the work of a call.
func (in *interp) countCall() {
	in.steps -= 2
	if in.steps < 0 {
		in.flushTicks()
	}
}

// runFrame runs a function whose frame begins at base, and drops the frame.
func (in *interp) runFrame(fn *function, base, line int) value {
	cost := fn.depth*stackPerLevel + len(fn.params)*64
	in.goStack += cost
	if in.goStack > maxStack {
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
	in.goStack -= cost
	in.charge(-int64(cost))
	return v
}

// callWith calls a function with evaluated arguments.
func (in *interp) callWith(fn *function, slots []slot, line int) value {
	in.countCall()
	base := len(in.stack)
	for i := range fn.params {
		s := slot{}
		if i < len(slots) {
			s = slots[i]
			in.charge(int64(len(s.v.s)))
		}
		in.stack = append(in.stack, s)
	}
	return in.runFrame(fn, base, line)
}

// abandonRecord unwinds from a function to the main loop, for next and nextfile.
func (in *interp) abandonRecord(how ctl) {
	in.unwinding, in.jump = leaving, how
	panic(leaving)
}
