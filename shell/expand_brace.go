package shell

import (
	"math"
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll/shell/syntax"
)

// bracedWord is a result of brace expansion, or a word whose many results are
// produced only when they are needed.
type bracedWord struct {
	word     *syntax.Word
	lazy     *braces
	expanded bool // word is a result
}

// braces is a word with brace expansions.
type braces struct {
	word *syntax.Word
	seq  braceSeq
}

// braceSeq is a sequence of pieces, each of which has one or more results.
type braceSeq []braceNode

// braceNode is a part, a list of alternatives, or a range.
type braceNode struct {
	part syntax.Part
	alts []braceSeq
	run  *braceRun
}

// braceRun is {from..to..step}.
type braceRun struct {
	from, step int64
	n          int64 // number of results
	width      int   // of numbers, padded with zeros
	char       bool
}

const (
	manyBytes     = 1 << 20 // up to so much text is read when a word is compiled
	manyBraces    = 256     // up to this many results are produced when a word is compiled
	maxBraceDepth = 200
)

// expandBraces performs brace expansion on a word.
func expandBraces(w *syntax.Word) []bracedWord {
	if !hasBraces(w) {
		return []bracedWord{{word: w}}
	}
	p := newBraceParser(w)
	seq := p.parseSequence(0, len(p.toks), 0)
	if !p.found {
		return []bracedWord{{word: w}}
	}
	return []bracedWord{{word: w, lazy: &braces{w, seq}}}
}

func hasBraces(w *syntax.Word) bool {
	open := false
	for _, p := range w.Parts {
		if l, ok := p.(*syntax.Lit); ok {
			open = open || strings.IndexByte(l.Value, '{') >= 0
			if open && strings.IndexByte(l.Value, '}') >= 0 {
				return true
			}
		}
	}
	return false
}

// braceTok is a byte of literal text, or a part.
type braceTok struct {
	c    byte
	part syntax.Part
}

type braceParser struct {
	toks  []braceTok
	close []int32 // for each '{', the matching '}' or 0
	comma []bool  // for each '{', whether a ',' belongs to it
	found bool
}

func newBraceParser(w *syntax.Word) *braceParser {
	p := &braceParser{}
	for _, part := range w.Parts {
		l, ok := part.(*syntax.Lit)
		if !ok {
			p.toks = append(p.toks, braceTok{part: part})
			continue
		}
		for i := 0; i < len(l.Value); i++ {
			p.toks = append(p.toks, braceTok{c: l.Value[i]})
		}
	}
	p.close = make([]int32, len(p.toks))
	p.comma = make([]bool, len(p.toks))
	var open []int
	for i, t := range p.toks {
		switch {
		case t.part != nil:
		case t.c == '{':
			open = append(open, i)
		case t.c == ',' && len(open) > 0:
			p.comma[open[len(open)-1]] = true
		case t.c == '}' && len(open) > 0:
			p.close[open[len(open)-1]] = int32(i)
			open = open[:len(open)-1]
		}
	}
	return p
}

// parseSequence parses the tokens from i to end.
func (p *braceParser) parseSequence(i, end, depth int) braceSeq {
	var seq braceSeq
	var lit []byte
	flush := func() {
		if len(lit) > 0 {
			seq = append(seq, braceNode{part: &syntax.Lit{Value: string(lit)}})
			lit = lit[:0]
		}
	}
	for i < end {
		t := p.toks[i]
		if t.part != nil {
			flush()
			seq = append(seq, braceNode{part: t.part})
			i++
			continue
		}
		if t.c == '{' && p.close[i] > 0 && depth < maxBraceDepth {
			if n, ok := p.parseBrace(i, depth); ok {
				flush()
				seq = append(seq, n)
				p.found = true
				i = int(p.close[i]) + 1
				continue
			}
		}
		lit = append(lit, t.c)
		i++
	}
	flush()
	return seq
}

// parseBrace parses the content of the brace at i.
func (p *braceParser) parseBrace(i, depth int) (braceNode, bool) {
	end := int(p.close[i])
	if !p.comma[i] {
		r := p.parseRange(i+1, end)
		return braceNode{run: r}, r != nil
	}
	n := braceNode{}
	start := i + 1
	for j := start; j <= end; j++ {
		t := p.toks[j]
		switch {
		case t.part != nil:
		case t.c == '{' && p.close[j] > 0:
			j = int(p.close[j])
		case t.c == ',' || j == end:
			n.alts = append(n.alts, p.parseSequence(start, j, depth+1))
			start = j + 1
		}
	}
	return n, true
}

// parseRange parses from..to or from..to..step; nil if it is neither.
func (p *braceParser) parseRange(i, end int) *braceRun {
	if end-i > 64 {
		return nil
	}
	text := make([]byte, 0, end-i)
	for ; i < end; i++ {
		if p.toks[i].part != nil {
			return nil
		}
		text = append(text, p.toks[i].c)
	}
	f := strings.Split(string(text), "..")
	if len(f) != 2 && len(f) != 3 {
		return nil
	}
	step := int64(1)
	if len(f) == 3 {
		n, err := strconv.ParseInt(f[2], 10, 64)
		if err != nil {
			return nil
		}
		step = n
	}
	if isLetter(f[0]) && isLetter(f[1]) {
		return newRun(int64(f[0][0]), int64(f[1][0]), step, 0, true)
	}
	from, err := strconv.ParseInt(f[0], 10, 64)
	to, err2 := strconv.ParseInt(f[1], 10, 64)
	if err != nil || err2 != nil {
		return nil
	}
	return newRun(from, to, step, max(zeroPadWidth(f[0]), zeroPadWidth(f[1])), false)
}

func isLetter(s string) bool {
	return len(s) == 1 && (s[0] >= 'a' && s[0] <= 'z' || s[0] >= 'A' && s[0] <= 'Z')
}

// zeroPadWidth returns the width of a number with leading zeros, else 0.
func zeroPadWidth(s string) int {
	d := strings.TrimLeft(s, "+-")
	if len(d) > 1 && d[0] == '0' {
		return len(s)
	}
	return 0
}

func newRun(from, to, step int64, width int, char bool) *braceRun {
	switch {
	case step == 0:
		step = 1
	case step == math.MinInt64:
		return nil
	case step < 0:
		step = -step
	}
	var dist uint64
	if to >= from {
		dist = uint64(to) - uint64(from)
	} else {
		dist = uint64(from) - uint64(to)
	}
	n := dist/uint64(step) + 1
	if n == 0 || n > math.MaxInt64 {
		return nil
	}
	if to < from {
		step = -step
	}
	if width > 0 {
		width = max(width, len(strconv.FormatInt(from, 10)), len(strconv.FormatInt(to, 10)))
	}
	return &braceRun{from: from, step: step, n: int64(n), width: width, char: char}
}

// textAt returns the i-th text of the range.
func (r *braceRun) textAt(i int64) string {
	v := r.from + i*r.step
	if r.char {
		return string([]byte{byte(v)})
	}
	s := strconv.FormatInt(v, 10)
	if pad := r.width - len(s); pad > 0 {
		if v < 0 {
			return "-" + strings.Repeat("0", pad) + s[1:]
		}
		return strings.Repeat("0", pad) + s
	}
	return s
}

// partAt returns the i-th text as a part of a word. A backslash quotes nothing
// and is dropped.
func (r *braceRun) partAt(i int64) syntax.Part {
	s := r.textAt(i)
	if s == `\` {
		return &syntax.Quoted{Kind: syntax.Backslash}
	}
	return &syntax.Lit{Value: s}
}

// lazyBraces compiles a word with brace expansions. It produces the results
// one by one, so that unused ones cost nothing; a small number is compiled in
// advance.
func (c *compiler) lazyBraces(b *braces) func(in *interp, out []string) []string {
	whole, _, _ := c.fieldWord(bracedWord{word: b.word})
	plain := b.seq.isPlain()
	var few []func(in *interp, out []string) []string
	if n := b.seq.countResults(); n <= manyBraces && n*len(b.word.Raw) <= manyBytes {
		b.seq.eachResult(nil, func(parts []syntax.Part) {
			f, _, _ := c.fieldWord(bracedWord{expanded: true, word: &syntax.Word{Pos: b.word.Pos, Parts: mergeParts(parts), Raw: b.word.Raw}})
			few = append(few, f)
		})
	}
	return func(in *interp, out []string) []string {
		if in.opts&optBraceexpand == 0 {
			return whole(in, out)
		}
		if few != nil {
			for _, f := range few {
				out = f(in, out)
			}
			return out
		}
		if plain {
			b.seq.eachText(make([]byte, 0, 64), func(s []byte) {
				out = append(out, string(s))
				in.chargeWork(1)
				in.chargeSmall(len(s) + 40)
			})
			return out
		}
		cc := &compiler{source: c.source, line: c.line}
		b.seq.eachResult(nil, func(parts []syntax.Part) {
			n := len(out)
			f, s, isConst := cc.fieldWord(bracedWord{expanded: true, word: &syntax.Word{Pos: b.word.Pos, Parts: mergeParts(parts)}})
			if isConst {
				out = append(out, s)
			} else {
				out = f(in, out)
			}
			in.chargeWork(4)
			for _, s := range out[n:] {
				in.chargeSmall(len(s) + 40)
			}
		})
		return out
	}
}

// chargeSmall charges n bytes until the end of the command, in batches.
func (in *interp) chargeSmall(n int) {
	if in.uncharged += n; in.uncharged >= 4096 {
		in.chargeScratch(in.uncharged)
		in.uncharged = 0
	}
}

// countResults returns the number of results of a sequence, at most 1<<30.
func (s braceSeq) countResults() int {
	const limit = 1 << 30
	n := 1
	for i := range s {
		k := 1
		switch {
		case s[i].run != nil:
			k = int(min(s[i].run.n, limit))
		case s[i].alts != nil:
			k = 0
			for _, a := range s[i].alts {
				k = min(k+a.countResults(), limit)
			}
		}
		n = min(n*k, limit)
	}
	return n
}

// eachResult calls f for every result; the last brace varies fastest.
func (s braceSeq) eachResult(before []syntax.Part, f func([]syntax.Part)) {
	if len(s) == 0 {
		f(before)
		return
	}
	n := len(before)
	before = before[:n:n]
	switch node := &s[0]; {
	case node.run != nil:
		for i := range node.run.n {
			s[1:].eachResult(append(before, node.run.partAt(i)), f)
		}
	case node.alts != nil:
		for _, a := range node.alts {
			a.eachResult(before, func(parts []syntax.Part) { s[1:].eachResult(parts, f) })
		}
	default:
		s[1:].eachResult(append(before, node.part), f)
	}
}

// isPlain reports whether every result is text that needs no more expansion.
func (s braceSeq) isPlain() bool {
	for i := range s {
		switch n := &s[i]; {
		case n.run != nil:
			if n.run.char {
				return false
			}
		case n.alts != nil:
			for _, a := range n.alts {
				if len(a) == 0 || !a.isPlain() {
					return false
				}
			}
		default:
			l, ok := n.part.(*syntax.Lit)
			if !ok || strings.ContainsAny(l.Value, "*?[\\(~") {
				return false
			}
		}
	}
	return true
}

// eachText is eachResult for a plain sequence.
func (s braceSeq) eachText(before []byte, f func([]byte)) {
	if len(s) == 0 {
		f(before)
		return
	}
	switch node := &s[0]; {
	case node.run != nil && node.run.width == 0:
		v := node.run.from
		for range node.run.n {
			s[1:].eachText(strconv.AppendInt(before, v, 10), f)
			v += node.run.step
		}
	case node.run != nil:
		for i := range node.run.n {
			s[1:].eachText(append(before, node.run.textAt(i)...), f)
		}
	case node.alts != nil:
		for _, a := range node.alts {
			a.eachText(before, func(b []byte) { s[1:].eachText(b, f) })
		}
	default:
		s[1:].eachText(append(before, node.part.(*syntax.Lit).Value...), f)
	}
}

// mergeParts joins adjacent text. Text after a parameter extends its name, as
// in $x{a,b}, because brace expansion comes first.
func mergeParts(parts []syntax.Part) []syntax.Part {
	out := make([]syntax.Part, 0, len(parts))
	for _, p := range parts {
		l, ok := p.(*syntax.Lit)
		if !ok || len(out) == 0 {
			out = append(out, p)
			continue
		}
		switch q := out[len(out)-1].(type) {
		case *syntax.Lit:
			out[len(out)-1] = &syntax.Lit{Value: q.Value + l.Value}
		case *syntax.ParamExp:
			out = growName(out, q, l)
		default:
			out = append(out, p)
		}
	}
	return out
}

func growName(out []syntax.Part, e *syntax.ParamExp, l *syntax.Lit) []syntax.Part {
	n := 0
	if e.Short && isName(e.Name) {
		for n < len(l.Value) && isNameByte(l.Value[n]) {
			n++
		}
	}
	if n > 0 {
		grown := *e
		grown.Name += l.Value[:n]
		out[len(out)-1] = &grown
	}
	if n < len(l.Value) {
		out = append(out, &syntax.Lit{Value: l.Value[n:]})
	}
	return out
}
