package jq

import (
	"fmt"
	"strings"
)

// tok is the kind of a token; that of punctuation, keywords and operators is their text.
type tok string

const (
	tEOF    tok = "end of file"
	tIdent  tok = "IDENT"
	tField  tok = "FIELD"
	tVar    tok = "BINDING"
	tNumber tok = "LITERAL"
	tFormat tok = "FORMAT"
	tString tok = "QQSTRING_START"
	tBad    tok = "INVALID_CHARACTER"
)

// lexer splits a program into tokens.
type lexer struct {
	src  string
	off  int // end of the current token
	from int // beginning of the current token
	line pos
	tok  tok    // kind of the current token
	text string // of an identifier, field, variable, number or format
}

var keywords = map[string]bool{
	"def": true, "if": true, "then": true, "elif": true, "else": true, "end": true, "as": true,
	"reduce": true, "foreach": true, "try": true, "catch": true, "label": true, "import": true,
	"include": true, "and": true, "or": true, "__loc__": true, "module": true,
}

var operators = []string{
	"?//", "//=", "!=", "==", "<=", ">=", "//", "|=", "+=", "-=", "*=", "/=", "%=", "..",
}

// skipSpace skips white space and comments.
func (l *lexer) skipSpace() {
	for l.off < len(l.src) {
		switch l.src[l.off] {
		case '\n':
			l.line++
			l.off++
		case ' ', '\t', '\r':
			l.off++
		case '#':
			l.skipComment()
		default:
			return
		}
	}
}

// skipComment skips to the end of the line. A line with an odd number of backslashes at its end
// continues the comment.
func (l *lexer) skipComment() {
	for l.off < len(l.src) && l.src[l.off] != '\n' {
		step := 1
		if l.src[l.off] == '\\' && l.off+1 < len(l.src) {
			step = 2
			if strings.HasPrefix(l.src[l.off+1:], "\r\n") {
				step = 3
			}
		}
		if step > 1 && l.src[l.off+step-1] == '\n' {
			l.line++
		}
		l.off += step
	}
}

// next reads the next token.
func (l *lexer) next() {
	l.skipSpace()
	l.from, l.text = l.off, ""
	if l.off >= len(l.src) {
		l.tok = tEOF
		return
	}
	switch c := l.src[l.off]; {
	case c == '"':
		l.off++
		l.tok = tString
	case isDigit(c), c == '.' && l.off+1 < len(l.src) && isDigit(l.src[l.off+1]):
		l.lexNumber()
	case c == '.' && l.off+1 < len(l.src) && isNameStart(l.src[l.off+1]):
		l.off++
		l.lexName(tField)
	case c == '@' && l.off+1 < len(l.src) && isNameByte(l.src[l.off+1]):
		l.off++
		l.lexName(tFormat)
	case c == '$':
		l.lexDollar()
	case isNameStart(c):
		l.lexWord()
	default:
		l.lexMark()
	}
}

func isDigit(c byte) bool     { return c >= '0' && c <= '9' }
func isNameStart(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' || c == '_' }
func isNameByte(c byte) bool  { return isNameStart(c) || isDigit(c) }

// lexName reads a plain name as a token of kind t.
func (l *lexer) lexName(t tok) {
	begin := l.off
	for l.off < len(l.src) && isNameByte(l.src[l.off]) {
		l.off++
	}
	l.tok, l.text = t, l.src[begin:l.off]
}

// qualifiedName reads a name with optional module prefixes.
func (l *lexer) qualifiedName() string {
	begin := l.off
	for {
		for l.off < len(l.src) && isNameByte(l.src[l.off]) {
			l.off++
		}
		rest := l.src[l.off:]
		if len(rest) < 3 || rest[:2] != "::" || !isNameStart(rest[2]) {
			return l.src[begin:l.off]
		}
		l.off += 2
	}
}

// lexWord reads an identifier or keyword.
func (l *lexer) lexWord() {
	l.text = l.qualifiedName()
	l.tok = tIdent
	if keywords[l.text] {
		l.tok = tok(l.text)
	}
}

// lexDollar reads a variable or a lone $.
func (l *lexer) lexDollar() {
	l.off++
	l.skipSpace()
	if l.off >= len(l.src) || !isNameStart(l.src[l.off]) {
		l.tok = "$"
		return
	}
	l.text = l.qualifiedName()
	l.tok = tVar
}

// lexNumber reads a number.
func (l *lexer) lexNumber() {
	begin := l.off
	l.skipDigits()
	if l.off < len(l.src) && l.src[l.off] == '.' {
		l.off++
		l.skipDigits()
	}
	if mark := l.off; l.off < len(l.src) && l.src[l.off]|0x20 == 'e' {
		l.off++
		if l.off < len(l.src) && (l.src[l.off] == '+' || l.src[l.off] == '-') {
			l.off++
		}
		if l.off >= len(l.src) || !isDigit(l.src[l.off]) {
			l.off = mark
		}
		l.skipDigits()
	}
	l.tok, l.text = tNumber, l.src[begin:l.off]
}

// skipDigits skips digits.
func (l *lexer) skipDigits() {
	for l.off < len(l.src) && isDigit(l.src[l.off]) {
		l.off++
	}
}

// lexMark reads an operator or punctuation.
func (l *lexer) lexMark() {
	rest := l.src[l.off:]
	for _, op := range operators {
		if strings.HasPrefix(rest, op) {
			l.off += len(op)
			l.tok = tok(op)
			return
		}
	}
	l.off++
	if strings.IndexByte(".[]{}()|,:;=<>+-*/%?$", rest[0]) < 0 {
		l.tok = tBad
		return
	}
	l.tok = tok(rest[:1])
}

// describeToken returns the name of the current token in error messages.
func (l *lexer) describeToken() string {
	switch l.tok {
	case tEOF, tIdent, tField, tVar, tNumber, tFormat, tString, tBad:
		return string(l.tok)
	}
	if keywords[string(l.tok)] || len(l.tok) > 1 {
		return string(l.tok)
	}
	return fmt.Sprintf("'%s'", string(l.tok))
}
