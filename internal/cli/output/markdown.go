package output

import (
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"

	"github.com/atoll-sandbox/atoll/internal/cli/tty"
)

// Markdown writes a model's text to a terminal as it comes: the little of Markdown
// that reads better painted is painted, and nothing that the text holds can
// steer the terminal. Without colour the text goes out as it is.
type Markdown struct {
	W     io.Writer
	Color bool

	run   rune // '*', '`' or '#' of which more may come
	count int
	Line  int // characters of this line so far
	bold  bool
	code  bool
	fence bool
	head  bool
	err   error
}

// HasColor reports whether a stream shows colours and a person looks at it.
func HasColor(w any) bool {
	return tty.IsTerminal(w) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

const (
	Bold, boldOff = "\x1b[1m", "\x1b[22m"
	Code, codeOff = "\x1b[36m", "\x1b[39m"
	Dim           = "\x1b[2m"
	Red           = "\x1b[31m"
	Green         = "\x1b[32m"
	Yellow        = "\x1b[33m"
	Reset         = "\x1b[0m"
)

// WriteText takes the next piece.
func (p *Markdown) WriteText(s string) error {
	if !p.Color {
		p.writeStyled(s)
		if i := strings.LastIndexByte(s, '\n'); i >= 0 {
			p.Line, s = 0, s[i+1:]
		}
		p.Line += len(s)
		return p.err
	}
	var b strings.Builder
	for _, r := range s {
		p.writeRune(&b, r)
	}
	p.writeStyled(b.String())
	return p.err
}

// Close ends the text, and its line if it is in the middle of one.
func (p *Markdown) Close() error {
	var b strings.Builder
	p.flush(&b, '\n')
	if p.Line > 0 {
		p.writeRune(&b, '\n')
	}
	if p.fence && p.Color {
		b.WriteString(Reset)
	}
	*p = Markdown{W: p.W, Color: p.Color, err: p.err}
	p.writeStyled(b.String())
	return p.err
}

func (p *Markdown) writeStyled(s string) {
	if s != "" && p.err == nil {
		_, p.err = io.WriteString(p.W, s)
	}
}

// writeRune takes one character.
func (p *Markdown) writeRune(b *strings.Builder, r rune) {
	if p.count > 0 && r != p.run {
		p.flush(b, r)
		if p.head && p.Line == 0 && r == ' ' {
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
		p.head, p.bold, p.code, p.Line = false, false, false, 0
		b.WriteByte('\n')
	case r == '`', r == '*' && !p.fence, r == '#' && p.Line == 0 && !p.fence:
		p.run = r
		p.count++
	case r == '\t', !unicode.IsControl(r) && !unicode.Is(unicode.Bidi_Control, r):
		b.WriteRune(r)
		p.Line++
	default:
		b.WriteRune('·')
		p.Line++
	}
}

// flush decides what a run of signs meant, now that next has ended it.
func (p *Markdown) flush(b *strings.Builder, next rune) {
	run, n := p.run, p.count
	p.count = 0
	if n == 0 {
		return
	}
	switch {
	case run == '`' && n >= 3 && p.Line == 0:
		p.fence = !p.fence
		b.WriteString(map[bool]string{true: Code, false: codeOff}[p.fence])
	case p.fence:
	case run == '`' && n == 1:
		p.code = !p.code
		b.WriteString(map[bool]string{true: Code, false: codeOff}[p.code])
		return
	case run == '*' && n == 2:
		p.bold = !p.bold
		b.WriteString(map[bool]string{true: Bold, false: boldOff}[p.bold])
		return
	case run == '#' && n <= 6 && next == ' ':
		p.head = true
		b.WriteString(Bold)
		return
	}
	fmt.Fprint(b, strings.Repeat(string(run), n))
	p.Line += n
}
