package syntax

// parseCompound parses a compound command or a function definition, without
// the redirections after it. It returns nil, and consumes nothing, if the token
// begins a simple command.
func (p *parser) parseCompound(t *token) Command {
	if t.kind == tokLParen {
		return p.parseParen()
	}
	word := reservedWord(t)
	switch word {
	case "":
		return nil
	case "!", "then", "else", "elif", "fi", "do", "done", "esac", "}", "in", "]]":
		p.failUnexpected()
		return nil
	case "time": // after a pipe it is an ordinary word
		return nil
	}
	start := t.start
	p.consumeToken()
	switch word {
	case "{":
		body := p.parseBody()
		p.expectWord("}")
		return &Group{Body: body}
	case "if":
		return p.ifCommand()
	case "while", "until":
		cond := p.parseBody()
		p.expectWord("do")
		body := p.parseBody()
		p.expectWord("done")
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
	return p.parseCoproc()
}

// expectWord consumes a reserved word.
func (p *parser) expectWord(word string) {
	if p.err != nil {
		return
	}
	if !p.nextIs(lexCmd, word) {
		p.failUnexpected()
		return
	}
	p.consumeToken()
}

// parseParen parses (( )) or ( ).
func (p *parser) parseParen() Command {
	start := p.tok.start
	if p.byteAt(p.i) == '(' && !p.notArith[start] {
		back := p.i
		p.i++
		p.haveToken = false
		if x, ok := p.tryArith(start); ok {
			p.tok.end = p.i
			return &ArithCmd{X: x}
		}
		if p.err != nil {
			return nil
		}
		p.i = back
	}
	p.consumeToken()
	body := p.parseBody()
	if p.err == nil && p.next(lexCmd).kind != tokRParen {
		p.failUnexpected()
	}
	p.consumeToken()
	return &Subshell{Body: body}
}

func (p *parser) ifCommand() Command {
	c := &If{}
	for {
		cond := p.parseBody()
		p.expectWord("then")
		then := p.parseBody()
		c.Clauses = append(c.Clauses, IfClause{cond, then})
		if p.err != nil || !p.nextIs(lexCmd, "elif") {
			break
		}
		p.consumeToken()
	}
	if p.nextIs(lexCmd, "else") {
		p.consumeToken()
		c.Else = p.parseBody()
	}
	p.expectWord("fi")
	return c
}

// loopName parses the variable of a for or select command.
func (p *parser) loopName() string {
	t := p.next(lexPlain)
	if t.kind != tokWord {
		p.failUnexpected()
		return ""
	}
	p.consumeToken()
	return t.word.Raw
}

// loopWords parses `in words` and the separator, if present.
func (p *parser) loopWords() (words []*Word, in bool) {
	if p.next(lexPlain).kind == tokSemi {
		p.consumeToken()
		return nil, false
	}
	p.skipNewlines(lexPlain)
	if !p.nextIs(lexPlain, "in") {
		return nil, false
	}
	p.consumeToken()
	for p.err == nil {
		t := p.next(lexPlain)
		switch t.kind {
		case tokWord:
			words = append(words, t.word)
		case tokSemi, tokNewline:
			p.consumeToken()
			return words, true
		default:
			p.failUnexpected()
		}
		p.consumeToken()
	}
	return words, true
}

// loopBody parses do done or { }.
func (p *parser) loopBody() (body []*Stmt, brace bool) {
	p.skipNewlines(lexCmd)
	if p.nextIs(lexCmd, "{") {
		p.consumeToken()
		body = p.parseBody()
		p.expectWord("}")
		return body, true
	}
	p.expectWord("do")
	body = p.parseBody()
	p.expectWord("done")
	return body, false
}

func (p *parser) forCommand() Command {
	if p.next(lexPlain).kind == tokLParen && p.byteAt(p.i) == '(' {
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

// arithFor parses for (( ; ; )); the first parenthesis is the next token.
func (p *parser) arithFor() Command {
	c := &ArithFor{}
	start := p.tok.start
	p.consumeToken()
	p.i++
	var parts [3]*Arith
	n := 0
	for ; p.err == nil; n++ {
		for b := p.peekByte(); b == ' ' || b == '\t' || b == '\n'; b = p.peekByte() {
			p.i++
		}
		at := p.i
		got := p.parseParts(ctxFor)
		if p.err != nil {
			return nil
		}
		if n < len(parts) && p.i > at {
			parts[n] = p.arithOf(at, p.i, got)
		}
		if p.peekByte() != ';' {
			break
		}
		p.i++
	}
	if !p.arithForEnd(start, n) {
		return nil
	}
	c.Init, c.Cond, c.Post = parts[0], parts[1], parts[2]
	if p.next(lexCmd).kind == tokSemi {
		p.consumeToken()
	}
	c.Body, c.Brace = p.loopBody()
	return c
}

// arithForEnd parses the "))" after n+1 expressions.
func (p *parser) arithForEnd(start, n int) bool {
	if p.peekByte() != ')' {
		p.failUnclosed(start, ")")
		return false
	}
	if p.byteAt(p.i+1) != ')' {
		p.i++
		p.failUnexpected()
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
		p.failUnexpected()
		return nil
	}
	c := &Case{Word: t.word}
	p.consumeToken()
	p.skipNewlines(lexPlain)
	if !p.nextIs(lexPlain, "in") {
		p.failUnexpected()
		return nil
	}
	p.consumeToken()
	for p.err == nil {
		p.skipNewlines(lexPlain)
		if p.nextIs(lexPlain, "esac") {
			p.consumeToken()
			return c
		}
		item := p.caseItem()
		if p.err != nil {
			return nil
		}
		c.Items = append(c.Items, item)
		if t := p.next(lexCmd); t.kind == tokWord {
			p.expectWord("esac")
			return c
		}
		switch p.next(lexCmd).kind {
		case tokDSemi:
		case tokSemiAmp:
			item.Term = CaseFall
		case tokDSemiAmp:
			item.Term = CaseNext
		default:
			p.failUnexpected()
		}
		p.consumeToken()
	}
	return c
}

// caseItem parses patterns and their list, up to the terminator.
func (p *parser) caseItem() *CaseItem {
	t := p.next(lexPlain)
	item := &CaseItem{Pos: p.posAt(t.start)}
	p.countNode()
	if t.kind == tokLParen {
		p.consumeToken()
	}
	for p.err == nil {
		t := p.next(lexPlain)
		if t.kind != tokWord {
			p.failUnexpected()
			return nil
		}
		item.Patterns = append(item.Patterns, t.word)
		p.consumeToken()
		switch p.next(lexPlain).kind {
		case tokPipe:
			p.consumeToken()
			continue
		case tokRParen:
			p.consumeToken()
			item.Body = p.list()
			return item
		}
		p.failUnexpected()
	}
	return nil
}

// keywordFunction parses `function name`; the keyword is already consumed.
func (p *parser) keywordFunction(from int) Command {
	splices := p.splices
	t := p.next(lexPlain)
	if t.kind != tokWord {
		p.failUnexpected()
		return nil
	}
	f := &FuncDecl{Name: t.word.Raw, Keyword: true}
	p.consumeToken()
	if p.next(lexPlain).kind == tokLParen && p.byteAt(p.skipBlanksAt(p.i)) == ')' {
		p.consumeToken()
		p.next(lexPlain)
		p.consumeToken()
	}
	nodes := p.nodes
	p.functionBody(f)
	f.Nodes = p.nodes - nodes
	if p.err != nil {
		return nil
	}
	if p.splices == splices {
		p.setSource(f, from)
	} else {
		f.Kept = len(p.src)
	}
	return f
}

// skipBlanksAt returns the first offset at or after j without a blank.
func (p *parser) skipBlanksAt(j int) int {
	for {
		j = p.skipCont(j)
		if c := p.byteAt(j); c != ' ' && c != '\t' {
			return j
		}
		j++
	}
}

// parseCoproc parses the text after the word coproc.
func (p *parser) parseCoproc() Command {
	if !p.enterLevel() {
		return nil
	}
	defer p.leaveLevel()
	t := p.next(lexCmd)
	if t.kind == tokLParen || startsCompound(reservedWord(t)) {
		return &Coproc{Body: p.parseCommand()}
	}
	if t.kind == tokWord {
		if j := p.skipBlanksAt(p.i); p.coprocNamed(j) {
			name := t.word
			p.consumeToken()
			return &Coproc{Name: name, Body: p.parseCommand()}
		}
	}
	return &Coproc{Body: p.parseCommand()}
}

// coprocNamed reports whether a compound command begins at offset j, so that
// the word before it is a name.
func (p *parser) coprocNamed(j int) bool {
	if p.byteAt(j) == '(' {
		return true
	}
	end := j
	for c := p.byteAt(end); c > ' ' && c != ';' && c != '&' && c != '|' && c != '(' && c != '<' && c != '>' && end-j < 9; c = p.byteAt(end) {
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
