package syntax

import (
	"strings"
	"unicode/utf8"
)

// ctx says where text stands, which decides what is special in it and where
// it ends.
type ctx uint8

const (
	ctxWord    ctx = iota // a shell word
	ctxDbl                // between double quotes
	ctxDoc                // a here-document, a prompt
	ctxParam              // an operand of ${ }
	ctxRepl               // the pattern of ${x/pattern/text}
	ctxParamQ             // an operand of "${x-…}"
	ctxParamD             // the same in a here-document
	ctxIndex              // a subscript
	ctxOffset             // the offset or length of a slice
	ctxArith              // $(( )) and (( ))
	ctxBracket            // $[ ]
	ctxFor                // a part of for (( ; ; ))
	ctxCount
)

// quoted reports whether expansions in c are within double quotes.
func (c ctx) quoted() bool {
	switch c {
	case ctxDbl, ctxDoc, ctxParamQ, ctxParamD, ctxArith, ctxBracket, ctxFor, ctxOffset:
		return true
	}
	return false
}

// special holds, for each byte, the contexts in which it isn't plain text.
var special = makeSpecial()

func makeSpecial() *[256]uint16 {
	var t [256]uint16
	for c, chars := range [ctxCount]string{
		ctxWord:    " \t\n;&|()<>\"'",
		ctxDbl:     `"`,
		ctxDoc:     "",
		ctxParam:   `}"'<>`,
		ctxRepl:    `}"'<>/`,
		ctxParamQ:  `}"'`,
		ctxParamD:  `}"`,
		ctxIndex:   `[]"'`,
		ctxOffset:  `}:?()"'`,
		ctxArith:   `()"'`,
		ctxBracket: `[]"'`,
		ctxFor:     `();"'`,
	} {
		for _, b := range []byte(chars + "\\$`") {
			t[b] |= 1 << c
		}
	}
	return &t
}

// pieces collects the parts of a word. Text from start on is not yet a part.
type pieces struct {
	c     ctx
	parts []Part
	start int    // of the current literal
	seg   int    // of its text that is not in buf
	buf   []byte // its text before seg, when it is not a slice of the source
	cut   bool
	open  int // parentheses or brackets open in the literal
	tern  int // '?' open; in ctxParamQ 1 after a single quote, which open then locates
}

// flush ends the current literal at the position.
func (p *parser) flush(w *pieces) {
	if p.i > w.start {
		raw := p.src[w.start:p.i]
		val := raw
		if w.cut {
			val = string(append(w.buf, p.src[w.seg:p.i]...))
		}
		if val != "" {
			p.node()
			w.parts = append(w.parts, &Lit{Value: val, Raw: raw})
		}
		p.work(len(raw))
	}
	p.restart(w)
}

// restart begins a new literal at the position.
func (p *parser) restart(w *pieces) {
	w.start, w.seg, w.buf, w.cut = p.i, p.i, nil, false
}

// drop leaves n bytes of the source out of the literal's text.
func (p *parser) drop(w *pieces, n int) {
	w.buf = append(w.buf, p.src[w.seg:p.i]...)
	w.cut = true
	p.i += n
	w.seg = p.i
}

// add ends the literal before offset start and appends a part, which has been
// read already.
func (p *parser) add(w *pieces, start int, part Part) {
	end := p.i
	p.i = start
	p.flush(w)
	p.i = end
	if part != nil {
		p.node()
		w.parts = append(w.parts, part)
	}
	p.restart(w)
}

// parts reads text up to what ends it in context c, which is not consumed.
func (p *parser) parts(c ctx) []Part {
	w := pieces{c: c, start: p.i, seg: p.i}
	p.scan(&w)
	return w.parts
}

func (p *parser) scan(w *pieces) {
	bit := uint16(1) << w.c
	for p.err == nil {
		src, i := p.src, p.i
		for i < len(src) && special[src[i]]&bit == 0 {
			i++
		}
		p.i = i
		if i >= len(src) {
			if p.fill() {
				continue
			}
			break
		}
		switch b := src[i]; b {
		case '\\':
			p.backslash(w)
		case '$':
			p.dollar(w)
		case '`':
			p.add(w, i, p.backquote(w.c))
		case '"':
			if w.c == ctxDbl {
				p.flush(w)
				return
			}
			p.add(w, i, p.dblQuoted())
		case '\'':
			p.quote(w)
		default:
			if p.ends(w, b) {
				p.flush(w)
				return
			}
		}
	}
	if w.c == ctxParamQ && w.tern > 0 {
		p.unclosed(w.open, "'")
	}
	if p.err == nil {
		p.flush(w)
	}
}

// ends decides about a byte that may end the text of its context. If it does
// not, it is consumed.
func (p *parser) ends(w *pieces, b byte) bool {
	switch w.c {
	case ctxWord:
		return p.endsWord(w, b)
	case ctxParam, ctxRepl:
		if (b == '<' || b == '>') && p.at(p.i+1) == '(' {
			start := p.i
			p.add(w, start, p.procSubst())
			return false
		}
		if b == '}' || b == '/' {
			return true
		}
	case ctxParamQ, ctxParamD:
		if w.tern == 0 {
			return true
		}
	case ctxOffset:
		if b == '}' || b == ':' && w.open == 0 && w.tern == 0 {
			return true
		}
		if b == '?' {
			w.tern++
		} else if b == ':' {
			w.tern--
		}
	case ctxFor:
		if b == ';' && w.open == 0 {
			return true
		}
	}
	switch b {
	case '(', '[':
		w.open++
	case ')', ']':
		if w.open == 0 && w.c != ctxOffset {
			return true
		}
		w.open--
	}
	p.i++
	return false
}

// endsWord is ends for a shell word, which goes on within the parentheses of
// an extended glob or a regular expression.
func (p *parser) endsWord(w *pieces, b byte) bool {
	switch {
	case b == '(':
		if w.open == 0 && !p.regex && !p.globParen(w) {
			return true
		}
		w.open++
	case (b == '<' || b == '>') && p.at(p.i+1) == '(' && !p.regex:
		start := p.i
		p.add(w, start, p.procSubst())
		return false
	case b == ')' && w.open > 0:
		w.open--
	case b == '|' && p.regex:
	case w.open == 0:
		return true
	}
	p.i++
	return false
}

// globParen reports whether the '(' at the position opens an extended glob.
func (p *parser) globParen(w *pieces) bool {
	if !p.extglob || p.i == w.start {
		return false
	}
	switch p.src[p.i-1] {
	case '?', '*', '+', '@', '!':
		return true
	}
	return false
}

type litWord struct {
	Word
	lit  Lit
	only [1]Part
}

// word reads a word in context ctxWord, as a shell word, or another.
func (p *parser) word(c ctx) *Word {
	start := p.i
	bit := uint16(1) << c
	src, i := p.src, p.i
	for i < len(src) && special[src[i]]&bit == 0 {
		i++
	}
	if c == ctxWord && i < len(src) && i > start && endsPlain[src[i]] {
		p.i = i
		p.node()
		w := &litWord{}
		w.Pos = p.pos(start)
		w.Raw = src[start:i]
		w.lit.Value, w.lit.Raw = w.Raw, w.Raw
		w.only[0] = &w.lit
		w.Parts = w.only[:]
		return &w.Word
	}
	return p.slowWord(c)
}

// endsPlain holds the bytes that end a word whatever comes before them.
var endsPlain = [256]bool{' ': true, '\t': true, '\n': true, ';': true, '&': true, ')': true}

func (p *parser) slowWord(c ctx) *Word {
	start := p.i
	w := &Word{Pos: p.pos(start)}
	p.node()
	ps := pieces{c: c, start: start, seg: start}
	p.scan(&ps)
	if c == ctxWord && ps.open > 0 {
		p.unclosed(start, ")")
	}
	w.Parts = ps.parts
	if p.err == nil {
		w.Raw = p.src[start:p.i]
	}
	return w
}

// parenWord reads a word in which name=( opens a parenthesis that belongs to
// it, as in `let x=(1+2)`.
func (p *parser) parenWord() *Word {
	start := p.i
	j := p.i
	for isName(p.at(j)) {
		j++
	}
	w := &Word{Pos: p.pos(start)}
	p.node()
	ps := pieces{c: ctxWord, start: start, seg: start}
	if j > start && p.at(j) == '=' && p.at(j+1) == '(' {
		p.i = j + 2
		ps.open = 1
	}
	p.scan(&ps)
	if ps.open > 0 {
		p.unclosed(start, ")")
	}
	w.Parts = ps.parts
	if p.err == nil {
		w.Raw = p.src[start:p.i]
	}
	return w
}

// backslash reads a backslash and what it quotes.
func (p *parser) backslash(w *pieces) {
	n := p.at(p.i + 1)
	switch {
	case n == '\n':
		p.drop(w, 2)
		return
	case n == 0:
		p.i++
		return
	case w.c.quoted():
		if escapes(w.c, n) {
			p.drop(w, 1)
			p.i++
			return
		}
		p.i += 2
		return
	}
	start := p.i
	_, size := utf8.DecodeRuneInString(p.src[p.i+1:])
	p.i += 1 + size
	raw := p.src[start:p.i]
	p.add(w, start, &Quoted{Kind: Backslash, Value: raw[1:], Raw: raw})
}

// escapes reports whether a backslash quotes n within double quotes.
func escapes(c ctx, n byte) bool {
	switch n {
	case '$', '`', '\\':
		return true
	case '"':
		return c != ctxDoc
	case '}':
		return c == ctxParamQ || c == ctxParamD
	}
	return false
}

// quote reads from a single quote.
func (p *parser) quote(w *pieces) {
	if w.c == ctxParamQ { // it is text, but hides a brace
		w.tern ^= 1
		w.open = p.i
		p.i++
		return
	}
	start := p.i
	p.i++
	for {
		n := strings.IndexByte(p.src[p.i:], '\'')
		if n >= 0 {
			p.i += n + 1
			break
		}
		p.i = len(p.src)
		if !p.fill() {
			p.unclosed(start, "'")
			return
		}
	}
	if w.c.quoted() {
		return // in arithmetic the quotes only hide what is between them
	}
	raw := p.src[start:p.i]
	p.work(len(raw))
	p.add(w, start, &Quoted{Kind: SingleQuote, Value: raw[1 : len(raw)-1], Raw: raw})
}

type litDbl struct {
	DblQuoted
	lit  Lit
	only [1]Part
}

// dblQuoted reads "…" from the position.
func (p *parser) dblQuoted() Part {
	start := p.i
	p.i++
	src, i := p.src, p.i
	for i < len(src) && special[src[i]]&(1<<ctxDbl) == 0 {
		i++
	}
	if i < len(src) && src[i] == '"' && i > p.i {
		d := &litDbl{}
		d.lit.Value = src[p.i:i]
		d.lit.Raw = d.lit.Value
		d.only[0] = &d.lit
		d.Parts = d.only[:]
		p.work(i - p.i)
		p.i = i + 1
		return &d.DblQuoted
	}
	if !p.enter() {
		return nil
	}
	defer p.leave()
	w := pieces{c: ctxDbl, start: p.i, seg: p.i}
	p.scan(&w)
	if p.peek() != '"' {
		p.unclosed(start, `"`)
		return nil
	}
	p.i++
	return &DblQuoted{Parts: w.parts}
}
