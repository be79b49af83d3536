package jq

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
