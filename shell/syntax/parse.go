package syntax

import (
	"fmt"
	"io"
)

// Budget limits the work and memory of a parser: the parser calls it before it
// works or allocates. Tick and Alloc may panic to abort the parser.
type Budget interface {
	Tick(n int)
	Alloc(n int64)
	Free(n int64)
}

// Defaults for the zero limits of [Options].
const (
	DefaultMaxBytes = 1 << 20
	DefaultMaxDepth = 500
	DefaultMaxNodes = 1 << 20
)

// Options control parsing. The zero value is bash's default mode for a
// script.
type Options struct {
	MaxBytes int // of source; 0: DefaultMaxBytes, <0: no limit
	MaxDepth int // of nesting; 0: DefaultMaxDepth
	MaxNodes int // of the tree of one Next; 0: DefaultMaxNodes, <0: no limit
	Budget   Budget

	// Alias returns the text of an alias. It is called while parsing, so that
	// a new alias applies from the next line on. Nil: no alias expansion.
	Alias func(name string) (text string, ok bool)

	// ExtGlob reports whether shopt extglob is on. It is called before each
	// command. Nil: off. Inside [[ ]] extended globs are always recognized.
	ExtGlob func() bool

	// More returns the next piece of source (usually a line) if the source
	// so far does not complete a command; io.EOF ends it. Nil: no more.
	More func() (string, error)

	Posix bool // set -o posix
	Line  int  // number of the first line; 0: 1
}

// Error is a syntax error, or an exceeded limit.
type Error struct {
	Line, Col  int
	Token      string // the unexpected token; "" for other errors
	Msg        string // bash's message without "bash: line N: "
	Incomplete bool   // more input could make the source valid
	TooBig     bool   // a limit of Options was exceeded: errors.Is(err, atoll.ErrQuota)
	Source     string // the source line, which bash prints after the message as: `line'
	Detail     string // a second message, printed like the first; "" for none

	// Status is the status of eval and source for the error: 2, or 1 within
	// a compound assignment. CommandStatus is that of bash -c, which differs
	// within [[ ]] and $( ).
	Status, CommandStatus int
}

// Error returns "line N: message".
func (e *Error) Error() string { return fmt.Sprintf("line %d: %s", e.Line, e.Msg) }

// ArithError is an error of an arithmetic expression.
type ArithError struct {
	Expr  string // the expression
	Msg   string // "syntax error: operand expected"
	Token string // the rest of the expression at the error; "" for none
}

// Error returns bash's message: `1 +: syntax error: operand expected (error
// token is "+")`.
func (e *ArithError) Error() string {
	if e.Token == "" {
		return e.Expr + ": " + e.Msg
	}
	return fmt.Sprintf("%s: %s (error token is %q)", e.Expr, e.Msg, e.Token)
}

// Parser parses a script one complete command line at a time. It is not safe
// for concurrent use.
type Parser struct{ p *parser }

// New returns a parser of src.
func New(src string, o Options) *Parser { return &Parser{newParser(src, o)} }

// Next returns the statements of the next complete command: usually one line,
// or more if a construct or a here-document continues. At the end it returns
// io.EOF; other errors are *Error. After an error it does not read the rest of
// the source.
func (ps *Parser) Next() ([]*Stmt, error) {
	p := ps.p
	if p.failed {
		return nil, io.EOF
	}
	if p.err == nil && !p.haveToken {
		p.dropConsumed()
	}
	p.nodes = 0
	p.cost = 0
	p.shopt = p.o.ExtGlob != nil && p.o.ExtGlob()
	p.extglob = p.shopt
	stmts := p.parseLine()
	if p.err != nil {
		p.failed = true
		p.refundCost()
		return nil, p.err
	}
	if stmts == nil {
		return nil, io.EOF
	}
	return stmts, nil
}

// Cost returns the bytes that were charged to the budget for the tree of the
// last Next. A caller that drops the tree may free them.
func (ps *Parser) Cost() int64 { return ps.p.cost }

// Rest returns the source that has not been parsed yet.
func (ps *Parser) Rest() string {
	p := ps.p
	rest := p.src[min(p.i, len(p.src)):]
	for i := len(p.tail) - 1; i >= 0; i-- {
		rest += p.tail[i]
	}
	return rest
}

// Line returns the number of the next line.
func (ps *Parser) Line() int { return ps.p.currentLine() }

// Parse parses a whole script.
func Parse(src string, o Options) (*File, error) {
	p := newParser(src, o)
	p.shopt = o.ExtGlob != nil && o.ExtGlob()
	p.extglob = p.shopt
	f := &File{Stmts: p.parseScript()}
	if p.err != nil {
		p.refundCost()
		return nil, p.err
	}
	return f, nil
}

// ParseArith parses an arithmetic expression after its expansion. The result
// is nil for an empty one; errors are *ArithError.
func ParseArith(text string, o Options) (ArithExpr, error) {
	p := newParser("", o)
	x := arithParser{p: p, text: text, line: p.curLine}
	expr, err := x.parse()
	p.refundCost()
	if err != nil {
		return nil, err
	}
	return expr, nil
}

// ParseText parses text in which expansions are recognized as in double quotes
// (a quote is an ordinary character): prompts, ${x@P}, PS4.
func ParseText(text string, o Options) (*Word, error) {
	p := newParser(text, o)
	w := &Word{Pos: Pos{p.curLine, 1}, Raw: text}
	if p.enterLevel() {
		ps := pieces{c: ctxDoc}
		p.scan(&ps)
		w.Parts = ps.parts
	}
	p.refundCost()
	if p.err != nil {
		return nil, p.err
	}
	return w, nil
}

// ParseRef parses name or name[index], as in the arguments of read, unset and
// declare, or in the value of a name reference. ok is false for other text.
func ParseRef(text string, o Options) (name string, index *Index, ok bool) {
	p := newParser(text, o)
	if !isNameStart(p.peekByte()) {
		return "", nil, false
	}
	for isName(p.peekByte()) {
		p.i++
	}
	name = p.src[:p.i]
	if p.peekByte() == '[' {
		p.i++
		if p.peekByte() == ']' {
			return "", nil, false
		}
		index = p.parseIndex()
	}
	p.refundCost()
	return name, index, p.err == nil && p.i == len(p.src)
}

// ParseArray parses the text "( … )" of a compound assignment that results
// from an expansion, as in declare -a "a=$x".
func ParseArray(text string, o Options) (*Array, error) {
	p := newParser(text, o)
	p.skipBlanks()
	if p.peekByte() != '(' {
		p.failUnexpected()
		return nil, p.err
	}
	p.i++
	a := p.parseArray()
	p.refundCost()
	if p.err != nil {
		return nil, p.err
	}
	return a, nil
}
