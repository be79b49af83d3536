package syntax

import (
	"errors"
	"io"
	"strings"
)

// parser is the state of all parts of the parser: a window of source, a
// position in it, one token of look-ahead.
//
// An error is sticky: setError records the first one and hides the rest of the
// source, so that every loop ends as at the end of input.
type parser struct {
	o    Options
	src  string   // the window; it is only appended to, except by spliceText
	i    int      // next byte of src
	tail []string // source after the window, removed by spliceText; the last comes first
	grow *strings.Builder
	size int // bytes of source read so far

	curOff, curBol int // an offset whose line is known, and the start of that line
	curLine        int32

	tok       token
	haveToken bool // tok was read but not consumed

	depth   int
	nodes   int
	ticks   int
	cost    int64
	err     *Error
	stopped bool
	failed  bool // Next has returned the error
	ended   bool // the end of the input was used as a newline

	pending  []*Redir // here-documents whose bodies follow this line
	lastLine int      // length of the last line that docLine read
	words    []*Word  // scratch stack
	inArray  bool     // within a compound assignment
	inCond   bool     // the error is within [[ ]]
	subst    int      // nesting of $( )
	sep      bool     // the last statement ended in ; or &
	bodyEnd  int      // end of the last function body
	shopt    bool     // extglob is set
	extglob  bool     // extended globs are recognized here
	regex    bool     // on the right side of =~

	speculative int             // >0: aliases are not expanded
	trying      int             // >0: parsing something that may be reinterpreted
	memo        map[int]memoSub // substitutions that were parsed while trying
	notArith    map[int]bool    // positions where (( does not begin arithmetic
	aliases     []activeAlias
	blankEnd    int // end of an alias text that ends in a blank, if blank is set
	blank       bool
	aliasNext   bool // the next word may be an alias, like the first of a command
	splices     int
	aliasHit    bool // an alias was found while trying
}

type memoSub struct {
	part  Part
	end   int
	alias bool // contains an alias that is not expanded
}

// newParser returns a parser; it checks the source against the limits.
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
	p.src = p.admitSource(src)
	return p
}

// newChild returns a parser for text within the source, with the remaining
// limits.
func (p *parser) newChild(text string, line int32) *parser {
	o := p.o
	o.More = nil
	o.Line = int(line)
	c := &parser{o: o, curLine: line, src: text, depth: p.depth, nodes: p.nodes}
	c.shopt, c.extglob = p.shopt, p.shopt
	return c
}

// adoptCosts adds the costs of a child.
func (p *parser) adoptCosts(c *parser) {
	p.nodes = c.nodes
	p.cost += c.cost
	p.ticks += c.ticks
}

// admitSource counts new source and removes NUL bytes, which bash ignores.
func (p *parser) admitSource(s string) string {
	p.size += len(s)
	if p.o.MaxBytes > 0 && p.size > p.o.MaxBytes {
		p.failTooBig("script is too long")
		return ""
	}
	if strings.IndexByte(s, 0) >= 0 {
		s = strings.ReplaceAll(s, "\x00", "")
	}
	return s
}

// fillWindow appends source to the window and reports whether there was any.
func (p *parser) fillWindow() bool {
	if p.err != nil || p.stopped {
		return false
	}
	for {
		next := p.nextPiece()
		if p.err != nil {
			return false
		}
		if next != "" {
			p.appendSource(next)
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
	return p.admitSource(s)
}

// fromTail returns some lines of the source that spliceText removed.
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

func (p *parser) appendSource(s string) {
	if p.grow == nil {
		p.grow = new(strings.Builder)
		p.grow.WriteString(p.src)
	}
	p.grow.WriteString(s)
	p.src = p.grow.String()
}

// dropConsumed removes the consumed part of the window.
func (p *parser) dropConsumed() {
	if p.grow == nil || p.i == 0 {
		return
	}
	p.posAt(p.i)
	p.replaceWindow(p.src[p.i:])
}

// replaceWindow replaces the window; rest begins at the current position.
func (p *parser) replaceWindow(rest string) {
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

// byteAt returns the byte at offset j of the window; 0 at the end of the source.
func (p *parser) byteAt(j int) byte {
	for j >= len(p.src) {
		if !p.fillWindow() {
			return 0
		}
	}
	return p.src[j]
}

// peekByte returns the next byte; 0 at the end.
func (p *parser) peekByte() byte {
	if p.i < len(p.src) {
		return p.src[p.i]
	}
	return p.byteAt(p.i)
}

// skipCont returns the first offset at or after j that is not within a
// backslash-newline.
func (p *parser) skipCont(j int) int {
	for p.byteAt(j) == '\\' && p.byteAt(j+1) == '\n' {
		j += 2
	}
	return j
}

// posAt returns the line and column of an offset of the window.
func (p *parser) posAt(off int) Pos {
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

// currentLine returns the line of the current position.
func (p *parser) currentLine() int { return int(p.posAt(p.i).Line) }
