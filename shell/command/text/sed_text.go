package text

import (
	"strings"
	"unicode/utf8"

	"github.com/atoll-sandbox/atoll/shell/command/internal/character"
)

// parseText parses the text of a, i or c: on the same line, as GNU allows, or after a backslash and
// a newline.
func (s *sedParser) parseText(cmd *sedCommand) error {
	c := s.nextNonblank()
	if c == eof || c == '\n' {
		return s.errorf("expected \\ after `a', `c' or `i'")
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
		s.unread()
	}
	cmd.text = append(cmd.text, s.readTextLines()...)
	if !s.pending || len(cmd.text) > 0 {
		s.finishText(cmd)
	}
	return nil
}

// continueText continues a text in the next part.
func (s *sedParser) continueText() {
	s.pending = false
	cmd := &s.script.commands[len(s.script.commands)-1]
	cmd.text = append(cmd.text, s.readTextLines()...)
	s.finishText(cmd)
}

func (s *sedParser) finishText(cmd *sedCommand) {
	cmd.text = append(cmd.text, '\n')
}

// readTextLines reads up to a newline without a backslash before it, and resolves escapes.
func (s *sedParser) readTextLines() []byte {
	var raw []byte
	for {
		c := s.next()
		if c == eof || c == '\n' {
			return resolveEscapes(raw, sedText)
		}
		raw = append(raw, byte(c))
		if c != '\\' {
			continue
		}
		if c = s.next(); c == eof {
			s.pending = true
			return resolveEscapes(raw[:len(raw)-1], sedText)
		}
		raw = append(raw, byte(c))
	}
}

// readDelimited reads up to an unescaped delimiter; in a pattern, one inside a bracket expression
// doesn't count. It returns nil if there is no delimiter.
func (s *sedParser) readDelimited(delim int, pattern bool) (*string, error) {
	if delim == eof || delim == '\n' || delim == '\\' {
		return nil, nil
	}
	if delim >= utf8.RuneSelf {
		return nil, s.errorf("delimiter character is not a single-byte character")
	}
	var b strings.Builder
	for {
		c := s.next()
		switch {
		case c == eof, c == '\n':
			if c == '\n' {
				s.unread()
			}
			return nil, nil
		case c == delim:
			text := b.String()
			return &text, nil
		case c == '[' && pattern && delim != '[':
			b.WriteByte('[')
			if !s.copyBracket(&b) {
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
			if !pattern && (c == '&' || character.IsDigit(c)) {
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

// copyBracket copies a bracket expression after its [ and reports whether it is closed.
func (s *sedParser) copyBracket(b *strings.Builder) bool {
	inner := byte(0) // the mark of the class that is open: ':', '.' or '='
	for n := 0; ; n++ {
		c := s.next()
		switch {
		case c == eof || c == '\n':
			if c == '\n' {
				s.unread()
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
				s.unread()
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

// sedContext is where an escape stands.
type sedContext int

const (
	sedText    sedContext = iota // of a, i and c, where any other escape is the character itself
	sedPattern                   // of a regular expression, which has escapes of its own
)

// resolvePatternEscapes replaces escapes that stand for one character by that character.
func resolvePatternEscapes(pattern string) string {
	if strings.IndexByte(pattern, '\\') < 0 {
		return pattern
	}
	return string(resolveEscapes([]byte(pattern), sedPattern))
}

// resolveEscapes replaces escapes by the bytes they stand for, as far as the context allows.
func resolveEscapes(raw []byte, where sedContext) []byte {
	out := make([]byte, 0, len(raw))
	for i := 0; i < len(raw); i++ {
		if raw[i] != '\\' || i+1 == len(raw) {
			out = append(out, raw[i])
			continue
		}
		if c, used := parseEscape(raw[i+1:]); used > 0 {
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

// parseEscape parses an escape, without its backslash, that stands for one byte. used is 0 if it is no
// such escape.
func parseEscape(s []byte) (c byte, used int) {
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
		return parseEscapeNumber(s, 10, 3)
	case 'o':
		return parseEscapeNumber(s, 8, 3)
	case 'x':
		return parseEscapeNumber(s, 16, 2)
	}
	return 0, 0
}

func parseEscapeNumber(s []byte, base, most int) (byte, int) {
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
