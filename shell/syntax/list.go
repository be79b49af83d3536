package syntax

// parseScript parses all statements up to the end of the source.
func (p *parser) parseScript() []*Stmt {
	var all []*Stmt
	for p.err == nil {
		s := p.parseLine()
		if s == nil {
			return all
		}
		all = append(all, s...)
	}
	return all
}

// parseLine parses the statements of one complete line. It returns nil at the
// end of the source.
func (p *parser) parseLine() []*Stmt {
	p.memo, p.notArith = nil, nil
	p.skipNewlines(lexCmd)
	if p.next(lexCmd).kind == tokEOF {
		if len(p.pending) > 0 {
			p.readDocs()
		}
		return nil
	}
	var out []*Stmt
	for {
		s := p.parseStmt()
		if p.err != nil {
			return nil
		}
		out = append(out, s)
		sep := p.sep // read before the next token, which may contain statements
		switch p.next(lexCmd).kind {
		case tokNewline:
			p.consumeToken()
			return out
		case tokEOF:
			p.readDocs()
			return out
		}
		if !sep || p.closesList(p.next(lexCmd)) {
			p.failUnexpected()
			return nil
		}
	}
}

// list parses statements up to a token that can't begin one. It may be empty.
func (p *parser) list() []*Stmt {
	var out []*Stmt
	for p.err == nil {
		p.skipNewlines(lexCmd)
		if p.closesList(p.next(lexCmd)) {
			return out
		}
		s := p.parseStmt()
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

// closesList reports whether a token at the start of a command ends the list.
func (p *parser) closesList(t *token) bool {
	switch t.kind {
	case tokEOF, tokRParen, tokDSemi, tokSemiAmp, tokDSemiAmp:
		return true
	}
	switch reservedWord(t) {
	case "then", "else", "elif", "fi", "do", "done", "esac", "}":
		return true
	}
	return false
}

// parseBody parses a list that must not be empty.
func (p *parser) parseBody() []*Stmt {
	out := p.list()
	if len(out) == 0 {
		p.failUnexpected()
	}
	return out
}

type stmtPipe struct {
	Stmt
	first Pipeline
}

// parseStmt parses an and-or list and its terminator; it sets p.sep if the
// terminator is ; or &.
func (p *parser) parseStmt() *Stmt {
	n := &stmtPipe{}
	s := &n.Stmt
	p.countNode()
	t := p.next(lexCmd)
	s.Pos = p.posAt(t.start)
	s.First = &n.first
	p.parsePipeline(s.First)
	for p.err == nil {
		k := p.next(lexArg).kind
		if k != tokAndIf && k != tokOrIf {
			break
		}
		p.consumeToken()
		p.skipNewlines(lexCmd)
		next := &Pipeline{}
		p.parsePipeline(next)
		s.Rest = append(s.Rest, AndOr{Or: k == tokOrIf, Pipeline: next})
	}
	if p.err != nil {
		return s
	}
	t = p.next(lexArg)
	s.End = p.posAt(t.start)
	p.sep = t.kind == tokSemi || t.kind == tokAmp
	s.Background = t.kind == tokAmp
	if p.sep {
		p.consumeToken()
	}
	return s
}

// parsePipeline parses commands joined by | with their prefixes.
func (p *parser) parsePipeline(l *Pipeline) {
	t := p.next(lexCmd)
	if p.err != nil {
		return
	}
	l.Pos = p.posAt(t.start)
	if p.parsePrefixes(l) {
		return
	}
	for p.err == nil {
		c := p.parseCommand()
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
			p.consumeToken()
			p.skipNewlines(lexCmd)
			continue
		}
		return
	}
}

// parsePrefixes parses ! and time; it reports whether no command follows.
func (p *parser) parsePrefixes(l *Pipeline) bool {
	for {
		t := p.next(lexCmd)
		switch reservedWord(t) {
		case "!":
			l.Bangs++
			p.consumeToken()
		case "time":
			if l.Time == NoTime {
				l.Time = TimeBash
			}
			p.consumeToken()
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

// timeOptions parses the options -p and -- of time.
func (p *parser) timeOptions(l *Pipeline) {
	if p.nextIs(lexCmd, "-p") {
		l.Time = TimePosix
		p.consumeToken()
	}
	if p.nextIs(lexCmd, "--") {
		l.Time = TimePosix
		p.consumeToken()
	}
}

type cmdSimple struct {
	Cmd
	simple Simple
}

// parseCommand parses one command with its redirections.
func (p *parser) parseCommand() *Cmd {
	if !p.enterLevel() {
		return nil
	}
	defer p.leaveLevel()
	t := p.next(lexCmd)
	start := p.posAt(t.start)
	body := p.parseCompound(t)
	if p.err != nil {
		return nil
	}
	if body == nil {
		return p.parseSimple(start)
	}
	c := &Cmd{Pos: start, Body: body}
	if f, ok := body.(*FuncDecl); ok {
		c.End = f.Body.End
		return c
	}
	p.parseRedirs(c)
	c.End = p.posAt(p.next(lexArg).start)
	return c
}

// parseRedirs parses the redirections after a compound command.
func (p *parser) parseRedirs(c *Cmd) {
	for p.err == nil {
		t := p.next(lexArg)
		if t.kind != tokRedir {
			return
		}
		r := t.redir
		p.consumeToken()
		p.redirTarget(r)
		c.Redirs = append(c.Redirs, r)
	}
}

// parseSimple parses assignments, words and redirections, or a function
// definition that begins with its name.
func (p *parser) parseSimple(start Pos) *Cmd {
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
			p.consumeToken()
			p.redirTarget(r)
			c.Redirs = append(c.Redirs, r)
		case tokAssign:
			s.Assigns = append(s.Assigns, t.assign)
			p.consumeToken()
		case tokWord:
			w := t.word
			p.words = append(p.words, w)
			p.consumeToken()
			if mode == lexCmd {
				mode = p.argMode(s, w)
				if p.isFunction(mode, c, s, base) {
					return p.parseFunction(c, w, from)
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
		p.failUnexpected()
	}
	c.End = p.posAt(p.tok.start)
	return c
}

// isFunction reports whether a parenthesis follows the first word.
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

// argMode returns the lexer mode for the words after the first one.
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

// parseFunction parses ( ) and the body of a function definition.
func (p *parser) parseFunction(c *Cmd, name *Word, from int) *Cmd {
	splices := p.splices
	f := &FuncDecl{Name: name.Raw}
	p.consumeToken()
	if p.next(lexPlain).kind != tokRParen {
		p.failUnexpected()
		return nil
	}
	p.consumeToken()
	nodes := p.nodes
	p.functionBody(f)
	f.Nodes = p.nodes - nodes
	if p.err != nil {
		return nil
	}
	if p.splices == splices {
		p.setSource(f, from)
	} else {
		f.Kept = len(p.src)
	}
	c.Body = f
	c.End = f.Body.End
	return c
}

// functionBody parses the compound command that is the body, with its
// redirections.
func (p *parser) functionBody(f *FuncDecl) {
	p.skipNewlines(lexCmd)
	t := p.next(lexCmd)
	start := p.posAt(t.start)
	if t.kind == tokWord {
		switch reservedWord(t) {
		case "", "function", "coproc", "time", "!":
			p.failUnexpected()
			return
		}
	}
	body := p.parseCompound(t)
	if body == nil {
		p.failUnexpected()
		return
	}
	f.Body = &Cmd{Pos: start, Body: body}
	p.bodyEnd = p.tok.end
	for p.err == nil && p.next(lexArg).kind == tokRedir {
		r := p.tok.redir
		p.consumeToken()
		p.redirTarget(r)
		p.bodyEnd = p.tok.end
		f.Body.Redirs = append(f.Body.Redirs, r)
	}
	f.Body.End = p.posAt(p.tok.start)
}

// setSource gives a definition that began at offset from its source. A small part of a long text is copied.
func (p *parser) setSource(f *FuncDecl, from int) {
	if f.Source = p.sourceFrom(f, from); f.Source == "" {
		f.Kept = len(p.src)
	} else if len(p.src)-len(f.Source) > 1<<10 {
		p.chargeWork(len(f.Source))
		f.detach()
	}
}

// sourceFrom returns the text of a definition that began at offset from, or ""
// if the body of a here-document is still unread.
func (p *parser) sourceFrom(f *FuncDecl, from int) string {
	for _, r := range f.Body.Redirs {
		if r.Doc != nil {
			return ""
		}
	}
	return p.src[from:p.bodyEnd]
}
