package data

import "slices"

// parseExpr parses an expression. The operators of bc, from the lowest precedence to the highest, are
// || && ! comparisons, assignments, + -, * / %, ^ and the signs.
func (p *bcParser) parseExpr() (*bcNode, error) {
	if err := p.enterNested(); err != nil {
		return nil, err
	}
	defer func() { p.depth-- }()
	return p.parseBinary(p.parseAnd, "||")
}

func (p *bcParser) parseAnd() (*bcNode, error) { return p.parseBinary(p.parseNot, "&&") }

func (p *bcParser) parseNot() (*bcNode, error) {
	if p.is("!") {
		p.nextToken()
		if err := p.enterNested(); err != nil {
			return nil, err
		}
		defer func() { p.depth-- }()
		e, err := p.parseNot()
		return &bcNode{op: "!", kids: []*bcNode{e}}, err
	}
	return p.parseRelation()
}

func (p *bcParser) parseRelation() (*bcNode, error) {
	return p.parseBinary(p.parseSum, "==", "!=", "<=", ">=", "<", ">")
}

func (p *bcParser) parseSum() (*bcNode, error) { return p.parseBinary(p.parseProduct, "+", "-") }

func (p *bcParser) parseProduct() (*bcNode, error) { return p.parseBinary(p.parsePower, "*", "/", "%") }

// parseBinary parses operands joined by left-associative operators. The length of a chain is limited,
// since each operator nests the tree deeper.
func (p *bcParser) parseBinary(operand func() (*bcNode, error), ops ...string) (*bcNode, error) {
	l, err := operand()
	for n := 0; err == nil && p.tok.kind == 'o' && slices.Contains(ops, p.tok.text); n++ {
		if n > 10000 {
			return nil, bcMessage("nested too deeply")
		}
		op := p.tok.text
		p.nextToken()
		var r *bcNode
		r, err = operand()
		l = &bcNode{op: op, kids: []*bcNode{l, r}}
	}
	return l, err
}

func (p *bcParser) parsePower() (*bcNode, error) {
	l, err := p.parseUnary()
	if err != nil || !p.is("^") {
		return l, err
	}
	p.nextToken()
	if err := p.enterNested(); err != nil {
		return nil, err
	}
	defer func() { p.depth-- }()
	r, err := p.parsePower()
	return &bcNode{op: "^", kids: []*bcNode{l, r}}, err
}

func (p *bcParser) parseUnary() (*bcNode, error) {
	switch {
	case p.is("-"):
		p.nextToken()
		if err := p.enterNested(); err != nil {
			return nil, err
		}
		defer func() { p.depth-- }()
		e, err := p.parseUnary()
		return &bcNode{op: "neg", kids: []*bcNode{e}}, err
	case p.is("++"), p.is("--"):
		op := p.tok.text
		p.nextToken()
		e, err := p.parsePrimary()
		if err == nil && !e.isVariable() {
			err = errBCSyntax
		}
		return &bcNode{op: "pre" + op, kids: []*bcNode{e}}, err
	}
	return p.parsePostfix()
}

// isVariable reports whether a node can be assigned to.
func (n *bcNode) isVariable() bool {
	return !n.paren && (n.op == "var" || n.op == "index" || n.op == "special")
}

var bcAssigns = []string{"=", "+=", "-=", "*=", "/=", "%=", "^="}

func (p *bcParser) parsePostfix() (*bcNode, error) {
	e, err := p.parsePrimary()
	if err != nil || p.tok.kind != 'o' {
		return e, err
	}
	switch {
	case p.is("++"), p.is("--"):
		if !e.isVariable() {
			return nil, errBCSyntax
		}
		n := &bcNode{op: "post" + p.tok.text, kids: []*bcNode{e}}
		p.nextToken()
		return n, nil
	case slices.Contains(bcAssigns, p.tok.text):
		if !e.isVariable() {
			return nil, errBCSyntax
		}
		n := &bcNode{op: "assign", text: p.tok.text[:len(p.tok.text)-1]}
		p.nextToken()
		if err := p.enterNested(); err != nil {
			return nil, err
		}
		defer func() { p.depth-- }()
		r, err := p.parseSum()
		n.kids = []*bcNode{e, r}
		return n, err
	}
	return e, nil
}

func (p *bcParser) parsePrimary() (*bcNode, error) {
	t := p.tok
	switch {
	case t.kind == 'n':
		p.nextToken()
		return &bcNode{op: "number", text: t.text}, nil
	case t.kind == 'w':
		return p.parseNamed()
	case p.is("."):
		p.nextToken()
		return &bcNode{op: "special", text: "last"}, nil
	case p.is("("):
		p.nextToken()
		e, err := p.parseExpr()
		if err != nil {
			return nil, err
		}
		inner := *e
		inner.paren = true
		return &inner, p.expect(")")
	}
	return nil, errBCSyntax
}

var bcKeywords = []string{"if", "else", "while", "for", "print", "break", "continue", "quit", "halt", "return", "define", "auto", "void"}

func (p *bcParser) parseNamed() (*bcNode, error) {
	name := p.tok.text
	if slices.Contains(bcKeywords, name) {
		return nil, errBCSyntax
	}
	p.nextToken()
	switch {
	case p.is("["):
		p.nextToken()
		e, err := p.parseExpr()
		if err != nil {
			return nil, err
		}
		return &bcNode{op: "index", text: name, kids: []*bcNode{e}}, p.expect("]")
	case p.is("("):
		p.nextToken()
		return p.parseCall(name)
	}
	switch name {
	case "scale", "ibase", "obase", "last", "history":
		return &bcNode{op: "special", text: name}, nil
	}
	return &bcNode{op: "var", text: name}, nil
}

func (p *bcParser) parseCall(name string) (*bcNode, error) {
	n := &bcNode{op: "call", text: name}
	for !p.is(")") {
		e, err := p.parseArgument()
		if err != nil {
			return nil, err
		}
		n.kids = append(n.kids, e)
		if !p.accept(",") {
			break
		}
	}
	if err := p.expect(")"); err != nil {
		return nil, err
	}
	switch name {
	case "length", "scale", "sqrt":
		if len(n.kids) != 1 {
			return nil, errBCSyntax
		}
		n.op = "builtin"
	case "read", "random":
		if len(n.kids) != 0 {
			return nil, errBCSyntax
		}
		n.op = "builtin"
	}
	return n, nil
}

// parseArgument parses an expression or "name[]".
func (p *bcParser) parseArgument() (*bcNode, error) {
	if p.tok.kind == 'w' {
		at, tok, line := p.lex.at, p.tok, p.lex.text
		p.nextToken()
		if p.is("[") {
			p.nextToken()
			if p.is("]") {
				p.nextToken()
				return &bcNode{op: "array", text: tok.text}, nil
			}
		}
		if p.lex.text != line {
			return nil, errBCSyntax
		}
		p.lex.at, p.tok = at, tok
	}
	return p.parseExpr()
}
