package awk

// expr is an expression.
type expr interface{}

type (
	numLit   struct{ v float64 }
	strLit   struct{ s string }
	regexLit struct {
		src   string
		typed bool // @/…/: a value, never a match against the record
	}
	varRef   struct{ sym *symbol }
	indexRef struct {
		arr  expr // *varRef or *indexRef
		subs []expr
	}
	fieldRef  struct{ e expr }
	groupExpr struct{ list []expr } // in parentheses; one, or a list before "in" or in print
	unaryExpr struct {
		op kind
		e  expr
	}
	binaryExpr struct { // arithmetic and comparison
		op   kind
		l, r expr
	}
	logicExpr struct { // && and ||
		op   kind
		l, r expr
	}
	condExpr struct{ c, a, b expr }
	concat   struct{ parts []expr }
	match    struct {
		not  bool
		l, r expr
	}
	inExpr struct {
		subs []expr
		arr  expr
	}
	assignExpr struct {
		op   kind // tAssign or the arithmetic operator
		l, r expr
	}
	incExpr struct {
		post  bool
		delta float64
		l     expr
	}
	getlineExpr struct {
		op  kind // tEOF: the main input; tLT: a file; tPipe, tPipeAnd: a command
		src expr
		l   expr // nil: the record
	}
	callExpr struct {
		fn       *function
		name     string
		indirect *varRef
		args     []expr
		line     int
	}
	builtinExpr struct {
		name  string
		args  []expr
		paren bool
		line  int
	}
)

// stmt is a statement.
type stmt interface{}

type (
	exprStmt  struct{ e expr }
	printStmt struct {
		printf bool
		args   []expr
		redir  kind // tEOF: none
		dest   expr
	}
	ifStmt struct {
		c           expr
		then, else_ []stmt
	}
	whileStmt struct {
		c    expr
		body []stmt
		do   bool
	}
	forStmt struct {
		init, post stmt
		c          expr // nil: forever
		body       []stmt
	}
	forInStmt struct {
		v    expr
		arr  expr
		body []stmt
	}
	switchStmt struct {
		e     expr
		cases []switchCase
	}
	jumpStmt struct { // break, continue, next or nextfile
		op kind
	}
	exitStmt   struct{ e expr }
	returnStmt struct{ e expr }
	deleteStmt struct {
		arr  expr
		subs []expr // nil: all elements
	}
	blockStmt struct{ list []stmt }
	lineStmt  struct { // sets the line for messages of s
		line, src int
		s         stmt
	}
)

// switchCase is a case of a switch.
type switchCase struct {
	match expr // nil: default
	body  []stmt
}

// symKind is the use of a name.
type symKind uint8

const (
	symUnknown symKind = iota
	symScalar
	symArray
	symBoth // a parameter that accepts both
)

// symbol is a variable or a parameter.
type symbol struct {
	name     string
	kind     symKind
	fn       *function // nil: global
	index    int       // of a parameter
	assigned bool      // it was assigned to before it was used as an array
	// Only for globals, at run time:
	cell  *value
	array *array
	line  int
}

// function is a function of the program.
type function struct {
	name    string
	params  []*symbol
	body    []stmt
	defined bool
	depth   int // of the deepest expression or statement
	line    int
	src     int
	// Only at run time:
	run stmtFn
}

// ruleKind is the kind of a rule.
type ruleKind uint8

const (
	ruleMain ruleKind = iota
	ruleBegin
	ruleEnd
	ruleBeginFile
	ruleEndFile
)

// rule is a pattern with its action.
type rule struct {
	kind    ruleKind
	pattern expr // nil: always
	to      expr // of a range
	body    []stmt
	none    bool // no action: print the record
	line    int
	src     int
}

// Program is a parsed program. It can be run once.
type Program struct {
	srcs    []Source
	rules   []*rule
	funcs   map[string]*function
	globals map[string]*symbol
}
