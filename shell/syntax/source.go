package syntax

import (
	"errors"
	"io"
	"strings"
)

// parser is the state shared by all parts of the grammar: a window of source,
// a position in it, one token of look-ahead.
//
// A failure is sticky: fail notes the first error and makes the rest of the
// source invisible, so that every loop ends as it does at the end of input.
type parser struct {
	o    Options
	src  string   // the window; only ever appended to, except by splice
	i    int      // next byte of src
	tail []string // source after the window, cut off by splice; the last comes first
	grow *strings.Builder
	size int // bytes of source seen so far

	curOff, curBol int // a place whose line is known, and where that line starts
	curLine        int32

	tok  token
	have bool // tok is read but not consumed

	depth   int
	nodes   int
	ticks   int
	cost    int64
	err     *Error
	stopped bool
	failed  bool // Next has returned the error
	ended   bool // the newline that the end of the input stands for was used

	pending  []*Redir // here-documents whose body comes after this line
	lastLine int      // length of the last line docLine read
	words    []*Word  // scratch stack
	inArray  bool     // reads a compound assignment
	inCond   bool     // has failed within [[ ]]
	subst    int      // depth of $( )
	sep      bool     // the last statement had a ; or &
	bodyEnd  int      // where the last function body ended
	shopt    bool     // extglob is set
	extglob  bool     // extended globs are read here
	regex    bool     // reads the right side of =~

	spec   int             // >0: aliases are not expanded
	trying int             // >0: trying a reading that may be given up
	memo   map[int]memoSub // substitutions read while trying
	notAr  map[int]bool    // places where (( is not arithmetic

	aliases  []activeAlias
	blankEnd int // an alias text that ends in a blank ends here, and blank is set
	blank    bool
	nextToo  bool // the next word is looked up like the first of a command
	splices  int
	aliasHit bool // an alias was seen while trying
}

type memoSub struct {
	part  Part
	end   int
	alias bool // holds an alias that is not expanded
}

// newParser prepares a parser; the source is checked against the limits.
func newParser(src string, o Options) *parser {
	if o.MaxBytes == 0 {
		o.MaxBytes = DefaultMaxBytes
	}
	if o.MaxDepth <= 0 {
		o.MaxDepth = DefaultMaxDepth
	}
	o.MaxDepth = min(o.MaxDepth, depthCeiling)
	if o.MaxNodes == 0 {
		o.MaxNodes = DefaultMaxNodes
	}
	p := &parser{o: o, curLine: 1}
	if o.Line > 0 {
		p.curLine = int32(o.Line)
	}
	p.src = p.admit(src)
	return p
}

// child returns a parser for text found inside the source, with what is left
// of the budget.
func (p *parser) child(text string, line int32) *parser {
	o := p.o
	o.More = nil
	o.Line = int(line)
	c := &parser{o: o, curLine: line, src: text, depth: p.depth, nodes: p.nodes}
	c.shopt, c.extglob = p.shopt, p.shopt
	return c
}

// adopt takes back what a child has used.
func (p *parser) adopt(c *parser) {
	p.nodes = c.nodes
	p.cost += c.cost
	p.ticks += c.ticks
}

// admit counts new source and drops NUL bytes, which bash ignores.
func (p *parser) admit(s string) string {
	p.size += len(s)
	if p.o.MaxBytes > 0 && p.size > p.o.MaxBytes {
		p.tooBig("script is too long")
		return ""
	}
	if strings.IndexByte(s, 0) >= 0 {
		s = strings.ReplaceAll(s, "\x00", "")
	}
	return s
}

// fill appends source to the window and reports whether there was any.
func (p *parser) fill() bool {
	if p.err != nil || p.stopped {
		return false
	}
	for {
		next := p.nextPiece()
		if p.err != nil {
			return false
		}
		if next != "" {
			p.append(next)
			return true
		}
		if p.stopped {
			return false
		}
	}
}

// nextPiece returns more source; at the end it sets stopped.
func (p *parser) nextPiece() string {
	if len(p.tail) > 0 {
		return p.fromTail()
	}
	if p.o.More == nil {
		p.stopped = true
		return ""
	}
	s, err := p.o.More()
	if err != nil {
		p.stopped = true
		if !errors.Is(err, io.EOF) && s == "" {
			return ""
		}
	}
	return p.admit(s)
}

// fromTail takes some lines of what splice has cut off.
func (p *parser) fromTail() string {
	last := &p.tail[len(p.tail)-1]
	s := *last
	n := min(len(s), 4096)
	if nl := strings.IndexByte(s[n:], '\n'); nl >= 0 {
		n += nl + 1
	} else {
		n = len(s)
	}
	if n == len(s) {
		p.tail = p.tail[:len(p.tail)-1]
	} else {
		*last = s[n:]
	}
	return s[:n]
}

func (p *parser) append(s string) {
	if p.grow == nil {
		p.grow = new(strings.Builder)
		p.grow.WriteString(p.src)
	}
	p.grow.WriteString(s)
	p.src = p.grow.String()
}

// trim forgets the part of the window that is consumed.
func (p *parser) trim() {
	if p.grow == nil || p.i == 0 {
		return
	}
	p.pos(p.i)
	p.shift(p.src[p.i:])
}

// shift replaces the window: rest is what follows the current position.
func (p *parser) shift(rest string) {
	p.curBol -= p.i
	p.curOff = 0
	for i := range p.aliases {
		p.aliases[i].end -= p.i
	}
	p.blankEnd -= p.i
	p.src = rest
	p.grow = nil
	p.i = 0
}

// at returns the byte at offset j of the window, 0 at the end of the source.
func (p *parser) at(j int) byte {
	for j >= len(p.src) {
		if !p.fill() {
			return 0
		}
	}
	return p.src[j]
}

// peek returns the next byte, 0 at the end.
func (p *parser) peek() byte {
	if p.i < len(p.src) {
		return p.src[p.i]
	}
	return p.at(p.i)
}

// skipCont returns the first offset from j on that is not within a
// backslash-newline.
func (p *parser) skipCont(j int) int {
	for p.at(j) == '\\' && p.at(j+1) == '\n' {
		j += 2
	}
	return j
}

// pos returns line and column of an offset of the window.
func (p *parser) pos(off int) Pos {
	if off > len(p.src) {
		off = len(p.src)
	}
	switch {
	case off >= p.curOff:
		for {
			nl := strings.IndexByte(p.src[p.curOff:off], '\n')
			if nl < 0 {
				break
			}
			p.curOff += nl + 1
			p.curBol = p.curOff
			p.curLine++
		}
	case off < p.curBol:
		p.curLine -= int32(strings.Count(p.src[off:p.curOff], "\n"))
		p.curBol = strings.LastIndexByte(p.src[:off], '\n') + 1
	}
	p.curOff = off
	return Pos{p.curLine, int32(off-p.curBol) + 1}
}

// line returns the line of the current position.
func (p *parser) line() int { return int(p.pos(p.i).Line) }
