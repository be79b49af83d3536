package jq

import (
	"fmt"
	"io"
	"time"
)

// Host connects a program to its environment. A function that is nil provides nothing.
type Host struct { // returns the next input, for input and inputs
	Input    func() (Value, bool, error) // the next input, for input and inputs
	Filename func() Value
	Line     func() int
	Debug    func(Value) // receives ["DEBUG:", value] of debug
	Stderr   func(Value)
	Environ  []string // KEY=value
	Now      func() (sec int64, nsec int)
	Zone     *time.Location // of localtime; nil is UTC

	AppendItems bool // an array and a value that is none can be added: the value becomes the last item
}

// frame is one call of a body.
type frame struct {
	code *code
	up   *frame // the call in which the body was defined
	ret  *frame // the caller
	pc   int32  // where the caller continues
	mark uint32 // the last measurement that counted it
	vars []Value
	args []closure
}

// closure is a body with the call in which it was defined.
type closure struct {
	code *code
	env  *frame
}

// cell is a value on the stack and the index of the cell below it.
type cell struct {
	v    Value
	prev int32
}

// pathNode is a path in reverse: its last key and the path before it.
type pathNode struct {
	up  *pathNode
	key Value
}

// tracker is the state of a path expression.
type tracker struct {
	on    bool
	sub   int32 // depth in expressions whose paths don't matter
	path  *pathNode
	value Value // the value at path
}

// forkKind is the kind of a choice.
type forkKind uint8

const (
	forkJump  forkKind = iota // resumes at pc
	forkEach                  // takes the next element of over
	forkRange                 // takes the next number
	forkTry                   // resumes at pc with the error, if there is one
	forkDone                  // ends the range of the matching forkTry
	forkAlt                   // resumes at pc if there is an error
	forkLabel                 // is the target of a break
)

// fork is a choice to backtrack to, with the state to restore.
type fork struct {
	kind  forkKind
	pc    int32
	top   int32
	limit int32
	frame *frame
	track tracker
	over  Value
	next  float64 // index, number or label
	end   float64
}

// machine runs a program.
type machine struct {
	*account
	host   *Host
	stack  []cell
	top    int32 // -1 if the stack is empty
	limit  int32 // cells up to this one belong to forks
	forks  []fork
	frame  *frame
	pc     int32
	track  tracker
	labels float64
	epoch  uint32
	err    error // to unwind with

	alwaysCopy bool // copies every value before a change; tests compare this with changes in place

	patterns []compiledPattern // compiled regular expressions
}

// tooDeep is the panic value for values nested too deeply.
type tooDeep struct{}

// Error is an error raised by a program.
type Error struct{ Value Value }

// Error returns the message, or the JSON text of a value that is not a string.
func (e *Error) Error() string {
	if s, ok := e.Value.(string); ok {
		return s
	}
	m := machine{account: &account{}}
	return m.toJSON(e.Value) + " (not a string)"
}

// HaltError reports that the program called halt or halt_error.
type HaltError struct {
	Value  Value
	Status int
	Quiet  bool // halt: print nothing
}

// Error returns a message with the exit status.
func (e *HaltError) Error() string { return fmt.Sprintf("halt with status %d", e.Status) }

// breakError unwinds to the label with the number id.
type breakError struct{ id float64 }

// Error returns the message that jq prints for a break without a label.
func (e *breakError) Error() string { return "break" }

// failf returns an error that the program can catch.
func failf(format string, args ...any) error {
	return &Error{fmt.Sprintf(format, args...)}
}

// Run is a run of a program on one input.
type Run struct {
	m         *machine
	unstarted bool
	done      bool
}

// Decoder returns a decoder of r that charges the program's memory.
func (c *Code) Decoder(r io.Reader) *Decoder { return newDecoder(r, c.acct) }

// EventDecoder returns an event decoder of r that charges the program's memory.
func (c *Code) EventDecoder(r io.Reader) *EventDecoder {
	return &EventDecoder{s: newScanner(r, c.acct)}
}

// Encoder returns an encoder that charges the program's memory.
func (c *Code) Encoder(w io.Writer, f Format) *Encoder {
	return &Encoder{w: w, f: f, account: c.acct}
}

// Run starts the program on an input; the caller must not use the input any more.
func (c *Code) Run(input Value) *Run {
	m := &machine{account: c.acct, host: &c.cfg.Host, top: -1, limit: -1, alwaysCopy: c.alwaysCopy}
	m.enterFrame(&frame{code: c.main, vars: make([]Value, c.main.vars)})
	m.push(share(input))
	return &Run{m: m, unstarted: true}
}

// Next returns the next output. At the end ok is false; err is then the reason if the program
// failed.
func (r *Run) Next() (v Value, ok bool, err error) {
	if r.done {
		return nil, false, nil
	}
	if !r.unstarted && !r.m.backtrack() {
		r.done = true
		return nil, false, r.m.err
	}
	r.unstarted = false
	v, ok = r.m.run()
	if !ok {
		r.done = true
		err = r.m.err
	}
	return v, ok, err
}

// push pushes v onto the stack.
func (m *machine) push(v Value) {
	i := max(m.top, m.limit) + 1
	if int(i) >= len(m.stack) {
		m.growStack(int(i))
	}
	m.stack[i] = cell{v, m.top}
	m.top = i
}

// growStack makes room for the cell with index i.
func (m *machine) growStack(i int) {
	n := max(64, 2*i)
	m.alloc(int64(n-len(m.stack)) * cellSize)
	grown := make([]cell, n)
	copy(grown, m.stack)
	m.stack = grown
}

// pop removes the top and returns it. A cell that belongs to a fork keeps its value, which is then
// marked as shared.
func (m *machine) pop() Value {
	c := &m.stack[m.top]
	v := c.v
	if m.top > m.limit {
		c.v = nil
	} else {
		share(v)
	}
	m.top = c.prev
	return v
}

// peek returns the top.
func (m *machine) peek() Value { return m.stack[m.top].v }

// peekAt returns the value n below the top.
func (m *machine) peekAt(n int32) Value {
	i := m.top
	for range n {
		i = m.stack[i].prev
	}
	return m.stack[i].v
}

// replaceTop replaces the top with v.
func (m *machine) replaceTop(v Value) {
	m.pop()
	m.push(v)
}

// settleTop moves the top down over cells that belong to no fork any more, so that loops of tail
// calls don't grow the stack.
func (m *machine) settleTop() {
	c := m.stack[m.top]
	to := max(c.prev, m.limit) + 1
	if to < m.top {
		m.stack[m.top].v = nil
		m.stack[to] = c
		m.top = to
	}
}

// enterFrame continues at the beginning of f's body.
func (m *machine) enterFrame(f *frame) {
	m.frame = f
	m.pc = 0
}

// pushFork adds a choice with the current state.
func (m *machine) pushFork(kind forkKind, pc int32) *fork {
	if len(m.forks) == cap(m.forks) {
		m.alloc(int64(max(16, cap(m.forks))) * forkSize)
	}
	m.forks = append(m.forks, fork{
		kind: kind, pc: pc, top: m.top, limit: m.limit, frame: m.frame, track: m.track,
	})
	m.limit = max(m.limit, m.top)
	return &m.forks[len(m.forks)-1]
}

// restoreState restores the state of f.
func (m *machine) restoreState(f *fork) {
	m.top, m.limit, m.frame, m.track, m.pc = f.top, f.limit, f.frame, f.track, f.pc
}

// dropForks drops the forks from index n on without resuming them.
func (m *machine) dropForks(n int) {
	if n >= len(m.forks) {
		return
	}
	m.limit = m.forks[n].limit
	clear(m.forks[n:])
	m.forks = m.forks[:n]
}

// backtrack resumes the last choice; it returns false if none is left.
func (m *machine) backtrack() bool {
	for len(m.forks) > 0 {
		m.tick(1)
		f := &m.forks[len(m.forks)-1]
		switch f.kind {
		case forkEach:
			return m.nextElement(f)
		case forkRange:
			return m.nextNumber(f)
		case forkJump:
			was := m.popFork()
			m.restoreState(&was)
			return true
		default:
			m.popFork()
		}
	}
	return false
}

// popFork removes the last fork and returns it.
func (m *machine) popFork() fork {
	n := len(m.forks) - 1
	f := m.forks[n]
	m.forks[n] = fork{}
	m.forks = m.forks[:n]
	m.limit = f.limit
	return f
}

// raiseError unwinds to the handler of err. It returns false if there is none and stores err in
// m.err.
func (m *machine) raiseError(err error) bool {
	over := 0
	for len(m.forks) > 0 {
		m.tick(1)
		f := m.popFork()
		switch f.kind {
		case forkDone:
			over++
		case forkTry:
			if over > 0 {
				over--
			} else if v, ok := catchValue(err); ok {
				m.restoreState(&f)
				m.replaceTop(v)
				return true
			}
		case forkAlt:
			if _, ok := catchValue(err); ok {
				m.restoreState(&f)
				return true
			}
		case forkLabel:
			if b, ok := err.(*breakError); ok && //nolint:errorlint // nothing wraps it
				b.id == f.next {
				return m.backtrack()
			}
		}
	}
	m.err = err
	return false
}

// catchValue returns the value of an error for its handler, and reports whether err can be caught.
func catchValue(err error) (Value, bool) {
	e, ok := err.(*Error) //nolint:errorlint // what is wrapped is not caught
	if !ok {
		return nil, false
	}
	return share(e.Value), true
}

// nextElement pushes the next element of the container of f.
func (m *machine) nextElement(f *fork) bool {
	i := int(f.next)
	f.next++
	var key, v Value
	last := false
	switch c := f.over.(type) {
	case *Array:
		key, v = float64(i), c.Items[i]
		last = i == len(c.Items)-1
	case *Object:
		key, v = c.entries[i].Key, c.entries[i].Value
		last = i == len(c.entries)-1
	}
	m.restoreState(f)
	if last {
		m.popFork()
	} else {
		m.limit = max(f.limit, f.top)
	}
	m.push(share(v))
	if m.track.on && m.track.sub == 0 {
		m.extendPath(key, v)
	}
	return true
}

// nextNumber pushes the next number of the range of f.
func (m *machine) nextNumber(f *fork) bool {
	n := f.next
	f.next++
	last := f.next >= f.end
	m.restoreState(f)
	if last {
		m.popFork()
	} else {
		m.limit = max(f.limit, f.top)
	}
	m.push(n)
	return true
}

// extendPath adds a key to the tracked path; v is the value there.
func (m *machine) extendPath(key, v Value) {
	m.alloc(32)
	m.track.path = &pathNode{m.track.path, key}
	m.track.value = v
}
