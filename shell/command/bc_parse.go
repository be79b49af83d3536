package command

import "errors"

// bcNode is an expression or a statement of bc.
type bcNode struct {
	op    string // an operator, or what kind of node this is
	text  string // of names, numbers and strings
	kids  []*bcNode
	fn    *bcFunc
	paren bool
}

// bcFunc is a function of a bc program.
type bcFunc struct {
	name   string
	params []bcParam
	autos  []bcParam
	body   *bcNode
	void   bool
}

type bcParam struct {
	name  string
	array bool
}

const maxBCDepth = 500

var errBCSyntax = errors.New("syntax error")

// errBCEnd is the end of the program.
var errBCEnd = errors.New("end of input")

// bcMessage is a complaint of the parser that is not a syntax error.
type bcMessage string

func (m bcMessage) Error() string { return string(m) }

// bcParser reads one statement list after another.
type bcParser struct {
	lex   *bcLexer
	tok   bcToken
	depth int
	loops int
	inFn  bool
	held  bool // the current token is not yet used: a statement behind a function
	quit  bool // the statement quit was read
	tick  func(int)
}

func (p *bcParser) advance() {
	p.tick(1)
	p.tok = p.lex.next()
}

func (p *bcParser) is(op string) bool { return p.tok.kind == 'o' && p.tok.text == op }

func (p *bcParser) isWord(w string) bool { return p.tok.kind == 'w' && p.tok.text == w }

func (p *bcParser) accept(op string) bool {
	if p.is(op) {
		p.advance()
		return true
	}
	return false
}

func (p *bcParser) expect(op string) error {
	if !p.is(op) {
		return errBCSyntax
	}
	p.advance()
	return nil
}

func (p *bcParser) enter() error {
	p.depth++
	if p.depth > maxBCDepth {
		return bcMessage("nested too deeply")
	}
	return nil
}

// unit reads the statements of a line, or a function. The newline at its end
// is not read past, so that the line can run before more input is waited for.
func (p *bcParser) unit() (*bcNode, error) {
	p.depth, p.loops, p.inFn = 0, 0, false
	if !p.held {
		p.advance()
	}
	p.held = false
	if p.tok.kind == 0 {
		return nil, errBCEnd
	}
	if p.isWord("define") {
		return p.define()
	}
	list := &bcNode{op: "block"}
	for {
		for p.accept(";") {
		}
		if p.is("\n") {
			return list, nil
		}
		if p.tok.kind == 0 { // GNU wants the newline
			return nil, errBCSyntax
		}
		s, err := p.stmt()
		if err != nil {
			return nil, err
		}
		list.kids = append(list.kids, s)
		if !p.is(";") && !p.is("\n") && p.tok.kind != 0 || p.lex.bad {
			return nil, errBCSyntax
		}
	}
}

// skipLine drops what is left of the line after an error.
func (p *bcParser) skipLine() {
	p.lex.bad = false
	if !p.is("\n") {
		p.lex.at = len(p.lex.text)
	}
}

func (p *bcParser) newlines() {
	for p.is("\n") {
		p.advance()
	}
}

func (p *bcParser) define() (*bcNode, error) {
	p.advance()
	f := &bcFunc{}
	if p.isWord("void") {
		f.void = true
		p.advance()
	}
	if p.tok.kind != 'w' {
		return nil, errBCSyntax
	}
	f.name = p.tok.text
	p.advance()
	if err := p.expect("("); err != nil {
		return nil, err
	}
	var err error
	if f.params, err = p.params(")"); err != nil {
		return nil, err
	}
	p.advance()
	p.newlines()
	if !p.is("{") {
		return nil, errBCSyntax
	}
	p.advance()
	p.newlines()
	for p.isWord("auto") {
		p.advance()
		autos, err := p.params("")
		if err != nil {
			return nil, err
		}
		f.autos = append(f.autos, autos...)
		for p.is(";") || p.is("\n") {
			p.advance()
		}
	}
	p.inFn = true
	if f.body, err = p.blockBody(); err != nil {
		return nil, err
	}
	p.inFn = false
	p.held = !p.is("\n")
	return &bcNode{op: "define", fn: f}, nil
}

// params reads names, and [] after those of arrays.
func (p *bcParser) params(end string) ([]bcParam, error) {
	var list []bcParam
	for end == "" || !p.is(end) {
		p.accept("*")
		if p.tok.kind != 'w' {
			return nil, errBCSyntax
		}
		q := bcParam{name: p.tok.text}
		p.advance()
		if p.accept("[") {
			if err := p.expect("]"); err != nil {
				return nil, err
			}
			q.array = true
		}
		list = append(list, q)
		if !p.accept(",") {
			break
		}
	}
	if end != "" && !p.is(end) {
		return nil, errBCSyntax
	}
	return list, nil
}

// blockBody reads statements up to the closing brace, which stays the
// current token's predecessor.
func (p *bcParser) blockBody() (*bcNode, error) {
	list := &bcNode{op: "block"}
	for {
		for p.is(";") || p.is("\n") {
			p.advance()
		}
		if p.is("}") {
			p.advance()
			return list, nil
		}
		if p.tok.kind == 0 {
			return nil, errBCSyntax
		}
		s, err := p.stmt()
		if err != nil {
			return nil, err
		}
		list.kids = append(list.kids, s)
		if !p.is(";") && !p.is("\n") && !p.is("}") {
			return nil, errBCSyntax
		}
	}
}

func (p *bcParser) stmt() (*bcNode, error) {
	if err := p.enter(); err != nil {
		return nil, err
	}
	defer func() { p.depth-- }()
	switch {
	case p.tok.kind == 's':
		n := &bcNode{op: "string", text: p.tok.text}
		p.advance()
		return n, nil
	case p.accept("{"):
		return p.blockBody()
	case p.tok.kind != 'w':
		return p.exprStmt()
	}
	switch word := p.tok.text; word {
	case "if":
		return p.ifStmt()
	case "while":
		return p.whileStmt()
	case "for":
		return p.forStmt()
	case "print":
		return p.printStmt()
	case "break", "continue":
		p.advance()
		if p.loops == 0 {
			if word == "break" {
				return nil, bcMessage("Break outside a for/while")
			}
			return nil, bcMessage("Continue outside a for")
		}
		return &bcNode{op: word}, nil
	case "quit":
		p.quit = true
		return nil, errBCEnd
	case "halt", "limits", "warranty":
		p.advance()
		return &bcNode{op: word}, nil
	case "return":
		return p.returnStmt()
	case "define", "auto":
		return nil, errBCSyntax
	}
	return p.exprStmt()
}

func (p *bcParser) returnStmt() (*bcNode, error) {
	p.advance()
	if !p.inFn {
		return nil, bcMessage("Return outside of a function.")
	}
	n := &bcNode{op: "return"}
	if p.is(";") || p.is("\n") || p.is("}") || p.tok.kind == 0 {
		return n, nil
	}
	e, err := p.expr()
	n.kids = []*bcNode{e}
	return n, err
}

func (p *bcParser) exprStmt() (*bcNode, error) {
	e, err := p.expr()
	if err != nil {
		return nil, err
	}
	if e.op == "assign" && !e.paren {
		return &bcNode{op: "effect", kids: []*bcNode{e}}, nil
	}
	return &bcNode{op: "show", kids: []*bcNode{e}}, nil
}

func (p *bcParser) condition() (*bcNode, error) {
	p.advance()
	if err := p.expect("("); err != nil {
		return nil, err
	}
	c, err := p.expr()
	if err != nil {
		return nil, err
	}
	if err := p.expect(")"); err != nil {
		return nil, err
	}
	p.newlines()
	return c, nil
}

func (p *bcParser) ifStmt() (*bcNode, error) {
	c, err := p.condition()
	if err != nil {
		return nil, err
	}
	then, err := p.stmt()
	if err != nil {
		return nil, err
	}
	n := &bcNode{op: "if", kids: []*bcNode{c, then}}
	if p.isWord("else") {
		p.advance()
		p.newlines()
		other, err := p.stmt()
		if err != nil {
			return nil, err
		}
		n.kids = append(n.kids, other)
	}
	return n, nil
}

func (p *bcParser) whileStmt() (*bcNode, error) {
	c, err := p.condition()
	if err != nil {
		return nil, err
	}
	p.loops++
	body, err := p.stmt()
	p.loops--
	return &bcNode{op: "for", kids: []*bcNode{nil, c, nil, body}}, err
}

func (p *bcParser) forStmt() (*bcNode, error) {
	p.advance()
	if err := p.expect("("); err != nil {
		return nil, err
	}
	n := &bcNode{op: "for", kids: make([]*bcNode, 4)}
	for i, end := range []string{";", ";", ")"} {
		if !p.is(end) {
			e, err := p.expr()
			if err != nil {
				return nil, err
			}
			n.kids[i] = e
		}
		if err := p.expect(end); err != nil {
			return nil, err
		}
	}
	p.newlines()
	p.loops++
	body, err := p.stmt()
	p.loops--
	n.kids[3] = body
	return n, err
}

func (p *bcParser) printStmt() (*bcNode, error) {
	p.advance()
	n := &bcNode{op: "print"}
	for {
		if p.tok.kind == 's' {
			n.kids = append(n.kids, &bcNode{op: "string", text: p.tok.text})
			p.advance()
		} else {
			e, err := p.expr()
			if err != nil {
				return nil, err
			}
			n.kids = append(n.kids, e)
		}
		if !p.accept(",") {
			return n, nil
		}
	}
}
