package awk

// resolveArrays determines which names are arrays: those that are subscripted, and those passed to
// a parameter that is an array, or the reverse, until nothing changes. It also checks the calls.
func (p *parser) resolveArrays() error {
	for _, c := range p.calls {
		if _, isVar := p.prog.globals[c.name]; isVar && c.fn != nil && !c.fn.defined {
			return &SyntaxError{
				Where: sourceName(p.srcs[0]), Line: c.line,
				Msg: "error: attempt to use non-function `" + c.name + "' in function call",
			}
		}
		if c.fn != nil && !c.fn.defined {
			return &SyntaxError{Where: sourceName(p.srcs[0]), Line: c.line, Fatal: true, Msg: "fatal: function `" + c.name + "' not defined"}
		}
		if c.fn != nil && len(c.args) > len(c.fn.params) {
			return &SyntaxError{
				Where: sourceName(p.srcs[0]), Line: c.line, Fatal: true,
				Msg: "fatal: function `" + c.name + "' called with more arguments than declared",
			}
		}
	}
	for changed := true; changed; {
		changed = false
		for _, c := range p.calls {
			tickBudget(p.bud, 1+len(c.args))
			if c.fn != nil && linkArgs(c) {
				changed = true
			}
		}
	}
	return nil
}

// linkArgs makes an argument and its parameter arrays if one of them is, and reports whether
// anything changed.
func linkArgs(c *callExpr) bool {
	changed := false
	for i, a := range c.args {
		param := c.fn.params[i]
		v, ok := a.(*varRef)
		if !ok {
			continue
		}
		switch isArray := param.kind == symArray || param.kind == symBoth; {
		case isArray && v.sym.kind == symUnknown:
			v.sym.kind = symArray
			changed = true
		case v.sym.kind == symArray && param.kind == symUnknown:
			param.kind = symArray
			changed = true
		}
	}
	return changed
}
