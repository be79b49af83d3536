package command

import "slices"

// expr parses an expression. bc's order, from loose to tight: || && ! the
// comparisons, assignment, + -, * / %, ^ and the signs.
func (p *bcParser) expr() (*bcNode, error) {
	if err := p.enter(); err != nil {
		return nil, err
	}
	defer func() { p.depth-- }()
	return p.binary(p.and, "||")
}

func (p *bcParser) and() (*bcNode, error) { return p.binary(p.not, "&&") }

func (p *bcParser) not() (*bcNode, error) {
	if p.is("!") {
		p.advance()
		if err := p.enter(); err != nil {
			return nil, err
		}
		defer func() { p.depth-- }()
		e, err := p.not()
		return &bcNode{op: "!", kids: []*bcNode{e}}, err
	}
	return p.relation()
}

func (p *bcParser) relation() (*bcNode, error) {
	return p.binary(p.sum, "==", "!=", "<=", ">=", "<", ">")
}

func (p *bcParser) sum() (*bcNode, error) { return p.binary(p.product, "+", "-") }

func (p *bcParser) product() (*bcNode, error) { return p.binary(p.power, "*", "/", "%") }

// binary parses operands joined by operators that bind to the left. A chain
// is as deep as it is long.
func (p *bcParser) binary(operand func() (*bcNode, error), ops ...string) (*bcNode, error) {
	l, err := operand()
	for n := 0; err == nil && p.tok.kind == 'o' && slices.Contains(ops, p.tok.text); n++ {
		if n > 10000 {
			return nil, bcMessage("nested too deeply")
		}
		op := p.tok.text
		p.advance()
		var r *bcNode
		r, err = operand()
		l = &bcNode{op: op, kids: []*bcNode{l, r}}
	}
	return l, err
}

func (p *bcParser) power() (*bcNode, error) {
	l, err := p.unary()
	if err != nil || !p.is("^") {
		return l, err
	}
	p.advance()
	if err := p.enter(); err != nil {
		return nil, err
	}
	defer func() { p.depth-- }()
	r, err := p.power()
	return &bcNode{op: "^", kids: []*bcNode{l, r}}, err
}

func (p *bcParser) unary() (*bcNode, error) {
	switch {
	case p.is("-"):
		p.advance()
		if err := p.enter(); err != nil {
			return nil, err
		}
		defer func() { p.depth-- }()
		e, err := p.unary()
		return &bcNode{op: "neg", kids: []*bcNode{e}}, err
	case p.is("++"), p.is("--"):
		op := p.tok.text
		p.advance()
		e, err := p.primary()
		if err == nil && !e.isVariable() {
			err = errBCSyntax
		}
		return &bcNode{op: "pre" + op, kids: []*bcNode{e}}, err
	}
	return p.postfix()
}

// isVariable reports whether a node can be assigned to.
func (n *bcNode) isVariable() bool {
	return !n.paren && (n.op == "var" || n.op == "index" || n.op == "special")
}

var bcAssigns = []string{"=", "+=", "-=", "*=", "/=", "%=", "^="}

func (p *bcParser) postfix() (*bcNode, error) {
	e, err := p.primary()
	if err != nil || p.tok.kind != 'o' {
		return e, err
	}
	switch {
	case p.is("++"), p.is("--"):
		if !e.isVariable() {
			return nil, errBCSyntax
		}
		n := &bcNode{op: "post" + p.tok.text, kids: []*bcNode{e}}
		p.advance()
		return n, nil
	case slices.Contains(bcAssigns, p.tok.text):
		if !e.isVariable() {
			return nil, errBCSyntax
		}
		n := &bcNode{op: "assign", text: p.tok.text[:len(p.tok.text)-1]}
		p.advance()
		if err := p.enter(); err != nil {
			return nil, err
		}
		defer func() { p.depth-- }()
		r, err := p.sum()
		n.kids = []*bcNode{e, r}
		return n, err
	}
	return e, nil
}

func (p *bcParser) primary() (*bcNode, error) {
	t := p.tok
	switch {
	case t.kind == 'n':
		p.advance()
		return &bcNode{op: "number", text: t.text}, nil
	case t.kind == 'w':
		return p.named()
	case p.is("."):
		p.advance()
		return &bcNode{op: "special", text: "last"}, nil
	case p.is("("):
		p.advance()
		e, err := p.expr()
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

func (p *bcParser) named() (*bcNode, error) {
	name := p.tok.text
	if slices.Contains(bcKeywords, name) {
		return nil, errBCSyntax
	}
	p.advance()
	switch {
	case p.is("["):
		p.advance()
		e, err := p.expr()
		if err != nil {
			return nil, err
		}
		return &bcNode{op: "index", text: name, kids: []*bcNode{e}}, p.expect("]")
	case p.is("("):
		p.advance()
		return p.call(name)
	}
	switch name {
	case "scale", "ibase", "obase", "last", "history":
		return &bcNode{op: "special", text: name}, nil
	}
	return &bcNode{op: "var", text: name}, nil
}

func (p *bcParser) call(name string) (*bcNode, error) {
	n := &bcNode{op: "call", text: name}
	for !p.is(")") {
		e, err := p.argument()
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

// argument parses an expression or "name[]".
func (p *bcParser) argument() (*bcNode, error) {
	if p.tok.kind == 'w' {
		at, tok, line := p.lex.at, p.tok, p.lex.text
		p.advance()
		if p.is("[") {
			p.advance()
			if p.is("]") {
				p.advance()
				return &bcNode{op: "array", text: tok.text}, nil
			}
		}
		if p.lex.text != line {
			return nil, errBCSyntax
		}
		p.lex.at, p.tok = at, tok
	}
	return p.expr()
}
