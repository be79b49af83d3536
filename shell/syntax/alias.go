package syntax

import "strings"

// activeAlias is an alias whose text is being read; it is not expanded again
// before the window's offset end.
type activeAlias struct {
	name string
	end  int
}

// unalias replaces the word w, which was read from start, by its alias. It
// reports whether there was one.
func (p *parser) unalias(m lexMode, start int, w *Word) bool {
	for len(p.aliases) > 0 && p.aliases[len(p.aliases)-1].end <= start {
		p.aliases = p.aliases[:len(p.aliases)-1]
	}
	next := p.nextToo
	p.nextToo = false
	if p.blank && start >= p.blankEnd {
		p.blank, next = false, true
	}
	if m != lexCmd && !next {
		return false
	}
	name, ok := w.Literal()
	if !ok {
		return false
	}
	for _, a := range p.aliases {
		if a.name == name {
			return false
		}
	}
	text, ok := p.o.Alias(name)
	if !ok {
		return false
	}
	if p.spec > 0 {
		p.aliasHit = true
		return false
	}
	p.splice(name, p.admit(text))
	p.nextToo = m != lexCmd
	return p.err == nil
}

// splice puts the text of an alias before what is not read yet. Only the rest
// of the line is copied; what follows it waits in tail.
func (p *parser) splice(name, text string) {
	if len(p.aliases) >= p.o.MaxDepth {
		p.tooBig("aliases are nested too deeply")
		return
	}
	p.pos(p.i)
	rest := p.src[p.i:]
	if nl := strings.IndexByte(rest, '\n'); nl >= 0 && nl+1 < len(rest) {
		p.tail = append(p.tail, rest[nl+1:])
		rest = rest[:nl+1]
	}
	p.stopped = p.stopped && len(p.tail) == 0
	last := byte(0)
	if text != "" {
		last = text[len(text)-1]
	}
	if last == ' ' || last == '\t' {
		p.blank, p.blankEnd = true, p.i // shift makes it 0
	} else if strings.IndexByte("<>&|;($", last) >= 0 {
		text += " " // an operator does not go on after the alias
	}
	p.aliases = append(p.aliases, activeAlias{name, p.i})
	p.shift(text + rest)
	for i := range p.aliases {
		p.aliases[i].end += len(text)
	}
	p.blankEnd += len(text)
	p.splices++
	p.memo, p.notAr = nil, nil
}
