package awk

import (
	"fmt"
)

// maxNesting is the maximum nesting of statements and expressions.
const maxNesting = 1000

// parser parses a program.
type parser struct {
	srcs   []Source
	toks   []token
	pos    int
	prog   *Program
	fn     *function
	params map[string]*symbol
	known  map[string]bool // names of functions, including those defined later
	depth  int
	loops  int // number of loops around the statement
	breaks int // number of loops and switches around it
	noIn   bool
	noGT   bool
	calls  []*callExpr
	bud    Budget
	bailTo *bail
	begin  bool // in a BEGIN or END rule, where next is an error
}

// bail is the panic value that carries a syntax error to Parse. Other panics pass through.
type bail struct{ err error }

// Parse parses a program. If warn is not nil, it is called with warnings about the program. The budget is
// charged for a large program and never given that back.
func Parse(srcs []Source, bud Budget, warn func(where string, line int, msg string)) (prog *Program, err error) {
	if warn == nil {
		warn = func(string, int, string) {}
	}
	toks, err := lexSources(srcs, bud, warn)
	if err != nil {
		return nil, err
	}
	p := &parser{srcs: srcs, toks: toks, bud: bud, known: make(map[string]bool)}
	p.prog = &Program{srcs: srcs, funcs: make(map[string]*function), globals: make(map[string]*symbol)}
	for i, t := range toks[:len(toks)-1] {
		if t.kind == tFunction {
			p.known[toks[i+1].text] = true
		}
	}
	if err := p.parseProgram(); err != nil {
		return nil, err
	}
	if err := p.resolveArrays(); err != nil {
		return nil, err
	}
	return p.prog, nil
}

// current returns the current token.
func (p *parser) current() *token { return &p.toks[p.pos] }

// currentKind returns the kind of the current token.
func (p *parser) currentKind() kind { return p.toks[p.pos].kind }

// peekKind returns the kind of the token n after the current one.
func (p *parser) peekKind(n int) kind {
	if p.pos+n >= len(p.toks) {
		return tEOF
	}
	return p.toks[p.pos+n].kind
}

// nextToken returns the current token and moves to the next one.
func (p *parser) nextToken() *token {
	t := &p.toks[p.pos]
	if p.pos < len(p.toks)-1 {
		p.pos++
	}
	return t
}

// acceptToken skips the current token if its kind is k, and reports whether it was.
func (p *parser) acceptToken(k kind) bool {
	if p.currentKind() != k {
		return false
	}
	p.nextToken()
	return true
}

// parseProgram parses all sources. The first error unwinds it; it recovers only that panic, because
// a budget may panic too.
func (p *parser) parseProgram() (err error) {
	unwinding := new(bail)
	p.bailTo = unwinding
	defer func() {
		if unwinding.err != nil {
			_ = recover() // it is ours
			err = unwinding.err
		}
	}()
	p.skipTerminators()
	for p.currentKind() != tEOF {
		p.parseItem()
		p.skipTerminators()
	}
	return nil
}

// failHere fails with a message about the current token.
func (p *parser) failHere(format string, a ...any) {
	p.failAt(p.current(), fmt.Sprintf(format, a...))
}

// failAt fails with a message about a token.
func (p *parser) failAt(t *token, msg string) {
	p.bailTo.err = errorAt(p.srcs[t.src], t.off, t.line, msg)
	panic(p.bailTo)
}

// failPlain fails with a message that shows no source.
func (p *parser) failPlain(t *token, format string, a ...any) {
	p.bailTo.err = &SyntaxError{Where: sourceName(p.srcs[t.src]), Line: t.line, Msg: fmt.Sprintf(format, a...)}
	panic(p.bailTo)
}

// failUnexpected fails because the current token isn't allowed here.
func (p *parser) failUnexpected() {
	if k := p.currentKind(); k == tNewline || k == tEOF {
		if t := p.current(); t.off < len(p.srcs[t.src].Text) {
			t.line++ // gawk has already read the next line
		}
		p.failHere("unexpected newline or end of string")
	}
	p.failHere("syntax error")
}

// expectToken returns the current token, which must be of kind k, and moves to the next one.
func (p *parser) expectToken(k kind) *token {
	if p.currentKind() != k {
		p.failUnexpected()
	}
	return p.nextToken()
}

// enterNesting counts a level of nesting.
func (p *parser) enterNesting() {
	p.depth++
	if p.depth > maxNesting {
		p.failPlain(p.current(), "fatal: program nested too deeply")
	}
}

// leaveNesting ends a level of nesting.
func (p *parser) leaveNesting() { p.depth-- }

// skipNewlines skips newlines.
func (p *parser) skipNewlines() {
	for p.currentKind() == tNewline {
		p.nextToken()
	}
}

// skipTerminators skips newlines and semicolons.
func (p *parser) skipTerminators() {
	for p.currentKind() == tNewline || p.currentKind() == tSemicolon {
		p.nextToken()
	}
}

// parseItem parses a rule or a function.
func (p *parser) parseItem() {
	t := p.current()
	r := &rule{line: t.line, src: t.src}
	switch t.kind {
	case tFunction:
		p.parseFunction()
		return
	case tBegin, tEnd, tBeginFile, tEndFile:
		p.nextToken()
		r.kind = map[kind]ruleKind{tBegin: ruleBegin, tEnd: ruleEnd, tBeginFile: ruleBeginFile, tEndFile: ruleEndFile}[t.kind]
		if p.currentKind() != tLbrace {
			p.failPlain(t, "%s blocks must have an action part", t.text)
		}
	case tLbrace:
	default:
		r.pattern = p.parseExpr()
		if p.acceptToken(tComma) {
			p.skipNewlines()
			r.to = p.parseExpr()
		}
	}
	if p.currentKind() == tLbrace {
		p.begin = r.kind != ruleMain
		r.body = p.parseBlock()
		p.begin = false
	} else {
		r.none = true
		p.expectEndOfRule()
	}
	p.prog.rules = append(p.prog.rules, r)
}

// expectEndOfRule fails unless a rule may end at the current token.
func (p *parser) expectEndOfRule() {
	switch p.currentKind() {
	case tNewline, tSemicolon, tEOF:
	default:
		p.failUnexpected()
	}
}

// parseFunction parses the definition of a function.
func (p *parser) parseFunction() {
	p.nextToken()
	t := p.current()
	if t.kind != tName && t.kind != tCall {
		if t.kind == tFunc {
			p.failPlain(t, "`%s' is a built-in function, it cannot be redefined", t.text)
		}
		p.failUnexpected()
	}
	p.nextToken()
	f := p.lookupFunc(t.text)
	if f.defined {
		p.failPlain(t, "error: function name `%s' previously defined", t.text)
	}
	f.defined, f.line, f.src = true, t.line, t.src
	p.expectToken(tLparen)
	p.params = make(map[string]*symbol)
	for p.currentKind() != tRparen {
		n := p.expectToken(tName)
		switch {
		case n.text == t.text:
			p.failPlain(n, "error: function `%s': cannot use function name as parameter name", t.text)
		case p.params[n.text] != nil:
			p.failPlain(n, "error: function `%s': parameter #%d, `%s', duplicates parameter #%d",
				t.text, len(f.params)+1, n.text, p.params[n.text].index+1)
		}
		s := &symbol{name: n.text, fn: f, index: len(f.params), line: n.line}
		p.params[n.text] = s
		f.params = append(f.params, s)
		if p.currentKind() != tRparen {
			p.expectToken(tComma)
			p.skipNewlines()
		}
	}
	p.expectToken(tRparen)
	p.skipNewlines()
	p.fn = f
	f.body = p.parseBlock()
	p.fn, p.params = nil, nil
}

// lookupFunc returns the function of that name, which may be defined later.
func (p *parser) lookupFunc(name string) *function {
	f := p.prog.funcs[name]
	if f == nil {
		f = &function{name: name}
		p.prog.funcs[name] = f
	}
	return f
}

// parseBlock parses statements between braces.
func (p *parser) parseBlock() []stmt {
	p.expectToken(tLbrace)
	p.enterNesting()
	defer p.leaveNesting()
	var list []stmt
	p.skipTerminators()
	for p.currentKind() != tRbrace {
		if p.currentKind() == tEOF {
			p.failUnexpected()
		}
		list = append(list, p.parseStmt())
		p.skipTerminators()
	}
	p.nextToken()
	return list
}

// parseBody parses the body of a loop or a condition.
func (p *parser) parseBody() []stmt {
	p.skipNewlines()
	if p.acceptToken(tSemicolon) {
		return nil
	}
	if p.currentKind() == tLbrace {
		return p.parseBlock()
	}
	return []stmt{p.parseStmt()}
}

// parseLoopBody parses the body of a loop.
func (p *parser) parseLoopBody() []stmt {
	p.loops++
	p.breaks++
	b := p.parseBody()
	p.loops--
	p.breaks--
	return b
}

// parseStmt parses one statement with its terminator.
func (p *parser) parseStmt() stmt {
	p.enterNesting()
	defer p.leaveNesting()
	tickBudget(p.bud, 1)
	t := p.current()
	s := &lineStmt{line: t.line, src: t.src}
	switch t.kind {
	case tLbrace:
		s.s = &blockStmt{p.parseBlock()}
	case tIf:
		s.s = p.parseIf()
	case tWhile:
		p.nextToken()
		c := p.parseCondition()
		s.s = &whileStmt{c: c, body: p.parseLoopBody()}
	case tDo:
		s.s = p.parseDo()
	case tFor:
		s.s = p.parseFor()
	case tSwitch:
		s.s = p.parseSwitch()
	default:
		s.s = p.parseSimple()
		p.expectEndOfStmt()
	}
	return s
}

// expectEndOfStmt skips the terminator of a statement.
func (p *parser) expectEndOfStmt() {
	switch p.currentKind() {
	case tNewline, tSemicolon:
		p.nextToken()
	case tRbrace, tEOF:
	default:
		p.failUnexpected()
	}
}

// parseCondition parses a condition in parentheses.
func (p *parser) parseCondition() expr {
	p.expectToken(tLparen)
	e := p.parseExpr()
	p.expectToken(tRparen)
	return e
}

// parseIf parses if.
func (p *parser) parseIf() stmt {
	p.nextToken()
	s := &ifStmt{c: p.parseCondition()}
	s.then = p.parseBody()
	at := p.pos
	p.skipTerminators()
	if p.currentKind() != tElse {
		p.pos = at
		return s
	}
	p.nextToken()
	s.else_ = p.parseBody()
	return s
}

// parseDo parses do.
func (p *parser) parseDo() stmt {
	p.nextToken()
	s := &whileStmt{do: true, body: p.parseLoopBody()}
	p.skipTerminators()
	p.expectToken(tWhile)
	s.c = p.parseCondition()
	p.expectEndOfStmt()
	return s
}

// parseFor parses both kinds of for.
func (p *parser) parseFor() stmt {
	p.nextToken()
	p.expectToken(tLparen)
	if p.currentKind() == tName && p.peekKind(1) == tIn {
		if s := p.parseForIn(); s != nil {
			return s
		}
	}
	s := &forStmt{}
	if p.currentKind() != tSemicolon {
		s.init = p.parseSimple()
	}
	p.expectToken(tSemicolon)
	p.skipNewlines()
	if p.currentKind() != tSemicolon {
		s.c = p.parseExpr()
	}
	p.expectToken(tSemicolon)
	p.skipNewlines()
	if p.currentKind() != tRparen {
		s.post = p.parseSimple()
	}
	p.expectToken(tRparen)
	s.body = p.parseLoopBody()
	return s
}

// parseForIn parses "k in a)" and the body. It returns nil and skips nothing if that is only the
// beginning of an expression.
func (p *parser) parseForIn() stmt {
	at := p.pos
	v := p.nextToken()
	p.nextToken()
	if k := p.currentKind(); k != tName {
		p.pos = at
		return nil
	}
	arr := p.parseArrayRef()
	if p.currentKind() != tRparen {
		p.pos = at
		return nil
	}
	p.nextToken()
	s := &forInStmt{v: p.variableRef(v), arr: arr}
	s.body = p.parseLoopBody()
	return s
}

// parseSwitch parses switch.
func (p *parser) parseSwitch() stmt {
	p.nextToken()
	s := &switchStmt{e: p.parseCondition()}
	p.skipNewlines()
	p.expectToken(tLbrace)
	p.skipTerminators()
	p.breaks++
	for p.currentKind() != tRbrace {
		var c switchCase
		if !p.acceptToken(tDefault) {
			p.expectToken(tCase)
			c.match = p.parseCaseLabel()
		}
		p.expectToken(tColon)
		p.skipTerminators()
		for k := p.currentKind(); k != tCase && k != tDefault && k != tRbrace; k = p.currentKind() {
			if k == tEOF {
				p.failUnexpected()
			}
			c.body = append(c.body, p.parseStmt())
			p.skipTerminators()
		}
		s.cases = append(s.cases, c)
	}
	p.breaks--
	p.nextToken()
	return s
}

// parseCaseLabel parses the constant of a case.
func (p *parser) parseCaseLabel() expr {
	t := p.current()
	neg := t.kind == tMinus
	if neg || t.kind == tPlus {
		p.nextToken()
		t = p.current()
		if t.kind != tNumber {
			p.failUnexpected()
		}
	}
	p.nextToken()
	switch t.kind {
	case tNumber:
		if neg {
			return &numLit{-t.num}
		}
		return &numLit{t.num}
	case tString:
		return &strLit{t.text}
	case tRegex, tTypedRegex:
		return &regexLit{src: t.text}
	}
	p.pos--
	p.failUnexpected()
	return nil
}

// parseSimple parses a statement without a body.
func (p *parser) parseSimple() stmt {
	t := p.current()
	switch t.kind {
	case tPrint, tPrintf:
		return p.parsePrint()
	case tBreak, tContinue:
		p.nextToken()
		if t.kind == tBreak && p.breaks == 0 {
			p.failPlain(t, "error: `break' is not allowed outside a loop or switch")
		}
		if t.kind == tContinue && p.loops == 0 {
			p.failPlain(t, "error: `continue' is not allowed outside a loop")
		}
		return &jumpStmt{op: t.kind}
	case tNext, tNextFile:
		p.nextToken()
		if p.begin {
			p.failPlain(t, "error: `%s' used in BEGIN action", t.text)
		}
		return &jumpStmt{op: t.kind}
	case tExit:
		p.nextToken()
		return &exitStmt{p.parseOptional()}
	case tReturn:
		p.nextToken()
		if p.fn == nil {
			p.failAt(t, "`return' used outside function context")
		}
		return &returnStmt{p.parseOptional()}
	case tDelete:
		return p.parseDelete()
	}
	return &exprStmt{p.parseExpr()}
}

// parseOptional parses an expression unless the statement ends here.
func (p *parser) parseOptional() expr {
	switch p.currentKind() {
	case tNewline, tSemicolon, tRbrace, tEOF:
		return nil
	}
	return p.parseExpr()
}

// parseDelete parses delete.
func (p *parser) parseDelete() stmt {
	p.nextToken()
	paren := p.acceptToken(tLparen)
	if p.currentKind() != tName {
		p.failUnexpected()
	}
	ref := p.parseArrayRef()
	if paren {
		p.expectToken(tRparen)
	}
	if ix, ok := ref.(*indexRef); ok {
		return &deleteStmt{arr: ix.arr, subs: ix.subs}
	}
	return &deleteStmt{arr: ref}
}

// parsePrint parses print and printf. A list in parentheses is the arguments, unless more follows
// that makes it a part of an expression.
func (p *parser) parsePrint() stmt {
	s := &printStmt{printf: p.nextToken().kind == tPrintf}
	save := p.noGT
	p.noGT = true
	switch p.currentKind() {
	case tNewline, tSemicolon, tRbrace, tEOF, tGT, tAppend, tPipe, tPipeAnd:
	default:
		s.args = p.parseExprList()
	}
	if len(s.args) == 1 {
		if g, ok := s.args[0].(*groupExpr); ok {
			s.args = g.list
		}
	}
	for _, a := range s.args {
		if g, ok := a.(*groupExpr); ok && len(g.list) > 1 {
			p.failUnexpected()
		}
	}
	if s.printf && len(s.args) == 0 {
		p.failHere("syntax error")
	}
	switch p.currentKind() {
	case tGT, tAppend, tPipe, tPipeAnd:
		s.redir = p.nextToken().kind
		s.dest = p.parseConcat(true)
	}
	p.noGT = save
	return s
}

// parseExprList parses expressions separated by commas.
func (p *parser) parseExprList() []expr {
	var list []expr
	for {
		list = append(list, p.parseExpr())
		if !p.acceptToken(tComma) {
			return list
		}
		p.skipNewlines()
	}
}
