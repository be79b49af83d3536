package syntax

// Walk calls f for n and, if f returns true, for the nodes below it, in source
// order. The parser limits the depth of a tree.
func Walk(n Node, f func(Node) bool) {
	if !f(n) {
		return
	}
	switch n := n.(type) {
	case *File:
		walkStmts(n.Stmts, f)
	case *Stmt:
		Walk(n.First, f)
		for _, a := range n.Rest {
			Walk(a.Pipeline, f)
		}
	case *Pipeline:
		for _, c := range n.Cmds {
			Walk(c, f)
		}
	case *Cmd:
		Walk(n.Body, f)
		for _, r := range n.Redirs {
			Walk(r, f)
		}
	case *Redir:
		if n.Target != nil {
			Walk(n.Target, f)
		}
		if n.Doc != nil {
			Walk(n.Doc, f)
		}
	case *Heredoc:
		Walk(n.Body, f)
	case Command:
		walkCommand(n, f)
	case CondExpr:
		walkCond(n, f)
	case ArithExpr:
		walkArith(n, f)
	default:
		walkWord(n, f)
	}
}

func walkStmts(list []*Stmt, f func(Node) bool) {
	for _, s := range list {
		Walk(s, f)
	}
}

func walkWords(list []*Word, f func(Node) bool) {
	for _, w := range list {
		Walk(w, f)
	}
}

func walkCommand(n Command, f func(Node) bool) {
	switch n := n.(type) {
	case *Simple:
		for _, a := range n.Assigns {
			Walk(a, f)
		}
		walkWords(n.Args, f)
	case *Subshell:
		walkStmts(n.Body, f)
	case *Group:
		walkStmts(n.Body, f)
	case *If:
		for _, c := range n.Clauses {
			walkStmts(c.Cond, f)
			walkStmts(c.Then, f)
		}
		walkStmts(n.Else, f)
	case *While:
		walkStmts(n.Cond, f)
		walkStmts(n.Body, f)
	case *For:
		walkWords(n.Words, f)
		walkStmts(n.Body, f)
	case *Select:
		walkWords(n.Words, f)
		walkStmts(n.Body, f)
	case *ArithFor:
		for _, x := range []*Arith{n.Init, n.Cond, n.Post} {
			if x != nil {
				Walk(x, f)
			}
		}
		walkStmts(n.Body, f)
	case *Case:
		Walk(n.Word, f)
		for _, c := range n.Items {
			Walk(c, f)
		}
	case *ArithCmd:
		Walk(n.X, f)
	case *CondCmd:
		Walk(n.X, f)
	case *FuncDecl:
		Walk(n.Body, f)
	case *Coproc:
		if n.Name != nil {
			Walk(n.Name, f)
		}
		Walk(n.Body, f)
	}
}

func walkCond(n CondExpr, f func(Node) bool) {
	switch n := n.(type) {
	case *CondWord:
		Walk(n.X, f)
	case *CondUnary:
		Walk(n.X, f)
	case *CondBinary:
		Walk(n.X, f)
		Walk(n.Y, f)
	case *CondNot:
		Walk(n.X, f)
	case *CondLogic:
		Walk(n.X, f)
		Walk(n.Y, f)
	case *CondParen:
		Walk(n.X, f)
	}
}

func walkArith(n ArithExpr, f func(Node) bool) {
	walk := func(x ArithExpr) {
		if x != nil {
			Walk(x, f)
		}
	}
	switch n := n.(type) {
	case *ArithVar:
		if n.Index != nil {
			Walk(n.Index, f)
		}
	case *ArithUnary:
		walk(n.X)
	case *ArithIncDec:
		walk(n.X)
	case *ArithBinary:
		walk(n.X)
		walk(n.Y)
	case *ArithAssign:
		walk(n.X)
		walk(n.Y)
	case *ArithTernary:
		walk(n.Cond)
		walk(n.X)
		walk(n.Y)
	}
}

// walkWord walks words and their contents. The expansions of an arithmetic
// expression are found in its Word; the nodes of its Expr are not visited.
func walkWord(n Node, f func(Node) bool) {
	switch n := n.(type) {
	case *CaseItem:
		walkWords(n.Patterns, f)
		walkStmts(n.Body, f)
	case *Assign:
		if n.Index != nil {
			Walk(n.Index, f)
		}
		if n.Value != nil {
			Walk(n.Value, f)
		}
		if n.Array != nil {
			Walk(n.Array, f)
		}
	case *Array:
		for _, e := range n.Elems {
			if e.Word != nil {
				Walk(e.Word, f)
			} else {
				Walk(e.Assign, f)
			}
		}
	case *Word:
		if n.Assign != nil {
			Walk(n.Assign, f)
		}
		walkParts(n.Parts, f)
	case *DblQuoted:
		walkParts(n.Parts, f)
	case *ParamExp:
		walkParam(n, f)
	case *CmdSubst:
		walkStmts(n.Stmts, f)
	case *ProcSubst:
		walkStmts(n.Stmts, f)
	case *ArithExp:
		Walk(n.X, f)
	case *Arith:
		Walk(n.Word, f)
	case *Index:
		if n.Word != nil {
			Walk(n.Word, f)
		}
	}
}

func walkParts(list []Part, f func(Node) bool) {
	for _, p := range list {
		Walk(p, f)
	}
}

func walkParam(n *ParamExp, f func(Node) bool) {
	if n.Index != nil {
		Walk(n.Index, f)
	}
	if n.Arg != nil {
		Walk(n.Arg, f)
	}
	if n.Repl != nil {
		Walk(n.Repl, f)
	}
	if n.Off != nil {
		Walk(n.Off, f)
	}
	if n.Len != nil {
		Walk(n.Len, f)
	}
}
