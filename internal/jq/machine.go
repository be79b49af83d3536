package jq

import (
	"fmt"
	"io"
	"time"
)

// Host is what a program can reach outside of itself. Nil functions stand for nothing.
type Host struct {
	Input    func() (Value, bool, error) // the next input, for input and inputs
	Filename func() Value
	Line     func() int
	Debug    func(Value) // takes ["DEBUG:", value] of debug
	Stderr   func(Value)
	Environ  []string // KEY=value
	Now      func() (sec int64, nsec int)
	Zone     *time.Location // of localtime; nil is UTC
}

// frame is one call of a body.
type frame struct {
	code *code
	up   *frame // the call that the body was defined in
	ret  *frame // where it was called
	pc   int32  // of the caller, to go on at
	mark uint32
	vars []Value
	args []closure
}

type closure struct {
	code *code
	env  *frame
}

type cell struct {
	v    Value
	prev int32
}

// pathNode is a path, the last key first.
type pathNode struct {
	up  *pathNode
	key Value
}

// tracker is the state of a path expression.
type tracker struct {
	on    bool
	sub   int32 // how deep in expressions whose paths don't matter
	path  *pathNode
	value Value // what is at path
}

type forkKind uint8

const (
	forkJump  forkKind = iota // go on at pc
	forkEach                  // the next element of over
	forkRange                 // the next number
	forkTry                   // go on at pc with an error, if there is one
	forkDone                  // the matching forkTry is over
	forkAlt                   // go on at pc if there is an error
	forkLabel                 // where a break goes
)

// fork is a choice to come back to.
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
	top    int32 // -1: empty
	limit  int32 // cells up to here belong to forks
	forks  []fork
	frame  *frame
	pc     int32
	track  tracker
	labels float64
	epoch  uint32
	err    error // to unwind with

	careful bool // copy whatever is changed: for tests of changes in place

	patterns []compiledPattern // regular expressions in use
}

type tooDeep struct{}

// Error is an error that a program raised.
type Error struct{ Value Value }

func (e *Error) Error() string {
	if s, ok := e.Value.(string); ok {
		return s
	}
	m := machine{account: &account{}}
	return m.toJSON(e.Value) + " (not a string)"
}

// HaltError ends the program.
type HaltError struct {
	Value  Value
	Status int
	Quiet  bool // halt: print nothing
}

func (e *HaltError) Error() string { return fmt.Sprintf("halt with status %d", e.Status) }

// breakError goes to the label with the number id.
type breakError struct{ id float64 }

func (e *breakError) Error() string { return "break" }

func failf(format string, args ...any) error {
	return &Error{fmt.Sprintf(format, args...)}
}

// Run is a program at work on one input.
type Run struct {
	m    *machine
	idle bool
	done bool
}

// Decoder returns a decoder of r that shares the memory of the program.
func (c *Code) Decoder(r io.Reader) *Decoder { return newDecoder(r, c.acct) }

// EventDecoder is Decoder for --stream.
func (c *Code) EventDecoder(r io.Reader) *EventDecoder {
	return &EventDecoder{s: newScanner(r, c.acct)}
}

// Encoder returns an encoder that shares the memory of the program.
func (c *Code) Encoder(w io.Writer, f Format) *Encoder {
	return &Encoder{w: w, f: f, account: c.acct}
}

// Run starts the program on an input, which it owns from then on.
func (c *Code) Run(input Value) *Run {
	m := &machine{account: c.acct, host: &c.cfg.Host, top: -1, limit: -1, careful: c.careful}
	m.enter(&frame{code: c.main, vars: make([]Value, c.main.vars)})
	m.push(share(input))
	return &Run{m: m, idle: true}
}

// Next returns the next output; ok is false at the end, and then an error may
// say why.
func (r *Run) Next() (v Value, ok bool, err error) {
	if r.done {
		return nil, false, nil
	}
	if !r.idle && !r.m.backtrack() {
		r.done = true
		return nil, false, r.m.err
	}
	r.idle = false
	v, ok = r.m.run()
	if !ok {
		r.done = true
		err = r.m.err
	}
	return v, ok, err
}

func (m *machine) push(v Value) {
	i := max(m.top, m.limit) + 1
	if int(i) >= len(m.stack) {
		m.growStack(int(i))
	}
	m.stack[i] = cell{v, m.top}
	m.top = i
}

func (m *machine) growStack(i int) {
	n := max(64, 2*i)
	m.alloc(int64(n-len(m.stack)) * cellSize)
	grown := make([]cell, n)
	copy(grown, m.stack)
	m.stack = grown
}

// pop takes the top. A cell that a fork keeps stays there too, so its value is shared.
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

func (m *machine) peek() Value { return m.stack[m.top].v }

// peekAt returns the value n below the top.
func (m *machine) peekAt(n int32) Value {
	i := m.top
	for range n {
		i = m.stack[i].prev
	}
	return m.stack[i].v
}

// replace is pop and push.
func (m *machine) replace(v Value) {
	m.pop()
	m.push(v)
}

// settleTop moves the top down over cells that no fork keeps any more, so that
// loops of tail calls don't climb.
func (m *machine) settleTop() {
	c := m.stack[m.top]
	to := max(c.prev, m.limit) + 1
	if to < m.top {
		m.stack[m.top].v = nil
		m.stack[to] = c
		m.top = to
	}
}

func (m *machine) enter(f *frame) {
	m.frame = f
	m.pc = 0
}

func (m *machine) fork(kind forkKind, pc int32) *fork {
	if len(m.forks) == cap(m.forks) {
		m.alloc(int64(max(16, cap(m.forks))) * forkSize)
	}
	m.forks = append(m.forks, fork{
		kind: kind, pc: pc, top: m.top, limit: m.limit, frame: m.frame, track: m.track,
	})
	m.limit = max(m.limit, m.top)
	return &m.forks[len(m.forks)-1]
}

// restore goes back to the state of f, which is no longer on the stack of forks.
func (m *machine) restore(f *fork) {
	m.top, m.limit, m.frame, m.track, m.pc = f.top, f.limit, f.frame, f.track, f.pc
}

// drop forgets the forks from n on, without going back to them.
func (m *machine) drop(n int) {
	if n >= len(m.forks) {
		return
	}
	m.limit = m.forks[n].limit
	clear(m.forks[n:])
	m.forks = m.forks[:n]
}

// backtrack goes back to the last choice; it is false when there is none left,
// or an error that nobody catches.
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
			m.restore(&was)
			return true
		default:
			m.popFork()
		}
	}
	return false
}

func (m *machine) popFork() fork {
	n := len(m.forks) - 1
	f := m.forks[n]
	m.forks[n] = fork{}
	m.forks = m.forks[:n]
	m.limit = f.limit
	return f
}

// raise unwinds to what catches err.
func (m *machine) raise(err error) bool {
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
			} else if v, ok := caught(err); ok {
				m.restore(&f)
				m.replace(v)
				return true
			}
		case forkAlt:
			if _, ok := caught(err); ok {
				m.restore(&f)
				return true
			}
		case forkLabel:
			if b, ok := err.(*breakError); ok && b.id == f.next {
				return m.backtrack()
			}
		}
	}
	m.err = err
	return false
}

// caught returns what a handler gets of an error, if it may have it.
func caught(err error) (Value, bool) {
	e, ok := err.(*Error)
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
	m.restore(f)
	if last {
		m.popFork()
	} else {
		m.limit = max(f.limit, f.top)
	}
	m.push(share(v))
	if m.track.on && m.track.sub == 0 {
		m.step(key, v)
	}
	return true
}

func (m *machine) nextNumber(f *fork) bool {
	n := f.next
	f.next++
	last := f.next >= f.end
	m.restore(f)
	if last {
		m.popFork()
	} else {
		m.limit = max(f.limit, f.top)
	}
	m.push(n)
	return true
}

// step adds a key to the path that is tracked.
func (m *machine) step(key, v Value) {
	m.alloc(32)
	m.track.path = &pathNode{m.track.path, key}
	m.track.value = v
}
