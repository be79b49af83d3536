package jq

import "slices"

// binding compiles `source as patterns | body`.
func (c *compiler) binding(e *bind) {
	defer c.restore(c.scope)
	c.put(instr{op: opSub, b: shareUnless(c.pure(e.source))})
	c.filter(e.source)
	c.destructure(e.patterns)
	c.emit(opTrack)
	c.filter(e.body)
}

// destructure pops a value into the variables of the patterns, which are in
// scope from then on. The second and later patterns are tried when something
// fails with the one before.
func (c *compiler) destructure(patterns []pattern) {
	var names []string
	for i := range patterns {
		names = patterns[i].names(names)
	}
	// Keys of a pattern may use its earlier variables, and each name has one
	// slot, whichever pattern binds it.
	for i, name := range names {
		if !slices.Contains(names[:i], name) {
			c.bind(binding{name: "$" + name, slot: c.slot()})
		}
	}
	var ends []int
	for i := range patterns {
		last := i == len(patterns)-1
		var fork int
		if !last {
			fork = c.emit(opAlternative)
		}
		if len(patterns) > 1 {
			c.clear(names)
		}
		c.match(&patterns[i])
		if !last {
			ends = append(ends, c.emit(opJump))
			c.land(fork)
		}
	}
	for _, end := range ends {
		c.land(end)
	}
}

func (c *compiler) clear(names []string) {
	for _, name := range names {
		b, _ := c.lookup("$" + name)
		c.put(instr{op: opClear, b: b.slot})
	}
}

// match pops a value into the variables of one pattern.
func (c *compiler) match(p *pattern) {
	if p.name != "" {
		b, _ := c.lookup("$" + p.name)
		c.put(instr{op: opStore, b: b.slot})
		return
	}
	for i := range p.items {
		c.emit(opDup)
		c.put(instr{op: opField, x: float64(i)})
		c.match(&p.items[i])
	}
	for i := range p.keys {
		c.matchKey(&p.keys[i])
	}
	c.emit(opPop)
}

func (c *compiler) matchKey(k *patternKey) {
	c.emit(opDup)
	switch {
	case k.name != "":
		c.put(instr{op: opField, x: k.name})
	default:
		c.sub(k.key, 0)
		c.emit(opSwap)
		c.emit(opIndex)
	}
	if k.name != "" {
		if k.value != nil {
			c.emit(opDup)
		}
		b, _ := c.lookup("$" + k.name)
		c.put(instr{op: opStore, b: b.slot})
	}
	if k.value != nil {
		c.match(k.value)
	}
}

func (c *compiler) reduce(e *reduce) {
	defer c.restore(c.scope)
	state := c.slot()
	c.sub(e.init, 0)
	c.put(instr{op: opStore, b: state})
	begin := c.emit(opForkDrop)
	c.loop(e.source, e.patterns, state)
	c.filter(e.update)
	c.put(instr{op: opStore, b: state})
	c.emit(opBacktrack)
	c.land(begin)
	c.put(instr{op: opTake, b: state})
}

// loop compiles the head of reduce and foreach, up to the state on the stack.
func (c *compiler) loop(source expr, patterns []pattern, state int32) {
	c.filter(source)
	c.emit(opUntrack)
	c.destructure(patterns)
	c.emit(opTrack)
	c.put(instr{op: opPushTake, b: state})
}

func (c *compiler) foreach(e *foreach) {
	defer c.restore(c.scope)
	state := c.slot()
	c.sub(e.init, 0)
	c.put(instr{op: opStore, b: state})
	c.loop(e.source, e.patterns, state)
	c.filter(e.update)
	c.put(instr{op: opStoreDup, b: state})
	if e.extract != nil {
		c.filter(e.extract)
	}
}

// define compiles a definition and brings it into scope.
func (c *compiler) define(d *definition) {
	name := signature(d.name, len(d.params))
	body := &code{name: d.name}
	c.bind(binding{name: name, fn: body})
	c.body(d, body)
}

// body compiles the body of a definition whose name is in scope.
func (c *compiler) body(d *definition, body *code) {
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
		c.bind(binding{name: signature(param, 0), slot: int32(i)})
	}
	c.filter(e)
	c.emit(opReturn)
	c.finish()
}

// closure compiles an argument.
func (c *compiler) closure(e expr) argument {
	if p, ok := e.(*pipe); ok && len(p.parts) == 1 {
		e = p.parts[0]
	}
	if cl, ok := e.(*call); ok && len(cl.args) == 0 {
		if b, level := c.lookup(signature(cl.name, 0)); b != nil && b.fn == nil {
			return argument{level: level, slot: b.slot}
		}
	}
	outer := c.unit
	c.unit = &unit{up: outer, depth: outer.depth + 1, code: &code{name: "closure"}}
	c.filter(e)
	c.emit(opReturn)
	body := c.finish()
	c.unit = outer
	return argument{body: body}
}
