package awk

// compileGetline compiles all forms of getline.
func (c *compiler) compileGetline(e *getlineExpr) numFn {
	in, line := c.in, c.line
	var set func(value)
	if e.l != nil {
		set = c.compileSetter(e.l)
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
	src := c.compileStr(e.src)
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
