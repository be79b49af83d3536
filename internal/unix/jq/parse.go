package jq

import (
	"fmt"
	"strings"
)

// CompileError is the reason why a program can't be compiled. Line is 0 if the error belongs to no
// line.
type CompileError struct {
	Msg  string
	Line int
}

// Error returns the message with jq's wording of the line.
func (e *CompileError) Error() string {
	if e.Line == 0 {
		return e.Msg
	}
	return fmt.Sprintf("%s at <top-level>, line %d:", e.Msg, e.Line)
}

// The limits of a program.
const (
	maxNesting = 1000  // nested brackets
	maxChain   = 10000 // operators in a row
)

// nodeSize is what the nodes of one level of nesting take in memory, in bytes.
const nodeSize = 64

// parser parses programs by operator precedence. Errors unwind it by panic.
type parser struct {
	lexer
	depth int
	acct  *account
}

// parse parses a program.
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
	return p.parseProgram(), nil
}

// raiseError panics with a CompileError for the current line.
func (p *parser) raiseError(format string, args ...any) {
	panic(&CompileError{Msg: fmt.Sprintf(format, args...), Line: int(p.line)})
}

// raiseUnexpected reports the current token as a syntax error; want may name the expected one.
func (p *parser) raiseUnexpected(want string) {
	if want != "" {
		want = ", expecting " + want
	}
	p.raiseError("syntax error, unexpected %s%s (Unix shell quoting issues?)", p.describeToken(), want)
}

// acceptToken skips the current token if it is t, and reports whether it was.
func (p *parser) acceptToken(t tok) bool {
	if p.tok != t {
		return false
	}
	p.next()
	return true
}

// expectToken skips the current token, which must be t.
func (p *parser) expectToken(t tok) {
	if p.tok != t {
		p.raiseUnexpected("'" + string(t) + "'")
	}
	p.next()
}

// enterNesting counts a level of nesting.
func (p *parser) enterNesting() {
	p.depth++
	if p.depth > maxNesting {
		p.raiseError("syntax error, nested too deeply")
	}
	p.acct.tick(1)
	p.acct.alloc(nodeSize)
}

// leaveNesting ends a level of nesting.
func (p *parser) leaveNesting() { p.depth-- }

// parseProgram parses a main program or module.
func (p *parser) parseProgram() *program {
	prog := &program{}
	if p.acceptToken("module") {
		prog.meta = p.parseMetadata()
		p.expectToken(";")
	}
	for p.tok == "import" || p.tok == "include" {
		prog.imports = append(prog.imports, p.parseImport())
	}
	for p.tok == "def" {
		prog.defs = append(prog.defs, p.parseDefinition())
	}
	if p.tok != tEOF {
		prog.body = p.parsePipe()
	}
	if p.tok != tEOF {
		p.raiseUnexpected("end of file")
	}
	return prog
}

// parseMetadata parses the object of a module or import directive.
func (p *parser) parseMetadata() Value {
	v, ok := constantOf(p.parseTerm())
	if !ok {
		p.raiseError("Module metadata must be constant")
	}
	if kindOf(v) != kindObject {
		p.raiseError("Module metadata must be an object")
	}
	return v
}

// parseImport parses an import or include directive.
func (p *parser) parseImport() imported {
	imp := imported{pos: p.line, include: p.tok == "include"}
	p.next()
	path, ok := constantOf(p.parseTerm())
	if !ok || kindOf(path) != kindString {
		p.raiseError("Import path must be constant")
	}
	imp.path = path.(string)
	if !imp.include {
		p.expectToken("as")
		imp.data = p.tok == tVar
		imp.alias = p.text
		if !p.acceptToken(tVar) && !p.acceptToken(tIdent) {
			p.raiseUnexpected("IDENT")
		}
	}
	if p.tok != ";" {
		imp.meta = p.parseMetadata()
	}
	p.expectToken(";")
	return imp
}

// constantOf returns the value of a constant expression, and reports whether e is one.
func constantOf(e expr) (Value, bool) {
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

// constantArray returns the value of a constant array.
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
		v, ok := constantOf(part)
		if !ok {
			return nil, false
		}
		a.Items = append(a.Items, v)
	}
	return a, true
}

// constantObject returns the value of a constant object.
func constantObject(e *object) (Value, bool) {
	o := NewObject()
	for _, pr := range e.pairs {
		if pr.value == nil {
			return nil, false
		}
		k, ok := constantOf(pr.key)
		v, ok2 := constantOf(pr.value)
		key, ok3 := k.(string)
		if !ok || !ok2 || !ok3 {
			return nil, false
		}
		o.Set(key, v)
	}
	return o, true
}

// parseDefinition parses a function definition.
func (p *parser) parseDefinition() *definition {
	p.enterNesting()
	defer p.leaveNesting()
	d := &definition{pos: p.line}
	p.next()
	d.name = p.text
	if p.tok != tIdent && !keywords[string(p.tok)] {
		p.raiseUnexpected("IDENT")
	}
	p.next()
	if p.acceptToken("(") {
		d.params = p.parseParams()
	}
	p.expectToken(":")
	d.body = p.parsePipe()
	p.expectToken(";")
	return d
}

// parseParams parses the parameters of a definition.
func (p *parser) parseParams() []string {
	var params []string
	for {
		switch {
		case p.tok == tVar:
			params = append(params, "$"+p.text)
		case p.tok == tIdent || keywords[string(p.tok)]:
			params = append(params, p.text)
		default:
			p.raiseUnexpected("IDENT")
		}
		p.next()
		if p.acceptToken(")") {
			return params
		}
		p.expectToken(";")
	}
}

// parsePipe parses a whole filter: definitions, labels, bindings and pipes.
func (p *parser) parsePipe() expr {
	p.enterNesting()
	defer p.leaveNesting()
	at := p.line
	var parts []expr
	for {
		e, last := p.parseStage()
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

// parseStage parses one part of a pipe; last reports that the part includes the rest of the pipe.
func (p *parser) parseStage() (e expr, last bool) {
	at := p.line
	switch p.tok {
	case "def":
		fn := p.parseDefinition()
		return &define{at, fn, p.parsePipe()}, true
	case "label":
		p.next()
		name := p.text
		p.expectVar()
		p.expectToken("|")
		return &label{at, name, p.parsePipe()}, true
	}
	return p.parseBinary(0), false
}

// expectVar skips the current token, which must be a variable.
func (p *parser) expectVar() {
	if p.tok != tVar {
		p.raiseUnexpected("BINDING")
	}
	p.next()
}

// precedence is the level and associativity of an operator.
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

// parseBinary parses operators of level min or higher.
func (p *parser) parseBinary(min int) expr {
	p.enterNesting()
	defer p.leaveNesting()
	left := p.parseUnary()
	limit := 100
	for n := 0; ; n++ {
		op := p.tok
		prec, ok := precedences[op]
		if !ok || prec.level < min {
			return left
		}
		if prec.level >= limit {
			p.raiseUnexpected("")
		}
		if n > maxChain && op != "," {
			p.raiseError("syntax error, expression too long")
		}
		at := p.line
		p.next()
		next := prec.level + 1
		if prec.right {
			next = prec.level
		}
		right := p.parseBinary(next)
		limit = 100
		if prec.single {
			limit = prec.level
		}
		left = joinBinary(at, op, left, right)
	}
}

// joinBinary returns the node of a binary operator; commas are joined into one node.
func joinBinary(at pos, op tok, left, right expr) expr {
	if op != "," {
		return &binary{at, string(op), left, right}
	}
	if c, ok := left.(*comma); ok {
		c.parts = append(c.parts, right)
		return c
	}
	return &comma{at, []expr{left, right}}
}

// parseUnary parses an optional minus sign and a postfix term.
func (p *parser) parseUnary() expr {
	if p.tok != "-" {
		return p.parsePostfix()
	}
	at := p.line
	p.next()
	body := p.parseBinary(8)
	if l, ok := body.(*literal); ok {
		if f, ok := toFloat(l.value); ok {
			return &literal{at, -f}
		}
	}
	return &negate{at, body}
}
