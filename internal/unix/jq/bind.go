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
