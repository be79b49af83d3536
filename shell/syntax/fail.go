package syntax

import "strings"

// setError records the first error and hides the rest of the source.
func (p *parser) setError(e *Error) {
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
	p.haveToken = true
}

// failTooBig sets the error for an exceeded limit.
func (p *parser) failTooBig(msg string) {
	if p.err != nil {
		return
	}
	at := p.posAt(p.i)
	p.setError(&Error{Line: int(at.Line), Col: int(at.Col), Msg: msg, TooBig: true})
}

// failAt sets an error with a message at an offset.
func (p *parser) failAt(off int, msg string) {
	if p.err != nil {
		return
	}
	at := p.posAt(off)
	p.setError(&Error{Line: int(at.Line), Col: int(at.Col), Msg: msg})
}

// failUnclosed sets the error for an input that ends within a quotation that
// began at off.
func (p *parser) failUnclosed(off int, want string) {
	if p.err != nil {
		return
	}
	at := p.posAt(off)
	p.setError(&Error{
		Line: int(at.Line), Col: int(at.Col), Incomplete: true, Token: want,
		Msg: "unexpected EOF while looking for matching `" + want + "'",
	})
}

// failUnexpected sets the error for an unexpected next token.
func (p *parser) failUnexpected() {
	if p.err != nil {
		return
	}
	t := p.next(lexPlain)
	if p.err != nil {
		return
	}
	text := p.textOf(t)
	if t.kind == tokEOF {
		if p.ended || p.src == "" || p.src[len(p.src)-1] == '\n' {
			p.failAtEOF()
			return
		}
		text = "newline" // bash shows the end of input like this
	}
	at := p.posAt(t.start)
	p.setError(&Error{
		Line: int(at.Line), Col: int(at.Col), Token: text,
		Msg:    "syntax error near unexpected token `" + text + "'",
		Source: p.lineAt(t.start),
	})
}

// failAtEOF sets the error for an input that ends within a command.
func (p *parser) failAtEOF() {
	at := p.posAt(len(p.src))
	if at.Col > 1 {
		at.Line++
	}
	p.setError(&Error{
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
