package jq

import (
	"fmt"
	"strings"
)

// Config has what a program needs to compile and run.
type Config struct {
	Vars    map[string]Value                 // $name, without the $
	Modules func(name string) (string, bool) // returns the text of a module file, for import and include
	Paths   []string                         // directories to search for modules
	Budget  Budget
	Host    Host
}

// Code is a compiled program. Only one run at a time may use it.
type Code struct {
	main *code
	cfg  *Config
	acct *account

	alwaysCopy bool // see machine
}

// Compile compiles a program. Its errors are of type *CompileError.
func Compile(src string, cfg *Config) (*Code, error) {
	acct := &account{budget: cfg.Budget, measureAt: measureStep}
	c := &compiler{cfg: cfg, acct: acct, builtins: map[string]*code{}}
	main, err := c.compileProgram(src)
	if err != nil {
		return nil, err
	}
	return &Code{main: main, cfg: cfg, acct: acct}, nil
}

// unit is a body under construction.
type unit struct {
	up    *unit
	depth int32
	code  *code
}

// binding is a name in scope, in a list from the innermost outwards.
type binding struct {
	up   *binding
	name string // $var, *label or fn/arity
	unit *unit
	slot int32
	fn   *code // of a definition; nil for a variable, label or parameter
	free bool  // the definition is outside of any body
	data Value // of a constant
}

// compiler compiles a program. Errors unwind it by panic.
type compiler struct {
	cfg      *Config
	acct     *account
	builtins map[string]*code
	unit     *unit
	scope    *binding
	depth    int
	loading  []string // modules being loaded, outermost first
}

// maxCompileDepth is the maximum depth of the syntax tree.
const maxCompileDepth = 20000

// compileProgram parses and compiles the main program.
func (c *compiler) compileProgram(src string) (main *code, err error) {
	prog, err := parse(src, c.acct)
	if err != nil {
		return nil, err
	}
	defer func() {
		switch r := recover().(type) {
		case nil:
		case *CompileError:
			main, err = nil, r
		default:
			panic(r)
		}
	}()
	c.compileImports(prog.imports)
	body := prog.body
	if body == nil {
		if strings.TrimSpace(src) == "" {
			body = &identity{1}
		} else {
			c.failAt(0, `Top-level program not given (try ".")`)
		}
	}
	c.unit = &unit{code: &code{name: "main"}}
	for _, d := range prog.defs {
		c.compileDefinition(d)
	}
	c.compileFilter(body)
	c.emitOp(opReturn)
	return c.finishUnit(), nil
}

// failAt panics with a CompileError.
func (c *compiler) failAt(at pos, format string, args ...any) {
	panic(&CompileError{Msg: fmt.Sprintf(format, args...), Line: int(at)})
}

// finishUnit returns the code of the current unit.
func (c *compiler) finishUnit() *code {
	done := c.unit.code
	markTails(done)
	return done
}

// markTails turns calls at the end of the body into tail calls.
func markTails(body *code) {
	for i := range body.ins {
		in := &body.ins[i]
		if in.op != opCall && in.op != opParam {
			continue
		}
		next := i + 1
		for n := 0; n < 64 && body.ins[next].op == opJump; n++ {
			next = int(body.ins[next].a)
		}
		if body.ins[next].op != opReturn {
			continue
		}
		if in.op == opCall {
			in.op = opTailCall
		} else {
			in.op = opTailParam
		}
	}
}

// emitOp appends an instruction without operands and returns its index.
func (c *compiler) emitOp(o op) int { return c.put(instr{op: o}) }

// put appends an instruction and returns its index.
func (c *compiler) put(in instr) int {
	c.acct.tick(1)
	c.acct.alloc(40)
	c.unit.code.ins = append(c.unit.code.ins, in)
	return len(c.unit.code.ins) - 1
}

// nextIndex returns the index of the next instruction.
func (c *compiler) nextIndex() int32 { return int32(len(c.unit.code.ins)) }

// patchJump makes the jump at index i lead to the next instruction.
func (c *compiler) patchJump(i int) { c.unit.code.ins[i].a = c.nextIndex() }

// newSlot allocates a variable slot in the current unit.
func (c *compiler) newSlot() int32 {
	c.unit.code.vars++
	return int32(c.unit.code.vars - 1)
}

// bindName adds a name to the scope.
func (c *compiler) bindName(b binding) {
	b.up, b.unit = c.scope, c.unit
	c.scope = &b
}

// lookupName finds a name and returns how many frames up it is, or -1 if it needs no frame. It
// returns nil if the name isn't in scope.
func (c *compiler) lookupName(name string) (*binding, int32) {
	n := 0
	for b := c.scope; b != nil; b = b.up {
		if n++; n&63 == 0 {
			c.acct.tick(64)
		}
		if b.name != name {
			continue
		}
		if b.unit == nil || b.free {
			return b, -1
		}
		return b, c.unit.depth - b.unit.depth
	}
	return nil, 0
}

// compileFilter compiles e, which replaces its input on top of the stack with its output.
func (c *compiler) compileFilter(e expr) {
	c.depth++
	if c.depth > maxCompileDepth {
		c.failAt(e.atLine(), "expression nested too deeply")
	}
	defer func() { c.depth-- }()
	switch e := e.(type) {
	case *identity:
	case *literal:
		c.put(instr{op: opConst, x: e.value})
	case *text:
		c.compileText(e)
	case *formatter:
		c.compileNative("format", e.pos, &literal{e.pos, e.name})
	case *variable:
		c.compileVariable(e)
	case *location:
		c.put(instr{op: opConst, x: locationValue(e.pos)})
	case *call:
		c.compileCall(e)
	case *index:
		c.compileIndex(e)
	case *slice:
		c.compileSlice(e)
	case *iterate:
		c.compileFilter(e.target)
		c.emitOp(opEach)
	case *try:
		c.compileTry(e)
	case *array:
		c.compileArray(e)
	case *object:
		c.compileObject(e)
	default:
		c.compileOperator(e)
	}
}

// compileOperator compiles an expression that combines filters.
func (c *compiler) compileOperator(e expr) {
	switch e := e.(type) {
	case *pipe:
		for _, part := range e.parts {
			c.compileFilter(part)
		}
	case *comma:
		c.compileComma(e.parts)
	case *negate:
		c.emitOp(opUntrack)
		c.compileFilter(e.body)
		c.emitOp(opTrack)
		c.emitOp(opNegate)
	case *binary:
		c.compileBinary(e)
	case *branch:
		c.compileBranch(e)
	case *reduce:
		c.compileReduce(e)
	case *foreach:
		c.compileForeach(e)
	case *bind:
		c.compileBinding(e)
	case *define:
		defer c.restoreScope(c.scope)
		c.compileDefinition(e.fn)
		c.compileFilter(e.body)
	case *label:
		c.compileLabel(e)
	case *breakTo:
		c.compileBreak(e)
	}
}

// restoreScope sets the scope back to an earlier one.
func (c *compiler) restoreScope(scope *binding) { c.scope = scope }

// locationValue returns the value of $__loc__.
func locationValue(at pos) Value {
	o := NewObject()
	o.Set("file", "<top-level>")
	o.Set("line", float64(at))
	return share(o)
}

// compileSub compiles e to run on a copy of the value n below the top. It leaves its output on top.
func (c *compiler) compileSub(e expr, n int32) {
	c.put(instr{op: opSub, a: n, b: shareUnless(c.onlyBorrows(e))})
	c.compileFilter(e)
	c.emitOp(opSubEnd)
}

// shareUnless returns the operand b of opSub: 1 to mark the value as shared, 0 if ok.
func shareUnless(ok bool) int32 {
	if ok {
		return 0
	}
	return 1
}

// compileText compiles a string with interpolated filters.
func (c *compiler) compileText(e *text) {
	if len(e.exprs) == 0 {
		c.put(instr{op: opConst, x: e.words[0]})
		return
	}
	n := len(e.exprs)
	for i := n - 1; i >= 0; i-- {
		c.compileSub(e.exprs[i], int32(n-1-i))
	}
	c.put(instr{op: opText, a: int32(n), x: e})
}

// compileVariable compiles the use of a variable.
func (c *compiler) compileVariable(e *variable) {
	if b, level := c.lookupName("$" + e.name); b != nil {
		if b.unit == nil {
			c.put(instr{op: opConst, x: b.data})
			return
		}
		c.put(instr{op: opLoad, a: level, b: b.slot})
		return
	}
	if v, ok := c.cfg.Vars[e.name]; ok {
		c.put(instr{op: opConst, x: share(v)})
		return
	}
	if e.name == "ENV" {
		c.compileNative("env", e.pos)
		return
	}
	c.failAt(e.pos, "$%s is not defined", e.name)
}

// compileIndex compiles `target[key]`.
func (c *compiler) compileIndex(e *index) {
	if key, ok := constantOf(e.key); ok && kindOf(key) < kindArray {
		c.compileFilter(e.target)
		c.put(instr{op: opField, x: key})
		return
	}
	c.compileSub(e.key, 0)
	c.emitOp(opSwap)
	c.compileFilter(e.target)
	c.emitOp(opIndex)
}

// compileSlice compiles `target[from:to]`.
func (c *compiler) compileSlice(e *slice) {
	for i, bound := range []expr{e.from, e.to} {
		if bound == nil {
			bound = &literal{e.pos, nil}
		}
		c.compileSub(bound, int32(i))
	}
	c.emitOp(opSliceKey)
	c.emitOp(opSwap)
	c.compileFilter(e.target)
	c.emitOp(opIndex)
}

// compileTry compiles `try body catch handler`.
func (c *compiler) compileTry(e *try) {
	begin := c.emitOp(opTryBegin)
	c.compileFilter(e.body)
	c.emitOp(opTryEnd)
	end := c.emitOp(opJump)
	c.patchJump(begin)
	if e.handler == nil {
		c.emitOp(opBacktrack)
	} else {
		c.compileFilter(e.handler)
	}
	c.patchJump(end)
}

// compileArray compiles an array construction.
func (c *compiler) compileArray(e *array) {
	if v, ok := constantArray(e); ok {
		c.put(instr{op: opConst, x: share(v)})
		return
	}
	slot := c.newSlot()
	begin := c.put(instr{op: opCollect, b: slot})
	c.emitOp(opUntrack)
	c.compileFilter(e.body)
	c.put(instr{op: opAppend, b: slot})
	c.patchJump(begin)
	c.put(instr{op: opTake, b: slot})
}

// compileObject compiles an object construction.
func (c *compiler) compileObject(e *object) {
	if v, ok := constantObject(e); ok {
		c.put(instr{op: opConst, x: share(v)})
		return
	}
	c.emitOp(opObject)
	for _, pr := range e.pairs {
		c.compilePair(pr)
	}
	c.emitOp(opPop)
}

// compilePair compiles one member. The stack holds the object and, on top, the input.
func (c *compiler) compilePair(pr pair) {
	key, value := pr.key, pr.value
	if value == nil {
		key, value = expandShorthand(pr.key)
	}
	if k, ok := constantOf(key); ok {
		name, ok := k.(string)
		if !ok {
			c.failAt(key.atLine(), "Cannot use %s as object key", describeValue(k))
		}
		c.compileSub(value, 0)
		c.put(instr{op: opInsertKey, x: name})
		return
	}
	c.compileSub(key, 0)
	c.compileSub(value, 1)
	c.emitOp(opInsert)
}

// expandShorthand returns the key and value of {a}, {$a}, {"a"}, {@base64 "x"} and {$__loc__}.
func expandShorthand(key expr) (expr, expr) {
	at := key.atLine()
	switch k := key.(type) {
	case *variable:
		return &literal{at, k.name}, k
	case *location:
		return &literal{at, "__loc__"}, k
	}
	return key, &index{at, &identity{at}, key}
}

// compileComma compiles filters separated by commas.
func (c *compiler) compileComma(parts []expr) {
	var ends []int
	for i, part := range parts {
		if i == len(parts)-1 {
			c.compileFilter(part)
			break
		}
		fork := c.emitOp(opFork)
		c.compileFilter(part)
		ends = append(ends, c.emitOp(opJump))
		c.patchJump(fork)
	}
	for _, end := range ends {
		c.patchJump(end)
	}
}

// compileBranch compiles `if`.
func (c *compiler) compileBranch(e *branch) {
	c.compileSub(e.cond, 0)
	skip := c.emitOp(opJumpIfNot)
	c.compileFilter(e.then)
	end := c.emitOp(opJump)
	c.patchJump(skip)
	if e.otherwise != nil {
		c.compileFilter(e.otherwise)
	}
	c.patchJump(end)
}

// compileLabel compiles `label $name | body`.
func (c *compiler) compileLabel(e *label) {
	defer c.restoreScope(c.scope)
	slot := c.newSlot()
	c.bindName(binding{name: "*" + e.name, slot: slot})
	c.put(instr{op: opLabel, b: slot})
	c.compileFilter(e.body)
}

// compileBreak compiles `break $name`.
func (c *compiler) compileBreak(e *breakTo) {
	b, level := c.lookupName("*" + e.name)
	if b == nil {
		c.failAt(e.pos, "$*label-%s is not defined", e.name)
	}
	c.put(instr{op: opBreak, a: level, b: b.slot})
}
