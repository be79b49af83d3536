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
