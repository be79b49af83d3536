package awk

import (
	"bufio"
	"math/rand"
	"strings"
	"time"
	"unicode/utf8"
)

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
	own bool // arr was made in this call
}

// interp is a program at work.
type interp struct {
	prog *Program
	cfg  *Config
	bud  Budget
	utf8 bool
	out  *bufio.Writer

	status    int
	unwinding unwindKind
	jump      ctl // of leaving
	fataled   bool
	exitNow   bool
	hasInput  bool
	where     string // of the running source

	begins, mains, ends, fileBegins, fileEnds []stmtFn

	// locals
	stack    []slot
	fp       int
	ret      value
	operands []value // of the prints at work
	depth    int     // of user functions
	deep     int     // bytes of Go stack, estimated

	// accounts
	steps    int   // until the next Tick
	owed     int64 // charged and not yet reported
	temp     int64 // charged for intermediate results of this statement
	tempBase int64 // what the callers' statements have of temp
	large    bool  // a long record was seen: what is kept of it is copied
	allocs   int64 // all that is charged

	record
	input
	vars
	streams map[string]*stream
	open    []*stream // the open ones, by age
	regexes regexCache
	rnd     *rand.Rand
	seed    float64
	zone    *time.Location
}

// vars are the built-in variables that the interpreter looks at itself.
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

const tickEvery = 256

func newInterp(p *Program, c *Config) *interp {
	in := &interp{
		prog: p, cfg: c, bud: c.Budget, utf8: !c.Bytes, steps: tickEvery,
		streams: make(map[string]*stream), zone: c.Zone,
	}
	if len(p.srcs) > 0 {
		in.where = where(p.srcs[0])
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
		in.tock()
	}
}

func (in *interp) tock() {
	n := tickEvery - in.steps
	in.steps = tickEvery
	if in.bud != nil {
		in.bud.Tick(n)
		if in.owed > 0 {
			in.settle()
		}
	}
}

// work counts the work of going over n bytes.
func (in *interp) work(n int) { in.tick(1 + n>>6) }

// charge notes n bytes of live memory, which may be negative.
func (in *interp) charge(n int64) {
	in.owed += n
	if in.owed > 8<<10 || in.owed < -64<<10 {
		in.settle()
	}
}

func (in *interp) settle() {
	n := in.owed
	in.owed = 0
	in.allocs += n
	switch {
	case in.bud == nil:
	case n > 0:
		in.bud.Alloc(n)
	case n < 0:
		in.bud.Free(-n)
	}
}

// numOf returns a value as a number and counts the work of reading one that
// is long.
func (in *interp) numOf(v *value) float64 {
	if len(v.s) > 512 && v.k != number && v.k != numeric {
		in.work(8 * len(v.s))
	}
	return v.num()
}

// largeString is from where on an intermediate result is charged.
const largeString = 4 << 10

// reserve charges a string of n bytes that is about to be made. It is given
// back when the statement ends.
func (in *interp) reserve(n int) {
	if n >= largeString {
		in.temp += int64(n)
		in.charge(int64(n))
		in.settle()
		in.work(n)
	}
}

// settleTemp gives back what the statement's intermediate results took,
// down to what the calling statement had taken.
func (in *interp) settleTemp(base int64) {
	if in.temp > base {
		in.charge(base - in.temp)
		in.temp = base
	}
}

// store assigns v to a variable or an element.
func (in *interp) store(p *value, v value) {
	if n := int64(len(v.s)) - int64(len(p.s)); n != 0 {
		if n > largeString && in.temp > 0 { // it was charged when it was made
			t := min(n, in.temp)
			in.temp -= t
			n -= t
		}
		in.charge(n)
	}
	if in.large && len(v.s) > 0 {
		v.s = strings.Clone(v.s)
	}
	*p = v
}

// own returns s in memory that holds nothing else, for keys.
func (in *interp) own(s string) string {
	return strings.Clone(s)
}

func (in *interp) resetStack() {
	clear(in.stack)
	in.fp, in.depth, in.deep = 0, 0, 0
	in.stack, in.operands = in.stack[:0], in.operands[:0]
	in.tempBase = 0
	in.settleTemp(0)
}

// length returns how many characters s has.
func (in *interp) length(s string) int {
	if !in.utf8 {
		return len(s)
	}
	in.work(len(s))
	return utf8.RuneCountInString(s)
}

// offset returns the byte offset of the n-th character of s, counted from 0,
// or len(s).
func (in *interp) offset(s string, n int) int {
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
	in.work(i)
	return i
}

// prefix returns the first n characters of s.
func (in *interp) prefix(s string, n int) string {
	if n >= len(s) {
		return s
	}
	return s[:in.offset(s, n)]
}
