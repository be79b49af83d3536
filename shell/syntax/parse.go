package syntax

import (
	"fmt"
	"io"
)

// Budget is what a parser asks before it works and before it keeps memory.
// Either method may unwind the caller by a panic of its own.
type Budget interface {
	Tick(n int)
	Alloc(n int64)
	Free(n int64)
}

// The limits that apply where Options names none.
const (
	DefaultMaxBytes = 1 << 20
	DefaultMaxDepth = 500
	DefaultMaxNodes = 1 << 20
)

// Options say how source is read. The zero value is bash's default mode for
// a script.
type Options struct {
	MaxBytes int // of source; 0: DefaultMaxBytes, <0: none
	MaxDepth int // of nesting; 0: DefaultMaxDepth
	MaxNodes int // of the tree, per Next; 0: DefaultMaxNodes, <0: none
	Budget   Budget

	// Alias returns the text of an alias. It is asked while parsing, so that
	// a new alias counts from the next line on. Nil: no alias expansion.
	Alias func(name string) (text string, ok bool)

	// ExtGlob reports whether shopt extglob is on; it is asked before each
	// command. Nil: off. Inside [[ ]] extended globs are always read.
	ExtGlob func() bool

	// More returns the next piece of source (usually a line) when what is there
	// does not complete a command; io.EOF ends it. Nil: there is no more.
	More func() (string, error)

	Posix bool // set -o posix
	Line  int  // number of the first line; 0: 1
}

// Error is a syntax error, or a limit that was passed.
type Error struct {
	Line, Col  int
	Token      string // what was not expected; "" for others
	Msg        string // as bash words it, without "bash: line N: "
	Incomplete bool   // more input could make it valid
	TooBig     bool   // a limit of Options was passed: errors.Is(err, atoll.ErrQuota)
	Source     string // the source line, which bash prints after the message as: `line'
	Detail     string // a second message, printed like the first; "" for none

	// Status is the status that eval and source return for it: 2, or 1 within
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
	Token string // the rest of the expression where it was noticed; "" for none
}

// Error words it as bash does: `1 +: syntax error: operand expected (error
// token is "+")`.
func (e *ArithError) Error() string {
	if e.Token == "" {
		return e.Expr + ": " + e.Msg
	}
	return fmt.Sprintf("%s: %s (error token is %q)", e.Expr, e.Msg, e.Token)
}

// Parser reads a script one complete command line at a time. It is not safe
// for concurrent use.
type Parser struct{ p *parser }

// New returns a parser of src.
func New(src string, o Options) *Parser { return &Parser{newParser(src, o)} }

// Next returns the statements of the next complete command: usually one line,
// more when a construct or a here-document goes on. At the end it returns
// io.EOF; other errors are *Error. After an error the rest of the source is
// not read.
func (ps *Parser) Next() ([]*Stmt, error) {
	p := ps.p
	if p.failed {
		return nil, io.EOF
	}
	if p.err == nil && !p.have {
		p.trim()
	}
	p.nodes = 0
	p.cost = 0
	p.shopt = p.o.ExtGlob != nil && p.o.ExtGlob()
	p.extglob = p.shopt
	stmts := p.line1()
	if p.err != nil {
		p.failed = true
		p.refund()
		return nil, p.err
	}
	if stmts == nil {
		return nil, io.EOF
	}
	return stmts, nil
}

// Cost returns what the tree of the last Next was charged to the budget; who
// drops the tree may give it back.
func (ps *Parser) Cost() int64 { return ps.p.cost }

// Rest returns the source that is not read yet.
func (ps *Parser) Rest() string {
	p := ps.p
	rest := p.src[min(p.i, len(p.src)):]
	for i := len(p.tail) - 1; i >= 0; i-- {
		rest += p.tail[i]
	}
	return rest
}

// Line returns the number of the line that is read next.
func (ps *Parser) Line() int { return ps.p.line() }

// Parse reads a whole script.
func Parse(src string, o Options) (*File, error) {
	p := newParser(src, o)
	p.shopt = o.ExtGlob != nil && o.ExtGlob()
	p.extglob = p.shopt
	f := &File{Stmts: p.script()}
	if p.err != nil {
		p.refund()
		return nil, p.err
	}
	return f, nil
}

// ParseArith reads an arithmetic expression that is already expanded. The
// result is nil for an empty one; errors are *ArithError.
func ParseArith(text string, o Options) (ArithExpr, error) {
	p := newParser("", o)
	x := arithParser{p: p, text: text, line: p.curLine}
	expr, err := x.parse()
	p.refund()
	if err != nil {
		return nil, err
	}
	return expr, nil
}

// ParseText reads text in which expansions are recognized as in double quotes
// (a quote is an ordinary character): prompts, ${x@P}, PS4.
func ParseText(text string, o Options) (*Word, error) {
	p := newParser(text, o)
	w := &Word{Pos: Pos{p.curLine, 1}, Raw: text}
	if p.enter() {
		ps := pieces{c: ctxDoc}
		p.scan(&ps)
		w.Parts = ps.parts
	}
	p.refund()
	if p.err != nil {
		return nil, p.err
	}
	return w, nil
}

// ParseRef reads name or name[index], as found in the arguments of read,
// unset, declare, or in a variable that is dereferenced. ok is false when it
// is neither.
func ParseRef(text string, o Options) (name string, index *Index, ok bool) {
	p := newParser(text, o)
	if !isNameStart(p.peek()) {
		return "", nil, false
	}
	for isName(p.peek()) {
		p.i++
	}
	name = p.src[:p.i]
	if p.peek() == '[' {
		p.i++
		if p.peek() == ']' {
			return "", nil, false
		}
		index = p.index()
	}
	p.refund()
	return name, index, p.err == nil && p.i == len(p.src)
}

// ParseArray reads the text "( … )" of a compound assignment that comes from
// an expansion, as in declare -a "a=$x".
func ParseArray(text string, o Options) (*Array, error) {
	p := newParser(text, o)
	p.skipBlanks()
	if p.peek() != '(' {
		p.unexpected()
		return nil, p.err
	}
	p.i++
	a := p.array()
	p.refund()
	if p.err != nil {
		return nil, p.err
	}
	return a, nil
}
