package jq

import "slices"

// compileBinding compiles `source as patterns | body`.
func (c *compiler) compileBinding(e *bind) {
	defer c.restoreScope(c.scope)
	c.put(instr{op: opSub, b: shareUnless(c.isPure(e.source))})
	c.compileFilter(e.source)
	c.compileDestructuring(e.patterns)
	c.emitOp(opTrack)
	c.compileFilter(e.body)
}

// compileDestructuring compiles code that pops a value into the variables of the patterns, and
// brings these into scope. If an error occurs after a pattern was used, the next pattern is tried.
func (c *compiler) compileDestructuring(patterns []pattern) {
	var names []string
	for i := range patterns {
		names = patterns[i].appendNames(names)
	}
	// Keys of a pattern may use its earlier variables, and each name has one
	// slot, whichever pattern binds it.
	for i, name := range names {
		if !slices.Contains(names[:i], name) {
			c.bindName(binding{name: "$" + name, slot: c.newSlot()})
		}
	}
	var ends []int
	for i := range patterns {
		last := i == len(patterns)-1
		var fork int
		if !last {
			fork = c.emitOp(opAlternative)
		}
		if len(patterns) > 1 {
			c.clearVars(names)
		}
		c.compilePattern(&patterns[i])
		if !last {
			ends = append(ends, c.emitOp(opJump))
			c.patchJump(fork)
		}
	}
	for _, end := range ends {
		c.patchJump(end)
	}
}

// clearVars sets variables to null.
func (c *compiler) clearVars(names []string) {
	for _, name := range names {
		b, _ := c.lookupName("$" + name)
		c.put(instr{op: opClear, b: b.slot})
	}
}

// compilePattern compiles code that pops a value into the variables of one pattern.
func (c *compiler) compilePattern(p *pattern) {
	if p.name != "" {
		b, _ := c.lookupName("$" + p.name)
		c.put(instr{op: opStore, b: b.slot})
		return
	}
	for i := range p.items {
		c.emitOp(opDup)
		c.put(instr{op: opField, x: float64(i)})
		c.compilePattern(&p.items[i])
	}
	for i := range p.keys {
		c.compilePatternKey(&p.keys[i])
	}
	c.emitOp(opPop)
}

// compilePatternKey compiles the code for one member of an object pattern.
func (c *compiler) compilePatternKey(k *patternKey) {
	c.emitOp(opDup)
	switch {
	case k.name != "":
		c.put(instr{op: opField, x: k.name})
	default:
		c.compileSub(k.key, 0)
		c.emitOp(opSwap)
		c.emitOp(opIndex)
	}
	if k.name != "" {
		if k.value != nil {
			c.emitOp(opDup)
		}
		b, _ := c.lookupName("$" + k.name)
		c.put(instr{op: opStore, b: b.slot})
	}
	if k.value != nil {
		c.compilePattern(k.value)
	}
}

// compileReduce compiles `reduce source as patterns (init; update)`.
func (c *compiler) compileReduce(e *reduce) {
	defer c.restoreScope(c.scope)
	state := c.newSlot()
	c.compileSub(e.init, 0)
	c.put(instr{op: opStore, b: state})
	begin := c.emitOp(opForkDrop)
	c.compileLoopHead(e.source, e.patterns, state)
	c.compileFilter(e.update)
	c.put(instr{op: opStore, b: state})
	c.emitOp(opBacktrack)
	c.patchJump(begin)
	c.put(instr{op: opTake, b: state})
}

// compileLoopHead compiles the head of reduce and foreach, up to the state on the stack.
func (c *compiler) compileLoopHead(source expr, patterns []pattern, state int32) {
	c.compileFilter(source)
	c.emitOp(opUntrack)
	c.compileDestructuring(patterns)
	c.emitOp(opTrack)
	c.put(instr{op: opPushTake, b: state})
}

// compileForeach compiles `foreach source as patterns (init; update; extract)`.
func (c *compiler) compileForeach(e *foreach) {
	defer c.restoreScope(c.scope)
	state := c.newSlot()
	c.compileSub(e.init, 0)
	c.put(instr{op: opStore, b: state})
	c.compileLoopHead(e.source, e.patterns, state)
	c.compileFilter(e.update)
	c.put(instr{op: opStoreDup, b: state})
	if e.extract != nil {
		c.compileFilter(e.extract)
	}
}

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
