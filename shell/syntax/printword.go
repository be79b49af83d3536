package syntax

import (
	"strconv"
	"strings"
)

func (p *printer) printAssign(a *Assign) {
	p.writeString(a.Name)
	if a.Index != nil {
		p.writeByte('[')
		p.printIndex(a.Index)
		p.writeByte(']')
	}
	if a.Append {
		p.writeByte('+')
	}
	p.writeByte('=')
	switch {
	case a.Array != nil:
		p.printArray(a.Array)
	case a.Value != nil:
		p.printWord(a.Value)
	}
}

func (p *printer) printIndex(x *Index) {
	switch x.Kind {
	case IndexAt:
		p.writeByte('@')
	case IndexStar:
		p.writeByte('*')
	default:
		p.printWord(x.Word)
	}
}

func (p *printer) printArray(a *Array) {
	p.writeByte('(')
	for i, e := range a.Elems {
		if i > 0 {
			p.writeByte(' ')
		}
		if e.Assign != nil {
			p.printAssign(e.Assign)
		} else {
			p.printWord(e.Word)
		}
	}
	p.writeByte(')')
}

// printWord prints a word as in the source, but the commands of substitutions
// in the printer's form.
func (p *printer) printWord(w *Word) {
	if w.Assign != nil {
		p.printAssign(w.Assign)
		return
	}
	for _, part := range w.Parts {
		p.printPart(part)
	}
}

func (p *printer) printPart(part Part) {
	switch part := part.(type) {
	case *Lit:
		p.writeString(joinLines(part.Raw))
	case *Quoted:
		if part.Kind == DollarSingle {
			p.writeString("'" + strings.ReplaceAll(part.Value, "'", `'\''`) + "'")
			return
		}
		p.writeString(part.Raw)
	case *DblQuoted:
		p.writeByte('"')
		for _, q := range part.Parts {
			p.printPart(q)
		}
		p.writeByte('"')
	case *ParamExp:
		if part.Short {
			p.writeString("$" + part.Name)
			return
		}
		p.printSpliced(part.Raw, part)
	case *CmdSubst:
		asIs := part.Backquote || part.Err != nil || strings.HasPrefix(part.Raw, "$((")
		p.printSubst("$(", part.Raw, part.Stmts, asIs)
	case *ProcSubst:
		open := "<("
		if part.Out {
			open = ">("
		}
		p.printSubst(open, part.Raw, part.Stmts, false)
	case *ArithExp:
		if part.Bracket {
			p.writeString("$[")
			p.printSpliced(part.X.Raw, part.X)
			p.writeByte(']')
			return
		}
		p.writeString("$((")
		p.printSpliced(part.X.Raw, part.X)
		p.writeString("))")
	}
}

// printSubst prints the commands of $( ), or its source if asIs is set.
func (p *printer) printSubst(open, raw string, stmts []*Stmt, asIs bool) {
	if asIs {
		p.writeString(raw)
		return
	}
	p.writeString(open)
	var q printer
	q.printList(stmts)
	q.printDocs("")
	if len(q.buf) > 0 && q.buf[0] == '(' {
		p.writeByte(' ')
	}
	p.buf = append(p.buf, q.buf...)
	p.writeByte(')')
}

// printSpliced prints source in which substitutions are replaced by their
// printed form.
func (p *printer) printSpliced(raw string, n Node) {
	if strings.IndexByte(raw, '\'') < 0 {
		raw = joinLines(raw)
	}
	Walk(n, func(n Node) bool {
		var own string
		var part Part
		switch n := n.(type) {
		case *CmdSubst:
			own, part = n.Raw, n
		case *ProcSubst:
			own, part = n.Raw, n
		default:
			return true
		}
		i := strings.Index(raw, own)
		if i < 0 || own == "" {
			return false
		}
		p.writeString(raw[:i])
		p.printPart(part)
		raw = raw[i+len(own):]
		return false
	})
	p.writeString(raw)
}

// printRedir prints a redirection; the body of a here-document is printed at
// the end of the line.
func (p *printer) printRedir(r *Redir) {
	fd := r.Fd
	if fd < 0 {
		fd = r.Op.DefaultFd()
	}
	target := ""
	if r.Target != nil {
		target = Print(r.Target)
	}
	shown := fd != r.Op.DefaultFd()
	op := r.Op.String()
	switch r.Op {
	case RedirDupIn, RedirDupOut:
		if isFd(target) {
			shown = true
		}
		if target == "-" {
			op = ">&"
		}
	case RedirInOut:
		shown = fd != 1
		op += " "
	case RedirHere, RedirHereStrip:
		target = r.Doc.RawDelim
		if target[0] == '-' && r.Op == RedirHere {
			op += " "
		}
		if r.Doc.Quoted {
			target = "'" + strings.ReplaceAll(r.Doc.Delim, "'", `'\''`) + "'"
		}
		p.pending = append(p.pending, r)
	default:
		op += " "
	}
	switch {
	case r.FdVar != "":
		p.writeString("{" + r.FdVar + "}")
	case shown && r.Op != RedirBoth && r.Op != RedirBothApp:
		p.buf = strconv.AppendInt(p.buf, int64(fd), 10)
	}
	p.writeString(op + target)
}

// isFd reports whether the target of >& is a descriptor.
func isFd(s string) bool {
	s = strings.TrimSuffix(s, "-")
	for i := range len(s) {
		if !isDigit(s[i]) {
			return false
		}
	}
	return true
}

// joinLines removes the line continuations of unquoted text.
func joinLines(s string) string {
	if !strings.Contains(s, "\\\n") {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		i++
		if s[i] != '\n' {
			b.WriteByte('\\')
			b.WriteByte(s[i])
		}
	}
	return b.String()
}

// printDocs prints the bodies of pending here-documents, after the rest of
// their line. It reports whether there were any.
func (p *printer) printDocs(rest string) bool {
	if len(p.pending) == 0 {
		return false
	}
	p.writeString(rest)
	p.writeByte('\n')
	for _, r := range p.pending {
		if r.Doc.Quoted {
			p.writeString(r.Doc.Body.Raw)
		} else {
			p.writeString(joinLines(r.Doc.Body.Raw))
		}
		p.writeString(r.Doc.Delim)
		p.writeByte('\n')
	}
	p.pending = p.pending[:0]
	p.afterDoc = true
	return true
}

func (p *printer) printCond(x CondExpr) {
	switch x := x.(type) {
	case *CondWord:
		p.writeString("-n ")
		p.printWord(x.X)
	case *CondUnary:
		p.writeString(x.Op + " ")
		p.printWord(x.X)
	case *CondBinary:
		p.printWord(x.X)
		p.writeString(" " + x.Op + " ")
		p.printWord(x.Y)
	case *CondNot:
		p.writeString("! ")
		p.printCond(x.X)
	case *CondLogic:
		p.printCond(x.X)
		if x.Or {
			p.writeString(" || ")
		} else {
			p.writeString(" && ")
		}
		p.printCond(x.Y)
	case *CondParen:
		p.writeString("( ")
		p.printCond(x.X)
		p.writeString(" )")
	}
}
