package shell

import "github.com/atoll-sandbox/atoll/shell/syntax"

// compiler compiles syntax trees to closures. A closure may run many times,
// and in several processes concurrently. The methods are named for the syntax
// nodes that they compile.
type compiler struct {
	source string            // file of the text, BASH_SOURCE of its functions
	line   int32             // of the command being compiled
	open   []*syntax.Heredoc // here-documents without a delimiter
	value  bool              // the word being compiled is the value of an assignment
}

// stmts compiles a list of statements.
func (c *compiler) stmts(list []*syntax.Stmt) run {
	switch len(list) {
	case 0:
		return func(*interp) flow { return flowNext }
	case 1:
		return c.stmt(list[0])
	}
	rs := make([]run, len(list))
	for i, s := range list {
		rs[i] = c.stmt(s)
	}
	return func(in *interp) flow {
		for _, r := range rs {
			if in.opts&optNoexec != 0 {
				return flowNext
			}
			if f := r(in); f != flowNext {
				return f
			}
		}
		return flowNext
	}
}

// stmt compiles an and-or list with its terminator.
func (c *compiler) stmt(s *syntax.Stmt) run {
	c.line = s.Pos.Line
	if s.Background {
		return c.background(s)
	}
	return c.andOr(s)
}

func (c *compiler) andOr(s *syntax.Stmt) run {
	first := c.pipeline(s.First)
	if len(s.Rest) == 0 {
		return first
	}
	type link struct {
		or bool
		r  run
	}
	rest := make([]link, len(s.Rest))
	for i, l := range s.Rest {
		rest[i] = link{l.Or, c.pipeline(l.Pipeline)}
	}
	last := len(rest) - 1
	return func(in *interp) flow {
		in.ignoreFailure++
		f := first(in)
		in.ignoreFailure--
		if f != flowNext {
			return f
		}
		for i := range rest {
			l := &rest[i]
			if (in.status == 0) == l.or {
				continue
			}
			if i < last {
				in.ignoreFailure++
				f = l.r(in)
				in.ignoreFailure--
			} else {
				f = l.r(in)
			}
			if f != flowNext {
				return f
			}
		}
		return flowNext
	}
}

// cmd compiles one command with its redirections.
func (c *compiler) cmd(x *syntax.Cmd) run {
	c.line = x.Pos.Line
	if s, ok := x.Body.(*syntax.Simple); ok {
		return c.simple(x, s)
	}
	if f, ok := x.Body.(*syntax.FuncDecl); ok {
		return c.funcDecl(x, f)
	}
	r := c.compound(x)
	if len(x.Redirs) == 0 {
		return r
	}
	redirs := c.redirs(x.Redirs)
	line := x.Pos.Line
	return func(in *interp) flow {
		in.line = line
		return in.runRedirected(redirs, r)
	}
}

func (c *compiler) compound(x *syntax.Cmd) run {
	switch b := x.Body.(type) {
	case *syntax.Subshell:
		return c.subshell(x, b)
	case *syntax.Group:
		return c.stmts(b.Body)
	case *syntax.If:
		return c.ifCmd(b)
	case *syntax.While:
		return c.while(b)
	case *syntax.For:
		return c.forCmd(x, b)
	case *syntax.ArithFor:
		return c.arithFor(x, b)
	case *syntax.Select:
		return c.selectCmd(x, b)
	case *syntax.Case:
		return c.caseCmd(x, b)
	case *syntax.ArithCmd:
		return c.arithCmd(x, b)
	case *syntax.CondCmd:
		return c.condCmd(x, b)
	case *syntax.Coproc:
		return c.coproc(x, b)
	}
	panic("shell: unknown command in the tree")
}
