package command

import (
	"strings"
)

// bcToken is a word of a bc program: a number, a name, a string, an operator
// or a newline.
type bcToken struct {
	kind byte // 'n' number, 'w' name, 's' string, 'o' operator, 0 the end
	text string
	line int
}

// bcLexer cuts a program into tokens. It asks for more lines as it needs them.
type bcLexer struct {
	more func() (string, bool)
	text string
	at   int
	line int
	eof  bool
	bad  bool // a character that belongs to no token
}

var bcOperators = []string{
	"++", "--", "+=", "-=", "*=", "/=", "%=", "^=", "==", "<=", ">=", "!=", "&&", "||",
	"+", "-", "*", "/", "%", "^", "=", "<", ">", "!", "(", ")", "[", "]", "{", "}", ",", ";", "\n", ".",
}

// fill reads the next line.
func (l *bcLexer) fill() bool {
	if l.eof {
		return false
	}
	s, ok := l.more()
	if !ok {
		l.eof = true
		return false
	}
	l.text, l.at = s, 0
	l.line++
	return true
}

func (l *bcLexer) next() bcToken {
	for {
		if l.at >= len(l.text) && !l.fill() {
			line := l.line
			if l.text == "" || strings.HasSuffix(l.text, "\n") {
				line++
			}
			return bcToken{line: line}
		}
		rest := l.text[l.at:]
		switch c := rest[0]; {
		case c == ' ' || c == '\t' || c == '\r':
			l.at++
		case strings.HasPrefix(rest, "\\\n"):
			l.at += 2
		case strings.HasPrefix(rest, "/*"):
			l.comment()
		case c == '#':
			l.at = len(l.text)
			if strings.HasSuffix(l.text, "\n") {
				l.at--
			}
		case c == '"':
			return l.str()
		case c >= 'a' && c <= 'z':
			n := 1
			for n < len(rest) && (rest[n] >= 'a' && rest[n] <= 'z' || rest[n] >= '0' && rest[n] <= '9' || rest[n] == '_') {
				n++
			}
			l.at += n
			return bcToken{'w', rest[:n], l.line}
		case digitValue(c) >= 0 || c == '.' && len(rest) > 1 && digitValue(rest[1]) >= 0:
			return l.number()
		default:
			return l.operator(rest)
		}
	}
}

func (l *bcLexer) operator(rest string) bcToken {
	for _, op := range bcOperators {
		if strings.HasPrefix(rest, op) {
			l.at += len(op)
			return bcToken{'o', op, l.line}
		}
	}
	l.at++
	l.bad = true
	return bcToken{'o', rest[:1], l.line}
}

func (l *bcLexer) comment() {
	l.at += 2
	for {
		if i := strings.Index(l.text[l.at:], "*/"); i >= 0 {
			l.at += i + 2
			return
		}
		if !l.fill() {
			l.at = len(l.text)
			return
		}
	}
}

func (l *bcLexer) str() bcToken {
	line := l.line
	l.at++
	var b strings.Builder
	for {
		if i := strings.IndexByte(l.text[l.at:], '"'); i >= 0 {
			b.WriteString(l.text[l.at : l.at+i])
			l.at += i + 1
			return bcToken{'s', b.String(), line}
		}
		b.WriteString(l.text[l.at:])
		l.at = len(l.text)
		if b.Len() > 1<<20 || !l.fill() {
			l.bad = true
			return bcToken{'s', b.String(), line}
		}
	}
}

// number reads digits, which a backslash may carry over to the next line.
func (l *bcLexer) number() bcToken {
	var b strings.Builder
	point := false
	for {
		if l.at >= len(l.text) {
			break
		}
		c := l.text[l.at]
		switch {
		case strings.HasPrefix(l.text[l.at:], "\\\n"):
			l.at += 2
			if l.at >= len(l.text) && !l.fill() {
				return bcToken{'n', b.String(), l.line}
			}
			continue
		case c == '.' && !point:
			point = true
		case digitValue(c) < 0:
			return bcToken{'n', b.String(), l.line}
		}
		b.WriteByte(c)
		l.at++
	}
	return bcToken{'n', b.String(), l.line}
}
