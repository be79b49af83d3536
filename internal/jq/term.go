package jq

import "strings"

// postfix reads a term with its suffixes, and `as` with what follows it.
func (p *parser) postfix() expr {
	e := p.plainPostfix()
	if p.tok == "as" {
		return p.binding(e)
	}
	return e
}

// plainPostfix reads a term with its suffixes.
func (p *parser) plainPostfix() expr {
	e := p.term()
	for n := 0; ; n++ {
		if n > maxChain {
			p.fail("syntax error, expression too long")
		}
		at := p.line
		switch p.tok {
		case tField:
			e = &index{at, e, &literal{at, p.text}}
			p.next()
		case ".":
			p.next()
			e = p.dotted(at, e)
		case "[":
			e = p.bracket(e)
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

// dotted reads what may follow a dot on its own: a string or a bracket.
func (p *parser) dotted(at pos, target expr) expr {
	switch p.tok {
	case tString:
		return &index{at, target, p.string("")}
	case "[":
		return p.bracket(target)
	}
	p.unexpected("")
	return nil
}

// bracket reads [], [i], [i:j].
func (p *parser) bracket(target expr) expr {
	at := p.line
	p.want("[")
	switch {
	case p.got("]"):
		return &iterate{at, target}
	case p.got(":"):
		to := p.pipe()
		p.want("]")
		return &slice{at, target, nil, to}
	}
	from := p.pipe()
	if p.got(":") {
		var to expr
		if p.tok != "]" {
			to = p.pipe()
		}
		p.want("]")
		return &slice{at, target, from, to}
	}
	p.want("]")
	return &index{at, target, from}
}

// binding reads `as patterns | body` behind source.
func (p *parser) binding(source expr) expr {
	at := p.line
	p.next()
	patterns := p.patterns()
	p.want("|")
	return &bind{at, source, patterns, p.pipe()}
}

func (p *parser) patterns() []pattern {
	list := []pattern{p.pattern()}
	for p.got("?//") {
		list = append(list, p.pattern())
	}
	return list
}

func (p *parser) pattern() pattern {
	p.enter()
	defer p.leave()
	at := p.line
	switch p.tok {
	case tVar:
		name := p.text
		p.next()
		return pattern{pos: at, name: name}
	case "[":
		return p.arrayPattern()
	case "{":
		return p.objectPattern()
	}
	p.unexpected("BINDING or '[' or '{'")
	return pattern{}
}

func (p *parser) arrayPattern() pattern {
	pat := pattern{pos: p.line}
	p.next()
	for {
		pat.items = append(pat.items, p.pattern())
		if p.got("]") {
			return pat
		}
		p.want(",")
	}
}

func (p *parser) objectPattern() pattern {
	pat := pattern{pos: p.line}
	p.next()
	for {
		pat.keys = append(pat.keys, p.patternKey())
		if p.got("}") {
			return pat
		}
		p.want(",")
	}
}

func (p *parser) patternKey() patternKey {
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
		k.key = p.string("")
	case p.got("("):
		k.key = p.pipe()
		p.want(")")
	default:
		p.unexpected("")
	}
	p.want(":")
	v := p.pattern()
	k.value = &v
	return k
}

// term reads what stands on its own.
func (p *parser) term() expr {
	at := p.line
	switch p.tok {
	case tNumber:
		v, ok := parseNumber(p.text)
		if !ok {
			p.fail("syntax error, bad number %s", p.text)
		}
		p.next()
		return &literal{at, v}
	case tString:
		return p.string("")
	case tFormat:
		return p.format()
	case tField:
		name := p.text
		p.next()
		return &index{at, &identity{at}, &literal{at, name}}
	case tVar:
		return p.variable()
	case tIdent:
		return p.call()
	}
	return p.keyword(at)
}

// keyword reads terms that begin with a mark or a keyword.
func (p *parser) keyword(at pos) expr {
	switch p.tok {
	case ".":
		p.next()
		if p.tok == tString || p.tok == "[" {
			return p.dotted(at, &identity{at})
		}
		return &identity{at}
	case "..":
		p.next()
		return &call{at, "recurse", nil}
	case "(":
		p.next()
		e := p.pipe()
		p.want(")")
		return &pipe{at, []expr{e}}
	case "[":
		p.next()
		if p.got("]") {
			return &array{at, nil}
		}
		e := p.pipe()
		p.want("]")
		return &array{at, e}
	case "{":
		return p.object()
	case "-":
		p.enter()
		defer p.leave()
		p.next()
		return &negate{at, p.postfix()}
	case "if":
		p.next()
		return p.branch(at)
	case "try":
		return p.try(at)
	case "reduce", "foreach":
		return p.loop(at)
	case "def":
		fn := p.definition()
		return &define{at, fn, p.pipe()}
	}
	p.unexpected("")
	return nil
}

func (p *parser) variable() expr {
	at, name := p.line, p.text
	p.next()
	if name == "__loc__" {
		return &location{at}
	}
	return &variable{at, name}
}

func (p *parser) call() expr {
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
		p.wantVar()
		return &breakTo{c.pos, name}
	}
	if !p.got("(") {
		return c
	}
	for {
		c.args = append(c.args, p.pipe())
		if p.got(")") {
			return c
		}
		p.want(";")
	}
}

func (p *parser) branch(at pos) expr {
	p.enter()
	defer p.leave()
	b := &branch{pos: at, cond: p.pipe()}
	p.want("then")
	b.then = p.pipe()
	elif := p.line
	switch {
	case p.got("elif"):
		b.otherwise = p.branch(elif)
		return b
	case p.got("else"):
		b.otherwise = p.pipe()
	}
	p.want("end")
	return b
}

func (p *parser) try(at pos) expr {
	p.enter()
	defer p.leave()
	p.next()
	t := &try{pos: at, body: p.plainPostfix()}
	if p.got("catch") {
		t.handler = p.plainPostfix()
	}
	return t
}

func (p *parser) loop(at pos) expr {
	kind := p.tok
	p.next()
	source := p.plainPostfix()
	p.want("as")
	patterns := p.patterns()
	p.want("(")
	init := p.pipe()
	p.want(";")
	update := p.pipe()
	if kind == "reduce" {
		p.want(")")
		return &reduce{at, source, patterns, init, update}
	}
	var extract expr
	if p.got(";") {
		extract = p.pipe()
	}
	p.want(")")
	return &foreach{at, source, patterns, init, update, extract}
}

func (p *parser) format() expr {
	at, name := p.line, p.text
	p.next()
	if p.tok == tString {
		return p.string(name)
	}
	return &formatter{at, name}
}

func (p *parser) object() expr {
	o := &object{pos: p.line}
	p.next()
	if p.got("}") {
		return o
	}
	for {
		o.pairs = append(o.pairs, p.pair())
		if p.got("}") {
			return o
		}
		if p.tok != "," {
			p.unexpected("'}'")
		}
		p.next()
	}
}

func (p *parser) pair() pair {
	at := p.line
	var k expr
	bare := true // may stand without a value
	switch {
	case p.tok == tVar:
		k = p.variable()
	case p.tok == tIdent || keywords[string(p.tok)]:
		k = &literal{at, p.text}
		p.next()
	case p.tok == tNumber:
		k, bare = &literal{at, p.text}, false
		p.next()
		if p.tok == ":" {
			p.fail("Cannot use number (%s) as object key", k.(*literal).value)
		}
	case p.tok == tString:
		k = p.string("")
	case p.tok == tFormat:
		k = p.format()
	case p.got("("):
		k, bare = p.pipe(), false
		p.want(")")
	default:
		p.unexpected("")
	}
	if !p.got(":") {
		if !bare {
			p.unexpected("':'")
		}
		return pair{key: k}
	}
	value := p.binary(2)
	for p.got("|") {
		value = &pipe{at, []expr{value, p.binary(2)}}
	}
	return pair{k, value}
}

// string reads the rest of a string literal, whose first quote is the current token.
func (p *parser) string(format string) expr {
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
			p.unexpected("QQSTRING_TEXT or QQSTRING_INTERP_START or QQSTRING_END")
		}
		if p.src[p.off] == '"' {
			p.off++
			break
		}
		if strings.HasPrefix(p.src[p.off:], `\(`) {
			p.off += 2
			t.words = append(t.words, validText(b.String()))
			b.Reset()
			p.interpolation(t)
			continue
		}
		p.escape(&b)
	}
	t.words = append(t.words, validText(b.String()))
	p.next()
	return t
}

func (p *parser) interpolation(t *text) {
	p.next()
	t.exprs = append(t.exprs, p.pipe())
	if p.tok != ")" {
		p.unexpected("QQSTRING_INTERP_END")
	}
}

func (p *parser) escape(b *strings.Builder) {
	rest := p.src[p.off+1:]
	if rest == "" {
		p.off++
		return
	}
	n, msg := unescape(b, []byte(rest[:min(len(rest), 11)]))
	if msg != "" {
		p.fail("syntax error, unexpected INVALID_CHARACTER: %s", msg)
	}
	p.off += 1 + n
}
