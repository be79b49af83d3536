package awk

import (
	"bufio"
	"math/rand"
	"strings"
	"time"
	"unicode/utf8"
)

// Compiled expressions and statements.
type (
	numFn  func() float64
	strFn  func() string
	valFn  func() value
	boolFn func() bool
	stmtFn func() ctl
)

// ctl is how a statement ended.
type ctl uint8

const (
	goOn ctl = iota
	doBreak
	doContinue
	doNext
	doNextFile
	doReturn
)

// slot is a local variable or parameter.
type slot struct {
	v   value
	arr *array
	own bool // arr was created by this call
}

// interp is a running program.
type interp struct {
	prog *Program
	cfg  *Config
	bud  Budget
	utf8 bool
	out  *bufio.Writer

	status     int
	unwinding  unwindKind
	jump       ctl // of leaving
	hasFailed  bool
	exitNow    bool
	hasInput   bool
	sourceName string // of the running source, for messages

	begins, mains, ends, fileBegins, fileEnds []stmtFn

	// Local variables and calls.
	stack    []slot
	fp       int
	ret      value
	operands []value // of the print statements being executed
	depth    int     // of calls of the program's functions
	goStack  int     // estimated bytes of Go's stack in use

	// Work and memory for the budget.
	steps       int   // until the next Tick
	pending     int64 // charged but not yet reported to the budget
	temp        int64 // charged for intermediate results of this statement
	tempBase    int64 // part of temp that belongs to the callers' statements
	cloneStored bool  // a long record was read: stored strings are cloned, so that they don't retain it
	allocs      int64 // total charge

	record
	input
	vars
	streams map[string]*stream
	open    []*stream // the open streams, oldest first
	regexes regexCache
	rnd     *rand.Rand
	seed    float64
	zone    *time.Location
}

// vars are the built-in variables that the interpreter reads itself.
type vars struct {
	nr, fnr           float64
	fs, rs            string
	ofs, ors, subsep  string
	convfmt, ofmt     string
	ignoreCase        bool
	fieldwidths, fpat string
	fname, rt, argind *value
	rstart, rlength   *value
	errno             *value
	procinfo          *array
	argc              *value
	argv              *array
}

// tickEvery is the number of units of work between two calls of Tick.
const tickEvery = 256

// newInterp returns an interpreter for a program.
func newInterp(p *Program, c *Config) *interp {
	in := &interp{
		prog: p, cfg: c, bud: c.Budget, utf8: !c.Bytes, steps: tickEvery,
		streams: make(map[string]*stream), zone: c.Zone,
	}
	if len(p.srcs) > 0 {
		in.sourceName = sourceName(p.srcs[0])
	}
	if in.zone == nil {
		in.zone = time.UTC
	}
	in.out = writers.Get().(*bufio.Writer)
	in.out.Reset(c.Stdout)
	in.regexes.in = in
	in.fs, in.rs, in.ofs, in.ors, in.subsep = " ", "\n", " ", "\n", "\x1c"
	in.convfmt, in.ofmt = "%.6g", "%.6g"
	in.split = blankSplitter{}
	in.next = in.split
	in.valid, in.done = true, true
	return in
}

// tick counts n units of work.
func (in *interp) tick(n int) {
	in.steps -= n
	if in.steps < 0 {
		in.flushTicks()
	}
}

// flushTicks reports the work to the budget.
func (in *interp) flushTicks() {
	n := tickEvery - in.steps
	in.steps = tickEvery
	if in.bud != nil {
		in.bud.Tick(n)
		if in.pending > 0 {
			in.flushCharges()
		}
	}
}

// tickBytes counts the work of processing n bytes.
func (in *interp) tickBytes(n int) { in.tick(1 + n>>6) }

// charge counts n bytes of live memory; n may be negative.
func (in *interp) charge(n int64) {
	in.pending += n
	if in.pending > 8<<10 || in.pending < -64<<10 {
		in.flushCharges()
	}
}

// flushCharges reports the charges to the budget.
func (in *interp) flushCharges() {
	n := in.pending
	in.pending = 0
	in.allocs += n
	switch {
	case in.bud == nil:
	case n > 0:
		in.bud.Alloc(n)
	case n < 0:
		in.bud.Free(-n)
	}
}

// numOf returns a value as a number and counts the work of parsing a long string.
func (in *interp) numOf(v *value) float64 {
	if len(v.s) > 512 && v.k != number && v.k != numeric {
		in.tickBytes(8 * len(v.s))
	}
	return v.asNumber()
}

// largeString is the length in bytes from which intermediate results are charged.
const largeString = 4 << 10

// chargeTemp charges a string of n bytes before it is created. The charge ends with the statement.
func (in *interp) chargeTemp(n int) {
	if n >= largeString {
		in.temp += int64(n)
		in.charge(int64(n))
		in.flushCharges()
		in.tickBytes(n)
	}
}

// freeTemp frees the statement's intermediate results; base is the part of the calling statements.
func (in *interp) freeTemp(base int64) {
	if in.temp > base {
		in.charge(base - in.temp)
		in.temp = base
	}
}

// storeValue assigns v to a variable or an element.
func (in *interp) storeValue(p *value, v value) {
	if n := int64(len(v.s)) - int64(len(p.s)); n != 0 {
		if n > largeString && in.temp > 0 { // it was charged when it was created
			t := min(n, in.temp)
			in.temp -= t
			n -= t
		}
		in.charge(n)
	}
	if in.cloneStored && len(v.s) > 0 {
		v.s = strings.Clone(v.s)
	}
	*p = v
}

// resetStack drops all frames after the stack was unwound.
func (in *interp) resetStack() {
	clear(in.stack)
	in.fp, in.depth, in.goStack = 0, 0, 0
	in.stack, in.operands = in.stack[:0], in.operands[:0]
	in.tempBase = 0
	in.freeTemp(0)
}

// charCount returns the number of characters of s.
func (in *interp) charCount(s string) int {
	if !in.utf8 {
		return len(s)
	}
	in.tickBytes(len(s))
	return utf8.RuneCountInString(s)
}

// charOffset returns the byte offset of the n-th character of s, counted from 0, or len(s).
func (in *interp) charOffset(s string, n int) int {
	if !in.utf8 {
		return min(n, len(s))
	}
	i := 0
	for ; n > 0 && i < len(s); n-- {
		if s[i] < utf8.RuneSelf {
			i++
			continue
		}
		_, w := utf8.DecodeRuneInString(s[i:])
		i += w
	}
	in.tickBytes(i)
	return i
}

// firstChars returns the first n characters of s.
func (in *interp) firstChars(s string, n int) string {
	if n >= len(s) {
		return s
	}
	return s[:in.charOffset(s, n)]
}
