package syntax

// script reads all statements up to the end of the source.
func (p *parser) script() []*Stmt {
	var all []*Stmt
	for p.err == nil {
		s := p.line1()
		if s == nil {
			return all
		}
		all = append(all, s...)
	}
	return all
}

// line1 reads the statements of one complete line. It returns nil at the end
// of the source.
func (p *parser) line1() []*Stmt {
	p.memo, p.notAr = nil, nil
	p.skipNewlines(lexCmd)
	if p.next(lexCmd).kind == tokEOF {
		if len(p.pending) > 0 {
			p.readDocs()
		}
		return nil
	}
	var out []*Stmt
	for {
		s := p.stmt()
		if p.err != nil {
			return nil
		}
		out = append(out, s)
		sep := p.sep // before the next token is read, which may hold statements itself
		switch p.next(lexCmd).kind {
		case tokNewline:
			p.take()
			return out
		case tokEOF:
			p.readDocs()
			return out
		}
		if !sep || p.closes(p.next(lexCmd)) {
			p.unexpected()
			return nil
		}
	}
}

// list reads statements up to a token that can't begin one. It may be empty.
func (p *parser) list() []*Stmt {
	var out []*Stmt
	for p.err == nil {
		p.skipNewlines(lexCmd)
		if p.closes(p.next(lexCmd)) {
			return out
		}
		s := p.stmt()
		if p.err != nil {
			return nil
		}
		out = append(out, s)
		if p.sep {
			continue
		}
		if k := p.next(lexCmd).kind; k != tokNewline {
			p.ended = p.ended || k == tokEOF
			return out
		}
	}
	return out
}

// closes reports whether a token at the start of a command ends the list.
func (p *parser) closes(t *token) bool {
	switch t.kind {
	case tokEOF, tokRParen, tokDSemi, tokSemiAmp, tokDSemiAmp:
		return true
	}
	switch reserved(t) {
	case "then", "else", "elif", "fi", "do", "done", "esac", "}":
		return true
	}
	return false
}

// body reads a list that must not be empty.
func (p *parser) body() []*Stmt {
	out := p.list()
	if len(out) == 0 {
		p.unexpected()
	}
	return out
}

type stmtPipe struct {
	Stmt
	first Pipeline
}

// stmt reads an and-or list and its terminator; sep tells whether there was
// a ; or &.
func (p *parser) stmt() *Stmt {
	n := &stmtPipe{}
	s := &n.Stmt
	p.node()
	t := p.next(lexCmd)
	s.Pos = p.pos(t.start)
	s.First = &n.first
	p.pipeline(s.First)
	for p.err == nil {
		k := p.next(lexArg).kind
		if k != tokAndIf && k != tokOrIf {
			break
		}
		p.take()
		p.skipNewlines(lexCmd)
		next := &Pipeline{}
		p.pipeline(next)
		s.Rest = append(s.Rest, AndOr{Or: k == tokOrIf, Pipeline: next})
	}
	if p.err != nil {
		return s
	}
	t = p.next(lexArg)
	s.End = p.pos(t.start)
	p.sep = t.kind == tokSemi || t.kind == tokAmp
	s.Background = t.kind == tokAmp
	if p.sep {
		p.take()
	}
	return s
}

// pipeline reads commands joined by | with what stands before them.
func (p *parser) pipeline(l *Pipeline) {
	t := p.next(lexCmd)
	if p.err != nil {
		return
	}
	l.Pos = p.pos(t.start)
	if p.prefixes(l) {
		return
	}
	for p.err == nil {
		c := p.command()
		if p.err != nil {
			return
		}
		l.Cmds = append(l.Cmds, c)
		k := p.next(lexArg).kind
		if k == tokPipe || k == tokPipeAmp {
			if l.Stderr == nil && k == tokPipeAmp {
				l.Stderr = make([]bool, len(l.Cmds)-1, len(l.Cmds))
			}
			if l.Stderr != nil {
				l.Stderr = append(l.Stderr, k == tokPipeAmp)
			}
			p.take()
			p.skipNewlines(lexCmd)
			continue
		}
		return
	}
}

// prefixes reads ! and time; it reports whether that is all there is.
func (p *parser) prefixes(l *Pipeline) bool {
	for {
		t := p.next(lexCmd)
		switch reserved(t) {
		case "!":
			l.Bangs++
			p.take()
		case "time":
			if l.Time == NoTime {
				l.Time = TimeBash
			}
			p.take()
			p.timeOptions(l)
		default:
			if l.Bangs == 0 && l.Time == NoTime {
				return false
			}
			switch t.kind {
			case tokEOF, tokNewline, tokSemi:
				return true
			}
			return false
		}
	}
}

// timeOptions reads -p and --.
func (p *parser) timeOptions(l *Pipeline) {
	if p.is(lexCmd, "-p") {
		l.Time = TimePosix
		p.take()
	}
	if p.is(lexCmd, "--") {
		l.Time = TimePosix
		p.take()
	}
}

type cmdSimple struct {
	Cmd
	simple Simple
}

// command reads one command with its redirections.
func (p *parser) command() *Cmd {
	if !p.enter() {
		return nil
	}
	defer p.leave()
	t := p.next(lexCmd)
	start := p.pos(t.start)
	body := p.compound(t)
	if p.err != nil {
		return nil
	}
	if body == nil {
		return p.simple(start)
	}
	c := &Cmd{Pos: start, Body: body}
	if f, ok := body.(*FuncDecl); ok {
		c.End = f.Body.End
		return c
	}
	p.redirs(c)
	c.End = p.pos(p.next(lexArg).start)
	return c
}

// redirs reads the redirections after a compound command.
func (p *parser) redirs(c *Cmd) {
	for p.err == nil {
		t := p.next(lexArg)
		if t.kind != tokRedir {
			return
		}
		r := t.redir
		p.take()
		p.redirTarget(r)
		c.Redirs = append(c.Redirs, r)
	}
}

// simple reads assignments, words and redirections, or a function definition
// that begins with its name.
func (p *parser) simple(start Pos) *Cmd {
	n := &cmdSimple{}
	c, s := &n.Cmd, &n.simple
	c.Pos, c.Body = start, s
	from := p.tok.start
	base := len(p.words)
	mode := lexCmd
loop:
	for p.err == nil {
		t := p.next(mode)
		switch t.kind {
		case tokRedir:
			r := t.redir
			p.take()
			p.redirTarget(r)
			c.Redirs = append(c.Redirs, r)
		case tokAssign:
			s.Assigns = append(s.Assigns, t.assign)
			p.take()
		case tokWord:
			w := t.word
			p.words = append(p.words, w)
			p.take()
			if mode == lexCmd {
				mode = p.argMode(s, w)
				if p.isFunction(mode, c, s, base) {
					return p.function(c, w, from)
				}
			}
		default:
			break loop
		}
	}
	if len(p.words) > base {
		s.Args = append([]*Word(nil), p.words[base:]...)
	}
	p.words = p.words[:base]
	if p.err == nil && len(s.Args)+len(s.Assigns)+len(c.Redirs) == 0 {
		p.unexpected()
	}
	c.End = p.pos(p.tok.start)
	return c
}

// isFunction reports whether the first word is followed by a parenthesis.
func (p *parser) isFunction(mode lexMode, c *Cmd, s *Simple, base int) bool {
	if len(p.words)-base != 1 || len(s.Assigns)+len(c.Redirs) > 0 {
		return false
	}
	if p.next(mode).kind != tokLParen {
		return false
	}
	p.words = p.words[:base]
	return true
}

// argMode returns how the words after the first one are read.
func (p *parser) argMode(s *Simple, first *Word) lexMode {
	name, ok := first.Literal()
	if !ok {
		return lexArg
	}
	switch name {
	case "declare", "local", "export", "readonly", "typeset", "alias":
		s.Decl = true
		return lexDecl
	case "let", "eval":
		return lexParen
	}
	return lexArg
}

// function reads ( ) and the body of a definition.
func (p *parser) function(c *Cmd, name *Word, from int) *Cmd {
	splices := p.splices
	f := &FuncDecl{Name: name.Raw}
	p.take()
	if p.next(lexPlain).kind != tokRParen {
		p.unexpected()
		return nil
	}
	p.take()
	p.functionBody(f)
	if p.err != nil {
		return nil
	}
	if p.splices == splices {
		f.Source = p.source(f, from)
	}
	c.Body = f
	c.End = f.Body.End
	return c
}

// functionBody reads the compound command that is the body, with its
// redirections.
func (p *parser) functionBody(f *FuncDecl) {
	p.skipNewlines(lexCmd)
	t := p.next(lexCmd)
	start := p.pos(t.start)
	if t.kind == tokWord {
		switch reserved(t) {
		case "", "function", "coproc", "time", "!":
			p.unexpected()
			return
		}
	}
	body := p.compound(t)
	if body == nil {
		p.unexpected()
		return
	}
	f.Body = &Cmd{Pos: start, Body: body}
	p.bodyEnd = p.tok.end
	for p.err == nil && p.next(lexArg).kind == tokRedir {
		r := p.tok.redir
		p.take()
		p.redirTarget(r)
		p.bodyEnd = p.tok.end
		f.Body.Redirs = append(f.Body.Redirs, r)
	}
	f.Body.End = p.pos(p.tok.start)
}

// source returns the text of a definition that began at offset from, unless
// the body of a here-document is still to come.
func (p *parser) source(f *FuncDecl, from int) string {
	for _, r := range f.Body.Redirs {
		if r.Doc != nil {
			return ""
		}
	}
	return p.src[from:p.bodyEnd]
}
