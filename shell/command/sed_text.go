package command

import (
	"strings"
	"unicode/utf8"
)

// text reads what a, i or c print: on the same line, as GNU allows, or after
// a backslash and a newline.
func (s *sedParser) text(cmd *sedCommand) error {
	c := s.nextNonblank()
	if c == eof || c == '\n' {
		return s.bad("expected \\ after `a', `c' or `i'")
	}
	if c == '\\' {
		at := s.pos
		if c = s.nextNonblank(); c != '\n' {
			s.pos = at
			if c = s.next(); c != eof {
				cmd.text = append(cmd.text, byte(c))
			}
			s.pending = c == eof
		}
	} else {
		s.back()
	}
	cmd.text = append(cmd.text, s.textLines()...)
	if !s.pending || len(cmd.text) > 0 {
		s.finishText(cmd)
	}
	return nil
}

// goOn takes the rest of a text from the next part.
func (s *sedParser) goOn() {
	s.pending = false
	cmd := &s.script.commands[len(s.script.commands)-1]
	cmd.text = append(cmd.text, s.textLines()...)
	s.finishText(cmd)
}

func (s *sedParser) finishText(cmd *sedCommand) {
	cmd.text = append(cmd.text, '\n')
}

// textLines reads up to a newline that no backslash precedes, and undoes
// escapes.
func (s *sedParser) textLines() []byte {
	var raw []byte
	for {
		c := s.next()
		if c == eof || c == '\n' {
			return sedEscapes(raw, sedText)
		}
		raw = append(raw, byte(c))
		if c != '\\' {
			continue
		}
		if c = s.next(); c == eof {
			s.pending = true
			return sedEscapes(raw[:len(raw)-1], sedText)
		}
		raw = append(raw, byte(c))
	}
}

// delimited reads up to an unescaped delimiter, outside of a bracket
// expression where it is a pattern. It returns nil when there is none.
func (s *sedParser) delimited(delim int, pattern bool) (*string, error) {
	if delim == eof || delim == '\n' || delim == '\\' {
		return nil, nil
	}
	if delim >= utf8.RuneSelf {
		return nil, s.bad("delimiter character is not a single-byte character")
	}
	var b strings.Builder
	for {
		c := s.next()
		switch {
		case c == eof, c == '\n':
			if c == '\n' {
				s.back()
			}
			return nil, nil
		case c == delim:
			text := b.String()
			return &text, nil
		case c == '[' && pattern && delim != '[':
			b.WriteByte('[')
			if !s.bracket(&b) {
				return nil, nil
			}
			continue
		case c != '\\':
			b.WriteByte(byte(c))
			continue
		}
		switch c = s.next(); {
		case c == eof:
			return nil, nil
		case c == delim:
			if !pattern && (c == '&' || isDigit(c)) {
				b.WriteByte('\\')
			}
			b.WriteByte(byte(c))
		case c == 'n' && pattern:
			b.WriteByte('\n')
		case c == '\n' && pattern:
			b.WriteByte('\n')
		default:
			b.WriteByte('\\')
			b.WriteByte(byte(c))
		}
	}
}

// bracket copies a bracket expression whose [ has been read.
func (s *sedParser) bracket(b *strings.Builder) bool {
	inner := byte(0) // the mark of the class that is open: ':', '.' or '='
	for n := 0; ; n++ {
		c := s.next()
		switch {
		case c == eof || c == '\n':
			if c == '\n' {
				s.back()
			}
			return false
		case c == '^' && n == 0:
			n = -1
			if strings.HasSuffix(b.String(), "^") {
				n = 0
			}
		case c == '\\' && inner == 0:
			if s.next() == 'n' {
				c = '\n'
			} else {
				s.back()
			}
		case c == ']' && inner != 0:
			if text := b.String(); text[len(text)-1] == inner {
				inner = 0
			}
		case c == ']' && n > 0:
			b.WriteByte(']')
			return true
		case (c == ':' || c == '.' || c == '=') && inner == 0 && n > 0:
			if text := b.String(); text[len(text)-1] == '[' {
				inner = byte(c)
			}
		}
		b.WriteByte(byte(c))
	}
}

// sedContext says where escapes stand.
type sedContext int

const (
	sedText    sedContext = iota // of a, i and c, where any other escape is the character itself
	sedPattern                   // of a regular expression, which has escapes of its own
)

// sedPatternEscapes turns escapes that stand for one character into it.
func sedPatternEscapes(pattern string) string {
	if strings.IndexByte(pattern, '\\') < 0 {
		return pattern
	}
	return string(sedEscapes([]byte(pattern), sedPattern))
}

func sedEscapes(raw []byte, where sedContext) []byte {
	out := make([]byte, 0, len(raw))
	for i := 0; i < len(raw); i++ {
		if raw[i] != '\\' || i+1 == len(raw) {
			out = append(out, raw[i])
			continue
		}
		if c, used := sedEscape(raw[i+1:]); used > 0 {
			out = append(out, c)
			i += used
			continue
		}
		i++
		switch {
		case where == sedPattern:
			out = append(out, '\\', raw[i])
		case raw[i] == 'n':
			out = append(out, '\n')
		default:
			out = append(out, raw[i])
		}
	}
	return out
}

// sedEscape reads the escape after a backslash that stands for one byte; used
// is 0 when it is none.
func sedEscape(s []byte) (c byte, used int) {
	switch s[0] {
	case 'a':
		return '\a', 1
	case 'f':
		return '\f', 1
	case 'r':
		return '\r', 1
	case 't':
		return '\t', 1
	case 'v':
		return '\v', 1
	case 'c':
		if len(s) > 1 && s[1] != '\\' {
			c := s[1]
			if c >= 'a' && c <= 'z' {
				c -= 0x20
			}
			return c ^ 0x40, 2
		}
	case 'd':
		return sedNumber(s, 10, 3)
	case 'o':
		return sedNumber(s, 8, 3)
	case 'x':
		return sedNumber(s, 16, 2)
	}
	return 0, 0
}

func sedNumber(s []byte, base, most int) (byte, int) {
	n, used := 0, 1
	for used < len(s) && used <= most {
		d := strings.IndexByte("0123456789abcdef", s[used]|0x20)
		if s[used] >= '0' && s[used] <= '9' {
			d = int(s[used] - '0')
		}
		if d < 0 || d >= base {
			break
		}
		n = n*base + d
		used++
	}
	if used == 1 {
		return 0, 0
	}
	return byte(n), used
}
