package syntax

// compound reads a compound command or a definition, without the redirections
// after it. It returns nil, and consumes nothing, when the token begins a
// simple command.
func (p *parser) compound(t *token) Command {
	if t.kind == tokLParen {
		return p.paren()
	}
	word := reserved(t)
	switch word {
	case "":
		return nil
	case "!", "then", "else", "elif", "fi", "do", "done", "esac", "}", "in", "]]":
		p.unexpected()
		return nil
	case "time": // after a pipe it is an ordinary word
		return nil
	}
	start := t.start
	p.take()
	switch word {
	case "{":
		body := p.body()
		p.expect("}")
		return &Group{Body: body}
	case "if":
		return p.ifCommand()
	case "while", "until":
		cond := p.body()
		p.expect("do")
		body := p.body()
		p.expect("done")
		return &While{Until: word == "until", Cond: cond, Body: body}
	case "for":
		return p.forCommand()
	case "select":
		return p.selectCommand()
	case "case":
		return p.caseCommand()
	case "[[":
		if c := p.condCommand(); c != nil {
			return c
		}
		return nil
	case "function":
		return p.keywordFunction(start)
	}
	return p.coproc()
}

// expect consumes a reserved word.
func (p *parser) expect(word string) {
	if p.err != nil {
		return
	}
	if !p.is(lexCmd, word) {
		p.unexpected()
		return
	}
	p.take()
}

// paren reads (( )) or ( ).
func (p *parser) paren() Command {
	start := p.tok.start
	if p.at(p.i) == '(' && !p.notAr[start] {
		back := p.i
		p.i++
		p.have = false
		if x, ok := p.tryArith(start); ok {
			p.tok.end = p.i
			return &ArithCmd{X: x}
		}
		if p.err != nil {
			return nil
		}
		p.i = back
	}
	p.take()
	body := p.body()
	if p.err == nil && p.next(lexCmd).kind != tokRParen {
		p.unexpected()
	}
	p.take()
	return &Subshell{Body: body}
}

func (p *parser) ifCommand() Command {
	c := &If{}
	for {
		cond := p.body()
		p.expect("then")
		then := p.body()
		c.Clauses = append(c.Clauses, IfClause{cond, then})
		if p.err != nil || !p.is(lexCmd, "elif") {
			break
		}
		p.take()
	}
	if p.is(lexCmd, "else") {
		p.take()
		c.Else = p.body()
	}
	p.expect("fi")
	return c
}

// loopName reads the variable of a for or select command.
func (p *parser) loopName() string {
	t := p.next(lexPlain)
	if t.kind != tokWord {
		p.unexpected()
		return ""
	}
	p.take()
	return t.word.Raw
}

// loopWords reads `in words` and the separator, if they are there.
func (p *parser) loopWords() (words []*Word, in bool) {
	if p.next(lexPlain).kind == tokSemi {
		p.take()
		return nil, false
	}
	p.skipNewlines(lexPlain)
	if !p.is(lexPlain, "in") {
		return nil, false
	}
	p.take()
	for p.err == nil {
		t := p.next(lexPlain)
		switch t.kind {
		case tokWord:
			words = append(words, t.word)
		case tokSemi, tokNewline:
			p.take()
			return words, true
		default:
			p.unexpected()
		}
		p.take()
	}
	return words, true
}

// loopBody reads do done or { }.
func (p *parser) loopBody() (body []*Stmt, brace bool) {
	p.skipNewlines(lexCmd)
	if p.is(lexCmd, "{") {
		p.take()
		body = p.body()
		p.expect("}")
		return body, true
	}
	p.expect("do")
	body = p.body()
	p.expect("done")
	return body, false
}

func (p *parser) forCommand() Command {
	if p.next(lexPlain).kind == tokLParen && p.at(p.i) == '(' {
		return p.arithFor()
	}
	c := &For{Name: p.loopName()}
	c.Words, c.In = p.loopWords()
	c.Body, c.Brace = p.loopBody()
	return c
}

func (p *parser) selectCommand() Command {
	c := &Select{Name: p.loopName()}
	c.Words, c.In = p.loopWords()
	c.Body, c.Brace = p.loopBody()
	return c
}

// arithFor reads for (( ; ; )), the first parenthesis being the next token.
func (p *parser) arithFor() Command {
	c := &ArithFor{}
	start := p.tok.start
	p.take()
	p.i++
	var parts [3]*Arith
	n := 0
	for ; p.err == nil; n++ {
		for b := p.peek(); b == ' ' || b == '\t' || b == '\n'; b = p.peek() {
			p.i++
		}
		at := p.i
		got := p.parts(ctxFor)
		if p.err != nil {
			return nil
		}
		if n < len(parts) && p.i > at {
			parts[n] = p.arithOf(at, p.i, got)
		}
		if p.peek() != ';' {
			break
		}
		p.i++
	}
	if !p.arithForEnd(start, n) {
		return nil
	}
	c.Init, c.Cond, c.Post = parts[0], parts[1], parts[2]
	if p.next(lexCmd).kind == tokSemi {
		p.take()
	}
	c.Body, c.Brace = p.loopBody()
	return c
}

// arithForEnd reads the "))" after n+1 expressions.
func (p *parser) arithForEnd(start, n int) bool {
	if p.peek() != ')' {
		p.unclosed(start, ")")
		return false
	}
	if p.at(p.i+1) != ')' {
		p.i++
		p.unexpected()
		return false
	}
	p.i += 2
	if n == 2 {
		return true
	}
	msg := "syntax error: arithmetic expression required"
	if n > 2 {
		msg = "syntax error: `;' unexpected"
	}
	text := p.src[start:p.i]
	p.failAt(start, msg)
	p.err.Detail = "syntax error: `" + text + "'"
	return false
}

func (p *parser) caseCommand() Command {
	t := p.next(lexPlain)
	if t.kind != tokWord {
		p.unexpected()
		return nil
	}
	c := &Case{Word: t.word}
	p.take()
	p.skipNewlines(lexPlain)
	if !p.is(lexPlain, "in") {
		p.unexpected()
		return nil
	}
	p.take()
	for p.err == nil {
		p.skipNewlines(lexPlain)
		if p.is(lexPlain, "esac") {
			p.take()
			return c
		}
		item := p.caseItem()
		if p.err != nil {
			return nil
		}
		c.Items = append(c.Items, item)
		if t := p.next(lexCmd); t.kind == tokWord {
			p.expect("esac")
			return c
		}
		switch p.next(lexCmd).kind {
		case tokDSemi:
		case tokSemiAmp:
			item.Term = CaseFall
		case tokDSemiAmp:
			item.Term = CaseNext
		default:
			p.unexpected()
		}
		p.take()
	}
	return c
}

// caseItem reads patterns and their list, up to the terminator.
func (p *parser) caseItem() *CaseItem {
	t := p.next(lexPlain)
	item := &CaseItem{Pos: p.pos(t.start)}
	p.node()
	if t.kind == tokLParen {
		p.take()
	}
	for p.err == nil {
		t := p.next(lexPlain)
		if t.kind != tokWord {
			p.unexpected()
			return nil
		}
		item.Patterns = append(item.Patterns, t.word)
		p.take()
		switch p.next(lexPlain).kind {
		case tokPipe:
			p.take()
			continue
		case tokRParen:
			p.take()
			item.Body = p.list()
			return item
		}
		p.unexpected()
	}
	return nil
}

// keywordFunction reads `function name`, the keyword being consumed.
func (p *parser) keywordFunction(from int) Command {
	splices := p.splices
	t := p.next(lexPlain)
	if t.kind != tokWord {
		p.unexpected()
		return nil
	}
	f := &FuncDecl{Name: t.word.Raw, Keyword: true}
	p.take()
	if p.next(lexPlain).kind == tokLParen && p.at(p.skipBlanksAt(p.i)) == ')' {
		p.take()
		p.next(lexPlain)
		p.take()
	}
	p.functionBody(f)
	if p.err != nil {
		return nil
	}
	if p.splices == splices {
		f.Source = p.source(f, from)
	}
	return f
}

// skipBlanksAt returns the first offset from j on that holds no blank.
func (p *parser) skipBlanksAt(j int) int {
	for {
		j = p.skipCont(j)
		if c := p.at(j); c != ' ' && c != '\t' {
			return j
		}
		j++
	}
}

// coproc reads what follows the word coproc.
func (p *parser) coproc() Command {
	if !p.enter() {
		return nil
	}
	defer p.leave()
	t := p.next(lexCmd)
	if t.kind == tokLParen || startsCompound(reserved(t)) {
		return &Coproc{Body: p.command()}
	}
	if t.kind == tokWord {
		if j := p.skipBlanksAt(p.i); p.coprocNamed(j) {
			name := t.word
			p.take()
			return &Coproc{Name: name, Body: p.command()}
		}
	}
	return &Coproc{Body: p.command()}
}

// coprocNamed reports whether a compound command begins at offset j.
func (p *parser) coprocNamed(j int) bool {
	if p.at(j) == '(' {
		return true
	}
	end := j
	for c := p.at(end); c > ' ' && c != ';' && c != '&' && c != '|' && c != '(' && c != '<' && c != '>' && end-j < 9; c = p.at(end) {
		end++
	}
	return startsCompound(p.src[j:end])
}

func startsCompound(word string) bool {
	switch word {
	case "{", "[[", "if", "case", "for", "select", "while", "until":
		return true
	}
	return false
}
