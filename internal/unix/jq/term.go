package jq

import "strings"

// parsePostfix parses a term with its suffixes, and an `as` with its body.
func (p *parser) parsePostfix() expr {
	e := p.parsePlainPostfix()
	if p.tok == "as" {
		return p.parseBinding(e)
	}
	return e
}

// parsePlainPostfix parses a term with its suffixes.
func (p *parser) parsePlainPostfix() expr {
	e := p.parseTerm()
	for n := 0; ; n++ {
		if n > maxChain {
			p.raiseError("syntax error, expression too long")
		}
		at := p.line
		switch p.tok {
		case tField:
			e = &index{at, e, &literal{at, p.text}}
			p.next()
		case ".":
			p.next()
			e = p.parseDotted(at, e)
		case "[":
			e = p.parseBracket(e)
		case "?":
			p.next()
			e = &try{at, e, nil}
		case "?//": // not an alternative of a pattern: .a?//1
			p.tok = "//"
			return &try{at, e, nil}
		default:
			return e
		}
	}
}

// parseDotted parses a string or a bracket after a dot.
func (p *parser) parseDotted(at pos, target expr) expr {
	switch p.tok {
	case tString:
		return &index{at, target, p.parseString("")}
	case "[":
		return p.parseBracket(target)
	}
	p.raiseUnexpected("")
	return nil
}

// parseBracket parses [], [i] or [i:j].
func (p *parser) parseBracket(target expr) expr {
	at := p.line
	p.expectToken("[")
	switch {
	case p.acceptToken("]"):
		return &iterate{at, target}
	case p.acceptToken(":"):
		to := p.parsePipe()
		p.expectToken("]")
		return &slice{at, target, nil, to}
	}
	from := p.parsePipe()
	if p.acceptToken(":") {
		var to expr
		if p.tok != "]" {
			to = p.parsePipe()
		}
		p.expectToken("]")
		return &slice{at, target, from, to}
	}
	p.expectToken("]")
	return &index{at, target, from}
}

// parseBinding parses `as patterns | body` after source.
func (p *parser) parseBinding(source expr) expr {
	at := p.line
	p.next()
	patterns := p.parsePatterns()
	p.expectToken("|")
	return &bind{at, source, patterns, p.parsePipe()}
}

// parsePatterns parses patterns separated by ?//.
func (p *parser) parsePatterns() []pattern {
	list := []pattern{p.parsePattern()}
	for p.acceptToken("?//") {
		list = append(list, p.parsePattern())
	}
	return list
}

// parsePattern parses a pattern.
func (p *parser) parsePattern() pattern {
	p.enterNesting()
	defer p.leaveNesting()
	at := p.line
	switch p.tok {
	case tVar:
		name := p.text
		p.next()
		return pattern{pos: at, name: name}
	case "[":
		return p.parseArrayPattern()
	case "{":
		return p.parseObjectPattern()
	}
	p.raiseUnexpected("BINDING or '[' or '{'")
	return pattern{}
}

// parseArrayPattern parses an array of patterns.
func (p *parser) parseArrayPattern() pattern {
	pat := pattern{pos: p.line}
	p.next()
	for {
		pat.items = append(pat.items, p.parsePattern())
		if p.acceptToken("]") {
			return pat
		}
		p.expectToken(",")
	}
}

// parseObjectPattern parses an object of patterns.
func (p *parser) parseObjectPattern() pattern {
	pat := pattern{pos: p.line}
	p.next()
	for {
		pat.keys = append(pat.keys, p.parsePatternKey())
		if p.acceptToken("}") {
			return pat
		}
		p.expectToken(",")
	}
}

// parsePatternKey parses a member of an object pattern.
func (p *parser) parsePatternKey() patternKey {
	at := p.line
	var k patternKey
	switch {
	case p.tok == tVar:
		k.name = p.text
		p.next()
		if p.tok != ":" {
			return k
		}
	case p.tok == tIdent || keywords[string(p.tok)]:
		k.key = &literal{at, p.text}
		p.next()
	case p.tok == tString:
		k.key = p.parseString("")
	case p.acceptToken("("):
		k.key = p.parsePipe()
		p.expectToken(")")
	default:
		p.raiseUnexpected("")
	}
	p.expectToken(":")
	v := p.parsePattern()
	k.value = &v
	return k
}

// parseTerm parses a term without suffixes.
func (p *parser) parseTerm() expr {
	at := p.line
	switch p.tok {
	case tNumber:
		v, ok := parseNumber(p.text)
		if !ok {
			p.raiseError("syntax error, bad number %s", p.text)
		}
		p.next()
		return &literal{at, v}
	case tString:
		return p.parseString("")
	case tFormat:
		return p.parseFormat()
	case tField:
		name := p.text
		p.next()
		return &index{at, &identity{at}, &literal{at, name}}
	case tVar:
		return p.parseVariable()
	case tIdent:
		return p.parseCall()
	}
	return p.parseKeyword(at)
}

// parseKeyword parses a term that begins with punctuation or a keyword.
func (p *parser) parseKeyword(at pos) expr {
	switch p.tok {
	case ".":
		p.next()
		if p.tok == tString || p.tok == "[" {
			return p.parseDotted(at, &identity{at})
		}
		return &identity{at}
	case "..":
		p.next()
		return &call{at, "recurse", nil}
	case "(":
		p.next()
		e := p.parsePipe()
		p.expectToken(")")
		return &pipe{at, []expr{e}}
	case "[":
		p.next()
		if p.acceptToken("]") {
			return &array{at, nil}
		}
		e := p.parsePipe()
		p.expectToken("]")
		return &array{at, e}
	case "{":
		return p.parseObject()
	case "-":
		p.enterNesting()
		defer p.leaveNesting()
		p.next()
		return &negate{at, p.parsePostfix()}
	case "if":
		p.next()
		return p.parseBranch(at)
	case "try":
		return p.parseTry(at)
	case "reduce", "foreach":
		return p.parseLoop(at)
	case "def":
		fn := p.parseDefinition()
		return &define{at, fn, p.parsePipe()}
	}
	p.raiseUnexpected("")
	return nil
}

// parseVariable parses a variable or $__loc__.
func (p *parser) parseVariable() expr {
	at, name := p.line, p.text
	p.next()
	if name == "__loc__" {
		return &location{at}
	}
	return &variable{at, name}
}

// parseCall parses a function call, null, true, false or break.
func (p *parser) parseCall() expr {
	c := &call{pos: p.line, name: p.text}
	p.next()
	switch c.name {
	case "null":
		return &literal{c.pos, nil}
	case "true":
		return &literal{c.pos, true}
	case "false":
		return &literal{c.pos, false}
	case "break":
		name := p.text
		p.expectVar()
		return &breakTo{c.pos, name}
	}
	if !p.acceptToken("(") {
		return c
	}
	for {
		c.args = append(c.args, p.parsePipe())
		if p.acceptToken(")") {
			return c
		}
		p.expectToken(";")
	}
}

// parseBranch parses the rest of an `if` or `elif`.
func (p *parser) parseBranch(at pos) expr {
	p.enterNesting()
	defer p.leaveNesting()
	b := &branch{pos: at, cond: p.parsePipe()}
	p.expectToken("then")
	b.then = p.parsePipe()
	elif := p.line
	switch {
	case p.acceptToken("elif"):
		b.otherwise = p.parseBranch(elif)
		return b
	case p.acceptToken("else"):
		b.otherwise = p.parsePipe()
	}
	p.expectToken("end")
	return b
}

// parseTry parses `try` and an optional `catch`.
func (p *parser) parseTry(at pos) expr {
	p.enterNesting()
	defer p.leaveNesting()
	p.next()
	t := &try{pos: at, body: p.parsePlainPostfix()}
	if p.acceptToken("catch") {
		t.handler = p.parsePlainPostfix()
	}
	return t
}

// parseLoop parses `reduce` or `foreach`.
func (p *parser) parseLoop(at pos) expr {
	kind := p.tok
	p.next()
	source := p.parsePlainPostfix()
	p.expectToken("as")
	patterns := p.parsePatterns()
	p.expectToken("(")
	init := p.parsePipe()
	p.expectToken(";")
	update := p.parsePipe()
	if kind == "reduce" {
		p.expectToken(")")
		return &reduce{at, source, patterns, init, update}
	}
	var extract expr
	if p.acceptToken(";") {
		extract = p.parsePipe()
	}
	p.expectToken(")")
	return &foreach{at, source, patterns, init, update, extract}
}

// parseFormat parses @name, with an optional string.
func (p *parser) parseFormat() expr {
	at, name := p.line, p.text
	p.next()
	if p.tok == tString {
		return p.parseString(name)
	}
	return &formatter{at, name}
}

// parseObject parses an object construction.
func (p *parser) parseObject() expr {
	o := &object{pos: p.line}
	p.next()
	if p.acceptToken("}") {
		return o
	}
	for {
		o.pairs = append(o.pairs, p.parsePair())
		if p.acceptToken("}") {
			return o
		}
		if p.tok != "," {
			p.raiseUnexpected("'}'")
		}
		p.next()
	}
}

// parsePair parses a member of an object construction.
func (p *parser) parsePair() pair {
	at := p.line
	var k expr
	bare := true // the key may be without a value
	switch {
	case p.tok == tVar:
		k = p.parseVariable()
	case p.tok == tIdent || keywords[string(p.tok)]:
		k = &literal{at, p.text}
		p.next()
	case p.tok == tNumber:
		k, bare = &literal{at, p.text}, false
		p.next()
		if p.tok == ":" {
			p.raiseError("Cannot use number (%s) as object key", k.(*literal).value)
		}
	case p.tok == tString:
		k = p.parseString("")
	case p.tok == tFormat:
		k = p.parseFormat()
	case p.acceptToken("("):
		k, bare = p.parsePipe(), false
		p.expectToken(")")
	default:
		p.raiseUnexpected("")
	}
	if !p.acceptToken(":") {
		if !bare {
			p.raiseUnexpected("':'")
		}
		return pair{key: k}
	}
	value := p.parseBinary(2)
	for p.acceptToken("|") {
		value = &pipe{at, []expr{value, p.parseBinary(2)}}
	}
	return pair{k, value}
}

// parseString parses the rest of a string; its opening quote is the current token.
func (p *parser) parseString(format string) expr {
	t := &text{pos: p.line, format: format}
	var b strings.Builder
	for {
		begin := p.off
		for p.off < len(p.src) && p.src[p.off] != '"' && p.src[p.off] != '\\' {
			if p.src[p.off] == '\n' {
				p.line++
			}
			p.off++
		}
		b.WriteString(p.src[begin:p.off])
		if p.off >= len(p.src) {
			p.tok = tEOF
			p.raiseUnexpected("QQSTRING_TEXT or QQSTRING_INTERP_START or QQSTRING_END")
		}
		if p.src[p.off] == '"' {
			p.off++
			break
		}
		if strings.HasPrefix(p.src[p.off:], `\(`) {
			p.off += 2
			t.words = append(t.words, validText(b.String()))
			b.Reset()
			p.parseInterpolation(t)
			continue
		}
		p.parseEscape(&b)
	}
	t.words = append(t.words, validText(b.String()))
	p.next()
	return t
}

// parseInterpolation parses a filter in \(…).
func (p *parser) parseInterpolation(t *text) {
	p.next()
	t.exprs = append(t.exprs, p.parsePipe())
	if p.tok != ")" {
		p.raiseUnexpected("QQSTRING_INTERP_END")
	}
}

// parseEscape parses an escape in a string.
func (p *parser) parseEscape(b *strings.Builder) {
	rest := p.src[p.off+1:]
	if rest == "" {
		p.off++
		return
	}
	n, msg := unescapeInto(b, []byte(rest[:min(len(rest), 11)]))
	if msg != "" {
		p.raiseError("syntax error, unexpected INVALID_CHARACTER: %s", msg)
	}
	p.off += 1 + n
}
