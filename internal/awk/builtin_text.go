package awk

import (
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/atoll-sandbox/atoll/internal/regex"
)

func (c *compiler) substr(e *builtinExpr) strFn {
	in := c.in
	s, from := c.str(e.args[0]), c.num(e.args[1])
	if len(e.args) == 2 {
		return func() string {
			t := s()
			return in.substr(t, from(), math.Inf(1))
		}
	}
	count := c.num(e.args[2])
	return func() string {
		t := s()
		m := from()
		return in.substr(t, m, count())
	}
}

// substr returns the characters of s from position m on, n of them. As in
// gawk a position before the first is the first.
func (in *interp) substr(s string, m, n float64) string {
	if math.IsNaN(m) || math.IsNaN(n) {
		return ""
	}
	m, n = max(math.Trunc(m), 1), math.Trunc(n)
	if n <= 0 {
		return ""
	}
	end := m + n // of the first character after
	if end <= m || m > float64(len(s)) {
		return ""
	}
	begin := in.offset(s, int(m)-1)
	t := s[begin:]
	if end < float64(len(s))+1 {
		t = t[:in.offset(t, int(end-m))]
	}
	if len(s) > 256 && len(t) < len(s)/2 {
		in.work(len(t))
		return strings.Clone(t)
	}
	return t
}

func (c *compiler) indexFn(e *builtinExpr) numFn {
	in := c.in
	s, t := c.str(e.args[0]), c.str(e.args[1])
	return func() float64 {
		a := s()
		b := t()
		in.work(len(a))
		if in.ignoreCase {
			a, b = strings.ToLower(a), strings.ToLower(b)
		}
		i := strings.Index(a, b)
		if i < 0 {
			return 0
		}
		return float64(in.length(a[:i]) + 1)
	}
}

func (c *compiler) changeCase(e *builtinExpr) strFn {
	in := c.in
	s := c.str(e.args[0])
	change := unicode.ToLower
	ascii := strings.ToLower
	if e.name == "toupper" {
		change, ascii = unicode.ToUpper, strings.ToUpper
	}
	return func() string {
		t := s()
		in.reserve(len(t))
		in.work(len(t))
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
		return mapRunes(t, change, in.utf8)
	}
}

// mapRunes changes the letters of s; bytes that are no text stay.
func mapRunes(s string, change func(rune) rune, utf bool) string {
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

func (c *compiler) sprintf(e *builtinExpr) strFn {
	in, line := c.in, c.line
	format := c.str(e.args[0])
	fs := make([]valFn, len(e.args)-1)
	for i, a := range e.args[1:] {
		fs[i] = c.val(a)
	}
	return func() string {
		f := format()
		list, base := in.operandsOf(fs)
		var few [128]byte
		b := in.sprintf(few[:0], f, list, line)
		in.operands = in.operands[:base]
		in.reserve(len(b))
		return string(b)
	}
}

// separator compiles the argument of split that says what separates.
func (c *compiler) separatorArg(e *builtinExpr) func() splitter {
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
	src := c.regexSource(e.args[2])
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

func (in *interp) patsplitDefault() string {
	if in.fpat != "" {
		return in.fpat
	}
	return "[^[:space:]]+"
}

func (c *compiler) splitFn(e *builtinExpr) numFn {
	in := c.in
	s, arr, sep := c.str(e.args[0]), c.array(e.args[1]), c.separatorArg(e)
	var seps func() *array
	if len(e.args) > 3 {
		seps = c.array(e.args[3])
	}
	var spans []span
	return func() float64 {
		t := s()
		p := sep()
		a := arr()
		spans, _ = p.find(in, t, 0, maxFields, spans[:0])
		in.charge(int64(cap(spans)) * 8)
		in.settle()
		in.empty(a)
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
		in.charge(-int64(cap(spans)) * 8)
		if cap(spans) > 1024 {
			spans = nil
		}
		return float64(n)
	}
}

// setSeparators fills the array of what stands between the fields, and
// before the first and after the last one where that is not empty.
func (in *interp) setSeparators(a *array, s string, spans []span) {
	in.empty(a)
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

func (c *compiler) matchFn(e *builtinExpr) numFn {
	in, line := c.in, c.line
	s, src := c.str(e.args[0]), c.regexSource(e.args[1])
	var arr func() *array
	if len(e.args) > 2 {
		arr = c.array(e.args[2])
	}
	var st site
	return func() float64 {
		t := s()
		re := st.at(in, src(), line)
		caps := make([]int, 2)
		if arr != nil {
			caps = make([]int, 2+2*re.Groups())
		}
		ok := in.find(re, t, 0, caps)
		start, length := 0, -1
		if ok {
			start = in.length(t[:caps[0]]) + 1
			length = in.length(t[caps[0]:caps[1]])
		}
		in.store(in.rstart, numValue(float64(start)))
		in.store(in.rlength, numValue(float64(length)))
		if arr != nil {
			a := arr()
			in.empty(a)
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
		in.set(a, n+in.subsep+"start", numValue(float64(in.length(s[:caps[i]])+1)))
		in.set(a, n+in.subsep+"length", numValue(float64(in.length(s[caps[i]:caps[i+1]]))))
	}
}

// replacement is the text that sub and its kin put in: pieces of text and
// numbers of groups.
type replacement struct {
	text  string
	group int // -1: only text
}

// parseReplacement reads a replacement. With groups, as gensub has it, \0 to
// \9 are groups too.
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

// edit replaces matches of re in s: the nth one, or all if nth is 0. It
// returns the result and how many were replaced.
func (in *interp) edit(re *regex.Regexp, s string, rep []replacement, nth int) (string, int) {
	caps := make([]int, 2)
	for _, r := range rep {
		if r.group > 0 {
			caps = make([]int, 2+2*re.Groups())
		}
	}
	var out []byte
	count, seen, done := 0, 0, 0
	last := -1 // where the last match ended
	grown := 0
	for at := 0; at <= len(s) && in.find(re, s, at, caps); {
		in.tick(1)
		from, to := caps[0], caps[1]
		if from == to && from == last {
			at = in.after(s, from)
			continue
		}
		seen++
		last = to
		if nth == 0 || seen == nth {
			count++
			out = append(out, s[done:from]...)
			out = appendReplacement(out, s, rep, caps)
			done = to
		}
		if cap(out) > grown+largeString {
			in.reserve(cap(out) - grown)
			grown = cap(out)
		}
		if nth != 0 && seen >= nth {
			break
		}
		at = to
		if from == to {
			at = in.after(s, to)
		}
	}
	if count == 0 {
		return s, 0
	}
	out = append(out, s[done:]...)
	in.reserve(max(0, cap(out)-grown))
	return text(out), count
}

// after returns the offset of the character after the one at i.
func (in *interp) after(s string, i int) int {
	if i >= len(s) || !in.utf8 {
		return i + 1
	}
	_, w := utf8.DecodeRuneInString(s[i:])
	return i + w
}

func appendReplacement(out []byte, s string, rep []replacement, caps []int) []byte {
	for _, r := range rep {
		out = append(out, r.text...)
		if g := 2 * r.group; g >= 0 && g < len(caps) && caps[g] >= 0 {
			out = append(out, s[caps[g]:caps[g+1]]...)
		}
	}
	return out
}

// substitute compiles sub and gsub.
func (c *compiler) substitute(e *builtinExpr) numFn {
	in, line := c.in, c.line
	src, repl := c.regexSource(e.args[0]), c.str(e.args[1])
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
	var st site
	var rep []replacement
	parsed := ""
	change := func(s string) (string, int) {
		re := st.at(in, src(), line)
		if r := repl(); rep == nil || r != parsed {
			rep, parsed = parseReplacement(r, false), r
		}
		return in.edit(re, s, rep, nth)
	}
	return c.changeTarget(target, change)
}

// changeTarget compiles the change of a variable by f, which also counts.
// It is stored only if something was replaced.
func (c *compiler) changeTarget(target expr, f func(string) (string, int)) numFn {
	in, line := c.in, c.line
	if !isLvalue(target) {
		s := c.str(target)
		return func() float64 { _, n := f(s()); return float64(n) }
	}
	if ref, ok := target.(*fieldRef); ok {
		index, _, _ := c.index(ref)
		return func() float64 {
			i := index()
			s := ""
			if i == 0 {
				s = in.text()
			} else {
				s = in.fieldStr(i)
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
	get, set := c.str(target), c.setter(target)
	return func() float64 {
		t, n := f(get())
		if n > 0 {
			set(strValue(t))
		}
		return float64(n)
	}
}

func (c *compiler) gensub(e *builtinExpr) strFn {
	in, line := c.in, c.line
	src, repl, how := c.regexSource(e.args[0]), c.str(e.args[1]), c.val(e.args[2])
	s := in.text
	if len(e.args) > 3 {
		s = c.str(e.args[3])
	}
	var st site
	return func() string {
		re := st.at(in, src(), line)
		rep := parseReplacement(repl(), true)
		h := how()
		nth := 1
		if t := h.str(in.convfmt); h.k != number && t != "" && t[0]|0x20 == 'g' {
			nth = 0
		} else if n := h.num(); n >= 1 {
			nth = int(min(n, 1<<31))
		} else {
			in.warning(line, "gensub: third argument `%s' treated as 1", t)
		}
		out, _ := in.edit(re, s(), rep, nth)
		return out
	}
}
