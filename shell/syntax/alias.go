package syntax

import "strings"

// activeAlias is an alias whose text is being read. It is not expanded again
// before the offset end of the window.
type activeAlias struct {
	name string
	end  int
}

// expandAlias replaces the word w, which begins at start, by its alias. It
// reports whether there was one.
func (p *parser) expandAlias(m lexMode, start int, w *Word) bool {
	for len(p.aliases) > 0 && p.aliases[len(p.aliases)-1].end <= start {
		p.aliases = p.aliases[:len(p.aliases)-1]
	}
	next := p.aliasNext
	p.aliasNext = false
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
	if p.speculative > 0 {
		p.aliasHit = true
		return false
	}
	p.spliceText(name, p.admitSource(text))
	p.aliasNext = m != lexCmd
	return p.err == nil
}

// spliceText inserts the text of an alias before the unread source. It copies
// only the rest of the line; the source after it is kept in tail.
func (p *parser) spliceText(name, text string) {
	if len(p.aliases) >= p.o.MaxDepth {
		p.failTooBig("aliases are nested too deeply")
		return
	}
	p.posAt(p.i)
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
		p.blank, p.blankEnd = true, p.i // replaceWindow sets it to 0
	} else if strings.IndexByte("<>&|;($", last) >= 0 {
		text += " " // an operator does not continue after the alias
	}
	p.aliases = append(p.aliases, activeAlias{name, p.i})
	p.replaceWindow(text + rest)
	for i := range p.aliases {
		p.aliases[i].end += len(text)
	}
	p.blankEnd += len(text)
	p.splices++
	p.memo, p.notArith = nil, nil
}
