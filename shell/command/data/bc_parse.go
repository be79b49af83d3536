package data

import "errors"

// bcNode is an expression or a statement of bc.
type bcNode struct {
	op    string // an operator or the kind of the node
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

// bcParam is a parameter of a function.
type bcParam struct {
	name  string
	array bool
}

const maxBCDepth = 500

var errBCSyntax = errors.New("syntax error")

// errBCEnd is the end of the program.
var errBCEnd = errors.New("end of input")

// bcMessage is an error of the parser that is not a syntax error.
type bcMessage string

func (m bcMessage) Error() string { return string(m) }

// bcParser parses a program, one line of statements or function at a time.
type bcParser struct {
	lex          *bcLexer
	tok          bcToken
	depth        int
	loops        int
	inFn         bool
	tokenPending bool // the current token is still unused: a statement follows a function
	quit         bool // the statement quit was read
	tick         func(int)
}

func (p *bcParser) nextToken() {
	p.tick(1)
	p.tok = p.lex.next()
}

func (p *bcParser) is(op string) bool { return p.tok.kind == 'o' && p.tok.text == op }

func (p *bcParser) isWord(w string) bool { return p.tok.kind == 'w' && p.tok.text == w }

func (p *bcParser) accept(op string) bool {
	if p.is(op) {
		p.nextToken()
		return true
	}
	return false
}

func (p *bcParser) expect(op string) error {
	if !p.is(op) {
		return errBCSyntax
	}
	p.nextToken()
	return nil
}

func (p *bcParser) enterNested() error {
	p.depth++
	if p.depth > maxBCDepth {
		return bcMessage("nested too deeply")
	}
	return nil
}

// parseUnit parses the statements of a line, or a function. It does not read past the newline, so that
// the line can run before more input arrives.
func (p *bcParser) parseUnit() (*bcNode, error) {
	p.depth, p.loops, p.inFn = 0, 0, false
	if !p.tokenPending {
		p.nextToken()
	}
	p.tokenPending = false
	if p.tok.kind == 0 {
		return nil, errBCEnd
	}
	if p.isWord("define") {
		return p.parseFunction()
	}
	list := &bcNode{op: "block"}
	for {
		for p.accept(";") {
		}
		if p.is("\n") {
			return list, nil
		}
		if p.tok.kind == 0 { // like GNU, require the newline
			return nil, errBCSyntax
		}
		s, err := p.parseStatement()
		if err != nil {
			return nil, err
		}
		list.kids = append(list.kids, s)
		if !p.is(";") && !p.is("\n") && p.tok.kind != 0 || p.lex.invalid {
			return nil, errBCSyntax
		}
	}
}

// skipLine skips the rest of the line after an error.
func (p *bcParser) skipLine() {
	p.lex.invalid = false
	if !p.is("\n") {
		p.lex.at = len(p.lex.text)
	}
}

func (p *bcParser) skipNewlines() {
	for p.is("\n") {
		p.nextToken()
	}
}

func (p *bcParser) parseFunction() (*bcNode, error) {
	p.nextToken()
	f := &bcFunc{}
	if p.isWord("void") {
		f.void = true
		p.nextToken()
	}
	if p.tok.kind != 'w' {
		return nil, errBCSyntax
	}
	f.name = p.tok.text
	p.nextToken()
	if err := p.expect("("); err != nil {
		return nil, err
	}
	var err error
	if f.params, err = p.parseParams(")"); err != nil {
		return nil, err
	}
	p.nextToken()
	p.skipNewlines()
	if !p.is("{") {
		return nil, errBCSyntax
	}
	p.nextToken()
	p.skipNewlines()
	for p.isWord("auto") {
		p.nextToken()
		autos, err := p.parseParams("")
		if err != nil {
			return nil, err
		}
		f.autos = append(f.autos, autos...)
		for p.is(";") || p.is("\n") {
			p.nextToken()
		}
	}
	p.inFn = true
	if f.body, err = p.parseBlockBody(); err != nil {
		return nil, err
	}
	p.inFn = false
	p.tokenPending = !p.is("\n")
	return &bcNode{op: "define", fn: f}, nil
}

// parseParams parses names, with [] after those of arrays.
func (p *bcParser) parseParams(end string) ([]bcParam, error) {
	var list []bcParam
	for end == "" || !p.is(end) {
		p.accept("*")
		if p.tok.kind != 'w' {
			return nil, errBCSyntax
		}
		q := bcParam{name: p.tok.text}
		p.nextToken()
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

// parseBlockBody parses statements up to the closing brace and moves past it.
func (p *bcParser) parseBlockBody() (*bcNode, error) {
	list := &bcNode{op: "block"}
	for {
		for p.is(";") || p.is("\n") {
			p.nextToken()
		}
		if p.is("}") {
			p.nextToken()
			return list, nil
		}
		if p.tok.kind == 0 {
			return nil, errBCSyntax
		}
		s, err := p.parseStatement()
		if err != nil {
			return nil, err
		}
		list.kids = append(list.kids, s)
		if !p.is(";") && !p.is("\n") && !p.is("}") {
			return nil, errBCSyntax
		}
	}
}

func (p *bcParser) parseStatement() (*bcNode, error) {
	if err := p.enterNested(); err != nil {
		return nil, err
	}
	defer func() { p.depth-- }()
	switch {
	case p.tok.kind == 's':
		n := &bcNode{op: "string", text: p.tok.text}
		p.nextToken()
		return n, nil
	case p.accept("{"):
		return p.parseBlockBody()
	case p.tok.kind != 'w':
		return p.parseExprStatement()
	}
	switch word := p.tok.text; word {
	case "if":
		return p.parseIf()
	case "while":
		return p.parseWhile()
	case "for":
		return p.parseFor()
	case "print":
		return p.printStmt()
	case "break", "continue":
		p.nextToken()
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
		p.nextToken()
		return &bcNode{op: word}, nil
	case "return":
		return p.parseReturn()
	case "define", "auto":
		return nil, errBCSyntax
	}
	return p.parseExprStatement()
}

func (p *bcParser) parseReturn() (*bcNode, error) {
	p.nextToken()
	if !p.inFn {
		return nil, bcMessage("Return outside of a function.")
	}
	n := &bcNode{op: "return"}
	if p.is(";") || p.is("\n") || p.is("}") || p.tok.kind == 0 {
		return n, nil
	}
	e, err := p.parseExpr()
	n.kids = []*bcNode{e}
	return n, err
}

func (p *bcParser) parseExprStatement() (*bcNode, error) {
	e, err := p.parseExpr()
	if err != nil {
		return nil, err
	}
	if e.op == "assign" && !e.paren {
		return &bcNode{op: "effect", kids: []*bcNode{e}}, nil
	}
	return &bcNode{op: "show", kids: []*bcNode{e}}, nil
}

func (p *bcParser) parseCondition() (*bcNode, error) {
	p.nextToken()
	if err := p.expect("("); err != nil {
		return nil, err
	}
	c, err := p.parseExpr()
	if err != nil {
		return nil, err
	}
	if err := p.expect(")"); err != nil {
		return nil, err
	}
	p.skipNewlines()
	return c, nil
}

func (p *bcParser) parseIf() (*bcNode, error) {
	c, err := p.parseCondition()
	if err != nil {
		return nil, err
	}
	then, err := p.parseStatement()
	if err != nil {
		return nil, err
	}
	n := &bcNode{op: "if", kids: []*bcNode{c, then}}
	if p.isWord("else") {
		p.nextToken()
		p.skipNewlines()
		other, err := p.parseStatement()
		if err != nil {
			return nil, err
		}
		n.kids = append(n.kids, other)
	}
	return n, nil
}

func (p *bcParser) parseWhile() (*bcNode, error) {
	c, err := p.parseCondition()
	if err != nil {
		return nil, err
	}
	p.loops++
	body, err := p.parseStatement()
	p.loops--
	return &bcNode{op: "for", kids: []*bcNode{nil, c, nil, body}}, err
}

func (p *bcParser) parseFor() (*bcNode, error) {
	p.nextToken()
	if err := p.expect("("); err != nil {
		return nil, err
	}
	n := &bcNode{op: "for", kids: make([]*bcNode, 4)}
	for i, end := range []string{";", ";", ")"} {
		if !p.is(end) {
			e, err := p.parseExpr()
			if err != nil {
				return nil, err
			}
			n.kids[i] = e
		}
		if err := p.expect(end); err != nil {
			return nil, err
		}
	}
	p.skipNewlines()
	p.loops++
	body, err := p.parseStatement()
	p.loops--
	n.kids[3] = body
	return n, err
}

func (p *bcParser) printStmt() (*bcNode, error) {
	p.nextToken()
	n := &bcNode{op: "print"}
	for {
		if p.tok.kind == 's' {
			n.kids = append(n.kids, &bcNode{op: "string", text: p.tok.text})
			p.nextToken()
		} else {
			e, err := p.parseExpr()
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
