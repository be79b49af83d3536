package awk

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// kind is the kind of a token.
type kind uint8

const (
	tEOF kind = iota
	tNewline
	tLbrace
	tRbrace
	tLparen
	tRparen
	tLbracket
	tRbracket
	tSemicolon
	tComma
	tPlus
	tMinus
	tMul
	tDiv
	tMod
	tPow
	tNot
	tGT
	tLT
	tPipe
	tPipeAnd
	tAppend
	tQuestion
	tColon
	tMatch
	tNoMatch
	tDollar
	tAssign
	tAddAssign
	tSubAssign
	tMulAssign
	tDivAssign
	tModAssign
	tPowAssign
	tEQ
	tLE
	tGE
	tNE
	tIncr
	tDecr
	tAnd
	tOr
	tNumber
	tString
	tRegex
	tTypedRegex
	tName
	tCall     // a name directly followed by an opening parenthesis
	tIndirect // @name(
	tFunc     // a built-in function
	tBegin
	tEnd
	tBeginFile
	tEndFile
	tFunction
	tIf
	tElse
	tWhile
	tFor
	tDo
	tBreak
	tContinue
	tNext
	tNextFile
	tExit
	tReturn
	tDelete
	tIn
	tGetline
	tPrint
	tPrintf
	tSwitch
	tCase
	tDefault
)

var keywords = map[string]kind{
	"BEGIN": tBegin, "END": tEnd, "BEGINFILE": tBeginFile, "ENDFILE": tEndFile,
	"function": tFunction, "func": tFunction, "if": tIf, "else": tElse, "while": tWhile,
	"for": tFor, "do": tDo, "break": tBreak, "continue": tContinue, "next": tNext,
	"nextfile": tNextFile, "exit": tExit, "return": tReturn, "delete": tDelete, "in": tIn,
	"getline": tGetline, "print": tPrint, "printf": tPrintf, "switch": tSwitch,
	"case": tCase, "default": tDefault,
}

// token is a token of a program.
type token struct {
	kind kind
	text string  // of names, strings and regular expressions
	num  float64 // of numbers
	src  int     // index of the source
	off  int     // offset in the source
	line int
}

// Source is a piece of program text with its origin.
type Source struct { // a file name, or empty for text of the command line
	Name string // a file name, or empty for text of the command line
	Text string
}

// SyntaxError is an error of a program that can't be run.
type SyntaxError struct { // "cmd. line" or the file
	Where string // "cmd. line" or the file
	Line  int    // the line of the program, empty if the message shows none
	Text  string // the line of the program, empty where the message needs none
	Col   int
	Msg   string
	Fatal bool
}

// Error returns the message as awk prints it.
func (e *SyntaxError) Error() string { return e.Format("awk") }

// Status returns the exit status of the interpreter: 2 for errors that gawk finds after parsing,
// otherwise 1.
func (e *SyntaxError) Status() int {
	if e.Fatal {
		return 2
	}
	return 1
}

// Format returns the message as an interpreter called name prints it, without the last newline.
func (e *SyntaxError) Format(name string) string {
	prefix := fmt.Sprintf("%s: %s:%d: ", name, e.Where, e.Line)
	if e.Text == "" {
		return prefix + e.Msg
	}
	return prefix + e.Text + "\n" + prefix + strings.Repeat(" ", e.Col) + "^ " + e.Msg
}

// maxSource is the maximum size of a program in bytes, maxTokens its maximum number of tokens.
const (
	maxSource = 4 << 20
	maxTokens = 1 << 20
)

// tokenCost is the charge in bytes for a token of a program: itself, and its part of the tree and of the
// compiled program. Tokens are charged by batches, so that small programs cost nothing.
const (
	tokenCost  = 160
	tokenBatch = 256
)

// lexer splits sources into tokens.
type lexer struct {
	srcs   []Source
	src    int
	text   string
	off    int
	line   int
	tokens []token
	warn   func(where string, line int, msg string)
	warned map[string]bool
	bud    Budget
}

// lexSources splits the sources into tokens. The token before a slash decides whether the slash is
// a division or begins a regular expression.
func lexSources(srcs []Source, bud Budget, warn func(string, int, string)) ([]token, error) {
	l := &lexer{srcs: srcs, warn: warn, warned: make(map[string]bool), bud: bud}
	for i, s := range srcs {
		if len(s.Text) > maxSource {
			return nil, &SyntaxError{Where: sourceName(s), Line: 1, Msg: "program too large"}
		}
		l.src, l.text, l.off, l.line = i, s.Text, 0, 1
		if err := l.run(); err != nil {
			return nil, err
		}
		l.add(tNewline, l.off)
	}
	l.add(tEOF, l.off)
	return l.tokens, nil
}

// sourceName returns the name of a source in messages.
func sourceName(s Source) string {
	if s.Name == "" {
		return "cmd. line"
	}
	return s.Name
}

// add appends a token.
func (l *lexer) add(k kind, off int) *token {
	if len(l.tokens)%tokenBatch == tokenBatch-1 && l.bud != nil {
		l.bud.Alloc(tokenBatch * tokenCost)
	}
	l.tokens = append(l.tokens, token{kind: k, src: l.src, off: off, line: l.line})
	return &l.tokens[len(l.tokens)-1]
}

// errorHere returns an error for the current line that shows the text around off.
func (l *lexer) errorHere(off int, format string, a ...any) error {
	return errorAt(l.srcs[l.src], off, l.line, fmt.Sprintf(format, a...))
}

// errorAt returns an error that shows the line of the program around off.
func errorAt(s Source, off, line int, msg string) error {
	off = min(off, len(s.Text))
	start := strings.LastIndexByte(s.Text[:off], '\n') + 1
	end := len(s.Text)
	if i := strings.IndexByte(s.Text[off:], '\n'); i >= 0 {
		end = off + i
	}
	text, col := s.Text[start:end], off-start
	if len(text) > 300 {
		text, col = text[:300], min(col, 300)
	}
	return &SyntaxError{Where: sourceName(s), Line: line, Text: text, Col: col, Msg: msg}
}

// run splits one source into tokens.
func (l *lexer) run() error {
	for {
		l.skipBlanks()
		if l.off >= len(l.text) {
			return nil
		}
		if len(l.tokens) > maxTokens {
			return l.errorHere(l.off, "program too large")
		}
		tickBudget(l.bud, 1)
		if err := l.next(); err != nil {
			return err
		}
	}
}

// skipBlanks skips blanks, comments and escaped newlines.
func (l *lexer) skipBlanks() {
	for l.off < len(l.text) {
		switch c := l.text[l.off]; {
		case c == ' ' || c == '\t' || c == '\r':
			l.off++
		case c == '\\' && strings.HasPrefix(l.text[l.off+1:], "\n"):
			l.off += 2
			l.line++
		case c == '\\' && strings.HasPrefix(l.text[l.off+1:], "\r\n"):
			l.off += 3
			l.line++
		case c == '#':
			n := strings.IndexByte(l.text[l.off:], '\n')
			if n < 0 {
				n = len(l.text) - l.off
			}
			l.off += n
		default:
			return
		}
	}
}

// next reads one token.
func (l *lexer) next() error {
	start := l.off
	c := l.text[start]
	switch {
	case c == '\n':
		l.add(tNewline, start)
		l.off++
		l.line++
		return nil
	case c == '"':
		return l.lexString()
	case isDigit(c) || c == '.' && start+1 < len(l.text) && isDigit(l.text[start+1]):
		n, v := scanSourceNumber(l.text[start:])
		l.add(tNumber, start).num = v
		l.off += n
		return nil
	case isNameStart(c):
		l.lexName()
		return nil
	case c == '/' && !l.afterOperand():
		return l.lexRegex(tRegex)
	case c == '@':
		return l.lexAt()
	}
	return l.lexOperator()
}

// afterOperand reports whether the last token ends an operand.
func (l *lexer) afterOperand() bool {
	if len(l.tokens) == 0 {
		return false
	}
	switch l.tokens[len(l.tokens)-1].kind {
	case tName, tNumber, tString, tRegex, tTypedRegex, tRparen, tRbracket, tDollar, tIncr, tDecr, tFunc:
		return true
	}
	return false
}

// operators are the operators, those with a common beginning longest first.
var operators = []struct {
	text string
	kind kind
}{
	{"**=", tPowAssign},
	{"**", tPow},
	{"^=", tPowAssign},
	{"+=", tAddAssign},
	{"-=", tSubAssign},
	{"*=", tMulAssign},
	{"/=", tDivAssign},
	{"%=", tModAssign},
	{"==", tEQ},
	{"<=", tLE},
	{">=", tGE},
	{"!=", tNE},
	{"!~", tNoMatch},
	{"++", tIncr},
	{"--", tDecr},
	{"&&", tAnd},
	{"||", tOr},
	{"|&", tPipeAnd},
	{">>", tAppend},
	{"{", tLbrace},
	{"}", tRbrace},
	{"(", tLparen},
	{")", tRparen},
	{"[", tLbracket},
	{"]", tRbracket},
	{";", tSemicolon},
	{",", tComma},
	{"+", tPlus},
	{"-", tMinus},
	{"*", tMul},
	{"/", tDiv},
	{"%", tMod},
	{"^", tPow},
	{"!", tNot},
	{">", tGT},
	{"<", tLT},
	{"|", tPipe},
	{"?", tQuestion},
	{":", tColon},
	{"~", tMatch},
	{"$", tDollar},
	{"=", tAssign},
}

// lexOperator reads an operator.
func (l *lexer) lexOperator() error {
	for _, op := range operators {
		if strings.HasPrefix(l.text[l.off:], op.text) {
			l.add(op.kind, l.off)
			l.off += len(op.text)
			return nil
		}
	}
	r, _ := utf8.DecodeRuneInString(l.text[l.off:])
	return l.errorHere(l.off, "invalid char '%c' in expression", r)
}

// lexName reads a name, keyword or built-in function.
func (l *lexer) lexName() {
	start := l.off
	end := start
	for end < len(l.text) && (isNameStart(l.text[end]) || isDigit(l.text[end]) ||
		l.text[end] == ':' && strings.HasPrefix(l.text[end:], "::") && end+2 < len(l.text) && isNameStart(l.text[end+2])) {
		if l.text[end] == ':' {
			end++
		}
		end++
	}
	text := strings.TrimPrefix(l.text[start:end], "awk::")
	l.off = end
	k, ok := keywords[text]
	if !ok {
		switch _, isFunc := builtins[text]; {
		case isFunc:
			k = tFunc
		case end < len(l.text) && l.text[end] == '(':
			k = tCall
		default:
			k = tName
		}
	}
	l.add(k, start).text = text
}

// lexAt reads a token that begins with @.
func (l *lexer) lexAt() error {
	start := l.off
	rest := l.text[start+1:]
	switch {
	case strings.HasPrefix(rest, "/"):
		l.off++
		return l.lexRegex(tTypedRegex)
	case strings.HasPrefix(rest, "include"), strings.HasPrefix(rest, "load"), strings.HasPrefix(rest, "namespace"):
		word, _, _ := strings.Cut(rest, " ")
		return l.errorHere(start, "@%s is not supported: give the files with -f", word)
	case rest != "" && isNameStart(rest[0]):
		l.off++
		l.lexName()
		t := &l.tokens[len(l.tokens)-1]
		t.kind = tIndirect
		return nil
	}
	return l.errorHere(start, "syntax error")
}

// lexRegex reads a regular expression up to its closing slash. A slash in a bracket expression is
// ordinary.
func (l *lexer) lexRegex(k kind) error {
	start := l.off
	var b strings.Builder
	bracket := -1 // where the bracket expression's first member may be
	for i := start + 1; i < len(l.text); i++ {
		c := l.text[i]
		switch {
		case c == '\n':
			return l.errorHere(start, "unterminated regexp")
		case c == '\\' && i+1 < len(l.text) && l.text[i+1] == '\n':
			i++
			l.line++
			continue
		case c == '\\' && i+1 < len(l.text):
			if l.text[i+1] != '/' {
				b.WriteByte('\\')
			}
			i++
			b.WriteByte(l.text[i])
			continue
		case c == '[' && bracket < 0:
			bracket = i + 1
			if strings.HasPrefix(l.text[bracket:], "^") {
				bracket++
			}
		case c == '[' && i+1 < len(l.text) && strings.IndexByte(":.=", l.text[i+1]) >= 0:
			if n := strings.Index(l.text[i+2:], l.text[i+1:i+2]+"]"); n >= 0 && n < 16 {
				b.WriteString(l.text[i : i+2+n+2])
				i += 2 + n + 1
				continue
			}
		case c == ']' && bracket >= 0 && i > bracket:
			bracket = -1
		case c == '/' && bracket < 0:
			l.off = i + 1
			l.add(k, start).text = b.String()
			return nil
		}
		b.WriteByte(c)
	}
	return l.errorHere(start, "unterminated regexp")
}

// lexString reads a string.
func (l *lexer) lexString() error {
	start := l.off
	line := l.line
	i := start + 1
	escaped := false
	for ; ; i++ {
		if i >= len(l.text) || l.text[i] == '\n' {
			return l.errorHere(start, "unterminated string")
		}
		if l.text[i] == '"' {
			break
		}
		if l.text[i] == '\\' {
			escaped = true
			i++
			if i < len(l.text) && l.text[i] == '\n' {
				l.line++
			}
		}
	}
	raw := l.text[start+1 : i]
	if escaped {
		raw = unescapeString(raw, func(c string) {
			if l.warned[c] {
				return
			}
			l.warned[c] = true
			l.warn(sourceName(l.srcs[l.src]), line, "warning: escape sequence `\\"+c+"' treated as plain `"+c+"'")
		})
	}
	l.off = i + 1
	l.add(tString, start).text = raw
	return nil
}

// unescapeString replaces the escape sequences of a string. If odd isn't nil, it is called for
// characters that need no backslash.
func unescapeString(s string, odd func(c string)) string {
	var b strings.Builder
	b.Grow(len(s))
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c != '\\' {
			b.WriteByte(c)
			continue
		}
		i++
		if i >= len(s) {
			b.WriteByte('\\')
			break
		}
		n := writeEscape(&b, s[i:])
		if n == 0 {
			n = 1
			if s[i] >= utf8.RuneSelf {
				_, n = utf8.DecodeRuneInString(s[i:])
			}
			if odd != nil {
				odd(s[i : i+n])
			}
			b.WriteString(s[i : i+n])
		}
		i += n - 1
	}
	return b.String()
}

// writeEscape writes the value of the sequence after a backslash and returns the sequence's length,
// or 0 if it is unknown.
func writeEscape(b *strings.Builder, s string) int {
	if i := strings.IndexByte(`abfnrtv`, s[0]); i >= 0 {
		b.WriteByte("\a\b\f\n\r\t\v"[i])
		return 1
	}
	switch c := s[0]; {
	case c == '\\' || c == '"':
		b.WriteByte(c)
		return 1
	case c == '\n':
		return 1
	case c >= '0' && c <= '7':
		n, v := 0, 0
		for n < 3 && n < len(s) && s[n] >= '0' && s[n] <= '7' {
			v = v*8 + int(s[n]-'0')
			n++
		}
		b.WriteByte(byte(v))
		return n
	case c == 'x':
		n := 1
		for n < 3 && n < len(s) && isHex(s[n]) {
			n++
		}
		if n == 1 {
			return 0
		}
		v, _ := strconv.ParseUint(s[1:n], 16, 8)
		b.WriteByte(byte(v))
		return n
	}
	return 0
}

// isDigit reports whether c is a decimal digit.
func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// isHex reports whether c is a hexadecimal digit.
func isHex(c byte) bool {
	return isDigit(c) || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}

// isNameStart reports whether a name may begin with c.
func isNameStart(c byte) bool {
	return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}
