package jq

import (
	"slices"
	"strconv"
)

// signatureOf returns name/arity, which identifies a function.
func signatureOf(name string, arity int) string { return name + "/" + strconv.Itoa(arity) }

// compileCall compiles the use of a function: a parameter or definition in scope, a function with
// instructions of its own, a native function, or a definition of the library.
func (c *compiler) compileCall(e *call) {
	name := signatureOf(e.name, len(e.args))
	if b, level := c.lookupName(name); b != nil {
		if b.fn == nil {
			c.put(instr{op: opParam, a: level, b: b.slot})
			return
		}
		c.emitCall(b.fn, level, e.args)
		return
	}
	if c.compileForm(name, e) {
		return
	}
	if findNative(name) != nil {
		c.compileNative(e.name, e.pos, e.args...)
		return
	}
	if fn := c.compileBuiltin(name); fn != nil {
		c.emitCall(fn, -1, e.args)
		return
	}
	c.failAt(e.pos, "%s is not defined", name)
}

// emitCall emits the call of a definition with closures for its arguments.
func (c *compiler) emitCall(fn *code, level int32, args []expr) {
	t := &target{body: fn, level: level}
	for _, arg := range args {
		t.args = append(t.args, c.compileClosure(arg))
	}
	c.put(instr{op: opCall, x: t})
}

// compileBuiltin compiles a definition of the library at its first use; it returns nil if there is
// none.
func (c *compiler) compileBuiltin(name string) *code {
	if fn := c.builtins[name]; fn != nil {
		return fn
	}
	src, ok := library[name]
	if !ok {
		return nil
	}
	prog, err := parse(src, c.acct)
	if err != nil {
		c.failAt(0, "library: %s: %v", name, err)
	}
	fn := &code{name: name}
	c.builtins[name] = fn
	unit, scope := c.unit, c.scope
	c.unit, c.scope = nil, nil
	c.compileBody(prog.defs[0], fn)
	c.unit, c.scope = unit, scope
	return fn
}

// compileNative compiles a call of a native function. Its last argument varies slowest.
func (c *compiler) compileNative(name string, at pos, args ...expr) {
	fn := findNative(signatureOf(name, len(args)))
	if fn == nil {
		c.failAt(at, "%s is not defined", signatureOf(name, len(args)))
	}
	n := len(args)
	for i := n - 1; i >= 0; i-- {
		c.compileSub(args[i], int32(n-1-i))
	}
	c.put(instr{op: opNative, a: int32(n), x: fn})
}

// nativeTables hold all functions that are written in Go.
var nativeTables = []map[string]native{natives, mathTable, timeTable}

// findNative returns a native function, or nil.
func findNative(name string) native {
	for _, table := range nativeTables {
		if fn := table[name]; fn != nil {
			return fn
		}
	}
	return nil
}

// compileForm compiles functions that have instructions of their own, and reports whether name is
// one.
func (c *compiler) compileForm(name string, e *call) bool {
	switch name {
	case "empty/0":
		c.emitOp(opBacktrack)
	case "select/1":
		empty := &call{e.pos, "empty", nil}
		c.compileBranch(&branch{e.pos, e.args[0], &identity{e.pos}, empty})
	case "map/1":
		each := &iterate{e.pos, &identity{e.pos}}
		c.compileArray(&array{e.pos, &pipe{e.pos, []expr{each, e.args[0]}}})
	case "map_values/1":
		c.compileUpdate(&iterate{e.pos, &identity{e.pos}}, e.args[0])
	case "range/2":
		c.compileSub(e.args[0], 0)
		c.compileSub(e.args[1], 1)
		c.emitOp(opRange)
	case "first/1":
		slot := c.newSlot()
		mark := c.put(instr{op: opMark, b: slot})
		c.compileFilter(e.args[0])
		c.put(instr{op: opCut, b: slot})
		end := c.emitOp(opJump)
		c.patchJump(mark)
		c.emitOp(opBacktrack)
		c.patchJump(end)
	case "path/1":
		c.compilePath(e.args[0])
	case "getpath/1":
		c.compileSub(e.args[0], 0)
		c.emitOp(opGetPath)
	case "input/0":
		c.emitOp(opInput)
	case "builtins/0":
		c.put(instr{op: opConst, x: builtinNames()})
	default:
		return false
	}
	return true
}

// formNames are the functions that compileForm supports.
var formNames = []string{
	"empty/0", "select/1", "map/1", "map_values/1", "range/2", "first/1", "path/1", "getpath/1", "input/0", "builtins/0",
}

// builtinNames lists all functions except those internal to the library.
func builtinNames() Value {
	names := slices.Clone(formNames)
	for _, table := range nativeTables {
		for name := range table {
			names = append(names, name)
		}
	}
	for name := range library {
		names = append(names, name)
	}
	slices.Sort(names)
	a := NewArray()
	for _, name := range names {
		if name[0] != '_' {
			a.Items = append(a.Items, name)
		}
	}
	return share(a)
}

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
