package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"
)

// paint writes a model's text to a terminal as it comes: the little of Markdown
// that reads better painted is painted, and nothing that the text holds can
// steer the terminal. Without colour the text goes out as it is.
type paint struct {
	w      io.Writer
	colour bool

	run   rune // '*', '`' or '#' of which more may come
	count int
	line  int // characters of this line so far
	bold  bool
	code  bool
	fence bool
	head  bool
	err   error
}

// hasColour reports whether a stream shows colours and a person looks at it.
func hasColour(w any) bool {
	return isTerminal(w) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

const (
	boldOn, boldOff = "\x1b[1m", "\x1b[22m"
	codeOn, codeOff = "\x1b[36m", "\x1b[39m"
	dimOn           = "\x1b[2m"
	redOn           = "\x1b[31m"
	greenOn         = "\x1b[32m"
	yellowOn        = "\x1b[33m"
	allOff          = "\x1b[0m"
)

// text takes the next piece.
func (p *paint) text(s string) error {
	if !p.colour {
		p.out(s)
		if i := strings.LastIndexByte(s, '\n'); i >= 0 {
			p.line, s = 0, s[i+1:]
		}
		p.line += len(s)
		return p.err
	}
	var b strings.Builder
	for _, r := range s {
		p.rune(&b, r)
	}
	p.out(b.String())
	return p.err
}

// end ends the text, and its line if it is in the middle of one.
func (p *paint) end() error {
	var b strings.Builder
	p.flush(&b, '\n')
	if p.line > 0 {
		p.rune(&b, '\n')
	}
	if p.fence && p.colour {
		b.WriteString(allOff)
	}
	*p = paint{w: p.w, colour: p.colour, err: p.err}
	p.out(b.String())
	return p.err
}

func (p *paint) out(s string) {
	if s != "" && p.err == nil {
		_, p.err = io.WriteString(p.w, s)
	}
}

// rune takes one character.
func (p *paint) rune(b *strings.Builder, r rune) {
	if p.count > 0 && r != p.run {
		p.flush(b, r)
		if p.head && p.line == 0 && r == ' ' {
			return // the sign of a heading is shown by its weight
		}
	}
	switch {
	case r == '\n':
		if p.head || p.bold {
			b.WriteString(boldOff)
		}
		if p.code {
			b.WriteString(codeOff)
		}
		p.head, p.bold, p.code, p.line = false, false, false, 0
		b.WriteByte('\n')
	case r == '`', r == '*' && !p.fence, r == '#' && p.line == 0 && !p.fence:
		p.run = r
		p.count++
	case r == '\t', !unicode.IsControl(r) && !unicode.Is(unicode.Bidi_Control, r):
		b.WriteRune(r)
		p.line++
	default:
		b.WriteRune('·')
		p.line++
	}
}

// flush decides what a run of signs meant, now that next has ended it.
func (p *paint) flush(b *strings.Builder, next rune) {
	run, n := p.run, p.count
	p.count = 0
	if n == 0 {
		return
	}
	switch {
	case run == '`' && n >= 3 && p.line == 0:
		p.fence = !p.fence
		b.WriteString(map[bool]string{true: codeOn, false: codeOff}[p.fence])
	case p.fence:
	case run == '`' && n == 1:
		p.code = !p.code
		b.WriteString(map[bool]string{true: codeOn, false: codeOff}[p.code])
		return
	case run == '*' && n == 2:
		p.bold = !p.bold
		b.WriteString(map[bool]string{true: boldOn, false: boldOff}[p.bold])
		return
	case run == '#' && n <= 6 && next == ' ':
		p.head = true
		b.WriteString(boldOn)
		return
	}
	fmt.Fprint(b, strings.Repeat(string(run), n))
	p.line += n
}
