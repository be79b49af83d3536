package syntax

import "strings"

// fail notes the first error and hides the rest of the source.
func (p *parser) fail(e *Error) {
	if p.err == nil {
		e.Status, e.CommandStatus = 2, 2
		switch {
		case p.inArray:
			e.Status, e.CommandStatus = 1, 1
		case p.subst > 0 && !e.Incomplete && !e.TooBig:
			e.CommandStatus = 127
		case p.inCond && !e.Incomplete && !e.TooBig:
			e.CommandStatus = 0
		}
		p.err = e
	}
	p.stopped = true
	p.i = len(p.src)
	p.tok = token{kind: tokEOF, start: p.i, end: p.i}
	p.have = true
}

func (p *parser) tooBig(msg string) {
	if p.err != nil {
		return
	}
	at := p.pos(p.i)
	p.fail(&Error{Line: int(at.Line), Col: int(at.Col), Msg: msg, TooBig: true})
}

// failAt is an error at an offset, with the message only.
func (p *parser) failAt(off int, msg string) {
	if p.err != nil {
		return
	}
	at := p.pos(off)
	p.fail(&Error{Line: int(at.Line), Col: int(at.Col), Msg: msg})
}

// unclosed is the end of the input within a quotation that began at off.
func (p *parser) unclosed(off int, want string) {
	if p.err != nil {
		return
	}
	at := p.pos(off)
	p.fail(&Error{
		Line: int(at.Line), Col: int(at.Col), Incomplete: true, Token: want,
		Msg: "unexpected EOF while looking for matching `" + want + "'",
	})
}

// unexpected is an error at the token that comes next.
func (p *parser) unexpected() {
	if p.err != nil {
		return
	}
	t := p.next(lexPlain)
	if p.err != nil {
		return
	}
	text := p.text(t)
	if t.kind == tokEOF {
		if p.ended || p.src == "" || p.src[len(p.src)-1] == '\n' {
			p.endOfFile()
			return
		}
		text = "newline" // which the end of the input stands for
	}
	at := p.pos(t.start)
	p.fail(&Error{
		Line: int(at.Line), Col: int(at.Col), Token: text,
		Msg:    "syntax error near unexpected token `" + text + "'",
		Source: p.lineAt(t.start),
	})
}

// endOfFile is an input that ends within a command.
func (p *parser) endOfFile() {
	at := p.pos(len(p.src))
	if at.Col > 1 {
		at.Line++
	}
	p.fail(&Error{
		Line: int(at.Line), Col: int(at.Col), Incomplete: true,
		Msg: "syntax error: unexpected end of file",
	})
}

// lineAt returns the source line of an offset.
func (p *parser) lineAt(off int) string {
	off = min(off, len(p.src))
	s := p.src[strings.LastIndexByte(p.src[:off], '\n')+1:]
	if nl := strings.IndexByte(s, '\n'); nl >= 0 {
		s = s[:nl]
	}
	return s
}
