package jq

import (
	"slices"
	"strconv"
)

func signature(name string, arity int) string { return name + "/" + strconv.Itoa(arity) }

// call compiles the use of a function: a parameter or definition in scope, a
// form that the compiler knows, a native function or a definition of the library.
func (c *compiler) call(e *call) {
	name := signature(e.name, len(e.args))
	if b, level := c.lookup(name); b != nil {
		if b.fn == nil {
			c.put(instr{op: opParam, a: level, b: b.slot})
			return
		}
		c.invoke(b.fn, level, e.args)
		return
	}
	if c.form(name, e) {
		return
	}
	if findNative(name) != nil {
		c.native(e.name, e.pos, e.args...)
		return
	}
	if fn := c.builtin(name); fn != nil {
		c.invoke(fn, -1, e.args)
		return
	}
	c.fail(e.pos, "%s is not defined", name)
}

func (c *compiler) invoke(fn *code, level int32, args []expr) {
	t := &target{body: fn, level: level}
	for _, arg := range args {
		t.args = append(t.args, c.closure(arg))
	}
	c.put(instr{op: opCall, x: t})
}

// builtin compiles a definition of the library when it is first used.
func (c *compiler) builtin(name string) *code {
	if fn := c.builtins[name]; fn != nil {
		return fn
	}
	src, ok := library[name]
	if !ok {
		return nil
	}
	prog, err := parse(src, c.acct)
	if err != nil {
		c.fail(0, "library: %s: %v", name, err)
	}
	fn := &code{name: name}
	c.builtins[name] = fn
	unit, scope := c.unit, c.scope
	c.unit, c.scope = nil, nil
	c.body(prog.defs[0], fn)
	c.unit, c.scope = unit, scope
	return fn
}

// native compiles a call of a native function; its last argument varies slowest.
func (c *compiler) native(name string, at pos, args ...expr) {
	fn := findNative(signature(name, len(args)))
	if fn == nil {
		c.fail(at, "%s is not defined", signature(name, len(args)))
	}
	n := len(args)
	for i := n - 1; i >= 0; i-- {
		c.sub(args[i], int32(n-1-i))
	}
	c.put(instr{op: opNative, a: int32(n), x: fn})
}

// nativeTables are all the functions written in Go.
var nativeTables = []map[string]native{natives, mathTable, timeTable}

func findNative(name string) native {
	for _, table := range nativeTables {
		if fn := table[name]; fn != nil {
			return fn
		}
	}
	return nil
}

// form compiles the functions that have instructions of their own.
func (c *compiler) form(name string, e *call) bool {
	switch name {
	case "empty/0":
		c.emit(opBacktrack)
	case "select/1":
		empty := &call{e.pos, "empty", nil}
		c.branch(&branch{e.pos, e.args[0], &identity{e.pos}, empty})
	case "map/1":
		each := &iterate{e.pos, &identity{e.pos}}
		c.array(&array{e.pos, &pipe{e.pos, []expr{each, e.args[0]}}})
	case "map_values/1":
		c.update(&iterate{e.pos, &identity{e.pos}}, e.args[0])
	case "range/2":
		c.sub(e.args[0], 0)
		c.sub(e.args[1], 1)
		c.emit(opRange)
	case "first/1":
		slot := c.slot()
		mark := c.put(instr{op: opMark, b: slot})
		c.filter(e.args[0])
		c.put(instr{op: opCut, b: slot})
		end := c.emit(opJump)
		c.land(mark)
		c.emit(opBacktrack)
		c.land(end)
	case "path/1":
		c.path(e.args[0])
	case "getpath/1":
		c.sub(e.args[0], 0)
		c.emit(opGetPath)
	case "input/0":
		c.emit(opInput)
	case "builtins/0":
		c.put(instr{op: opConst, x: builtinNames()})
	default:
		return false
	}
	return true
}

// formNames are the functions that form knows.
var formNames = []string{
	"empty/0", "select/1", "map/1", "map_values/1", "range/2", "first/1", "path/1", "getpath/1", "input/0", "builtins/0",
}

// builtinNames lists all functions, but those for the library itself.
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

func (c *compiler) path(e expr) {
	c.emit(opPathBegin)
	c.filter(e)
	c.emit(opPathEnd)
}

// update compiles `paths |= f`: the first output of f takes the place of each
// value, and where there is none, the value is deleted.
func (c *compiler) update(paths, f expr) {
	if keys, ok := c.keys(paths); ok {
		c.updateKeys(keys, f)
		return
	}
	c.eachPath(paths, func(root, path, doomed int32) {
		slot := c.slot()
		mark := c.put(instr{op: opMark, b: slot})
		c.put(instr{op: opGetAt, a: root, b: path})
		c.filter(f)
		c.put(instr{op: opCut, b: slot})
		c.put(instr{op: opSetAt, a: root, b: path})
		c.emit(opBacktrack)
		c.land(mark)
		c.put(instr{op: opDeletePath, a: doomed, b: path})
	})
}

// eachPath compiles a loop over the paths, with body run for each; the output
// is the root that body has changed.
func (c *compiler) eachPath(paths expr, body func(root, path, doomed int32)) {
	root, path, doomed := c.slot(), c.slot(), c.slot()
	c.emit(opUntrack)
	c.put(instr{op: opStoreDup, b: root})
	c.put(instr{op: opClear, b: doomed})
	begin := c.emit(opForkDrop)
	c.path(paths)
	c.put(instr{op: opStoreDup, b: path})
	body(root, path, doomed)
	c.emit(opBacktrack)
	c.land(begin)
	c.put(instr{op: opTake, b: root})
	c.put(instr{op: opDeletePaths, b: doomed})
	c.emit(opTrack)
}

func (c *compiler) updateKeys(keys []keySpec, f expr) {
	path := &keyPath{keys: keys}
	slot := c.slot()
	c.emit(opUntrack)
	mark := c.put(instr{op: opMark, b: slot})
	c.put(instr{op: opGetKeys, x: path})
	c.filter(f)
	c.put(instr{op: opCut, b: slot})
	c.put(instr{op: opSetKeys, x: path})
	end := c.emit(opJump)
	c.land(mark)
	c.put(instr{op: opDeleteKeys, x: path})
	c.land(end)
	c.emit(opTrack)
}

// keys tells whether a path expression is a plain chain of known keys.
func (c *compiler) keys(e expr) ([]keySpec, bool) {
	switch e := e.(type) {
	case *identity:
		return nil, true
	case *pipe:
		var all []keySpec
		for _, part := range e.parts {
			keys, ok := c.keys(part)
			if !ok {
				return nil, false
			}
			all = append(all, keys...)
		}
		return all, true
	case *index:
		head, ok := c.keys(e.target)
		if !ok {
			return nil, false
		}
		key, ok := c.key(e.key)
		return append(head, key), ok
	}
	return nil, false
}

func (c *compiler) key(e expr) (keySpec, bool) {
	if p, ok := e.(*pipe); ok && len(p.parts) == 1 {
		return c.key(p.parts[0])
	}
	if v, ok := constant(e); ok {
		return keySpec{value: v}, kindOf(v) == kindString || kindOf(v) == kindNumber
	}
	v, ok := e.(*variable)
	if !ok {
		return keySpec{}, false
	}
	b, level := c.lookup("$" + v.name)
	if b == nil || b.unit == nil {
		return keySpec{}, false
	}
	return keySpec{variable: true, level: level, slot: b.slot}, true
}

// binary compiles an operator.
func (c *compiler) binary(e *binary) {
	switch e.op {
	case "and", "or":
		c.logic(e)
	case "//":
		c.orElse(e.left, e.right)
	case "=":
		c.assign(e.left, e.right)
	case "|=":
		c.update(e.left, e.right)
	case "+=", "-=", "*=", "/=", "%=", "//=":
		c.assignOp(e)
	default:
		c.arithmetic(e)
	}
}

func (c *compiler) arithmetic(e *binary) {
	fn := operatorsOf[e.op]
	if v, ok := constant(e.right); ok {
		if _, plain := e.left.(*identity); !plain {
			c.emit(opUntrack)
			c.filter(e.left)
			c.emit(opTrack)
		}
		c.put(instr{op: opArithConst, x: constOperand{fn, share(v)}})
		return
	}
	c.sub(e.right, 0)
	c.emit(opSwap)
	c.emit(opUntrack)
	c.filter(e.left)
	c.emit(opTrack)
	c.put(instr{op: opArith, x: fn})
}

type constOperand struct {
	fn    arithmetic
	right Value
}

func (c *compiler) logic(e *binary) {
	c.sub(e.left, 0)
	skip := c.emit(opJumpIfNot)
	short := &literal{e.pos, e.op == "or"}
	then, otherwise := e.right, expr(short)
	if e.op == "or" {
		then, otherwise = short, e.right
	}
	c.truth(then)
	end := c.emit(opJump)
	c.land(skip)
	c.truth(otherwise)
	c.land(end)
}

func (c *compiler) truth(e expr) {
	if l, ok := e.(*literal); ok {
		c.put(instr{op: opConst, x: truthy(l.value)})
		return
	}
	c.emit(opUntrack)
	c.filter(e)
	c.emit(opTrack)
	c.emit(opTruth)
}

// orElse compiles `left // right`: what holds of left, or right if nothing does.
func (c *compiler) orElse(left, right expr) {
	found := c.slot()
	c.put(instr{op: opClear, b: found})
	fork := c.emit(opFork)
	c.filter(left)
	c.emit(opDup)
	useless := c.emit(opJumpIfNot)
	c.emit(opDup)
	c.put(instr{op: opConst, x: true})
	c.put(instr{op: opStore, b: found})
	end := c.emit(opJump)
	c.land(useless)
	c.emit(opBacktrack)
	c.land(fork)
	c.emit(opDup)
	c.put(instr{op: opLoad, b: found})
	none := c.emit(opJumpIfNot)
	c.emit(opBacktrack)
	c.land(none)
	c.filter(right)
	c.land(end)
}

// assign compiles `paths = value`.
func (c *compiler) assign(paths, value expr) {
	keys, simple := c.keys(paths)
	c.put(instr{op: opSub, b: shareUnless(c.pure(value))})
	c.filter(value)
	if simple {
		c.emit(opSubEnd)
		c.put(instr{op: opSetKeys, x: &keyPath{keys: keys}})
		return
	}
	slot := c.slot()
	c.put(instr{op: opStore, b: slot})
	c.emit(opTrack)
	c.eachPath(paths, func(root, path, _ int32) {
		c.put(instr{op: opLoad, b: slot})
		c.put(instr{op: opSetAt, a: root, b: path})
	})
}

// assignOp compiles `paths op= value`; the value is calculated from the root.
func (c *compiler) assignOp(e *binary) {
	op := e.op[:len(e.op)-1]
	fn := operatorsOf[op]
	keys, simple := c.keys(e.left)
	c.put(instr{op: opSub, b: shareUnless(c.pure(e.right))})
	c.filter(e.right)
	if simple && fn != nil {
		c.emit(opSubEnd)
		c.put(instr{op: opUpdateKeys, x: &keyPath{keys, fn}})
		return
	}
	slot := c.slot()
	c.put(instr{op: opStore, b: slot})
	c.emit(opTrack)
	defer c.restore(c.scope)
	c.bind(binding{name: "$ value", slot: slot})
	value := &variable{e.pos, " value"}
	c.update(e.left, &binary{e.pos, op, &identity{e.pos}, value})
}
