package jq

import (
	"fmt"
	"strings"
)

// CompileError says why a program is not one. Line is 0 if no place fits.
type CompileError struct {
	Msg  string
	Line int
}

func (e *CompileError) Error() string {
	if e.Line == 0 {
		return e.Msg
	}
	return fmt.Sprintf("%s at <top-level>, line %d:", e.Msg, e.Line)
}

const (
	maxNesting = 1000  // brackets in brackets
	maxChain   = 10000 // operators in a row
)

// parser reads programs by operator precedence. Errors unwind it by panic.
type parser struct {
	lexer
	depth int
	acct  *account
}

// parse reads a program.
func parse(src string, acct *account) (prog *program, err error) {
	p := &parser{lexer: lexer{src: src, line: 1}, acct: acct}
	acct.tick(len(src))
	acct.alloc(int64(len(src)) * 8)
	defer func() {
		switch r := recover().(type) {
		case nil:
		case *CompileError:
			prog, err = nil, r
		default:
			panic(r)
		}
	}()
	p.next()
	return p.program(), nil
}

func (p *parser) fail(format string, args ...any) {
	panic(&CompileError{Msg: fmt.Sprintf(format, args...), Line: int(p.line)})
}

func (p *parser) unexpected(want string) {
	if want != "" {
		want = ", expecting " + want
	}
	p.fail("syntax error, unexpected %s%s (Unix shell quoting issues?)", p.describe(), want)
}

// got takes the current token if it is t.
func (p *parser) got(t tok) bool {
	if p.tok != t {
		return false
	}
	p.next()
	return true
}

func (p *parser) want(t tok) {
	if p.tok != t {
		p.unexpected("'" + string(t) + "'")
	}
	p.next()
}

func (p *parser) enter() {
	p.depth++
	if p.depth > maxNesting {
		p.fail("syntax error, nested too deeply")
	}
	p.acct.tick(1)
}

func (p *parser) leave() { p.depth-- }

func (p *parser) program() *program {
	prog := &program{}
	if p.got("module") {
		prog.meta = p.metadata()
		p.want(";")
	}
	for p.tok == "import" || p.tok == "include" {
		prog.imports = append(prog.imports, p.importing())
	}
	for p.tok == "def" {
		prog.defs = append(prog.defs, p.definition())
	}
	if p.tok != tEOF {
		prog.body = p.pipe()
	}
	if p.tok != tEOF {
		p.unexpected("end of file")
	}
	return prog
}

func (p *parser) metadata() Value {
	v, ok := constant(p.term())
	if !ok {
		p.fail("Module metadata must be constant")
	}
	if kindOf(v) != kindObject {
		p.fail("Module metadata must be an object")
	}
	return v
}

func (p *parser) importing() imported {
	imp := imported{pos: p.line, include: p.tok == "include"}
	p.next()
	path, ok := constant(p.term())
	if !ok || kindOf(path) != kindString {
		p.fail("Import path must be constant")
	}
	imp.path = path.(string)
	if !imp.include {
		p.want("as")
		imp.data = p.tok == tVar
		imp.alias = p.text
		if !p.got(tVar) && !p.got(tIdent) {
			p.unexpected("IDENT")
		}
	}
	if p.tok != ";" {
		imp.meta = p.metadata()
	}
	p.want(";")
	return imp
}

// constant returns the value of an expression that is written out.
func constant(e expr) (Value, bool) {
	switch e := e.(type) {
	case *literal:
		return e.value, true
	case *text:
		return strings.Join(e.words, ""), len(e.exprs) == 0
	case *array:
		return constantArray(e)
	case *object:
		return constantObject(e)
	}
	return nil, false
}

func constantArray(e *array) (Value, bool) {
	if e.body == nil {
		return NewArray(), true
	}
	parts := []expr{e.body}
	if c, ok := e.body.(*comma); ok {
		parts = c.parts
	}
	a := NewArray()
	for _, part := range parts {
		v, ok := constant(part)
		if !ok {
			return nil, false
		}
		a.Items = append(a.Items, v)
	}
	return a, true
}

func constantObject(e *object) (Value, bool) {
	o := NewObject()
	for _, pr := range e.pairs {
		if pr.value == nil {
			return nil, false
		}
		k, ok := constant(pr.key)
		v, ok2 := constant(pr.value)
		key, ok3 := k.(string)
		if !ok || !ok2 || !ok3 {
			return nil, false
		}
		o.Set(key, v)
	}
	return o, true
}

func (p *parser) definition() *definition {
	p.enter()
	defer p.leave()
	d := &definition{pos: p.line}
	p.next()
	d.name = p.text
	if p.tok != tIdent && !keywords[string(p.tok)] {
		p.unexpected("IDENT")
	}
	p.next()
	if p.got("(") {
		d.params = p.params()
	}
	p.want(":")
	d.body = p.pipe()
	p.want(";")
	return d
}

func (p *parser) params() []string {
	var params []string
	for {
		switch {
		case p.tok == tVar:
			params = append(params, "$"+p.text)
		case p.tok == tIdent || keywords[string(p.tok)]:
			params = append(params, p.text)
		default:
			p.unexpected("IDENT")
		}
		p.next()
		if p.got(")") {
			return params
		}
		p.want(";")
	}
}

// pipe reads a whole filter: definitions, labels, bindings and pipes.
func (p *parser) pipe() expr {
	p.enter()
	defer p.leave()
	at := p.line
	var parts []expr
	for {
		e, last := p.stage()
		parts = append(parts, e)
		if last || p.tok != "|" {
			break
		}
		p.next()
	}
	if len(parts) == 1 {
		return parts[0]
	}
	return &pipe{at, parts}
}

// stage reads one part of a pipe; last tells that it has swallowed the rest.
func (p *parser) stage() (e expr, last bool) {
	at := p.line
	switch p.tok {
	case "def":
		fn := p.definition()
		return &define{at, fn, p.pipe()}, true
	case "label":
		p.next()
		name := p.text
		p.wantVar()
		p.want("|")
		return &label{at, name, p.pipe()}, true
	}
	return p.binary(0), false
}

func (p *parser) wantVar() {
	if p.tok != tVar {
		p.unexpected("BINDING")
	}
	p.next()
}

type precedence struct {
	level  int
	right  bool // associates to the right
	single bool // doesn't associate
}

var precedences = map[tok]precedence{
	",":  {level: 1},
	"//": {level: 2, right: true},
	"=":  {level: 3, single: true}, "|=": {level: 3, single: true}, "+=": {level: 3, single: true},
	"-=": {level: 3, single: true}, "*=": {level: 3, single: true}, "/=": {level: 3, single: true},
	"%=": {level: 3, single: true}, "//=": {level: 3, single: true},
	"or": {level: 4}, "and": {level: 5},
	"==": {level: 6, single: true}, "!=": {level: 6, single: true}, "<": {level: 6, single: true},
	"<=": {level: 6, single: true}, ">": {level: 6, single: true}, ">=": {level: 6, single: true},
	"+": {level: 7}, "-": {level: 7},
	"*": {level: 8}, "/": {level: 8}, "%": {level: 8},
}

// binary reads operators of at least the level min.
func (p *parser) binary(min int) expr {
	p.enter()
	defer p.leave()
	left := p.unary()
	limit := 100
	for n := 0; ; n++ {
		op := p.tok
		prec, ok := precedences[op]
		if !ok || prec.level < min {
			return left
		}
		if prec.level >= limit {
			p.unexpected("")
		}
		if n > maxChain && op != "," {
			p.fail("syntax error, expression too long")
		}
		at := p.line
		p.next()
		next := prec.level + 1
		if prec.right {
			next = prec.level
		}
		right := p.binary(next)
		limit = 100
		if prec.single {
			limit = prec.level
		}
		left = join(at, op, left, right)
	}
}

func join(at pos, op tok, left, right expr) expr {
	if op != "," {
		return &binary{at, string(op), left, right}
	}
	if c, ok := left.(*comma); ok {
		c.parts = append(c.parts, right)
		return c
	}
	return &comma{at, []expr{left, right}}
}

func (p *parser) unary() expr {
	if p.tok != "-" {
		return p.postfix()
	}
	at := p.line
	p.next()
	body := p.binary(8)
	if l, ok := body.(*literal); ok {
		if f, ok := toFloat(l.value); ok {
			return &literal{at, -f}
		}
	}
	return &negate{at, body}
}
