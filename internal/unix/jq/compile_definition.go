package jq

// compileDefinition compiles a definition and brings it into scope.
func (c *compiler) compileDefinition(d *definition) {
	name := signatureOf(d.name, len(d.params))
	body := &code{name: d.name}
	c.bindName(binding{name: name, fn: body})
	c.compileBody(d, body)
}

// compileBody compiles the body of a definition whose name is in scope.
func (c *compiler) compileBody(d *definition, body *code) {
	outer, scope := c.unit, c.scope
	defer func() { c.unit, c.scope = outer, scope }()
	c.unit = &unit{up: outer, code: body, depth: 1}
	if outer != nil {
		c.unit.depth = outer.depth + 1
	}
	e := d.body
	for i := len(d.params) - 1; i >= 0; i-- {
		if d.params[i][0] != '$' {
			continue
		}
		name := d.params[i][1:]
		e = &bind{d.pos, &call{d.pos, name, nil}, []pattern{{pos: d.pos, name: name}}, e}
	}
	for i, param := range d.params {
		if param[0] == '$' {
			param = param[1:]
		}
		c.bindName(binding{name: signatureOf(param, 0), slot: int32(i)})
	}
	c.compileFilter(e)
	c.emitOp(opReturn)
	c.finishUnit()
}

// compileClosure compiles an argument.
func (c *compiler) compileClosure(e expr) argument {
	if p, ok := e.(*pipe); ok && len(p.parts) == 1 {
		e = p.parts[0]
	}
	if cl, ok := e.(*call); ok && len(cl.args) == 0 {
		if b, level := c.lookupName(signatureOf(cl.name, 0)); b != nil && b.fn == nil {
			return argument{level: level, slot: b.slot}
		}
	}
	outer := c.unit
	c.unit = &unit{up: outer, depth: outer.depth + 1, code: &code{name: "closure"}}
	c.compileFilter(e)
	c.emitOp(opReturn)
	body := c.finishUnit()
	c.unit = outer
	return argument{body: body}
}
