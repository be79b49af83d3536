package jq

import (
	"fmt"
	"strings"
)

// Config is what a program is compiled with and runs with.
type Config struct {
	Vars    map[string]Value                 // $name, without the $
	Modules func(name string) (string, bool) // the text of a module file, for import and include
	Paths   []string                         // where modules are looked for
	Budget  Budget
	Host    Host
}

// Code is a compiled program. It must not be run twice at the same time.
type Code struct {
	main *code
	cfg  *Config
	acct *account

	careful bool // of the machine
}

// Compile reads a program. The error is a *CompileError.
func Compile(src string, cfg *Config) (*Code, error) {
	acct := &account{budget: cfg.Budget, limitBytes: surveyStep}
	c := &compiler{cfg: cfg, acct: acct, builtins: map[string]*code{}}
	main, err := c.compile(src)
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

// binding is a name in scope, in a list from the innermost out.
type binding struct {
	up   *binding
	name string // $var, *label, fn/arity
	unit *unit
	slot int32
	fn   *code // of a definition; nil for a variable, label or parameter
	free bool  // the definition stands outside of any body
	data Value // of a constant
}

type compiler struct {
	cfg      *Config
	acct     *account
	builtins map[string]*code
	unit     *unit
	scope    *binding
	depth    int
	loading  []string // modules, outermost first
}

const maxCompileDepth = 20000

func (c *compiler) compile(src string) (main *code, err error) {
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
	c.imports(prog.imports)
	body := prog.body
	if body == nil {
		if strings.TrimSpace(src) == "" {
			body = &identity{1}
		} else {
			c.fail(0, `Top-level program not given (try ".")`)
		}
	}
	c.unit = &unit{code: &code{name: "main"}}
	for _, d := range prog.defs {
		c.define(d)
	}
	c.filter(body)
	c.emit(opReturn)
	return c.finish(), nil
}

func (c *compiler) fail(at pos, format string, args ...any) {
	panic(&CompileError{Msg: fmt.Sprintf(format, args...), Line: int(at)})
}

// finish ends the current unit.
func (c *compiler) finish() *code {
	done := c.unit.code
	markTails(done)
	return done
}

// markTails turns calls that are followed by the end of the body into tail calls.
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

// emit adds an instruction and returns where it stands.
func (c *compiler) emit(o op) int { return c.put(instr{op: o}) }

func (c *compiler) put(in instr) int {
	c.acct.tick(1)
	c.acct.alloc(40)
	c.unit.code.ins = append(c.unit.code.ins, in)
	return len(c.unit.code.ins) - 1
}

func (c *compiler) here() int32 { return int32(len(c.unit.code.ins)) }

// land makes the jump at i lead here.
func (c *compiler) land(i int) { c.unit.code.ins[i].a = c.here() }

func (c *compiler) slot() int32 {
	c.unit.code.vars++
	return int32(c.unit.code.vars - 1)
}

func (c *compiler) bind(b binding) {
	b.up, b.unit = c.scope, c.unit
	c.scope = &b
}

// lookup finds a name; the level is how many frames up it is.
func (c *compiler) lookup(name string) (*binding, int32) {
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

// filter compiles e: input on top of the stack to output on top of the stack.
func (c *compiler) filter(e expr) {
	c.depth++
	if c.depth > maxCompileDepth {
		c.fail(e.at(), "expression nested too deeply")
	}
	defer func() { c.depth-- }()
	switch e := e.(type) {
	case *identity:
	case *literal:
		c.put(instr{op: opConst, x: e.value})
	case *text:
		c.text(e)
	case *formatter:
		c.native("format", e.pos, &literal{e.pos, e.name})
	case *variable:
		c.variable(e)
	case *location:
		c.put(instr{op: opConst, x: here(e.pos)})
	case *call:
		c.call(e)
	case *index:
		c.index(e)
	case *slice:
		c.slice(e)
	case *iterate:
		c.filter(e.target)
		c.emit(opEach)
	case *try:
		c.try(e)
	case *array:
		c.array(e)
	case *object:
		c.object(e)
	default:
		c.operator(e)
	}
}

// operator compiles what combines filters.
func (c *compiler) operator(e expr) {
	switch e := e.(type) {
	case *pipe:
		for _, part := range e.parts {
			c.filter(part)
		}
	case *comma:
		c.comma(e.parts)
	case *negate:
		c.emit(opUntrack)
		c.filter(e.body)
		c.emit(opTrack)
		c.emit(opNegate)
	case *binary:
		c.binary(e)
	case *branch:
		c.branch(e)
	case *reduce:
		c.reduce(e)
	case *foreach:
		c.foreach(e)
	case *bind:
		c.binding(e)
	case *define:
		defer c.restore(c.scope)
		c.define(e.fn)
		c.filter(e.body)
	case *label:
		c.label(e)
	case *breakTo:
		c.breakTo(e)
	}
}

func (c *compiler) restore(scope *binding) { c.scope = scope }

func here(at pos) Value {
	o := NewObject()
	o.Set("file", "<top-level>")
	o.Set("line", float64(at))
	return share(o)
}

// sub compiles e to run on a copy of the value n below the top, leaving its
// output on top.
func (c *compiler) sub(e expr, n int32) {
	c.put(instr{op: opSub, a: n, b: shareUnless(c.borrows(e))})
	c.filter(e)
	c.emit(opSubEnd)
}

func shareUnless(ok bool) int32 {
	if ok {
		return 0
	}
	return 1
}

func (c *compiler) text(e *text) {
	if len(e.exprs) == 0 {
		c.put(instr{op: opConst, x: e.words[0]})
		return
	}
	n := len(e.exprs)
	for i := n - 1; i >= 0; i-- {
		c.sub(e.exprs[i], int32(n-1-i))
	}
	c.put(instr{op: opText, a: int32(n), x: e})
}

func (c *compiler) variable(e *variable) {
	if b, level := c.lookup("$" + e.name); b != nil {
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
		c.native("env", e.pos)
		return
	}
	c.fail(e.pos, "$%s is not defined", e.name)
}

func (c *compiler) index(e *index) {
	if key, ok := constant(e.key); ok && kindOf(key) < kindArray {
		c.filter(e.target)
		c.put(instr{op: opField, x: key})
		return
	}
	c.sub(e.key, 0)
	c.emit(opSwap)
	c.filter(e.target)
	c.emit(opIndex)
}

func (c *compiler) slice(e *slice) {
	for i, bound := range []expr{e.from, e.to} {
		if bound == nil {
			bound = &literal{e.pos, nil}
		}
		c.sub(bound, int32(i))
	}
	c.emit(opSliceKey)
	c.emit(opSwap)
	c.filter(e.target)
	c.emit(opIndex)
}

func (c *compiler) try(e *try) {
	begin := c.emit(opTryBegin)
	c.filter(e.body)
	c.emit(opTryEnd)
	end := c.emit(opJump)
	c.land(begin)
	if e.handler == nil {
		c.emit(opBacktrack)
	} else {
		c.filter(e.handler)
	}
	c.land(end)
}

func (c *compiler) array(e *array) {
	if v, ok := constantArray(e); ok {
		c.put(instr{op: opConst, x: share(v)})
		return
	}
	slot := c.slot()
	begin := c.put(instr{op: opCollect, b: slot})
	c.emit(opUntrack)
	c.filter(e.body)
	c.put(instr{op: opAppend, b: slot})
	c.land(begin)
	c.put(instr{op: opTake, b: slot})
}

func (c *compiler) object(e *object) {
	if v, ok := constantObject(e); ok {
		c.put(instr{op: opConst, x: share(v)})
		return
	}
	c.emit(opObject)
	for _, pr := range e.pairs {
		c.pair(pr)
	}
	c.emit(opPop)
}

// pair compiles one member; the stack holds the object and, on top, the input.
func (c *compiler) pair(pr pair) {
	key, value := pr.key, pr.value
	if value == nil {
		key, value = short(pr.key)
	}
	if k, ok := constant(key); ok {
		name, ok := k.(string)
		if !ok {
			c.fail(key.at(), "Cannot use %s as object key", describe(k))
		}
		c.sub(value, 0)
		c.put(instr{op: opInsertKey, x: name})
		return
	}
	c.sub(key, 0)
	c.sub(value, 1)
	c.emit(opInsert)
}

// short spells out {a}, {$a}, {"a"}, {@base64 "x"} and {$__loc__}.
func short(key expr) (expr, expr) {
	at := key.at()
	switch k := key.(type) {
	case *variable:
		return &literal{at, k.name}, k
	case *location:
		return &literal{at, "__loc__"}, k
	}
	return key, &index{at, &identity{at}, key}
}

func (c *compiler) comma(parts []expr) {
	var ends []int
	for i, part := range parts {
		if i == len(parts)-1 {
			c.filter(part)
			break
		}
		fork := c.emit(opFork)
		c.filter(part)
		ends = append(ends, c.emit(opJump))
		c.land(fork)
	}
	for _, end := range ends {
		c.land(end)
	}
}

func (c *compiler) branch(e *branch) {
	c.sub(e.cond, 0)
	skip := c.emit(opJumpIfNot)
	c.filter(e.then)
	end := c.emit(opJump)
	c.land(skip)
	if e.otherwise != nil {
		c.filter(e.otherwise)
	}
	c.land(end)
}

func (c *compiler) label(e *label) {
	defer c.restore(c.scope)
	slot := c.slot()
	c.bind(binding{name: "*" + e.name, slot: slot})
	c.put(instr{op: opLabel, b: slot})
	c.filter(e.body)
}

func (c *compiler) breakTo(e *breakTo) {
	b, level := c.lookup("*" + e.name)
	if b == nil {
		c.fail(e.pos, "$*label-%s is not defined", e.name)
	}
	c.put(instr{op: opBreak, a: level, b: b.slot})
}
