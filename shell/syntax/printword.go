package syntax

import (
	"strconv"
	"strings"
)

func (p *printer) assign(a *Assign) {
	p.str(a.Name)
	if a.Index != nil {
		p.byte('[')
		p.index(a.Index)
		p.byte(']')
	}
	if a.Append {
		p.byte('+')
	}
	p.byte('=')
	switch {
	case a.Array != nil:
		p.array(a.Array)
	case a.Value != nil:
		p.word(a.Value)
	}
}

func (p *printer) index(x *Index) {
	switch x.Kind {
	case IndexAt:
		p.byte('@')
	case IndexStar:
		p.byte('*')
	default:
		p.word(x.Word)
	}
}

func (p *printer) array(a *Array) {
	p.byte('(')
	for i, e := range a.Elems {
		if i > 0 {
			p.byte(' ')
		}
		if e.Assign != nil {
			p.assign(e.Assign)
		} else {
			p.word(e.Word)
		}
	}
	p.byte(')')
}

// word prints a word as it was written, with the commands of substitutions in
// the printer's form.
func (p *printer) word(w *Word) {
	if w.Assign != nil {
		p.assign(w.Assign)
		return
	}
	for _, part := range w.Parts {
		p.part(part)
	}
}

func (p *printer) part(part Part) {
	switch part := part.(type) {
	case *Lit:
		p.str(joined(part.Raw))
	case *Quoted:
		if part.Kind == DollarSingle {
			p.str("'" + strings.ReplaceAll(part.Value, "'", `'\''`) + "'")
			return
		}
		p.str(part.Raw)
	case *DblQuoted:
		p.byte('"')
		for _, q := range part.Parts {
			p.part(q)
		}
		p.byte('"')
	case *ParamExp:
		if part.Short {
			p.str("$" + part.Name)
			return
		}
		p.spliced(part.Raw, part)
	case *CmdSubst:
		asIs := part.Backquote || part.Err != nil || strings.HasPrefix(part.Raw, "$((")
		p.substitution("$(", part.Raw, part.Stmts, asIs)
	case *ProcSubst:
		open := "<("
		if part.Out {
			open = ">("
		}
		p.substitution(open, part.Raw, part.Stmts, false)
	case *ArithExp:
		if part.Bracket {
			p.str("$[")
			p.spliced(part.X.Raw, part.X)
			p.byte(']')
			return
		}
		p.str("$((")
		p.spliced(part.X.Raw, part.X)
		p.str("))")
	}
}

// substitution prints the commands of $( ), or its source when that is kept
// as it is.
func (p *printer) substitution(open, raw string, stmts []*Stmt, asIs bool) {
	if asIs {
		p.str(raw)
		return
	}
	p.str(open)
	var q printer
	q.list(stmts)
	q.docs("")
	if len(q.buf) > 0 && q.buf[0] == '(' {
		p.byte(' ')
	}
	p.buf = append(p.buf, q.buf...)
	p.byte(')')
}

// spliced prints source in which substitutions are replaced by their printed
// form.
func (p *printer) spliced(raw string, n Node) {
	if strings.IndexByte(raw, '\'') < 0 {
		raw = joined(raw)
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
		p.str(raw[:i])
		p.part(part)
		raw = raw[i+len(own):]
		return false
	})
	p.str(raw)
}

// redir prints a redirection; the body of a here-document waits for the end
// of the line.
func (p *printer) redir(r *Redir) {
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
		p.str("{" + r.FdVar + "}")
	case shown && r.Op != RedirBoth && r.Op != RedirBothApp:
		p.buf = strconv.AppendInt(p.buf, int64(fd), 10)
	}
	p.str(op + target)
}

// isFd reports whether the word of a >& names or closes a descriptor.
func isFd(s string) bool {
	s = strings.TrimSuffix(s, "-")
	for i := range len(s) {
		if !isDigit(s[i]) {
			return false
		}
	}
	return true
}

// joined removes the line continuations of unquoted text.
func joined(s string) string {
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

// docs prints the bodies of here-documents whose line ends here, after what
// still belongs to the line. It reports whether there were any.
func (p *printer) docs(rest string) bool {
	if len(p.pending) == 0 {
		return false
	}
	p.str(rest)
	p.byte('\n')
	for _, r := range p.pending {
		if r.Doc.Quoted {
			p.str(r.Doc.Body.Raw)
		} else {
			p.str(joined(r.Doc.Body.Raw))
		}
		p.str(r.Doc.Delim)
		p.byte('\n')
	}
	p.pending = p.pending[:0]
	p.afterDoc = true
	return true
}

func (p *printer) cond(x CondExpr) {
	switch x := x.(type) {
	case *CondWord:
		p.str("-n ")
		p.word(x.X)
	case *CondUnary:
		p.str(x.Op + " ")
		p.word(x.X)
	case *CondBinary:
		p.word(x.X)
		p.str(" " + x.Op + " ")
		p.word(x.Y)
	case *CondNot:
		p.str("! ")
		p.cond(x.X)
	case *CondLogic:
		p.cond(x.X)
		if x.Or {
			p.str(" || ")
		} else {
			p.str(" && ")
		}
		p.cond(x.Y)
	case *CondParen:
		p.str("( ")
		p.cond(x.X)
		p.str(" )")
	}
}
