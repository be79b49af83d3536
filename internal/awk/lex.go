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

// token is one word of a program.
type token struct {
	kind kind
	text string  // of names, strings and regular expressions
	num  float64 // of numbers
	src  int     // which source
	off  int     // where in it
	line int
}

// Source is a piece of program text and where it came from.
type Source struct {
	Name string // a file name, or empty for text of the command line
	Text string
}

// SyntaxError is a program that can't be run.
type SyntaxError struct {
	Where string // "cmd. line" or the file
	Line  int
	Text  string // the line of the program, empty where the message needs none
	Col   int
	Msg   string
	Fatal bool
}

func (e *SyntaxError) Error() string { return e.Format("awk") }

// Status returns the exit status of the interpreter: 2 for what gawk finds
// only after the grammar is right.
func (e *SyntaxError) Status() int {
	if e.Fatal {
		return 2
	}
	return 1
}

// Format returns the message as the program called name prints it, without
// the last newline.
func (e *SyntaxError) Format(name string) string {
	prefix := fmt.Sprintf("%s: %s:%d: ", name, e.Where, e.Line)
	if e.Text == "" {
		return prefix + e.Msg
	}
	return prefix + e.Text + "\n" + prefix + strings.Repeat(" ", e.Col) + "^ " + e.Msg
}

// maxSource bounds a program's text, maxTokens its words.
const (
	maxSource = 4 << 20
	maxTokens = 1 << 20
)

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

// lex splits the sources into tokens. Whether a slash divides or opens a
// regular expression follows from the token before it.
func lex(srcs []Source, bud Budget, warn func(string, int, string)) ([]token, error) {
	l := &lexer{srcs: srcs, warn: warn, warned: make(map[string]bool), bud: bud}
	for i, s := range srcs {
		if len(s.Text) > maxSource {
			return nil, &SyntaxError{Where: where(s), Line: 1, Msg: "program too large"}
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

func where(s Source) string {
	if s.Name == "" {
		return "cmd. line"
	}
	return s.Name
}

func (l *lexer) add(k kind, off int) *token {
	l.tokens = append(l.tokens, token{kind: k, src: l.src, off: off, line: l.line})
	return &l.tokens[len(l.tokens)-1]
}

func (l *lexer) fail(off int, format string, a ...any) error {
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
	return &SyntaxError{Where: where(s), Line: line, Text: text, Col: col, Msg: msg}
}

func (l *lexer) run() error {
	for {
		l.blanks()
		if l.off >= len(l.text) {
			return nil
		}
		if len(l.tokens) > maxTokens {
			return l.fail(l.off, "program too large")
		}
		tick(l.bud, 1)
		if err := l.next(); err != nil {
			return err
		}
	}
}

// blanks skips blanks, comments and escaped newlines.
func (l *lexer) blanks() {
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
		return l.str()
	case isDigit(c) || c == '.' && start+1 < len(l.text) && isDigit(l.text[start+1]):
		n, v := scanSourceNumber(l.text[start:])
		l.add(tNumber, start).num = v
		l.off += n
		return nil
	case isNameStart(c):
		l.name()
		return nil
	case c == '/' && !l.afterOperand():
		return l.regex(tRegex)
	case c == '@':
		return l.at()
	}
	return l.operator()
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

func (l *lexer) operator() error {
	for _, op := range operators {
		if strings.HasPrefix(l.text[l.off:], op.text) {
			l.add(op.kind, l.off)
			l.off += len(op.text)
			return nil
		}
	}
	r, _ := utf8.DecodeRuneInString(l.text[l.off:])
	return l.fail(l.off, "invalid char '%c' in expression", r)
}

func (l *lexer) name() {
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

func (l *lexer) at() error {
	start := l.off
	rest := l.text[start+1:]
	switch {
	case strings.HasPrefix(rest, "/"):
		l.off++
		return l.regex(tTypedRegex)
	case strings.HasPrefix(rest, "include"), strings.HasPrefix(rest, "load"), strings.HasPrefix(rest, "namespace"):
		word, _, _ := strings.Cut(rest, " ")
		return l.fail(start, "@%s is not supported: give the files with -f", word)
	case rest != "" && isNameStart(rest[0]):
		l.off++
		l.name()
		t := &l.tokens[len(l.tokens)-1]
		t.kind = tIndirect
		return nil
	}
	return l.fail(start, "syntax error")
}

// regex reads a regular expression up to its closing slash. A slash between
// brackets is an ordinary one.
func (l *lexer) regex(k kind) error {
	start := l.off
	var b strings.Builder
	bracket := -1 // where the bracket expression's first member may stand
	for i := start + 1; i < len(l.text); i++ {
		c := l.text[i]
		switch {
		case c == '\n':
			return l.fail(start, "unterminated regexp")
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
	return l.fail(start, "unterminated regexp")
}

func (l *lexer) str() error {
	start := l.off
	line := l.line
	i := start + 1
	escaped := false
	for ; ; i++ {
		if i >= len(l.text) || l.text[i] == '\n' {
			return l.fail(start, "unterminated string")
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
		raw = unescape(raw, func(c string) {
			if l.warned[c] {
				return
			}
			l.warned[c] = true
			l.warn(where(l.srcs[l.src]), line, "warning: escape sequence `\\"+c+"' treated as plain `"+c+"'")
		})
	}
	l.off = i + 1
	l.add(tString, start).text = raw
	return nil
}

// unescape replaces the escape sequences of a string. It calls odd with
// characters that need no backslash.
func unescape(s string, odd func(c string)) string {
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
		n := escape(&b, s[i:])
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

// escape writes what the sequence after a backslash stands for and returns
// how many bytes it took, 0 for one that it doesn't know.
func escape(b *strings.Builder, s string) int {
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

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func isHex(c byte) bool {
	return isDigit(c) || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}

func isNameStart(c byte) bool {
	return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}
