package data

import "strings"

// bcToken is a token of a bc program: a number, a name, a string, an operator or a newline.
type bcToken struct {
	kind byte // 'n' number, 'w' name, 's' string, 'o' operator, 0 the end
	text string
	line int
}

// bcLexer splits a program into tokens. It reads more lines as it needs them.
type bcLexer struct {
	more    func() (string, bool)
	text    string
	at      int
	line    int
	eof     bool
	invalid bool // a character was in no token
}

var bcOperators = []string{
	"++", "--", "+=", "-=", "*=", "/=", "%=", "^=", "==", "<=", ">=", "!=", "&&", "||",
	"+", "-", "*", "/", "%", "^", "=", "<", ">", "!", "(", ")", "[", "]", "{", "}", ",", ";", "\n", ".",
}

// readLine reads the next line.
func (l *bcLexer) readLine() bool {
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

// next returns the next token.
func (l *bcLexer) next() bcToken {
	for {
		if l.at >= len(l.text) && !l.readLine() {
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
			l.skipComment()
		case c == '#':
			l.at = len(l.text)
			if strings.HasSuffix(l.text, "\n") {
				l.at--
			}
		case c == '"':
			return l.lexString()
		case c >= 'a' && c <= 'z':
			n := 1
			for n < len(rest) && (rest[n] >= 'a' && rest[n] <= 'z' || rest[n] >= '0' && rest[n] <= '9' || rest[n] == '_') {
				n++
			}
			l.at += n
			return bcToken{'w', rest[:n], l.line}
		case digitValue(c) >= 0 || c == '.' && len(rest) > 1 && digitValue(rest[1]) >= 0:
			return l.lexNumber()
		default:
			return l.lexOperator(rest)
		}
	}
}

func (l *bcLexer) lexOperator(rest string) bcToken {
	for _, op := range bcOperators {
		if strings.HasPrefix(rest, op) {
			l.at += len(op)
			return bcToken{'o', op, l.line}
		}
	}
	l.at++
	l.invalid = true
	return bcToken{'o', rest[:1], l.line}
}

// skipComment skips a comment, which may extend over lines.
func (l *bcLexer) skipComment() {
	l.at += 2
	for {
		if i := strings.Index(l.text[l.at:], "*/"); i >= 0 {
			l.at += i + 2
			return
		}
		if !l.readLine() {
			l.at = len(l.text)
			return
		}
	}
}

func (l *bcLexer) lexString() bcToken {
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
		if b.Len() > 1<<20 || !l.readLine() {
			l.invalid = true
			return bcToken{'s', b.String(), line}
		}
	}
}

// lexNumber reads a number, which a backslash may continue on the next line.
func (l *bcLexer) lexNumber() bcToken {
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
			if l.at >= len(l.text) && !l.readLine() {
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
