package syntax

// condCommand reads [[ ]], the "[[" being consumed.
func (p *parser) condCommand() *CondCmd {
	if !p.enter() {
		return nil
	}
	defer p.leave()
	glob := p.extglob
	x := p.condOr()
	p.extglob = glob
	if p.err != nil {
		return nil
	}
	if !p.is(lexPlain, "]]") {
		p.condError("syntax error in conditional expression: unexpected token `%'")
		return nil
	}
	p.take()
	return &CondCmd{X: x}
}

// condError is an error at the token that comes next, which replaces the '%'
// of the message.
func (p *parser) condError(msg string) {
	if p.err != nil {
		return
	}
	t := p.next(lexPlain)
	if p.err != nil {
		return
	}
	text := p.text(t)
	if t.kind == tokEOF {
		text = "newline"
	}
	var out []byte
	for i := range len(msg) {
		if msg[i] == '%' {
			out = append(out, text...)
			continue
		}
		out = append(out, msg[i])
	}
	at := p.pos(t.start)
	p.inCond = true
	p.fail(&Error{
		Line: int(at.Line), Col: int(at.Col), Token: text, Msg: string(out),
		Incomplete: t.kind == tokEOF,
	})
}

func (p *parser) skipNewlines(m lexMode) {
	for p.next(m).kind == tokNewline {
		p.take()
	}
	p.ended = p.ended || p.tok.kind == tokEOF
}

func (p *parser) condOr() CondExpr {
	x := p.condAnd()
	if p.err != nil || p.next(lexPlain).kind != tokOrIf {
		return x
	}
	if !p.enter() {
		return nil
	}
	defer p.leave()
	p.take()
	return &CondLogic{Or: true, X: x, Y: p.condOr()}
}

func (p *parser) condAnd() CondExpr {
	x := p.condTerm()
	if p.err != nil || p.next(lexPlain).kind != tokAndIf {
		return x
	}
	if !p.enter() {
		return nil
	}
	defer p.leave()
	p.take()
	return &CondLogic{X: x, Y: p.condAnd()}
}

func (p *parser) condTerm() CondExpr {
	p.skipNewlines(lexPlain)
	t := p.next(lexPlain)
	if p.err != nil {
		return nil
	}
	p.node()
	switch {
	case t.kind == tokLParen:
		return p.condParen()
	case t.kind != tokWord || p.is(lexPlain, "]]"):
		p.condError("unexpected token `%' in conditional command")
		return nil
	case p.is(lexPlain, "!"):
		if !p.enter() {
			return nil
		}
		defer p.leave()
		p.take()
		return &CondNot{X: p.condTerm()}
	}
	w := t.word
	p.take()
	if op, ok := w.Literal(); ok && isUnary(op) {
		return p.condUnary(op)
	}
	return p.condBinary(w)
}

func (p *parser) condParen() CondExpr {
	if !p.enter() {
		return nil
	}
	defer p.leave()
	p.take()
	x := p.condOr()
	p.skipNewlines(lexPlain)
	if p.next(lexPlain).kind != tokRParen {
		p.condError("unexpected token `%', expected `)'")
		return nil
	}
	p.take()
	p.skipNewlines(lexPlain)
	return &CondParen{X: x}
}

// condUnary reads the operand of a unary operator.
func (p *parser) condUnary(op string) CondExpr {
	t := p.next(lexPlain)
	if t.kind != tokWord || p.is(lexPlain, "]]") {
		p.condError("unexpected argument `%' to conditional unary operator")
		return nil
	}
	w := t.word
	p.take()
	p.skipNewlines(lexPlain)
	return &CondUnary{Op: op, X: w}
}

// condBinary reads what comes after a word: an operator and its right side,
// or nothing.
func (p *parser) condBinary(left *Word) CondExpr {
	t := p.next(lexPlain)
	if p.err != nil {
		return nil
	}
	op := ""
	switch t.kind {
	case tokAndIf, tokOrIf, tokRParen:
		return &CondWord{X: left}
	case tokRedir:
		op = condRedir(t.redir)
	case tokWord:
		if p.is(lexPlain, "]]") {
			return &CondWord{X: left}
		}
		if l, ok := t.word.Literal(); ok && isBinary(l) {
			op = l
		}
		if op == "" {
			p.condError("conditional binary operator expected")
			return nil
		}
	}
	if op == "" {
		p.condError("unexpected token `%', conditional binary operator expected")
		return nil
	}
	p.take()
	right := p.condRight(op)
	if right == nil {
		return nil
	}
	p.skipNewlines(lexPlain)
	return &CondBinary{Op: op, X: left, Y: right}
}

func condRedir(r *Redir) string {
	if r.Fd >= 0 || r.FdVar != "" || r.Op != RedirIn && r.Op != RedirOut {
		return ""
	}
	return r.Op.String()
}

// condRight reads the right side of a binary operator.
func (p *parser) condRight(op string) *Word {
	glob := p.extglob
	switch op {
	case "==", "=", "!=":
		p.extglob = true
	case "=~":
		p.regex = true
	}
	t := p.next(lexPlain)
	p.extglob, p.regex = glob, false
	if t.kind != tokWord || p.is(lexPlain, "]]") {
		p.condError("unexpected argument `%' to conditional binary operator")
		return nil
	}
	w := t.word
	p.take()
	return w
}

func isUnary(s string) bool {
	if len(s) != 2 || s[0] != '-' {
		return false
	}
	switch s[1] {
	case 'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'k', 'n', 'o', 'p', 'r', 's', 't', 'u', 'v', 'w', 'x', 'z',
		'G', 'L', 'N', 'O', 'R', 'S':
		return true
	}
	return false
}

func isBinary(s string) bool {
	switch s {
	case "=", "==", "!=", "=~", "-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-nt", "-ot", "-ef":
		return true
	}
	return false
}
