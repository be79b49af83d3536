package syntax

import (
	"strings"
	"unicode/utf8"
)

// context is the kind of text being parsed. It determines which characters are
// special and where the text ends.
type context uint8

const (
	ctxWord    context = iota // a shell word
	ctxDbl                    // between double quotes
	ctxDoc                    // a here-document, a prompt
	ctxParam                  // an operand of ${ }
	ctxRepl                   // the pattern of ${x/pattern/text}
	ctxParamQ                 // an operand of "${x-…}"
	ctxParamD                 // an operand of ${x-…} in a here-document
	ctxIndex                  // a subscript
	ctxOffset                 // the offset or length of a slice
	ctxArith                  // $(( )) and (( ))
	ctxBracket                // $[ ]
	ctxFor                    // a part of for (( ; ; ))
	ctxCount
)

// isQuoted reports whether expansions in c are within double quotes.
func (c context) isQuoted() bool {
	switch c {
	case ctxDbl, ctxDoc, ctxParamQ, ctxParamD, ctxArith, ctxBracket, ctxFor, ctxOffset:
		return true
	}
	return false
}

// special holds, for each byte, the contexts in which it is special.
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
	c     context
	parts []Part
	start int    // of the current literal
	seg   int    // start of its text that is not in buf
	buf   []byte // its text before seg, if it is not a slice of the source
	cut   bool
	open  int // number of open parentheses or brackets in the literal
	tern  int // number of open '?'; in ctxParamQ 1 after a single quote, at offset open
}

// flush ends the current literal at the current position.
func (p *parser) flush(w *pieces) {
	if p.i > w.start {
		raw := p.src[w.start:p.i]
		val := raw
		if w.cut {
			val = string(append(w.buf, p.src[w.seg:p.i]...))
		}
		if val != "" {
			p.countNode()
			w.parts = append(w.parts, &Lit{Value: val, Raw: raw})
		}
		p.chargeWork(len(raw))
	}
	p.restartLiteral(w)
}

// restartLiteral begins a new literal at the current position.
func (p *parser) restartLiteral(w *pieces) {
	w.start, w.seg, w.buf, w.cut = p.i, p.i, nil, false
}

// dropBytes omits n bytes of the source from the literal's text.
func (p *parser) dropBytes(w *pieces, n int) {
	w.buf = append(w.buf, p.src[w.seg:p.i]...)
	w.cut = true
	p.i += n
	w.seg = p.i
}

// add ends the literal before offset start and appends a part that was already
// parsed.
func (p *parser) add(w *pieces, start int, part Part) {
	end := p.i
	p.i = start
	p.flush(w)
	p.i = end
	if part != nil {
		p.countNode()
		w.parts = append(w.parts, part)
	}
	p.restartLiteral(w)
}

// parseParts parses text up to the end of context c, which is not consumed.
func (p *parser) parseParts(c context) []Part {
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
			if p.fillWindow() {
				continue
			}
			break
		}
		switch b := src[i]; b {
		case '\\':
			p.parseBackslash(w)
		case '$':
			p.parseDollar(w)
		case '`':
			p.add(w, i, p.parseBackquote(w.c))
		case '"':
			if w.c == ctxDbl {
				p.flush(w)
				return
			}
			p.add(w, i, p.dblQuoted())
		case '\'':
			p.parseQuote(w)
		default:
			if p.endsText(w, b) {
				p.flush(w)
				return
			}
		}
	}
	if w.c == ctxParamQ && w.tern > 0 {
		p.failUnclosed(w.open, "'")
	}
	if p.err == nil {
		p.flush(w)
	}
}

// endsText reports whether a special byte ends the text of its context. If
// not, it consumes the byte.
func (p *parser) endsText(w *pieces, b byte) bool {
	switch w.c {
	case ctxWord:
		return p.endsWord(w, b)
	case ctxParam, ctxRepl:
		if (b == '<' || b == '>') && p.byteAt(p.i+1) == '(' {
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

// endsWord is endsText for a shell word, which continues within the parentheses
// of an extended glob or a regular expression.
func (p *parser) endsWord(w *pieces, b byte) bool {
	switch {
	case b == '(':
		if w.open == 0 && !p.regex && !p.globParen(w) {
			return true
		}
		w.open++
	case (b == '<' || b == '>') && p.byteAt(p.i+1) == '(' && !p.regex:
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

// globParen reports whether the '(' at the current position opens an extended
// glob.
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

// parseWord parses a word in a context; the fast path is a plain shell word.
func (p *parser) parseWord(c context) *Word {
	start := p.i
	bit := uint16(1) << c
	src, i := p.src, p.i
	for i < len(src) && special[src[i]]&bit == 0 {
		i++
	}
	if c == ctxWord && i < len(src) && i > start && endsPlain[src[i]] {
		p.i = i
		p.countNode()
		w := &litWord{}
		w.Pos = p.posAt(start)
		w.Raw = src[start:i]
		w.lit.Value, w.lit.Raw = w.Raw, w.Raw
		w.only[0] = &w.lit
		w.Parts = w.only[:]
		return &w.Word
	}
	return p.parseAnyWord(c)
}

// endsPlain holds the bytes that end a plain word.
var endsPlain = [256]bool{' ': true, '\t': true, '\n': true, ';': true, '&': true, ')': true}

func (p *parser) parseAnyWord(c context) *Word {
	start := p.i
	w := &Word{Pos: p.posAt(start)}
	p.countNode()
	ps := pieces{c: c, start: start, seg: start}
	p.scan(&ps)
	if c == ctxWord && ps.open > 0 {
		p.failUnclosed(start, ")")
	}
	w.Parts = ps.parts
	if p.err == nil {
		w.Raw = p.src[start:p.i]
	}
	return w
}

// parenWord parses a word in which name=( opens a parenthesis that is part of
// it, as in `let x=(1+2)`.
func (p *parser) parenWord() *Word {
	start := p.i
	j := p.i
	for isName(p.byteAt(j)) {
		j++
	}
	w := &Word{Pos: p.posAt(start)}
	p.countNode()
	ps := pieces{c: ctxWord, start: start, seg: start}
	if j > start && p.byteAt(j) == '=' && p.byteAt(j+1) == '(' {
		p.i = j + 2
		ps.open = 1
	}
	p.scan(&ps)
	if ps.open > 0 {
		p.failUnclosed(start, ")")
	}
	w.Parts = ps.parts
	if p.err == nil {
		w.Raw = p.src[start:p.i]
	}
	return w
}

// parseBackslash parses a backslash and the character that it quotes.
func (p *parser) parseBackslash(w *pieces) {
	n := p.byteAt(p.i + 1)
	switch {
	case n == '\n':
		p.dropBytes(w, 2)
		return
	case n == 0:
		p.i++
		return
	case w.c.isQuoted():
		if isEscapable(w.c, n) {
			p.dropBytes(w, 1)
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

// isEscapable reports whether a backslash quotes n within double quotes.
func isEscapable(c context, n byte) bool {
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

// parseQuote parses text in single quotes.
func (p *parser) parseQuote(w *pieces) {
	if w.c == ctxParamQ { // it is text, but braces within it don't count
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
		if !p.fillWindow() {
			p.failUnclosed(start, "'")
			return
		}
	}
	if w.c.isQuoted() {
		return // in arithmetic, quotes only protect their content
	}
	raw := p.src[start:p.i]
	p.chargeWork(len(raw))
	p.add(w, start, &Quoted{Kind: SingleQuote, Value: raw[1 : len(raw)-1], Raw: raw})
}

type litDbl struct {
	DblQuoted
	lit  Lit
	only [1]Part
}

// dblQuoted parses "…".
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
		p.chargeWork(i - p.i)
		p.i = i + 1
		return &d.DblQuoted
	}
	if !p.enterLevel() {
		return nil
	}
	defer p.leaveLevel()
	w := pieces{c: ctxDbl, start: p.i, seg: p.i}
	p.scan(&w)
	if p.peekByte() != '"' {
		p.failUnclosed(start, `"`)
		return nil
	}
	p.i++
	return &DblQuoted{Parts: w.parts}
}
