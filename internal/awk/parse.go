package awk

import (
	"fmt"
)

// maxNesting bounds how deep statements and expressions may nest.
const maxNesting = 1000

type parser struct {
	srcs   []Source
	toks   []token
	pos    int
	prog   *Program
	fn     *function
	params map[string]*symbol
	known  map[string]bool // names of functions, those defined further down too
	depth  int
	loops  int // around the statement
	breaks int // loops and switches around it
	noIn   bool
	noGT   bool
	calls  []*callExpr
	bud    Budget
	bailTo *bail
	begin  bool // in a BEGIN or END rule, where next is an error
}

// bail carries a syntax error up to Parse. Nothing but the parser's own
// panics is recovered.
type bail struct{ err error }

// Parse reads a program. warn, if not nil, gets remarks on it.
func Parse(srcs []Source, bud Budget, warn func(where string, line int, msg string)) (prog *Program, err error) {
	if warn == nil {
		warn = func(string, int, string) {}
	}
	toks, err := lex(srcs, bud, warn)
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
	if err := p.program(); err != nil {
		return nil, err
	}
	if err := p.resolve(); err != nil {
		return nil, err
	}
	return p.prog, nil
}

func (p *parser) tok() *token { return &p.toks[p.pos] }
func (p *parser) kind() kind  { return p.toks[p.pos].kind }

func (p *parser) peek(n int) kind {
	if p.pos+n >= len(p.toks) {
		return tEOF
	}
	return p.toks[p.pos+n].kind
}

func (p *parser) advance() *token {
	t := &p.toks[p.pos]
	if p.pos < len(p.toks)-1 {
		p.pos++
	}
	return t
}

func (p *parser) accept(k kind) bool {
	if p.kind() != k {
		return false
	}
	p.advance()
	return true
}

// program parses everything. The first error unwinds it; only that panic is
// recovered, since a budget may unwind the parser too.
func (p *parser) program() (err error) {
	unwinding := new(bail)
	p.bailTo = unwinding
	defer func() {
		if unwinding.err != nil {
			_ = recover() // it is ours
			err = unwinding.err
		}
	}()
	p.terminators()
	for p.kind() != tEOF {
		p.item()
		p.terminators()
	}
	return nil
}

// fail ends the parse with a message about the current token.
func (p *parser) fail(format string, a ...any) {
	p.failAt(p.tok(), fmt.Sprintf(format, a...))
}

func (p *parser) failAt(t *token, msg string) {
	p.bailTo.err = errorAt(p.srcs[t.src], t.off, t.line, msg)
	panic(p.bailTo)
}

// complain ends the parse with a message that shows no source.
func (p *parser) complain(t *token, format string, a ...any) {
	p.bailTo.err = &SyntaxError{Where: where(p.srcs[t.src]), Line: t.line, Msg: fmt.Sprintf(format, a...)}
	panic(p.bailTo)
}

func (p *parser) unexpected() {
	if k := p.kind(); k == tNewline || k == tEOF {
		if t := p.tok(); t.off < len(p.srcs[t.src].Text) {
			t.line++ // gawk has read on already
		}
		p.fail("unexpected newline or end of string")
	}
	p.fail("syntax error")
}

func (p *parser) expect(k kind) *token {
	if p.kind() != k {
		p.unexpected()
	}
	return p.advance()
}

func (p *parser) enter() {
	p.depth++
	if p.depth > maxNesting {
		p.complain(p.tok(), "fatal: program nested too deeply")
	}
}

func (p *parser) leave() { p.depth-- }

func (p *parser) newlines() {
	for p.kind() == tNewline {
		p.advance()
	}
}

// terminators skips newlines and semicolons.
func (p *parser) terminators() {
	for p.kind() == tNewline || p.kind() == tSemicolon {
		p.advance()
	}
}

// item parses a rule or a function.
func (p *parser) item() {
	t := p.tok()
	r := &rule{line: t.line, src: t.src}
	switch t.kind {
	case tFunction:
		p.function()
		return
	case tBegin, tEnd, tBeginFile, tEndFile:
		p.advance()
		r.kind = map[kind]ruleKind{tBegin: ruleBegin, tEnd: ruleEnd, tBeginFile: ruleBeginFile, tEndFile: ruleEndFile}[t.kind]
		if p.kind() != tLbrace {
			p.complain(t, "%s blocks must have an action part", t.text)
		}
	case tLbrace:
	default:
		r.pattern = p.expr()
		if p.accept(tComma) {
			p.newlines()
			r.to = p.expr()
		}
	}
	if p.kind() == tLbrace {
		p.begin = r.kind != ruleMain
		r.body = p.block()
		p.begin = false
	} else {
		r.none = true
		p.endOfRule()
	}
	p.prog.rules = append(p.prog.rules, r)
}

func (p *parser) endOfRule() {
	switch p.kind() {
	case tNewline, tSemicolon, tEOF:
	default:
		p.unexpected()
	}
}

func (p *parser) function() {
	p.advance()
	t := p.tok()
	if t.kind != tName && t.kind != tCall {
		if t.kind == tFunc {
			p.complain(t, "`%s' is a built-in function, it cannot be redefined", t.text)
		}
		p.unexpected()
	}
	p.advance()
	f := p.lookupFunc(t.text)
	if f.defined {
		p.complain(t, "error: function name `%s' previously defined", t.text)
	}
	f.defined, f.line, f.src = true, t.line, t.src
	p.expect(tLparen)
	p.params = make(map[string]*symbol)
	for p.kind() != tRparen {
		n := p.expect(tName)
		switch {
		case n.text == t.text:
			p.complain(n, "error: function `%s': cannot use function name as parameter name", t.text)
		case p.params[n.text] != nil:
			p.complain(n, "error: function `%s': parameter #%d, `%s', duplicates parameter #%d",
				t.text, len(f.params)+1, n.text, p.params[n.text].index+1)
		}
		s := &symbol{name: n.text, fn: f, index: len(f.params), line: n.line}
		p.params[n.text] = s
		f.params = append(f.params, s)
		if p.kind() != tRparen {
			p.expect(tComma)
			p.newlines()
		}
	}
	p.expect(tRparen)
	p.newlines()
	p.fn = f
	f.body = p.block()
	p.fn, p.params = nil, nil
}

func (p *parser) lookupFunc(name string) *function {
	f := p.prog.funcs[name]
	if f == nil {
		f = &function{name: name}
		p.prog.funcs[name] = f
	}
	return f
}

// block parses statements between braces.
func (p *parser) block() []stmt {
	p.expect(tLbrace)
	p.enter()
	defer p.leave()
	var list []stmt
	p.terminators()
	for p.kind() != tRbrace {
		if p.kind() == tEOF {
			p.unexpected()
		}
		list = append(list, p.stmt())
		p.terminators()
	}
	p.advance()
	return list
}

// body parses the statement that a loop or a condition governs.
func (p *parser) body() []stmt {
	p.newlines()
	if p.accept(tSemicolon) {
		return nil
	}
	if p.kind() == tLbrace {
		return p.block()
	}
	return []stmt{p.stmt()}
}

func (p *parser) loopBody() []stmt {
	p.loops++
	p.breaks++
	b := p.body()
	p.loops--
	p.breaks--
	return b
}

// stmt parses one statement with what ends it.
func (p *parser) stmt() stmt {
	p.enter()
	defer p.leave()
	tick(p.bud, 1)
	t := p.tok()
	s := &lineStmt{line: t.line, src: t.src}
	switch t.kind {
	case tLbrace:
		s.s = &blockStmt{p.block()}
	case tIf:
		s.s = p.ifStmt()
	case tWhile:
		p.advance()
		c := p.condition()
		s.s = &whileStmt{c: c, body: p.loopBody()}
	case tDo:
		s.s = p.doStmt()
	case tFor:
		s.s = p.forStmt()
	case tSwitch:
		s.s = p.switchStmt()
	default:
		s.s = p.simple()
		p.endOfStmt()
	}
	return s
}

func (p *parser) endOfStmt() {
	switch p.kind() {
	case tNewline, tSemicolon:
		p.advance()
	case tRbrace, tEOF:
	default:
		p.unexpected()
	}
}

func (p *parser) condition() expr {
	p.expect(tLparen)
	e := p.expr()
	p.expect(tRparen)
	return e
}

func (p *parser) ifStmt() stmt {
	p.advance()
	s := &ifStmt{c: p.condition()}
	s.then = p.body()
	at := p.pos
	p.terminators()
	if p.kind() != tElse {
		p.pos = at
		return s
	}
	p.advance()
	s.else_ = p.body()
	return s
}

func (p *parser) doStmt() stmt {
	p.advance()
	s := &whileStmt{do: true, body: p.loopBody()}
	p.terminators()
	p.expect(tWhile)
	s.c = p.condition()
	p.endOfStmt()
	return s
}

func (p *parser) forStmt() stmt {
	p.advance()
	p.expect(tLparen)
	if p.kind() == tName && p.peek(1) == tIn {
		if s := p.forIn(); s != nil {
			return s
		}
	}
	s := &forStmt{}
	if p.kind() != tSemicolon {
		s.init = p.simple()
	}
	p.expect(tSemicolon)
	p.newlines()
	if p.kind() != tSemicolon {
		s.c = p.expr()
	}
	p.expect(tSemicolon)
	p.newlines()
	if p.kind() != tRparen {
		s.post = p.simple()
	}
	p.expect(tRparen)
	s.body = p.loopBody()
	return s
}

// forIn parses "k in a)" and the body, or nothing where that is only the
// beginning of an expression.
func (p *parser) forIn() stmt {
	at := p.pos
	v := p.advance()
	p.advance()
	if k := p.kind(); k != tName {
		p.pos = at
		return nil
	}
	arr := p.arrayRef()
	if p.kind() != tRparen {
		p.pos = at
		return nil
	}
	p.advance()
	s := &forInStmt{v: p.variable(v), arr: arr}
	s.body = p.loopBody()
	return s
}

func (p *parser) switchStmt() stmt {
	p.advance()
	s := &switchStmt{e: p.condition()}
	p.newlines()
	p.expect(tLbrace)
	p.terminators()
	p.breaks++
	for p.kind() != tRbrace {
		var c switchCase
		if !p.accept(tDefault) {
			p.expect(tCase)
			c.match = p.caseLabel()
		}
		p.expect(tColon)
		p.terminators()
		for k := p.kind(); k != tCase && k != tDefault && k != tRbrace; k = p.kind() {
			if k == tEOF {
				p.unexpected()
			}
			c.body = append(c.body, p.stmt())
			p.terminators()
		}
		s.cases = append(s.cases, c)
	}
	p.breaks--
	p.advance()
	return s
}

func (p *parser) caseLabel() expr {
	t := p.tok()
	neg := t.kind == tMinus
	if neg || t.kind == tPlus {
		p.advance()
		t = p.tok()
		if t.kind != tNumber {
			p.unexpected()
		}
	}
	p.advance()
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
	p.unexpected()
	return nil
}

// simple parses a statement that governs no other.
func (p *parser) simple() stmt {
	t := p.tok()
	switch t.kind {
	case tPrint, tPrintf:
		return p.print()
	case tBreak, tContinue:
		p.advance()
		if t.kind == tBreak && p.breaks == 0 {
			p.complain(t, "error: `break' is not allowed outside a loop or switch")
		}
		if t.kind == tContinue && p.loops == 0 {
			p.complain(t, "error: `continue' is not allowed outside a loop")
		}
		return &jumpStmt{op: t.kind}
	case tNext, tNextFile:
		p.advance()
		if p.begin {
			p.complain(t, "error: `%s' used in BEGIN action", t.text)
		}
		return &jumpStmt{op: t.kind}
	case tExit:
		p.advance()
		return &exitStmt{p.optional()}
	case tReturn:
		p.advance()
		if p.fn == nil {
			p.failAt(t, "`return' used outside function context")
		}
		return &returnStmt{p.optional()}
	case tDelete:
		return p.deleteStmt()
	}
	return &exprStmt{p.expr()}
}

// optional parses an expression unless the statement ends here.
func (p *parser) optional() expr {
	switch p.kind() {
	case tNewline, tSemicolon, tRbrace, tEOF:
		return nil
	}
	return p.expr()
}

func (p *parser) deleteStmt() stmt {
	p.advance()
	paren := p.accept(tLparen)
	if p.kind() != tName {
		p.unexpected()
	}
	ref := p.arrayRef()
	if paren {
		p.expect(tRparen)
	}
	if ix, ok := ref.(*indexRef); ok {
		return &deleteStmt{arr: ix.arr, subs: ix.subs}
	}
	return &deleteStmt{arr: ref}
}

// print parses print and printf. A "(" list ")" is the arguments only if
// nothing follows that would make it a part of an expression.
func (p *parser) print() stmt {
	s := &printStmt{printf: p.advance().kind == tPrintf}
	save := p.noGT
	p.noGT = true
	switch p.kind() {
	case tNewline, tSemicolon, tRbrace, tEOF, tGT, tAppend, tPipe, tPipeAnd:
	default:
		s.args = p.exprList()
	}
	if len(s.args) == 1 {
		if g, ok := s.args[0].(*groupExpr); ok {
			s.args = g.list
		}
	}
	for _, a := range s.args {
		if g, ok := a.(*groupExpr); ok && len(g.list) > 1 {
			p.unexpected()
		}
	}
	if s.printf && len(s.args) == 0 {
		p.fail("syntax error")
	}
	switch p.kind() {
	case tGT, tAppend, tPipe, tPipeAnd:
		s.redir = p.advance().kind
		s.dest = p.concat(true)
	}
	p.noGT = save
	return s
}

func (p *parser) exprList() []expr {
	var list []expr
	for {
		list = append(list, p.expr())
		if !p.accept(tComma) {
			return list
		}
		p.newlines()
	}
}
