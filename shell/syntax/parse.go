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
	Source     string // the source line that bash prints after the message; "" for none
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
type Parser struct{}

// New returns a parser of src.
func New(src string, o Options) *Parser { return &Parser{} }

// Next returns the statements of the next complete command: usually one line,
// more when a construct or a here-document goes on. At the end it returns
// io.EOF; other errors are *Error. After an error the rest of the source is
// not read.
func (p *Parser) Next() ([]*Stmt, error) { return nil, io.EOF }

// Parse reads a whole script.
func Parse(src string, o Options) (*File, error) { return nil, io.EOF }

// ParseArith reads an arithmetic expression that is already expanded. The
// result is nil for an empty one; errors are *ArithError.
func ParseArith(text string, o Options) (ArithExpr, error) { return nil, io.EOF }

// ParseText reads text in which expansions are recognized as in double quotes
// (a quote is an ordinary character): prompts, ${x@P}, PS4.
func ParseText(text string, o Options) (*Word, error) { return nil, io.EOF }

// ParseRef reads name or name[index], as found in the arguments of read,
// unset, declare, or in a variable that is dereferenced. ok is false when it
// is neither.
func ParseRef(text string, o Options) (name string, index *Index, ok bool) { return "", nil, false }

// ParseArray reads the text "( … )" of a compound assignment that comes from
// an expansion, as in declare -a "a=$x".
func ParseArray(text string, o Options) (*Array, error) { return nil, io.EOF }
