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

// token is a token; start and end are offsets of the window.
type token struct {
	kind       tokenKind
	start, end int
	word       *Word
	assign     *Assign
	redir      *Redir
}

// lexMode selects what the lexer recognizes.
type lexMode uint8

const (
	lexArg   lexMode = iota // a further word of a command
	lexCmd                  // the first word: aliases, assignments, reserved words
	lexDecl                 // an argument of a declaration builtin
	lexParen                // an argument of let or eval, where x=(…) is one word
	lexPlain                // a pattern, a delimiter, a name: no alias
)

// next returns the next token without consuming it. The mode has no effect if
// the token was read before.
func (p *parser) next(m lexMode) *token {
	if !p.haveToken {
		p.readToken(m)
		p.haveToken = true
	}
	return &p.tok
}

// consumeToken consumes the token that next returned.
func (p *parser) consumeToken() { p.haveToken = false }

// nextIs reports whether the next token is the unquoted word s.
func (p *parser) nextIs(m lexMode, s string) bool {
	t := p.next(m)
	if t.kind != tokWord {
		return false
	}
	l, ok := t.word.Literal()
	return ok && l == s
}

func (p *parser) readToken(m lexMode) {
	for {
		p.skipBlanks()
		p.tok = token{start: p.i}
		if p.readOperator() {
			break
		}
		if p.readFdPrefix() {
			break
		}
		if p.wordToken(m) {
			break
		}
	}
	p.tok.end = p.i
	p.chargeWork(p.tok.end - p.tok.start + 16)
}

// skipBlanks skips blanks, line continuations and comments.
func (p *parser) skipBlanks() {
	for {
		switch p.peekByte() {
		case ' ', '\t':
			p.i++
		case '\\':
			if p.byteAt(p.i+1) != '\n' {
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
		if !p.fillWindow() {
			return
		}
	}
}

// acceptByte consumes b if it is the next byte, and reports whether it was.
func (p *parser) acceptByte(b byte) bool {
	j := p.skipCont(p.i)
	if p.byteAt(j) != b {
		return false
	}
	p.i = j + 1
	return true
}

// readOperator reads a control or redirection operator.
func (p *parser) readOperator() bool {
	c := p.peekByte()
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
		if p.byteAt(p.skipCont(p.i+1)) == '(' {
			return false
		}
		p.i++
		p.readRedirection(c, -1, "")
		return true
	case ';', '&', '|', '(', ')':
		p.i++
		p.tok.kind = p.controlOperator(c)
		return true
	}
	return false
}

func (p *parser) controlOperator(c byte) tokenKind {
	switch c {
	case ';':
		switch {
		case p.acceptByte(';'):
			if p.acceptByte('&') {
				return tokDSemiAmp
			}
			return tokDSemi
		case p.acceptByte('&'):
			return tokSemiAmp
		}
		return tokSemi
	case '&':
		switch {
		case p.acceptByte('&'):
			return tokAndIf
		case p.acceptByte('>'):
			return p.bothRedir()
		}
		return tokAmp
	case '|':
		switch {
		case p.acceptByte('|'):
			return tokOrIf
		case p.acceptByte('&'):
			return tokPipeAmp
		}
		return tokPipe
	case '(':
		return tokLParen
	}
	return tokRParen
}

// bothRedir reads &> or &>>; the '&>' is already consumed.
func (p *parser) bothRedir() tokenKind {
	op := RedirBoth
	if p.acceptByte('>') {
		op = RedirBothApp
	}
	p.tok.redir = &Redir{Pos: p.posAt(p.tok.start), Op: op, Fd: -1}
	return tokRedir
}

// readRedirection reads an operator whose first byte is already consumed.
func (p *parser) readRedirection(c byte, fd int, name string) {
	op := RedirOut
	switch {
	case c == '>' && p.acceptByte('>'):
		op = RedirAppend
	case c == '>' && p.acceptByte('&'):
		op = RedirDupOut
	case c == '>' && p.acceptByte('|'):
		op = RedirClobber
	case c == '>':
	case p.acceptByte('&'):
		op = RedirDupIn
	case p.acceptByte('>'):
		op = RedirInOut
	case !p.acceptByte('<'):
		op = RedirIn
	case p.acceptByte('<'):
		op = RedirString
	case p.acceptByte('-'):
		op = RedirHereStrip
	default:
		op = RedirHere
	}
	p.countNode()
	p.tok.kind = tokRedir
	p.tok.redir = &Redir{Pos: p.posAt(p.tok.start), Op: op, Fd: fd, FdVar: name}
}

// readFdPrefix reads `2>` and `{name}>`.
func (p *parser) readFdPrefix() bool {
	c := p.peekByte()
	j := p.i
	fd, name := -1, ""
	switch {
	case c >= '0' && c <= '9':
		fd = 0
		for ; isDigit(p.byteAt(j)); j++ {
			if fd > 1<<24 {
				return false
			}
			fd = fd*10 + int(p.src[j]-'0')
		}
	case c == '{':
		j++
		for isName(p.byteAt(j)) {
			j++
		}
		if j > p.i+1 && p.byteAt(j) == '[' {
			j = p.subscriptEnd(j)
		}
		if j == p.i+1 || isDigit(p.src[p.i+1]) || p.byteAt(j) != '}' {
			return false
		}
		name = p.src[p.i+1 : j]
		j++
	default:
		return false
	}
	c = p.byteAt(j)
	if c != '<' && c != '>' {
		return false
	}
	if p.byteAt(j+1) == '(' {
		return false
	}
	p.i = j + 1
	p.readRedirection(c, fd, name)
	return true
}

// maxFdIndex limits the subscript of `{name[index]}>`.
const maxFdIndex = 64

// subscriptEnd returns the end of a simple subscript that begins at j, just
// after its bracket; j itself if there is none.
func (p *parser) subscriptEnd(j int) int {
	for k := j + 1; k-j < maxFdIndex; k++ {
		switch c := p.byteAt(k); {
		case c == ']':
			return k + 1
		case !isName(c) && c != '+' && c != '-' && c != '@' && c != '*':
			return j
		}
	}
	return j
}

// wordToken reads a word or an assignment. It returns false if an alias has
// replaced the word by other text.
func (p *parser) wordToken(m lexMode) bool {
	start := p.i
	if m != lexArg && m != lexPlain {
		if m == lexParen {
			p.tok.word = p.parenWord()
			p.tok.kind = tokWord
			return true
		}
		if a := p.parseAssignment(); a != nil {
			p.tok.kind = tokAssign
			p.tok.assign = a
			if m == lexDecl {
				p.tok.kind = tokWord
				p.tok.word = &Word{Pos: a.Pos, Raw: p.src[start:p.i], Assign: a}
			}
			return true
		}
	}
	w := p.parseWord(ctxWord)
	if p.o.Alias != nil && m != lexPlain && p.expandAlias(m, start, w) {
		return false
	}
	p.tok.kind = tokWord
	p.tok.word = w
	return true
}

// reservedWord returns the reserved word of a token at the start of a command;
// "" if it is none.
func reservedWord(t *token) string {
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

// textOf returns the text of a token for an error message.
func (p *parser) textOf(t *token) string {
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
