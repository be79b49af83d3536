package syntax

import (
	"strings"
)

// Print writes a node as bash writes it: for a *FuncDecl the output of
// `declare -f`, for other commands what `jobs` shows. It parses back to an
// equal tree.
func Print(n Node) string {
	var p printer
	switch n := n.(type) {
	case *File:
		for _, s := range n.Stmts {
			p.stmt(s)
			p.docs("")
			p.afterDoc = false
			p.byte('\n')
		}
	case *Stmt:
		p.stmt(n)
		p.docs("")
	case *Pipeline:
		p.pipeline(n)
		p.docs("")
	case *Cmd:
		p.cmd(n)
		p.docs("")
	case *FuncDecl:
		p.function(n)
	case Command:
		p.cmd(&Cmd{Body: n})
	case *Word:
		p.word(n)
	case *Assign:
		p.assign(n)
	case *Array:
		p.array(n)
	case *Redir:
		p.redir(n)
		p.docs("")
	case *Arith:
		p.str(n.Raw)
	case CondExpr:
		p.cond(n)
	case Part:
		p.word(&Word{Parts: []Part{n}})
	}
	return string(p.buf)
}

// indentStep is how far the inside of a construct is moved to the right.
const indentStep = 4

// printer holds the text and where the next command goes.
type printer struct {
	buf      []byte
	indent   int
	inline   bool // the next command goes on in the line
	inFunc   int  // depth of function definitions, in which lists are broken into lines
	pending  []*Redir
	afterDoc bool // a here-document has ended the line
}

func (p *printer) str(s string) { p.buf = append(p.buf, s...) }

func (p *printer) byte(b byte) { p.buf = append(p.buf, b) }

// pad indents, unless the command goes on in the line.
func (p *printer) pad() {
	if p.inline {
		p.inline = false
		return
	}
	for range p.indent {
		p.byte(' ')
	}
}

// newline begins a line with s.
func (p *printer) newline(s string) {
	p.byte('\n')
	p.pad()
	p.str(s)
}

// semicolon ends a list, unless & or a line end does already.
func (p *printer) semicolon() {
	if n := len(p.buf); n > 0 && p.buf[n-1] != '&' && p.buf[n-1] != '\n' {
		p.byte(';')
	}
}

// list prints statements from the current place on.
func (p *printer) list(stmts []*Stmt) {
	for i, s := range stmts {
		p.stmt(s)
		if i == len(stmts)-1 {
			return
		}
		if s.Background {
			p.byte(' ')
			p.inline = true
			continue
		}
		p.docs("")
		if !p.afterDoc {
			p.byte(';')
		}
		p.afterDoc = false
		if p.inFunc > 0 {
			p.byte('\n')
		} else {
			p.byte(' ')
			p.inline = true
		}
	}
}

// block prints a list one step to the right.
func (p *printer) block(stmts []*Stmt) {
	p.indent += indentStep
	p.list(stmts)
	p.docs("")
	p.indent -= indentStep
	p.semicolon()
	p.afterDoc = false
}

func (p *printer) stmt(s *Stmt) {
	p.pipeline(s.First)
	for _, a := range s.Rest {
		op := " && "
		if a.Or {
			op = " || "
		}
		if p.docs(op) {
			p.byte(' ')
		} else {
			p.str(op)
		}
		p.afterDoc = false
		p.inline = true
		p.pipeline(a.Pipeline)
	}
	if s.Background {
		if !p.docs(" &") {
			p.str(" &")
		}
	}
}

func (p *printer) pipeline(l *Pipeline) {
	p.pad()
	switch l.Time {
	case TimeBash:
		p.str("time ")
	case TimePosix:
		p.str("time -p ")
	}
	if l.Negated() {
		p.str("! ")
	} else if len(l.Cmds) == 0 && l.Time == NoTime {
		p.str("! ! ")
	}
	for i, c := range l.Cmds {
		p.inline = true
		p.cmd(c)
		if i == len(l.Cmds)-1 {
			return
		}
		op := " | "
		if i < len(l.Stderr) && l.Stderr[i] {
			op = " 2>&1 | "
		}
		if p.docs(strings.TrimRight(op, " ")) {
			p.str("  ")
		} else {
			p.str(op)
		}
		p.afterDoc = false
	}
}

func (p *printer) cmd(c *Cmd) {
	p.pad()
	switch b := c.Body.(type) {
	case *Simple:
		if len(c.Redirs) > 0 && reservedFirst(b) {
			p.redirs(c)
			p.byte(' ')
			p.simple(b)
			return
		}
		p.simple(b)
	case *FuncDecl:
		p.nestedFunction(b)
	default:
		p.compound(c.Body)
	}
	p.redirs(c)
}

// reservedFirst reports whether the first word would be a reserved word if
// nothing stood before it.
func reservedFirst(s *Simple) bool {
	return len(s.Assigns) == 0 && len(s.Args) > 0 && reserved(&token{kind: tokWord, word: s.Args[0]}) != ""
}

func (p *printer) redirs(c *Cmd) {
	for _, r := range c.Redirs {
		if n := len(p.buf); n > 0 && p.buf[n-1] != ' ' && p.buf[n-1] != '\n' {
			p.byte(' ')
		}
		p.redir(r)
	}
}

func (p *printer) simple(s *Simple) {
	sep := ""
	for _, a := range s.Assigns {
		p.str(sep)
		p.assign(a)
		sep = " "
	}
	for _, w := range s.Args {
		p.str(sep)
		p.word(w)
		sep = " "
	}
}

func (p *printer) compound(c Command) {
	switch c := c.(type) {
	case *Subshell:
		p.str("( ")
		p.inline = true
		p.list(c.Body)
		p.docs("")
		p.afterDoc = false
		p.str(" )")
	case *Group:
		p.group(c.Body)
	case *If:
		p.ifClauses(c.Clauses, c.Else)
	case *While:
		word := "while "
		if c.Until {
			word = "until "
		}
		p.str(word)
		p.condition(c.Cond)
		p.str(" do\n")
		p.block(c.Body)
		p.newline("done")
	case *For:
		p.loop("for ", c.Name, c.In, c.Words, c.Body)
	case *Select:
		p.loop("select ", c.Name, c.In, c.Words, c.Body)
	case *ArithFor:
		p.arithFor(c)
	case *Case:
		p.caseCommand(c)
	case *ArithCmd:
		p.str("((" + c.X.Raw + "))")
	case *CondCmd:
		p.str("[[ ")
		p.cond(c.X)
		p.str(" ]]")
	case *Coproc:
		p.str("coproc ")
		if _, simple := c.Body.Body.(*Simple); !simple {
			if c.Name != nil {
				p.word(c.Name)
			} else {
				p.str("COPROC")
			}
			p.byte(' ')
		}
		p.inline = true
		p.cmd(c.Body)
	}
}

// condition prints the list before then or do.
func (p *printer) condition(stmts []*Stmt) {
	p.inline = true
	p.list(stmts)
	p.docs("")
	p.afterDoc = false
	p.semicolon()
}

func (p *printer) group(body []*Stmt) {
	p.str("{ ")
	if p.inFunc == 0 {
		p.inline = true
		p.list(body)
		p.docs("")
		p.afterDoc = false
		p.semicolon()
		p.str(" }")
		return
	}
	p.byte('\n')
	p.indent += indentStep
	p.list(body)
	p.docs("")
	p.afterDoc = false
	p.indent -= indentStep
	p.newline("}")
}

// ifClauses prints an elif as an if within the else, as bash does.
func (p *printer) ifClauses(clauses []IfClause, last []*Stmt) {
	start := p.indent
	for i, c := range clauses {
		if i > 0 {
			p.newline("else\n")
			p.indent += indentStep
			p.pad()
		}
		p.str("if ")
		p.condition(c.Cond)
		p.str(" then\n")
		p.block(c.Then)
	}
	if last != nil {
		p.newline("else\n")
		p.block(last)
	}
	p.newline("fi")
	for p.indent > start {
		p.indent -= indentStep
		p.semicolon()
		p.newline("fi")
	}
}

func (p *printer) loop(word, name string, in bool, words []*Word, body []*Stmt) {
	p.str(word + name + " in ")
	if !in {
		p.str(`"$@"`)
	}
	for i, w := range words {
		if i > 0 {
			p.byte(' ')
		}
		p.word(w)
	}
	p.byte(';')
	p.newline("do\n")
	p.block(body)
	p.newline("done")
}

func (p *printer) arithFor(c *ArithFor) {
	p.str("for ((")
	for i, x := range []*Arith{c.Init, c.Cond, c.Post} {
		if i > 0 {
			p.str("; ")
		}
		if x == nil {
			p.byte('1')
		} else {
			p.str(x.Raw)
		}
	}
	p.str("))")
	p.newline("do\n")
	p.block(c.Body)
	p.newline("done")
}

var caseTerms = [...]string{CaseBreak: ";;", CaseFall: ";&", CaseNext: ";;&"}

func (p *printer) caseCommand(c *Case) {
	p.str("case ")
	p.word(c.Word)
	p.str(" in ")
	p.indent += indentStep
	for _, item := range c.Items {
		p.newline("")
		if l, ok := item.Patterns[0].Literal(); ok && l == "esac" {
			p.byte('(')
		}
		for i, w := range item.Patterns {
			if i > 0 {
				p.str(" | ")
			}
			p.word(w)
		}
		p.str(")\n")
		p.indent += indentStep
		p.list(item.Body)
		p.docs("")
		p.afterDoc = false
		p.indent -= indentStep
		p.newline(caseTerms[item.Term])
	}
	p.indent -= indentStep
	p.newline("esac")
}

// function prints a definition as declare -f does.
func (p *printer) function(f *FuncDecl) {
	if notName(f.Name) {
		p.str("function ")
	}
	p.str(f.Name + " () \n")
	p.funcBody(f)
}

func (p *printer) nestedFunction(f *FuncDecl) {
	p.str("function " + f.Name + " () \n")
	p.pad()
	p.funcBody(f)
}

// notName reports whether a definition of that name needs the word function.
func notName(name string) bool {
	return reserved(&token{kind: tokWord, word: &Word{Parts: []Part{&Lit{Value: name}}}}) != "" ||
		strings.ContainsAny(name, "=")
}

func (p *printer) funcBody(f *FuncDecl) {
	p.inFunc++
	p.str("{ \n")
	p.indent += indentStep
	group, isGroup := f.Body.Body.(*Group)
	if isGroup {
		p.list(group.Body)
	} else {
		p.cmd(f.Body)
	}
	p.docs("")
	p.afterDoc = false
	p.indent -= indentStep
	p.newline("}")
	if isGroup {
		for _, r := range f.Body.Redirs {
			p.byte(' ')
			p.redir(r)
		}
	}
	p.inFunc--
}
