package syntax

import "strings"

type tokenKind uint8

const (
	tokNone tokenKind = iota
	tokEOF
	tokNewline
	tokWord
	tokAssign
	tokRedir
	tokSemi
	tokAmp
	tokAndIf
	tokOrIf
	tokPipe
	tokPipeAmp
	tokDSemi
	tokSemiAmp
	tokDSemiAmp
	tokLParen
	tokRParen
)

var tokenText = [...]string{
	tokNewline: "newline", tokSemi: ";", tokAmp: "&", tokAndIf: "&&", tokOrIf: "||",
	tokPipe: "|", tokPipeAmp: "|&", tokDSemi: ";;", tokSemiAmp: ";&", tokDSemiAmp: ";;&",
	tokLParen: "(", tokRParen: ")",
}

// token is one token; start and end are offsets of the window.
type token struct {
	kind       tokenKind
	start, end int
	word       *Word
	assign     *Assign
	redir      *Redir
}

// lexMode says what the grammar would accept next.
type lexMode uint8

const (
	lexArg   lexMode = iota // a further word of a command
	lexCmd                  // the first word: aliases, assignments, reserved words
	lexDecl                 // an argument of a declaration builtin
	lexParen                // an argument of let or eval, where x=(…) is one word
	lexPlain                // a pattern, a delimiter, a name: no alias
)

// token returns the next token without consuming it. The mode counts only
// when the token is not read yet.
func (p *parser) next(m lexMode) *token {
	if !p.have {
		p.lex(m)
		p.have = true
	}
	return &p.tok
}

// take consumes the token that next returned.
func (p *parser) take() { p.have = false }

// is reports whether the next token is the unquoted word s.
func (p *parser) is(m lexMode, s string) bool {
	t := p.next(m)
	if t.kind != tokWord {
		return false
	}
	l, ok := t.word.Literal()
	return ok && l == s
}

func (p *parser) lex(m lexMode) {
	for {
		p.skipBlanks()
		p.tok = token{start: p.i}
		if p.operator() {
			break
		}
		if p.number() {
			break
		}
		if p.wordToken(m) {
			break
		}
	}
	p.tok.end = p.i
	p.work(p.tok.end - p.tok.start + 16)
}

// skipBlanks passes over blanks, line continuations and comments.
func (p *parser) skipBlanks() {
	for {
		switch p.peek() {
		case ' ', '\t':
			p.i++
		case '\\':
			if p.at(p.i+1) != '\n' {
				return
			}
			p.i += 2
		case '#':
			p.skipComment()
		default:
			return
		}
	}
}

func (p *parser) skipComment() {
	for {
		nl := strings.IndexByte(p.src[p.i:], '\n')
		if nl >= 0 {
			p.i += nl
			return
		}
		p.i = len(p.src)
		if !p.fill() {
			return
		}
	}
}

// follow consumes b when it comes next.
func (p *parser) follow(b byte) bool {
	j := p.skipCont(p.i)
	if p.at(j) != b {
		return false
	}
	p.i = j + 1
	return true
}

// operator reads a control or redirection operator.
func (p *parser) operator() bool {
	c := p.peek()
	if c == '(' && p.regex {
		return false
	}
	switch c {
	case 0:
		p.tok.kind = tokEOF
		return true
	case '\n':
		p.i++
		p.tok.kind = tokNewline
		if len(p.pending) > 0 {
			p.readDocs()
		}
		return true
	case '<', '>':
		if p.at(p.skipCont(p.i+1)) == '(' {
			return false
		}
		p.i++
		p.redirection(c, -1, "")
		return true
	case ';', '&', '|', '(', ')':
		p.i++
		p.tok.kind = p.control(c)
		return true
	}
	return false
}

func (p *parser) control(c byte) tokenKind {
	switch c {
	case ';':
		switch {
		case p.follow(';'):
			if p.follow('&') {
				return tokDSemiAmp
			}
			return tokDSemi
		case p.follow('&'):
			return tokSemiAmp
		}
		return tokSemi
	case '&':
		switch {
		case p.follow('&'):
			return tokAndIf
		case p.follow('>'):
			return p.both()
		}
		return tokAmp
	case '|':
		switch {
		case p.follow('|'):
			return tokOrIf
		case p.follow('&'):
			return tokPipeAmp
		}
		return tokPipe
	case '(':
		return tokLParen
	}
	return tokRParen
}

// both is &> or &>>, the '&>' being consumed.
func (p *parser) both() tokenKind {
	op := RedirBoth
	if p.follow('>') {
		op = RedirBothApp
	}
	p.tok.redir = &Redir{Pos: p.pos(p.tok.start), Op: op, Fd: -1}
	return tokRedir
}

// redirection reads an operator whose first byte is consumed.
func (p *parser) redirection(c byte, fd int, name string) {
	op := RedirOut
	switch {
	case c == '>' && p.follow('>'):
		op = RedirAppend
	case c == '>' && p.follow('&'):
		op = RedirDupOut
	case c == '>' && p.follow('|'):
		op = RedirClobber
	case c == '>':
	case p.follow('&'):
		op = RedirDupIn
	case p.follow('>'):
		op = RedirInOut
	case !p.follow('<'):
		op = RedirIn
	case p.follow('<'):
		op = RedirString
	case p.follow('-'):
		op = RedirHereStrip
	default:
		op = RedirHere
	}
	p.node()
	p.tok.kind = tokRedir
	p.tok.redir = &Redir{Pos: p.pos(p.tok.start), Op: op, Fd: fd, FdVar: name}
}

// number reads `2>` and `{name}>`.
func (p *parser) number() bool {
	c := p.peek()
	j := p.i
	fd, name := -1, ""
	switch {
	case c >= '0' && c <= '9':
		fd = 0
		for ; isDigit(p.at(j)); j++ {
			if fd > 1<<24 {
				return false
			}
			fd = fd*10 + int(p.src[j]-'0')
		}
	case c == '{':
		j++
		for isName(p.at(j)) {
			j++
		}
		if j > p.i+1 && p.at(j) == '[' {
			j = p.subscriptEnd(j)
		}
		if j == p.i+1 || isDigit(p.src[p.i+1]) || p.at(j) != '}' {
			return false
		}
		name = p.src[p.i+1 : j]
		j++
	default:
		return false
	}
	c = p.at(j)
	if c != '<' && c != '>' {
		return false
	}
	if p.at(j+1) == '(' {
		return false
	}
	p.i = j + 1
	p.redirection(c, fd, name)
	return true
}

// maxFdIndex bounds the subscript of `{name[index]}>`.
const maxFdIndex = 64

// subscriptEnd returns where a simple subscript that begins at j ends: just
// after its bracket, or j itself.
func (p *parser) subscriptEnd(j int) int {
	for k := j + 1; k-j < maxFdIndex; k++ {
		switch c := p.at(k); {
		case c == ']':
			return k + 1
		case !isName(c) && c != '+' && c != '-' && c != '@' && c != '*':
			return j
		}
	}
	return j
}

// wordToken reads a word or an assignment. It reports false when an alias has
// put other text in its place.
func (p *parser) wordToken(m lexMode) bool {
	start := p.i
	if m != lexArg && m != lexPlain {
		if m == lexParen {
			p.tok.word = p.parenWord()
			p.tok.kind = tokWord
			return true
		}
		if a := p.assignment(); a != nil {
			p.tok.kind = tokAssign
			p.tok.assign = a
			if m == lexDecl {
				p.tok.kind = tokWord
				p.tok.word = &Word{Pos: a.Pos, Raw: p.src[start:p.i], Assign: a}
			}
			return true
		}
	}
	w := p.word(ctxWord)
	if p.o.Alias != nil && m != lexPlain && p.unalias(m, start, w) {
		return false
	}
	p.tok.kind = tokWord
	p.tok.word = w
	return true
}

// reserved returns the reserved word that a token is at the start of a
// command, "" when it is none.
func reserved(t *token) string {
	if t.kind != tokWord {
		return ""
	}
	l, ok := t.word.Literal()
	if !ok || len(l) > 8 {
		return ""
	}
	switch l {
	case "!", "{", "}", "[[", "if", "then", "else", "elif", "fi", "case", "esac", "for", "select",
		"while", "until", "do", "done", "function", "time", "coproc", "in", "]]":
		return l
	}
	return ""
}

// text returns a token as an error message names it.
func (p *parser) text(t *token) string {
	switch t.kind {
	case tokWord:
		return t.word.Raw
	case tokAssign, tokRedir:
		if t.end <= len(p.src) {
			return p.src[t.start:t.end]
		}
	}
	return tokenText[t.kind]
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func isNameStart(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' || c == '_' }

func isName(c byte) bool { return isNameStart(c) || isDigit(c) }
