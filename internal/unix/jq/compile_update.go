package jq

// compilePath compiles path(e).
func (c *compiler) compilePath(e expr) {
	c.emitOp(opPathBegin)
	c.compileFilter(e)
	c.emitOp(opPathEnd)
}

// compileUpdate compiles `paths |= f`: the first output of f replaces each value; a value without
// output is deleted.
func (c *compiler) compileUpdate(paths, f expr) {
	if keys, ok := c.knownKeys(paths); ok {
		c.compileKeyUpdate(keys, f)
		return
	}
	c.compilePathLoop(paths, func(root, path, toDelete int32) {
		slot := c.newSlot()
		mark := c.put(instr{op: opMark, b: slot})
		c.put(instr{op: opGetAt, a: root, b: path})
		c.compileFilter(f)
		c.put(instr{op: opCut, b: slot})
		c.put(instr{op: opSetAt, a: root, b: path})
		c.emitOp(opBacktrack)
		c.patchJump(mark)
		c.put(instr{op: opDeletePath, a: toDelete, b: path})
	})
}

// compilePathLoop compiles a loop that runs body for each path. Its output is the root, which body
// may change.
func (c *compiler) compilePathLoop(paths expr, body func(root, path, toDelete int32)) {
	root, path, toDelete := c.newSlot(), c.newSlot(), c.newSlot()
	c.emitOp(opUntrack)
	c.put(instr{op: opStoreDup, b: root})
	c.put(instr{op: opClear, b: toDelete})
	begin := c.emitOp(opForkDrop)
	c.compilePath(paths)
	c.put(instr{op: opStoreDup, b: path})
	body(root, path, toDelete)
	c.emitOp(opBacktrack)
	c.patchJump(begin)
	c.put(instr{op: opTake, b: root})
	c.put(instr{op: opDeletePaths, b: toDelete})
	c.emitOp(opTrack)
}

// compileKeyUpdate compiles `paths |= f` for a path of known keys.
func (c *compiler) compileKeyUpdate(keys []keySpec, f expr) {
	path := &keyPath{keys: keys}
	slot := c.newSlot()
	c.emitOp(opUntrack)
	mark := c.put(instr{op: opMark, b: slot})
	c.put(instr{op: opGetKeys, x: path})
	c.compileFilter(f)
	c.put(instr{op: opCut, b: slot})
	c.put(instr{op: opSetKeys, x: path})
	end := c.emitOp(opJump)
	c.patchJump(mark)
	c.put(instr{op: opDeleteKeys, x: path})
	c.patchJump(end)
	c.emitOp(opTrack)
}

// knownKeys returns the keys of a path expression that is a chain of constants and variables, and
// reports whether it is one.
func (c *compiler) knownKeys(e expr) ([]keySpec, bool) {
	switch e := e.(type) {
	case *identity:
		return nil, true
	case *pipe:
		var all []keySpec
		for _, part := range e.parts {
			keys, ok := c.knownKeys(part)
			if !ok {
				return nil, false
			}
			all = append(all, keys...)
		}
		return all, true
	case *index:
		head, ok := c.knownKeys(e.target)
		if !ok {
			return nil, false
		}
		key, ok := c.knownKey(e.key)
		return append(head, key), ok
	}
	return nil, false
}

// knownKey returns the key of a constant or variable, and reports whether e is one.
func (c *compiler) knownKey(e expr) (keySpec, bool) {
	if p, ok := e.(*pipe); ok && len(p.parts) == 1 {
		return c.knownKey(p.parts[0])
	}
	if v, ok := constantOf(e); ok {
		return keySpec{value: v}, kindOf(v) == kindString || kindOf(v) == kindNumber
	}
	v, ok := e.(*variable)
	if !ok {
		return keySpec{}, false
	}
	b, level := c.lookupName("$" + v.name)
	if b == nil || b.unit == nil {
		return keySpec{}, false
	}
	return keySpec{variable: true, level: level, slot: b.slot}, true
}

// compileAssign compiles `paths = value`.
func (c *compiler) compileAssign(paths, value expr) {
	keys, simple := c.knownKeys(paths)
	c.put(instr{op: opSub, b: shareUnless(c.isPure(value))})
	c.compileFilter(value)
	if simple {
		c.emitOp(opSubEnd)
		c.put(instr{op: opSetKeys, x: &keyPath{keys: keys}})
		return
	}
	slot := c.newSlot()
	c.put(instr{op: opStore, b: slot})
	c.emitOp(opTrack)
	c.compilePathLoop(paths, func(root, path, _ int32) {
		c.put(instr{op: opLoad, b: slot})
		c.put(instr{op: opSetAt, a: root, b: path})
	})
}

// compileAssignOp compiles `paths op= value`; the input of value is the root.
func (c *compiler) compileAssignOp(e *binary) {
	op := e.op[:len(e.op)-1]
	fn := operatorFuncs[op]
	keys, simple := c.knownKeys(e.left)
	c.put(instr{op: opSub, b: shareUnless(c.isPure(e.right))})
	c.compileFilter(e.right)
	if simple && fn != nil {
		c.emitOp(opSubEnd)
		c.put(instr{op: opUpdateKeys, x: &keyPath{keys, fn}})
		return
	}
	slot := c.newSlot()
	c.put(instr{op: opStore, b: slot})
	c.emitOp(opTrack)
	defer c.restoreScope(c.scope)
	c.bindName(binding{name: "$ value", slot: slot})
	value := &variable{e.pos, " value"}
	c.compileUpdate(e.left, &binary{e.pos, op, &identity{e.pos}, value})
}
