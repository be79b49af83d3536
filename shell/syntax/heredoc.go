package syntax

import "strings"

// redirTarget parses the word after a redirection operator.
func (p *parser) redirTarget(r *Redir) {
	t := p.next(lexPlain)
	if t.kind != tokWord {
		p.failUnexpected()
		return
	}
	p.consumeToken()
	if r.Op != RedirHere && r.Op != RedirHereStrip {
		r.Target = t.word
		return
	}
	// The enclosing text may end before the body begins.
	d := &Heredoc{RawDelim: t.word.Raw, Body: &Word{Pos: t.word.Pos}, EOF: true}
	d.Delim, d.Quoted = removeQuotes(t.word.Parts)
	r.Doc = d
	p.pending = append(p.pending, r)
}

// removeQuotes removes the quotes of a here-document's delimiter. Nothing is
// expanded in it.
func removeQuotes(parts []Part) (text string, quoted bool) {
	var b strings.Builder
	for _, part := range parts {
		switch part := part.(type) {
		case *Lit:
			b.WriteString(part.Value)
		case *Quoted:
			b.WriteString(part.Value)
			quoted = true
		case *DblQuoted:
			s, _ := removeQuotes(part.Parts)
			b.WriteString(s)
			quoted = true
		case *ParamExp:
			b.WriteString(part.Raw)
		case *CmdSubst:
			b.WriteString(part.Raw)
		case *ProcSubst:
			b.WriteString(part.Raw)
		case *ArithExp:
			b.WriteString("$((" + part.X.Raw + "))")
		}
	}
	return b.String(), quoted
}

// readDocs reads the bodies of the here-documents of the line that has just
// ended.
func (p *parser) readDocs() {
	docs := p.pending
	p.pending = nil
	for _, r := range docs {
		if p.err != nil {
			return
		}
		p.readDoc(r.Doc, r.Op == RedirHereStrip)
	}
}

// readDoc reads a body and its delimiter.
func (p *parser) readDoc(d *Heredoc, strip bool) {
	start := p.i
	d.Pos = p.posAt(start)
	d.EOF = false
	var cut []byte // the body without its leading tabs, for <<-
	for {
		from, to, ok := p.docLine(d.Quoted)
		if strip {
			for from < to && p.src[from] == '\t' {
				from++
			}
		}
		if p.i > from && p.docEnds(d, from, to) {
			break
		}
		if strip && p.i > from {
			cut = append(cut, p.src[from:p.i]...)
		}
		if !ok {
			d.EOF = true
			p.docBody(d, start, p.i, cut, strip)
			return
		}
		p.chargeWork(p.i - from)
	}
	p.docBody(d, start, p.i-p.lastLine, cut, strip)
}

// docLine skips one line, with its continuations unless the delimiter is
// quoted, and returns the start and the end of its text. ok is false at the end
// of the input.
func (p *parser) docLine(quoted bool) (from, to int, ok bool) {
	from = p.i
	for {
		nl := strings.IndexByte(p.src[p.i:], '\n')
		if nl < 0 {
			p.i = len(p.src)
			if p.fillWindow() {
				p.i = max(from, p.i-1)
				continue
			}
			p.i = len(p.src)
			p.lastLine = p.i - from
			return from, p.i, false
		}
		p.i += nl + 1
		if quoted || !endsInBackslash(p.src[from:p.i-1]) {
			p.lastLine = p.i - from
			return from, p.i - 1, true
		}
	}
}

// endsInBackslash reports whether a line ends in an unquoted backslash.
func endsInBackslash(s string) bool {
	n := len(s)
	for n > 0 && s[n-1] == '\\' {
		n--
	}
	return (len(s)-n)%2 == 1
}

// docEnds reports whether the line is the delimiter.
func (p *parser) docEnds(d *Heredoc, from, to int) bool {
	line := p.src[from:to]
	if line == d.Delim {
		return true
	}
	if d.Quoted || strings.IndexByte(line, '\\') < 0 {
		return false
	}
	return strings.ReplaceAll(line, "\\\n", "") == d.Delim
}

// docBody parses a body: the window from start to end, or cut.
func (p *parser) docBody(d *Heredoc, start, end int, cut []byte, strip bool) {
	text := p.src[start:end]
	if strip {
		text = string(cut)
	}
	d.Body = &Word{Pos: d.Pos, Raw: text}
	if text == "" {
		return
	}
	p.countNode()
	if d.Quoted {
		d.Body.Parts = []Part{&Lit{Value: text, Raw: text}}
		return
	}
	c := p.newChild(text, d.Pos.Line)
	if c.enterLevel() {
		d.Body.Parts = c.docText()
	}
	p.adoptCosts(c)
	if c.err != nil && c.err.TooBig {
		p.setError(c.err)
	}
}

// docText parses all of the source as the content of double quotes in which a
// quote is an ordinary character. A syntax error becomes a substitution that
// fails when it is expanded.
func (p *parser) docText() []Part {
	w := pieces{c: ctxDoc}
	p.scan(&w)
	if p.err != nil && !p.err.TooBig {
		w.parts = append(w.parts, &CmdSubst{Raw: p.src[w.start:], Err: p.err})
	}
	return w.parts
}
