package syntax

import (
	"strings"
	"unsafe"
)

// detach moves the texts of a definition to a copy of its source, so that the rest of what was parsed with it does not
// stay in memory as long as the function does. A definition without Source is left as it is.
func (f *FuncDecl) detach() {
	if f.Source == "" {
		return
	}
	m := movedText{f.Source, strings.Clone(f.Source)}
	m.move(&f.Name)
	Walk(f.Body, m.visit)
	f.Source = m.new
}

// movedText is a source and its copy.
type movedText struct{ old, new string }

// move makes a part of the source the same part of the copy. Other texts stay.
func (m *movedText) move(s *string) {
	if *s == "" {
		*s = "" // it may point into the source
		return
	}
	at := uintptr(unsafe.Pointer(unsafe.StringData(*s))) - uintptr(unsafe.Pointer(unsafe.StringData(m.old)))
	if len(*s) <= len(m.old) && at <= uintptr(len(m.old)-len(*s)) {
		*s = m.new[at : int(at)+len(*s)]
	}
}

// visit moves the texts of a node.
func (m *movedText) visit(n Node) bool {
	switch n := n.(type) {
	case *For:
		m.move(&n.Name)
	case *Select:
		m.move(&n.Name)
	case *FuncDecl:
		m.move(&n.Name)
		m.move(&n.Source)
	case *Assign:
		m.move(&n.Name)
	case *Word:
		m.move(&n.Raw)
	case *Lit:
		m.move(&n.Value)
		m.move(&n.Raw)
	case *Quoted:
		m.move(&n.Value)
		m.move(&n.Raw)
	case *ParamExp:
		m.move(&n.Name)
		m.move(&n.Raw)
	case *CmdSubst:
		m.move(&n.Raw)
	case *ProcSubst:
		m.move(&n.Raw)
	case *Redir:
		m.move(&n.FdVar)
	case *Heredoc:
		m.move(&n.Delim)
		m.move(&n.RawDelim)
	case *CondUnary:
		m.move(&n.Op)
	case *CondBinary:
		m.move(&n.Op)
	case *Arith:
		m.move(&n.Raw)
		if n.Expr != nil {
			Walk(n.Expr, m.visit)
		}
		walkParts(n.Dollars, m.visit)
	case *ArithVar:
		m.move(&n.Name)
	case *ArithBinary:
		m.move(&n.Rest)
	}
	return true
}
