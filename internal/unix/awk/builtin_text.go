package awk

import (
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/atoll-sandbox/atoll/internal/unix/regex"
)

// compileSubstr compiles substr.
func (c *compiler) compileSubstr(e *builtinExpr) strFn {
	in := c.in
	s, from := c.compileStr(e.args[0]), c.compileNum(e.args[1])
	if len(e.args) == 2 {
		return func() string {
			t := s()
			return in.substr(t, from(), math.Inf(1))
		}
	}
	count := c.compileNum(e.args[2])
	return func() string {
		t := s()
		m := from()
		return in.substr(t, m, count())
	}
}

// substr returns n characters of s from position m, counted from 1. As in gawk, a position below 1
// means 1.
func (in *interp) substr(s string, m, n float64) string {
	if math.IsNaN(m) || math.IsNaN(n) {
		return ""
	}
	m, n = max(math.Trunc(m), 1), math.Trunc(n)
	if n <= 0 {
		return ""
	}
	end := m + n // position after the last character
	if end <= m || m > float64(len(s)) {
		return ""
	}
	begin := in.charOffset(s, int(m)-1)
	t := s[begin:]
	if end < float64(len(s))+1 {
		t = t[:in.charOffset(t, int(end-m))]
	}
	if len(s) > 256 && len(t) < len(s)/2 {
		in.tickBytes(len(t))
		return strings.Clone(t)
	}
	return t
}

// compileIndex compiles index.
func (c *compiler) compileIndex(e *builtinExpr) numFn {
	in := c.in
	s, t := c.compileStr(e.args[0]), c.compileStr(e.args[1])
	return func() float64 {
		a := s()
		b := t()
		in.tickBytes(len(a))
		if in.ignoreCase {
			a, b = strings.ToLower(a), strings.ToLower(b)
		}
		i := strings.Index(a, b)
		if i < 0 {
			return 0
		}
		return float64(in.charCount(a[:i]) + 1)
	}
}

// compileChangeCase compiles tolower and toupper.
func (c *compiler) compileChangeCase(e *builtinExpr) strFn {
	in := c.in
	s := c.compileStr(e.args[0])
	change := unicode.ToLower
	ascii := strings.ToLower
	if e.name == "toupper" {
		change, ascii = unicode.ToUpper, strings.ToUpper
	}
	return func() string {
		t := s()
		in.chargeTemp(len(t))
		in.tickBytes(len(t))
		plain := true
		for i := range len(t) {
			if t[i] >= utf8.RuneSelf {
				plain = false
				break
			}
		}
		if plain {
			return ascii(t)
		}
		return changeRunes(t, change, in.utf8)
	}
}

// changeRunes changes the letters of s; bytes that are not text stay unchanged.
func changeRunes(s string, change func(rune) rune, utf bool) string {
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); {
		r, w := rune(s[i]), 1
		if utf {
			r, w = utf8.DecodeRuneInString(s[i:])
		}
		if r == utf8.RuneError || !utf && r >= utf8.RuneSelf {
			b = append(b, s[i:i+w]...)
		} else {
			b = utf8.AppendRune(b, change(r))
		}
		i += w
	}
	return string(b)
}

// compileSprintf compiles sprintf.
func (c *compiler) compileSprintf(e *builtinExpr) strFn {
	in, line := c.in, c.line
	format := c.compileStr(e.args[0])
	fs := make([]valFn, len(e.args)-1)
	for i, a := range e.args[1:] {
		fs[i] = c.compileValue(a)
	}
	return func() string {
		f := format()
		list, base := in.evalOperands(fs)
		var few [128]byte
		b := in.appendFormat(few[:0], f, list, line)
		in.operands = in.operands[:base]
		in.chargeTemp(len(b))
		return string(b)
	}
}

// compileSeparator compiles the separator of split or patsplit.
func (c *compiler) compileSeparator(e *builtinExpr) func() splitter {
	in, line := c.in, c.line
	pattern := e.name == "patsplit"
	if len(e.args) < 3 {
		return func() splitter {
			if pattern {
				return patternSplitter{in.regexes.get(in.patsplitDefault(), line)}
			}
			return in.next
		}
	}
	src := c.compileRegexSource(e.args[2])
	_, isRegex := staticRegex(e.args[2])
	var last struct {
		src, rs string
		folded  bool
		s       splitter
	}
	return func() splitter {
		s := src()
		if pattern {
			return patternSplitter{in.regexes.get(s, line)}
		}
		if last.s == nil || last.src != s || last.rs != in.rs || last.folded != in.ignoreCase {
			last.s, last.src, last.rs, last.folded = in.splitterFor(s, isRegex, line), s, in.rs, in.ignoreCase
			if p, ok := last.s.(charSplitter); ok {
				p.lines = false
				last.s = p
			}
		}
		return last.s
	}
}

// patsplitDefault returns the default pattern of patsplit.
func (in *interp) patsplitDefault() string {
	if in.fpat != "" {
		return in.fpat
	}
	return "[^[:space:]]+"
}

// compileSplit compiles split and patsplit.
func (c *compiler) compileSplit(e *builtinExpr) numFn {
	in := c.in
	s, arr, sep := c.compileStr(e.args[0]), c.compileArray(e.args[1]), c.compileSeparator(e)
	var seps func() *array
	if len(e.args) > 3 {
		seps = c.compileArray(e.args[3])
	}
	var spans []span
	return func() float64 {
		t := s()
		p := sep()
		a := arr()
		spans, _ = p.find(in, t, 0, maxFields, spans[:0])
		in.deleteAll(a)
		copyOut := len(t) > 256
		for i, sp := range spans {
			in.tick(1)
			f := t[sp.from:sp.to]
			if copyOut {
				f = strings.Clone(f)
			}
			in.setNum(a, int64(i+1), inValue(f))
		}
		if seps != nil {
			in.setSeparators(seps(), t, spans)
		}
		n := len(spans)
		if cap(spans) > 1024 {
			in.charge(-int64(cap(spans)) * spanSize)
			spans = nil
		}
		return float64(n)
	}
}

// setSeparators fills the array of separators: those between fields, and those before the first and
// after the last field if they aren't empty.
func (in *interp) setSeparators(a *array, s string, spans []span) {
	in.deleteAll(a)
	if len(spans) == 0 {
		return
	}
	if spans[0].from > 0 {
		in.setNum(a, 0, strValue(strings.Clone(s[:spans[0].from])))
	}
	for i := 1; i < len(spans); i++ {
		in.setNum(a, int64(i), strValue(strings.Clone(s[spans[i-1].to:spans[i].from])))
	}
	if last := int(spans[len(spans)-1].to); last < len(s) {
		in.setNum(a, int64(len(spans)), strValue(strings.Clone(s[last:])))
	}
}

// compileMatchFunc compiles match.
func (c *compiler) compileMatchFunc(e *builtinExpr) numFn {
	in, line := c.in, c.line
	s, src := c.compileStr(e.args[0]), c.compileRegexSource(e.args[1])
	var arr func() *array
	if len(e.args) > 2 {
		arr = c.compileArray(e.args[2])
	}
	var st regexSite
	return func() float64 {
		t := s()
		re := st.compiledFor(in, src(), line)
		caps := make([]int, 2)
		if arr != nil {
			caps = make([]int, 2+2*re.Groups())
		}
		ok := in.find(re, t, 0, caps)
		start, length := 0, -1
		if ok {
			start = in.charCount(t[:caps[0]]) + 1
			length = in.charCount(t[caps[0]:caps[1]])
		}
		in.storeValue(in.rstart, numValue(float64(start)))
		in.storeValue(in.rlength, numValue(float64(length)))
		if arr != nil {
			a := arr()
			in.deleteAll(a)
			if ok {
				in.setGroups(a, t, caps)
			}
		}
		return float64(start)
	}
}

// setGroups fills the third argument of match.
func (in *interp) setGroups(a *array, s string, caps []int) {
	for i := 0; i < len(caps); i += 2 {
		if caps[i] < 0 {
			continue
		}
		in.setNum(a, int64(i/2), inValue(strings.Clone(s[caps[i]:caps[i+1]])))
		n := strconv.Itoa(i / 2)
		in.set(a, n+in.subsep+"start", numValue(float64(in.charCount(s[:caps[i]])+1)))
		in.set(a, n+in.subsep+"length", numValue(float64(in.charCount(s[caps[i]:caps[i+1]]))))
	}
}

// replacement is a piece of the replacement of sub, gsub and gensub: a text followed by a group.
type replacement struct {
	text  string
	group int // -1: only text
}

// parseReplacement parses a replacement. If groups is set, as for gensub, \0 to \9 are groups too.
func parseReplacement(s string, groups bool) []replacement {
	var list []replacement
	var b strings.Builder
	flush := func(g int) {
		list = append(list, replacement{b.String(), g})
		b.Reset()
	}
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '&':
			flush(0)
		case c != '\\' || i+1 == len(s):
			b.WriteByte(c)
		case groups:
			i++
			switch d := s[i]; {
			case isDigit(d):
				flush(int(d - '0'))
			case d == '&' || d == '\\':
				b.WriteByte(d)
			default:
				b.WriteByte('\\')
				b.WriteByte(d)
			}
		case s[i+1] == '&':
			i++
			b.WriteByte('&')
		case s[i+1] == '\\' && i+2 < len(s) && s[i+2] == '&': // \\& is a backslash and the match
			i++
			b.WriteByte('\\')
		default:
			b.WriteByte('\\')
		}
	}
	if b.Len() > 0 {
		flush(-1)
	}
	return list
}

// replaceMatches replaces matches of re in s: the nth one, or all if nth is 0. It returns the
// result and the number of replacements.
func (in *interp) replaceMatches(re *regex.Regexp, s string, rep []replacement, nth int) (string, int) {
	caps := make([]int, 2)
	for _, r := range rep {
		if r.group > 0 {
			caps = make([]int, 2+2*re.Groups())
		}
	}
	var out []byte
	count, seen, done := 0, 0, 0
	last := -1 // where the last match ended
	for at := 0; at <= len(s) && in.find(re, s, at, caps); {
		in.tick(1)
		from, to := caps[0], caps[1]
		if from == to && from == last {
			at = in.offsetAfter(s, from)
			continue
		}
		seen++
		last = to
		if nth == 0 || seen == nth {
			count++
			out = in.growTemp(out, from-done+replacementSize(rep, caps))
			out = append(out, s[done:from]...)
			out = appendReplacement(out, s, rep, caps)
			done = to
		}
		if nth != 0 && seen >= nth {
			break
		}
		at = to
		if from == to {
			at = in.offsetAfter(s, to)
		}
	}
	if count == 0 {
		return s, 0
	}
	out = in.growTemp(out, len(s)-done)
	return unsafeString(in.clipTemp(append(out, s[done:]...))), count
}

// growTemp returns b, a buffer that only growTemp has grown, with room for n more bytes. It charges
// a large one before it is allocated.
func (in *interp) growTemp(b []byte, n int) []byte {
	need := len(b) + n
	if need <= cap(b) {
		return b
	}
	size := max(need, 2*cap(b), 64)
	if cap(b) > 1<<20 {
		size = max(need, cap(b)+cap(b)/2)
	}
	in.chargeTemp(size)
	grown := make([]byte, len(b), size)
	copy(grown, b)
	if cap(b) >= largeString {
		in.temp -= int64(cap(b))
		in.charge(-int64(cap(b)))
	}
	return grown
}

// clipTemp returns b without much unused memory behind it, which would not be charged once it is
// stored.
func (in *interp) clipTemp(b []byte) []byte {
	if cap(b) < largeString || cap(b)-len(b) < cap(b)/8 {
		return b
	}
	in.chargeTemp(len(b))
	return append(make([]byte, 0, len(b)), b...)
}

// replacementSize returns the length of a replacement for the match in caps.
func replacementSize(rep []replacement, caps []int) int {
	n := 0
	for _, r := range rep {
		n += len(r.text)
		if g := 2 * r.group; g >= 0 && g < len(caps) && caps[g] >= 0 {
			n += caps[g+1] - caps[g]
		}
	}
	return n
}

// offsetAfter returns the offset of the character after the one at i.
func (in *interp) offsetAfter(s string, i int) int {
	if i >= len(s) || !in.utf8 {
		return i + 1
	}
	_, w := utf8.DecodeRuneInString(s[i:])
	return i + w
}

// appendReplacement appends a replacement for the match in caps.
func appendReplacement(out []byte, s string, rep []replacement, caps []int) []byte {
	for _, r := range rep {
		out = append(out, r.text...)
		if g := 2 * r.group; g >= 0 && g < len(caps) && caps[g] >= 0 {
			out = append(out, s[caps[g]:caps[g+1]]...)
		}
	}
	return out
}

// compileSubstitute compiles sub and gsub.
func (c *compiler) compileSubstitute(e *builtinExpr) numFn {
	in, line := c.in, c.line
	src, repl := c.compileRegexSource(e.args[0]), c.compileStr(e.args[1])
	var target expr = &fieldRef{&numLit{0}}
	if len(e.args) > 2 {
		target = e.args[2]
	}
	if g, ok := target.(*groupExpr); ok && len(g.list) == 1 {
		target = g.list[0]
	}
	nth := 1
	if e.name == "gsub" {
		nth = 0
	}
	var st regexSite
	var rep []replacement
	parsed := ""
	change := func(s string) (string, int) {
		re := st.compiledFor(in, src(), line)
		if r := repl(); rep == nil || r != parsed {
			rep, parsed = parseReplacement(r, false), r
		}
		return in.replaceMatches(re, s, rep, nth)
	}
	return c.compileChange(target, change)
}

// compileChange compiles a change of a variable by f, which returns the new text and a count. A
// count of 0 leaves the variable unchanged.
func (c *compiler) compileChange(target expr, f func(string) (string, int)) numFn {
	in, line := c.in, c.line
	if !isLvalue(target) {
		s := c.compileStr(target)
		return func() float64 { _, n := f(s()); return float64(n) }
	}
	if ref, ok := target.(*fieldRef); ok {
		index, _, _ := c.compileFieldIndex(ref)
		return func() float64 {
			i := index()
			s := ""
			if i == 0 {
				s = in.recordText()
			} else {
				s = in.fieldText(i)
			}
			t, n := f(s)
			switch {
			case n > 0 && i == 0:
				in.setRecord(t)
			case n > 0:
				in.setField(line, i, strValue(t))
			}
			return float64(n)
		}
	}
	get, set := c.compileStr(target), c.compileSetter(target)
	return func() float64 {
		t, n := f(get())
		if n > 0 {
			set(strValue(t))
		}
		return float64(n)
	}
}

// compileGensub compiles gensub.
func (c *compiler) compileGensub(e *builtinExpr) strFn {
	in, line := c.in, c.line
	src, repl, how := c.compileRegexSource(e.args[0]), c.compileStr(e.args[1]), c.compileValue(e.args[2])
	s := in.recordText
	if len(e.args) > 3 {
		s = c.compileStr(e.args[3])
	}
	var st regexSite
	return func() string {
		re := st.compiledFor(in, src(), line)
		rep := parseReplacement(repl(), true)
		h := how()
		nth := 1
		if t := h.asString(in.convfmt); h.k != number && t != "" && t[0]|0x20 == 'g' {
			nth = 0
		} else if n := h.asNumber(); n >= 1 {
			nth = int(min(n, 1<<31))
		} else {
			in.printWarning(line, "gensub: third argument `%s' treated as 1", t)
		}
		out, _ := in.replaceMatches(re, s(), rep, nth)
		return out
	}
}
