package syntax

import (
	"strings"
)

// Print formats a node as bash does: a *FuncDecl like `declare -f`, other
// commands like `jobs`. The text parses back to an equal tree.
func Print(n Node) string {
	var p printer
	switch n := n.(type) {
	case *File:
		for _, s := range n.Stmts {
			p.printStmt(s)
			p.printDocs("")
			p.afterDoc = false
			p.writeByte('\n')
		}
	case *Stmt:
		p.printStmt(n)
		p.printDocs("")
	case *Pipeline:
		p.printPipeline(n)
		p.printDocs("")
	case *Cmd:
		p.printCmd(n)
		p.printDocs("")
	case *FuncDecl:
		p.printFunction(n)
	case Command:
		p.printCmd(&Cmd{Body: n})
	case *Word:
		p.printWord(n)
	case *Assign:
		p.printAssign(n)
	case *Array:
		p.printArray(n)
	case *Redir:
		p.printRedir(n)
		p.printDocs("")
	case *Arith:
		p.writeString(n.Raw)
	case CondExpr:
		p.printCond(n)
	case Part:
		p.printWord(&Word{Parts: []Part{n}})
	}
	return string(p.buf)
}

// indentStep is the indentation of a nested construct.
const indentStep = 4

// printer collects the text.
type printer struct {
	buf      []byte
	indent   int
	inline   bool // the next command continues the line
	inFunc   int  // nesting of function definitions, in which lists have one line per command
	pending  []*Redir
	afterDoc bool // a here-document has ended the line
}

func (p *printer) writeString(s string) { p.buf = append(p.buf, s...) }

func (p *printer) writeByte(b byte) { p.buf = append(p.buf, b) }

// writeIndent writes the indentation, unless the command continues the line.
func (p *printer) writeIndent() {
	if p.inline {
		p.inline = false
		return
	}
	for range p.indent {
		p.writeByte(' ')
	}
}

// startLine begins a line with s.
func (p *printer) startLine(s string) {
	p.writeByte('\n')
	p.writeIndent()
	p.writeString(s)
}

// endList writes a semicolon after a list, unless it ends in & or a newline.
func (p *printer) endList() {
	if n := len(p.buf); n > 0 && p.buf[n-1] != '&' && p.buf[n-1] != '\n' {
		p.writeByte(';')
	}
}

// printList prints statements from the current position on.
func (p *printer) printList(stmts []*Stmt) {
	for i, s := range stmts {
		p.printStmt(s)
		if i == len(stmts)-1 {
			return
		}
		if s.Background {
			p.writeByte(' ')
			p.inline = true
			continue
		}
		p.printDocs("")
		if !p.afterDoc {
			p.writeByte(';')
		}
		p.afterDoc = false
		if p.inFunc > 0 {
			p.writeByte('\n')
		} else {
			p.writeByte(' ')
			p.inline = true
		}
	}
}

// printBlock prints an indented list.
func (p *printer) printBlock(stmts []*Stmt) {
	p.indent += indentStep
	p.printList(stmts)
	p.printDocs("")
	p.indent -= indentStep
	p.endList()
	p.afterDoc = false
}

func (p *printer) printStmt(s *Stmt) {
	p.printPipeline(s.First)
	for _, a := range s.Rest {
		op := " && "
		if a.Or {
			op = " || "
		}
		if p.printDocs(op) {
			p.writeByte(' ')
		} else {
			p.writeString(op)
		}
		p.afterDoc = false
		p.inline = true
		p.printPipeline(a.Pipeline)
	}
	if s.Background {
		if !p.printDocs(" &") {
			p.writeString(" &")
		}
	}
}

func (p *printer) printPipeline(l *Pipeline) {
	p.writeIndent()
	switch l.Time {
	case TimeBash:
		p.writeString("time ")
	case TimePosix:
		p.writeString("time -p ")
	}
	if l.Negated() {
		p.writeString("! ")
	} else if len(l.Cmds) == 0 && l.Time == NoTime {
		p.writeString("! ! ")
	}
	for i, c := range l.Cmds {
		p.inline = true
		p.printCmd(c)
		if i == len(l.Cmds)-1 {
			return
		}
		op := " | "
		if i < len(l.Stderr) && l.Stderr[i] {
			op = " 2>&1 | "
		}
		if p.printDocs(strings.TrimRight(op, " ")) {
			p.writeString("  ")
		} else {
			p.writeString(op)
		}
		p.afterDoc = false
	}
}

func (p *printer) printCmd(c *Cmd) {
	p.writeIndent()
	switch b := c.Body.(type) {
	case *Simple:
		if len(c.Redirs) > 0 && reservedFirst(b) {
			p.printRedirs(c)
			p.writeByte(' ')
			p.printSimple(b)
			return
		}
		p.printSimple(b)
	case *FuncDecl:
		p.nestedFunction(b)
	default:
		p.printCompound(c.Body)
	}
	p.printRedirs(c)
}

// reservedFirst reports whether the first word would be a reserved word if no
// redirection preceded it.
func reservedFirst(s *Simple) bool {
	return len(s.Assigns) == 0 && len(s.Args) > 0 && reservedWord(&token{kind: tokWord, word: s.Args[0]}) != ""
}

func (p *printer) printRedirs(c *Cmd) {
	for _, r := range c.Redirs {
		if n := len(p.buf); n > 0 && p.buf[n-1] != ' ' && p.buf[n-1] != '\n' {
			p.writeByte(' ')
		}
		p.printRedir(r)
	}
}

func (p *printer) printSimple(s *Simple) {
	sep := ""
	for _, a := range s.Assigns {
		p.writeString(sep)
		p.printAssign(a)
		sep = " "
	}
	for _, w := range s.Args {
		p.writeString(sep)
		p.printWord(w)
		sep = " "
	}
}

func (p *printer) printCompound(c Command) {
	switch c := c.(type) {
	case *Subshell:
		p.writeString("( ")
		p.inline = true
		p.printList(c.Body)
		p.printDocs("")
		p.afterDoc = false
		p.writeString(" )")
	case *Group:
		p.printGroup(c.Body)
	case *If:
		p.ifClauses(c.Clauses, c.Else)
	case *While:
		word := "while "
		if c.Until {
			word = "until "
		}
		p.writeString(word)
		p.printCondition(c.Cond)
		p.writeString(" do\n")
		p.printBlock(c.Body)
		p.startLine("done")
	case *For:
		p.printLoop("for ", c.Name, c.In, c.Words, c.Body)
	case *Select:
		p.printLoop("select ", c.Name, c.In, c.Words, c.Body)
	case *ArithFor:
		p.arithFor(c)
	case *Case:
		p.caseCommand(c)
	case *ArithCmd:
		p.writeString("((" + c.X.Raw + "))")
	case *CondCmd:
		p.writeString("[[ ")
		p.printCond(c.X)
		p.writeString(" ]]")
	case *Coproc:
		p.writeString("coproc ")
		if _, simple := c.Body.Body.(*Simple); !simple {
			if c.Name != nil {
				p.printWord(c.Name)
			} else {
				p.writeString("COPROC")
			}
			p.writeByte(' ')
		}
		p.inline = true
		p.printCmd(c.Body)
	}
}

// printCondition prints the list before then or do.
func (p *printer) printCondition(stmts []*Stmt) {
	p.inline = true
	p.printList(stmts)
	p.printDocs("")
	p.afterDoc = false
	p.endList()
}

func (p *printer) printGroup(body []*Stmt) {
	p.writeString("{ ")
	if p.inFunc == 0 {
		p.inline = true
		p.printList(body)
		p.printDocs("")
		p.afterDoc = false
		p.endList()
		p.writeString(" }")
		return
	}
	p.writeByte('\n')
	p.indent += indentStep
	p.printList(body)
	p.printDocs("")
	p.afterDoc = false
	p.indent -= indentStep
	p.startLine("}")
}

// ifClauses prints an elif as an if within the else, as bash does.
func (p *printer) ifClauses(clauses []IfClause, last []*Stmt) {
	start := p.indent
	for i, c := range clauses {
		if i > 0 {
			p.startLine("else\n")
			p.indent += indentStep
			p.writeIndent()
		}
		p.writeString("if ")
		p.printCondition(c.Cond)
		p.writeString(" then\n")
		p.printBlock(c.Then)
	}
	if last != nil {
		p.startLine("else\n")
		p.printBlock(last)
	}
	p.startLine("fi")
	for p.indent > start {
		p.indent -= indentStep
		p.endList()
		p.startLine("fi")
	}
}

func (p *printer) printLoop(word, name string, in bool, words []*Word, body []*Stmt) {
	p.writeString(word + name + " in ")
	if !in {
		p.writeString(`"$@"`)
	}
	for i, w := range words {
		if i > 0 {
			p.writeByte(' ')
		}
		p.printWord(w)
	}
	p.writeByte(';')
	p.startLine("do\n")
	p.printBlock(body)
	p.startLine("done")
}

func (p *printer) arithFor(c *ArithFor) {
	p.writeString("for ((")
	for i, x := range []*Arith{c.Init, c.Cond, c.Post} {
		if i > 0 {
			p.writeString("; ")
		}
		if x == nil {
			p.writeByte('1')
		} else {
			p.writeString(x.Raw)
		}
	}
	p.writeString("))")
	p.startLine("do\n")
	p.printBlock(c.Body)
	p.startLine("done")
}

var caseTerms = [...]string{CaseBreak: ";;", CaseFall: ";&", CaseNext: ";;&"}

func (p *printer) caseCommand(c *Case) {
	p.writeString("case ")
	p.printWord(c.Word)
	p.writeString(" in ")
	p.indent += indentStep
	for _, item := range c.Items {
		p.startLine("")
		if l, ok := item.Patterns[0].Literal(); ok && l == "esac" {
			p.writeByte('(')
		}
		for i, w := range item.Patterns {
			if i > 0 {
				p.writeString(" | ")
			}
			p.printWord(w)
		}
		p.writeString(")\n")
		p.indent += indentStep
		p.printList(item.Body)
		p.printDocs("")
		p.afterDoc = false
		p.indent -= indentStep
		p.startLine(caseTerms[item.Term])
	}
	p.indent -= indentStep
	p.startLine("esac")
}

// printFunction prints a definition as declare -f does.
func (p *printer) printFunction(f *FuncDecl) {
	if needsKeyword(f.Name) {
		p.writeString("function ")
	}
	p.writeString(f.Name + " () \n")
	p.funcBody(f)
}

func (p *printer) nestedFunction(f *FuncDecl) {
	p.writeString("function " + f.Name + " () \n")
	p.writeIndent()
	p.funcBody(f)
}

// needsKeyword reports whether the definition of a function with the name
// needs the word function.
func needsKeyword(name string) bool {
	return reservedWord(&token{kind: tokWord, word: &Word{Parts: []Part{&Lit{Value: name}}}}) != "" ||
		strings.ContainsAny(name, "=")
}

func (p *printer) funcBody(f *FuncDecl) {
	p.inFunc++
	p.writeString("{ \n")
	p.indent += indentStep
	group, isGroup := f.Body.Body.(*Group)
	if isGroup {
		p.printList(group.Body)
	} else {
		p.printCmd(f.Body)
	}
	p.printDocs("")
	p.afterDoc = false
	p.indent -= indentStep
	p.startLine("}")
	if isGroup {
		for _, r := range f.Body.Redirs {
			p.writeByte(' ')
			p.printRedir(r)
		}
	}
	p.inFunc--
}
