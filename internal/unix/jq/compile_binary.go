package jq

// compileBinary compiles a binary operator.
func (c *compiler) compileBinary(e *binary) {
	switch e.op {
	case "and", "or":
		c.compileLogic(e)
	case "//":
		c.compileAlternative(e.left, e.right)
	case "=":
		c.compileAssign(e.left, e.right)
	case "|=":
		c.compileUpdate(e.left, e.right)
	case "+=", "-=", "*=", "/=", "%=", "//=":
		c.compileAssignOp(e)
	default:
		c.compileArithmetic(e)
	}
}

// compileArithmetic compiles an operator that computes a value.
func (c *compiler) compileArithmetic(e *binary) {
	fn := operatorFuncs[e.op]
	if v, ok := constantOf(e.right); ok {
		if _, plain := e.left.(*identity); !plain {
			c.emitOp(opUntrack)
			c.compileFilter(e.left)
			c.emitOp(opTrack)
		}
		c.put(instr{op: opArithConst, x: constOperand{fn, share(v)}})
		return
	}
	c.compileSub(e.right, 0)
	c.emitOp(opSwap)
	c.emitOp(opUntrack)
	c.compileFilter(e.left)
	c.emitOp(opTrack)
	c.put(instr{op: opArith, x: fn})
}

// constOperand is an operator with a constant right operand.
type constOperand struct {
	fn    operatorFunc
	right Value
}

// compileLogic compiles `and` and `or`.
func (c *compiler) compileLogic(e *binary) {
	c.compileSub(e.left, 0)
	skip := c.emitOp(opJumpIfNot)
	short := &literal{e.pos, e.op == "or"}
	then, otherwise := e.right, expr(short)
	if e.op == "or" {
		then, otherwise = short, e.right
	}
	c.compileTruth(then)
	end := c.emitOp(opJump)
	c.patchJump(skip)
	c.compileTruth(otherwise)
	c.patchJump(end)
}

// compileTruth compiles e and converts its output to a boolean.
func (c *compiler) compileTruth(e expr) {
	if l, ok := e.(*literal); ok {
		c.put(instr{op: opConst, x: isTrue(l.value)})
		return
	}
	c.emitOp(opUntrack)
	c.compileFilter(e)
	c.emitOp(opTrack)
	c.emitOp(opTruth)
}

// compileAlternative compiles `left // right`: the true outputs of left, or those of right if there
// are none.
func (c *compiler) compileAlternative(left, right expr) {
	found := c.newSlot()
	c.put(instr{op: opClear, b: found})
	fork := c.emitOp(opFork)
	c.compileFilter(left)
	c.emitOp(opDup)
	useless := c.emitOp(opJumpIfNot)
	c.emitOp(opDup)
	c.put(instr{op: opConst, x: true})
	c.put(instr{op: opStore, b: found})
	end := c.emitOp(opJump)
	c.patchJump(useless)
	c.emitOp(opBacktrack)
	c.patchJump(fork)
	c.emitOp(opDup)
	c.put(instr{op: opLoad, b: found})
	none := c.emitOp(opJumpIfNot)
	c.emitOp(opBacktrack)
	c.patchJump(none)
	c.compileFilter(right)
	c.patchJump(end)
}
