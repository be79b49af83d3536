// Package syntax parses and prints the language of bash 5.2: lexer, parser,
// syntax tree, printer and a small analyzer. It runs nothing and uses no file
// system. Limits bound the time and memory for every input, however hostile.
package syntax

// Pos is a position in the source. Lines and columns count from 1; the zero
// Pos means unknown. Columns count bytes.
type Pos struct {
	Line, Col int32
}

// Node is any node of the tree: *File, *Stmt, *Pipeline, *Cmd, every Command,
// *Assign, *Array, *Word, every Part, *Index, *Redir, *Heredoc, *CaseItem,
// every CondExpr, *Arith and every ArithExpr.
type Node interface{ isNode() }

// File is a whole script.
type File struct {
	Stmts []*Stmt
}

// Stmt is an and-or list with its terminator: `a && b || c;` or `a | b &`.
type Stmt struct {
	Pos, End   Pos
	First      *Pipeline
	Rest       []AndOr // empty for most
	Background bool    // ended by '&'
}

// AndOr is an element of an and-or list after the first.
type AndOr struct {
	Or       bool // `||`; else `&&`
	Pipeline *Pipeline
}

// Pipeline is one or more commands joined by '|', optionally timed or negated.
// Cmds is empty for a bare `!` or `time`.
type Pipeline struct {
	Pos    Pos
	Bangs  int // number of '!' before it
	Time   TimeMode
	Cmds   []*Cmd
	Stderr []bool // Stderr[i]: Cmds[i] is followed by `|&`; nil if there is no `|&`
}

// Negated reports whether the exit status is inverted.
func (p *Pipeline) Negated() bool { return p.Bangs%2 == 1 }

// TimeMode is the kind of timing of a pipeline.
type TimeMode uint8

// The kinds of timing.
const (
	NoTime    TimeMode = iota
	TimeBash           // time
	TimePosix          // time -p
)

// Cmd is one command of a pipeline with its redirections, in source order.
type Cmd struct {
	Pos, End Pos
	Body     Command
	Redirs   []*Redir
}

// Command is the body of a Cmd: *Simple, *Subshell, *Group, *If, *While, *For,
// *ArithFor, *Select, *Case, *ArithCmd, *CondCmd, *FuncDecl or *Coproc.
type Command interface {
	Node
	isCommand()
}

// Simple is a simple command: assignments, then words. Both are empty if the
// Cmd has only redirections.
type Simple struct {
	Assigns []*Assign
	Args    []*Word
	// Decl is set if the first word is, literally, a declaration builtin
	// (alias declare export local readonly typeset). Words of the form
	// name=value then have their Assign set.
	Decl bool
}

// Subshell is ( list ).
type Subshell struct{ Body []*Stmt }

// Group is { list; }.
type Group struct{ Body []*Stmt }

// If is an if command: one clause for if and one for each elif.
type If struct {
	Clauses []IfClause
	Else    []*Stmt // nil without else
}

// IfClause is a condition and the list that runs if it is true.
type IfClause struct{ Cond, Then []*Stmt }

// While is a while or until loop.
type While struct {
	Until      bool
	Cond, Body []*Stmt
}

// For is a for loop over words.
type For struct {
	Name  string
	In    bool // has an `in` part; without it the loop is over "$@"
	Words []*Word
	Body  []*Stmt
	Brace bool // written with { } instead of do done
}

// Select is a select loop; its fields are those of For.
type Select struct {
	Name  string
	In    bool
	Words []*Word
	Body  []*Stmt
	Brace bool
}

// ArithFor is for ((init; cond; post)). A missing part is nil.
type ArithFor struct {
	Init, Cond, Post *Arith
	Body             []*Stmt
	Brace            bool
}

// Case is a case command.
type Case struct {
	Word  *Word
	Items []*CaseItem
}

// CaseItem is one clause of a case command.
type CaseItem struct {
	Pos      Pos
	Patterns []*Word
	Body     []*Stmt
	Term     CaseTerm
}

// CaseTerm is the terminator of a case clause.
type CaseTerm uint8

// The terminators of a case clause.
const (
	CaseBreak CaseTerm = iota // ;;
	CaseFall                  // ;&  runs the next body
	CaseNext                  // ;;& tests the next patterns
)

// ArithCmd is (( expression )).
type ArithCmd struct{ X *Arith }

// CondCmd is [[ expression ]].
type CondCmd struct{ X CondExpr }

// FuncDecl defines a function. Redirections of the definition are in
// Body.Redirs.
type FuncDecl struct {
	Name    string
	Keyword bool   // written with `function`
	Body    *Cmd   // a compound command
	Source  string // the definition as written; "" if an alias was expanded in it
	Kept    int    // bytes of the text that stays in memory with it, if Source is ""
	Nodes   int    // the size of Body: its commands, words and expressions
}

// Coproc is coproc [name] command.
type Coproc struct {
	Name *Word // nil: COPROC
	Body *Cmd
}

// Assign is name=value, name+=value, name[index]=value or name=(…).
type Assign struct {
	Pos    Pos
	Name   string // "" for an [index]=value element of an Array
	Index  *Index // nil without subscript
	Append bool
	Value  *Word  // nil when Array is set, or for an empty value
	Array  *Array // name=( … ); with Index it is a run-time error
}

// Array is the compound value of an array assignment.
type Array struct {
	Pos   Pos
	Elems []ArrayElem
}

// ArrayElem is an element of a compound assignment: a word that is split,
// globbed and brace-expanded like an argument, or [index]=value.
type ArrayElem struct {
	Word   *Word   // nil when Assign is set
	Assign *Assign // [index]=value or [index]+=value
}

// Word is a shell word. Brace and tilde expansion, splitting and pathname
// expansion are left to the expander: text in a Lit part is unquoted and
// active, all other text is not. The pieces of an extended glob such as
// `@(a|"b")` are parts of the word: Lit `@(a|`, DblQuoted, Lit `)`.
type Word struct {
	Pos    Pos
	Parts  []Part
	Raw    string  // as in the source
	Assign *Assign // set for an assignment as argument of a declaration builtin; Parts is nil then
}

// Literal returns the word's text if the word is one unquoted part without
// expansions.
func (w *Word) Literal() (string, bool) {
	if w == nil || len(w.Parts) != 1 {
		return "", false
	}
	l, ok := w.Parts[0].(*Lit)
	if !ok {
		return "", false
	}
	return l.Value, true
}

// Part is a piece of a word: *Lit, *Quoted, *DblQuoted, *ParamExp, *CmdSubst,
// *ArithExp or *ProcSubst.
type Part interface {
	Node
	isPart()
}

// Lit is unquoted text. Inside DblQuoted (and here-documents, and operands of
// a quoted ${ }) it is inactive text with its backslashes resolved. Value does
// not contain backslash-newlines.
type Lit struct {
	Value string
	Raw   string // as in the source
}

// Quoted is literal text.
type Quoted struct {
	Kind  QuoteKind
	Value string // with escapes decoded
	Raw   string // as in the source, with the quotes
}

// QuoteKind is the kind of quoting of a Quoted.
type QuoteKind uint8

// The kinds of quoting without expansion.
const (
	Backslash    QuoteKind = iota // \x
	SingleQuote                   // '…'
	DollarSingle                  // $'…'
)

// DblQuoted is "…" or $"…". Its parts are Lit, ParamExp, CmdSubst and ArithExp.
type DblQuoted struct {
	Parts  []Part
	Dollar bool // $"…"
}

// ParamExp is a parameter expansion.
type ParamExp struct {
	Pos      Pos
	Name     string // a name, digits, or one of @ * # ? - $ !
	Short    bool   // $x, without braces
	Length   bool   // ${#x}
	Indirect bool   // ${!x}; with Op ParamNames: ${!x*}; with Index [@] and no Op: ${!a[@]}
	Index    *Index
	Op       ParamOp
	Arg      *Word  // operand; nil when absent. Quoting: see Quoted
	Repl     *Word  // ParamReplace…: the replacement; nil when absent
	Off, Len *Arith // ParamSlice; Len nil when absent
	Quoted   bool   // is within double quotes or a here-document
	Bad      bool   // "bad substitution", which is an error when it is expanded
	Raw      string // as in the source
}

// ParamOp is the operation of a ${ }.
type ParamOp uint8

// The operations. For those with a colon the test is "unset or null".
const (
	ParamNone          ParamOp = iota
	ParamDefault               // ${x-w}
	ParamDefaultColon          // ${x:-w}
	ParamAssign                // ${x=w}
	ParamAssignColon           // ${x:=w}
	ParamError                 // ${x?w}
	ParamErrorColon            // ${x:?w}
	ParamAlt                   // ${x+w}
	ParamAltColon              // ${x:+w}
	ParamTrimPrefix            // ${x#p}
	ParamTrimPrefixAll         // ${x##p}
	ParamTrimSuffix            // ${x%p}
	ParamTrimSuffixAll         // ${x%%p}
	ParamReplace               // ${x/p/r}
	ParamReplaceAll            // ${x//p/r}
	ParamReplaceStart          // ${x/#p/r}
	ParamReplaceEnd            // ${x/%p/r}
	ParamUpper                 // ${x^p}
	ParamUpperAll              // ${x^^p}
	ParamLower                 // ${x,p}
	ParamLowerAll              // ${x,,p}
	ParamToggle                // ${x~p}
	ParamToggleAll             // ${x~~p}
	ParamSlice                 // ${x:off:len}
	ParamNames                 // ${!x*}
	ParamNamesAt               // ${!x@}
	ParamTransform             // ${x@Q}: the letter is Arg's text
)

// Index is a subscript. Whether its text is an arithmetic expression or a key
// depends on the array, so it has both forms.
type Index struct {
	Kind  IndexKind
	Word  *Word  // the key of an associative array; for IndexExpr
	Arith *Arith // for IndexExpr
}

// IndexKind distinguishes [@] and [*] from an expression.
type IndexKind uint8

// The kinds of subscript.
const (
	IndexExpr IndexKind = iota
	IndexAt             // [@]
	IndexStar           // [*]
)

// CmdSubst is $( ) or ` `. A syntax error inside backquotes is stored in Err;
// it is an error only when the substitution is expanded.
type CmdSubst struct {
	Pos       Pos
	Stmts     []*Stmt
	Backquote bool
	Raw       string
	Err       *Error
}

// ArithExp is $(( )) or $[ ].
type ArithExp struct {
	Pos     Pos
	X       *Arith
	Bracket bool // $[ ]
}

// ProcSubst is <( ) or >( ).
type ProcSubst struct {
	Pos   Pos
	Out   bool // >( )
	Stmts []*Stmt
	Raw   string
}

// Redir is a redirection.
type Redir struct {
	Pos    Pos
	Op     RedirOp
	Fd     int    // -1: the operator's default
	FdVar  string // {name}>…
	Target *Word  // nil for here-documents. For `n>&m-` it is the whole `m-`
	Doc    *Heredoc
}

// RedirOp is a redirection operator.
type RedirOp uint8

// The operators.
const (
	RedirIn        RedirOp = iota // <
	RedirOut                      // >
	RedirAppend                   // >>
	RedirClobber                  // >|
	RedirInOut                    // <>
	RedirDupIn                    // <&  digits, digits-, - or a word
	RedirDupOut                   // >&
	RedirBoth                     // &>  (`>& word` stays RedirDupOut)
	RedirBothApp                  // &>>
	RedirHere                     // <<
	RedirHereStrip                // <<-
	RedirString                   // <<<
)

var redirText = [...]string{"<", ">", ">>", ">|", "<>", "<&", ">&", "&>", "&>>", "<<", "<<-", "<<<"}

// String returns the operator as written.
func (op RedirOp) String() string { return redirText[op] }

// DefaultFd returns the descriptor of the operator without a number.
func (op RedirOp) DefaultFd() int {
	switch op {
	case RedirIn, RedirInOut, RedirDupIn, RedirHere, RedirHereStrip, RedirString:
		return 0
	}
	return 1
}

// Heredoc is the body of a here-document. For <<- its tabs are removed.
type Heredoc struct {
	Pos      Pos
	Delim    string // quotes removed
	RawDelim string // as in the source
	Quoted   bool   // the delimiter was quoted: Body is one Lit
	Body     *Word  // expanded as if in double quotes; never nil
	EOF      bool   // ended by the end of the input (bash prints a warning)
}

// CondExpr is an expression of [[ ]]: *CondWord, *CondUnary, *CondBinary,
// *CondNot, *CondLogic or *CondParen.
type CondExpr interface {
	Node
	isCond()
}

// CondWord is a single word: true if it is not empty.
type CondWord struct{ X *Word }

// CondUnary is a test with one operand, such as -f x.
type CondUnary struct {
	Op string
	X  *Word
}

// CondBinary is a test with two operands, such as x == y. For == != = the
// right side is a pattern and for =~ a regular expression; quoted parts of
// either are literal.
type CondBinary struct {
	Op   string
	X, Y *Word
}

// CondNot is ! x.
type CondNot struct{ X CondExpr }

// CondLogic is x && y or x || y.
type CondLogic struct {
	Or   bool
	X, Y CondExpr
}

// CondParen is ( x ).
type CondParen struct{ X CondExpr }

// Arith is an arithmetic expression as the shell treats it: text that is first
// expanded and then evaluated.
//
// To evaluate it: if Expr is nil, expand Word as in double quotes and pass the
// result to ParseArith. If Expr is set and Dollars is empty, evaluate Expr. If
// Dollars is not empty, expand its parts in order; if all results are plain
// decimal numbers (digits without a leading zero, no sign) evaluate Expr with
// them, else expand Word and use ParseArith on the result.
type Arith struct {
	Pos     Pos
	Raw     string
	Word    *Word       // never nil
	Expr    ArithExpr   // nil if it is unknown before expansion
	Dollars []Part      // expansions that the ArithDollar nodes refer to
	Err     *ArithError // why text without expansions is invalid; an error at run time
}

// ArithExpr is a node of an arithmetic expression: *ArithNum, *ArithVar,
// *ArithDollar, *ArithUnary, *ArithIncDec, *ArithBinary, *ArithAssign or
// *ArithTernary. A nil expression (empty text) is 0.
type ArithExpr interface {
	Node
	isArith()
}

// ArithNum is a constant.
type ArithNum struct{ Value int64 }

// ArithVar is a variable; its value is evaluated as an expression.
type ArithVar struct {
	Name  string
	Index *Index
}

// ArithDollar is the value of Arith.Dollars[N].
type ArithDollar struct{ N int }

// ArithUnary is + - ! ~ x.
type ArithUnary struct {
	Op ArithOp
	X  ArithExpr
}

// ArithIncDec is ++x x++ --x x--.
type ArithIncDec struct {
	X    *ArithVar
	Dec  bool
	Post bool
}

// ArithBinary is x op y; && and || evaluate y only if needed.
type ArithBinary struct {
	Op   ArithOp
	X, Y ArithExpr
	// Rest is, for / % and **, the text that bash shows as the error token
	// of "division by 0" and "exponent less than 0".
	Rest string
}

// ArithAssign is x = y, or x op= y with Op not ArithNone.
type ArithAssign struct {
	Op ArithOp
	X  *ArithVar
	Y  ArithExpr
}

// ArithTernary is c ? x : y.
type ArithTernary struct{ Cond, X, Y ArithExpr }

// ArithOp is an arithmetic operator.
type ArithOp uint8

// The operators.
const (
	ArithNone  ArithOp = iota
	ArithAdd           // +
	ArithSub           // -
	ArithMul           // *
	ArithDiv           // /
	ArithRem           // %
	ArithPow           // **
	ArithShl           // <<
	ArithShr           // >>
	ArithAnd           // &
	ArithOr            // |
	ArithXor           // ^
	ArithNot           // ~
	ArithLAnd          // &&
	ArithLOr           // ||
	ArithLNot          // !
	ArithEq            // ==
	ArithNe            // !=
	ArithLt            // <
	ArithLe            // <=
	ArithGt            // >
	ArithGe            // >=
	ArithComma         // ,
)

var arithText = [...]string{
	"", "+", "-", "*", "/", "%", "**", "<<", ">>", "&", "|", "^", "~",
	"&&", "||", "!", "==", "!=", "<", "<=", ">", ">=", ",",
}

// String returns the operator as written.
func (op ArithOp) String() string { return arithText[op] }

func (*File) isNode()         {}
func (*Stmt) isNode()         {}
func (*Pipeline) isNode()     {}
func (*Cmd) isNode()          {}
func (*Simple) isNode()       {}
func (*Subshell) isNode()     {}
func (*Group) isNode()        {}
func (*If) isNode()           {}
func (*While) isNode()        {}
func (*For) isNode()          {}
func (*Select) isNode()       {}
func (*ArithFor) isNode()     {}
func (*Case) isNode()         {}
func (*CaseItem) isNode()     {}
func (*ArithCmd) isNode()     {}
func (*CondCmd) isNode()      {}
func (*FuncDecl) isNode()     {}
func (*Coproc) isNode()       {}
func (*Assign) isNode()       {}
func (*Array) isNode()        {}
func (*Word) isNode()         {}
func (*Lit) isNode()          {}
func (*Quoted) isNode()       {}
func (*DblQuoted) isNode()    {}
func (*ParamExp) isNode()     {}
func (*Index) isNode()        {}
func (*CmdSubst) isNode()     {}
func (*ArithExp) isNode()     {}
func (*ProcSubst) isNode()    {}
func (*Redir) isNode()        {}
func (*Heredoc) isNode()      {}
func (*CondWord) isNode()     {}
func (*CondUnary) isNode()    {}
func (*CondBinary) isNode()   {}
func (*CondNot) isNode()      {}
func (*CondLogic) isNode()    {}
func (*CondParen) isNode()    {}
func (*Arith) isNode()        {}
func (*ArithNum) isNode()     {}
func (*ArithVar) isNode()     {}
func (*ArithDollar) isNode()  {}
func (*ArithUnary) isNode()   {}
func (*ArithIncDec) isNode()  {}
func (*ArithBinary) isNode()  {}
func (*ArithAssign) isNode()  {}
func (*ArithTernary) isNode() {}

func (*Simple) isCommand()   {}
func (*Subshell) isCommand() {}
func (*Group) isCommand()    {}
func (*If) isCommand()       {}
func (*While) isCommand()    {}
func (*For) isCommand()      {}
func (*Select) isCommand()   {}
func (*ArithFor) isCommand() {}
func (*Case) isCommand()     {}
func (*ArithCmd) isCommand() {}
func (*CondCmd) isCommand()  {}
func (*FuncDecl) isCommand() {}
func (*Coproc) isCommand()   {}

func (*Lit) isPart()       {}
func (*Quoted) isPart()    {}
func (*DblQuoted) isPart() {}
func (*ParamExp) isPart()  {}
func (*CmdSubst) isPart()  {}
func (*ArithExp) isPart()  {}
func (*ProcSubst) isPart() {}

func (*CondWord) isCond()   {}
func (*CondUnary) isCond()  {}
func (*CondBinary) isCond() {}
func (*CondNot) isCond()    {}
func (*CondLogic) isCond()  {}
func (*CondParen) isCond()  {}

func (*ArithNum) isArith()     {}
func (*ArithVar) isArith()     {}
func (*ArithDollar) isArith()  {}
func (*ArithUnary) isArith()   {}
func (*ArithIncDec) isArith()  {}
func (*ArithBinary) isArith()  {}
func (*ArithAssign) isArith()  {}
func (*ArithTernary) isArith() {}
