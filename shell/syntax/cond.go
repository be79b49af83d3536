package syntax

// condCommand parses [[ ]]; the "[[" is already consumed.
func (p *parser) condCommand() *CondCmd {
	if !p.enterLevel() {
		return nil
	}
	defer p.leaveLevel()
	glob := p.extglob
	x := p.condOr()
	p.extglob = glob
	if p.err != nil {
		return nil
	}
	if !p.nextIs(lexPlain, "]]") {
		p.condError("syntax error in conditional expression: unexpected token `%'")
		return nil
	}
	p.consumeToken()
	return &CondCmd{X: x}
}

// condError sets an error at the next token, which replaces the '%' in msg.
func (p *parser) condError(msg string) {
	if p.err != nil {
		return
	}
	t := p.next(lexPlain)
	if p.err != nil {
		return
	}
	text := p.textOf(t)
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
	at := p.posAt(t.start)
	p.inCond = true
	p.setError(&Error{
		Line: int(at.Line), Col: int(at.Col), Token: text, Msg: string(out),
		Incomplete: t.kind == tokEOF,
	})
}

func (p *parser) skipNewlines(m lexMode) {
	for p.next(m).kind == tokNewline {
		p.consumeToken()
	}
	p.ended = p.ended || p.tok.kind == tokEOF
}

func (p *parser) condOr() CondExpr {
	x := p.condAnd()
	if p.err != nil || p.next(lexPlain).kind != tokOrIf {
		return x
	}
	if !p.enterLevel() {
		return nil
	}
	defer p.leaveLevel()
	p.consumeToken()
	return &CondLogic{Or: true, X: x, Y: p.condOr()}
}

func (p *parser) condAnd() CondExpr {
	x := p.condTerm()
	if p.err != nil || p.next(lexPlain).kind != tokAndIf {
		return x
	}
	if !p.enterLevel() {
		return nil
	}
	defer p.leaveLevel()
	p.consumeToken()
	return &CondLogic{X: x, Y: p.condAnd()}
}

func (p *parser) condTerm() CondExpr {
	p.skipNewlines(lexPlain)
	t := p.next(lexPlain)
	if p.err != nil {
		return nil
	}
	p.countNode()
	switch {
	case t.kind == tokLParen:
		return p.condParen()
	case t.kind != tokWord || p.nextIs(lexPlain, "]]"):
		p.condError("unexpected token `%' in conditional command")
		return nil
	case p.nextIs(lexPlain, "!"):
		if !p.enterLevel() {
			return nil
		}
		defer p.leaveLevel()
		p.consumeToken()
		return &CondNot{X: p.condTerm()}
	}
	w := t.word
	p.consumeToken()
	if op, ok := w.Literal(); ok && isUnary(op) {
		return p.condUnary(op)
	}
	return p.condBinary(w)
}

func (p *parser) condParen() CondExpr {
	if !p.enterLevel() {
		return nil
	}
	defer p.leaveLevel()
	p.consumeToken()
	x := p.condOr()
	p.skipNewlines(lexPlain)
	if p.next(lexPlain).kind != tokRParen {
		p.condError("unexpected token `%', expected `)'")
		return nil
	}
	p.consumeToken()
	p.skipNewlines(lexPlain)
	return &CondParen{X: x}
}

// condUnary parses the operand of a unary operator.
func (p *parser) condUnary(op string) CondExpr {
	t := p.next(lexPlain)
	if t.kind != tokWord || p.nextIs(lexPlain, "]]") {
		p.condError("unexpected argument `%' to conditional unary operator")
		return nil
	}
	w := t.word
	p.consumeToken()
	p.skipNewlines(lexPlain)
	return &CondUnary{Op: op, X: w}
}

// condBinary parses the operator and right side after a word, if present.
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
		if p.nextIs(lexPlain, "]]") {
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
	p.consumeToken()
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

// condRight parses the right side of a binary operator.
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
	if t.kind != tokWord || p.nextIs(lexPlain, "]]") {
		p.condError("unexpected argument `%' to conditional binary operator")
		return nil
	}
	w := t.word
	p.consumeToken()
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
