package shell

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/atoll-sandbox/atoll/shell/syntax"
)

// changeOp compiles an operation that maps a string to a string.
func (c *compiler) changeOp(e *syntax.ParamExp) func(in *interp) func(string) string {
	switch e.Op {
	case syntax.ParamReplace, syntax.ParamReplaceAll, syntax.ParamReplaceStart, syntax.ParamReplaceEnd:
		return c.replaceOp(e)
	case syntax.ParamTrimPrefix, syntax.ParamTrimPrefixAll, syntax.ParamTrimSuffix, syntax.ParamTrimSuffixAll:
		return c.trimOp(e)
	}
	return c.caseOp(e)
}

func (c *compiler) trimOp(e *syntax.ParamExp) func(in *interp) func(string) string {
	pat, op := c.trimPattern(e.Arg), e.Op
	return func(in *interp) func(string) string {
		p := pat(in)
		return func(s string) string {
			switch op {
			case syntax.ParamTrimPrefix, syntax.ParamTrimPrefixAll:
				if i := p.matchPrefix(in, s, op == syntax.ParamTrimPrefixAll); i > 0 {
					return cutOut(s, i, len(s))
				}
			default:
				if i := p.matchSuffix(in, s, op == syntax.ParamTrimSuffixAll); i >= 0 {
					return cutOut(s, 0, i)
				}
			}
			return s
		}
	}
}

// cutOut returns a part of a text. A long text does not stay in memory with it, since only the part is charged where it is
// stored.
func cutOut(s string, from, to int) string {
	switch {
	case from == 0 && to == len(s):
		return s
	case from == to:
		return ""
	case len(s) <= 128:
		return s[from:to]
	}
	return strings.Clone(s[from:to])
}

// trimPattern compiles a pattern that ignores the option nocasematch.
func (c *compiler) trimPattern(w *syntax.Word) func(in *interp) *pattern {
	f := c.pattern(w)
	return func(in *interp) *pattern {
		if in.shopts&shNocasematch == 0 {
			return f(in)
		}
		in.shopts &^= shNocasematch
		p := f(in)
		in.shopts |= shNocasematch
		return p
	}
}

func (c *compiler) replaceOp(e *syntax.ParamExp) func(in *interp) func(string) string {
	pat, op := c.pattern(e.Arg), e.Op
	repl := func(*interp) string { return "" }
	if e.Repl != nil {
		repl = c.replacement(e.Repl)
	}
	return func(in *interp) func(string) string {
		p := pat(in)
		r := parseReplacement(repl(in), in.shopts&shPatsubReplacement != 0)
		return func(s string) string { return in.substituteMatches(s, p, op, r) }
	}
}

// replacement compiles the text that replaces a match; backslashes protect
// quoted text.
func (c *compiler) replacement(w *syntax.Word) text {
	list := wordItems(w.Parts, tildeStart)
	fs := make([]text, len(list))
	for i, it := range list {
		f := c.textOf(it)
		switch it.part.(type) {
		case *syntax.Lit, *syntax.ParamExp, *syntax.CmdSubst, *syntax.ArithExp:
			fs[i] = f
		default:
			fs[i] = func(in *interp) string { return quoteAmps(f(in)) }
		}
	}
	return joinTexts(fs)
}

func quoteAmps(s string) string {
	return strings.NewReplacer(`\`, `\\`, `&`, `\&`).Replace(s)
}

// replacer is a replacement split at its ampersands, which stand for the match.
type replacer []string

func parseReplacement(s string, amps bool) replacer {
	if strings.IndexByte(s, '\\') < 0 && (!amps || strings.IndexByte(s, '&') < 0) {
		return replacer{s}
	}
	var r replacer
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\\' && i+1 < len(s) && (s[i+1] == '&' || s[i+1] == '\\'):
			i++
			b.WriteByte(s[i])
		case c == '&' && amps:
			r = append(r, b.String())
			b.Reset()
		default:
			b.WriteByte(c)
		}
	}
	return append(r, b.String())
}

// substituteMatches performs ${x/p/r}.
func (in *interp) substituteMatches(s string, p *pattern, op syntax.ParamOp, r replacer) string {
	switch op {
	case syntax.ParamReplaceStart:
		if n := p.matchPrefix(in, s, true); n >= 0 {
			return in.replaceMatch(s, 0, n, r)
		}
		return s
	case syntax.ParamReplaceEnd:
		if n := p.matchSuffix(in, s, true); n >= 0 {
			return in.replaceMatch(s, n, len(s), r)
		}
		return s
	}
	if len(p.nodes) == 0 {
		return s
	}
	if s == "" {
		if p.matchAll(in, s) {
			return in.replaceMatch(s, 0, 0, r)
		}
		return s
	}
	return in.replaceMatches(s, p, op == syntax.ParamReplaceAll, r)
}

// replaceMatch replaces one match, from start to end.
func (in *interp) replaceMatch(s string, start, end int, r replacer) string {
	b := in.growScratch(nil, len(s)-(end-start)+r.size(end-start))
	b = append(b, s[:start]...)
	b = r.appendTo(b, s[start:end])
	return in.textOf(append(b, s[end:]...))
}

func (in *interp) replaceMatches(s string, p *pattern, all bool, r replacer) string {
	f := finder{m: matcher{p: p, in: in, s: s}}
	var out []byte
	changed := false
	done := 0
	for done < len(s) {
		start, end, ok := f.next(done)
		if !ok || start >= len(s) {
			break
		}
		out = in.growScratch(out, start-done+r.size(end-start))
		out = append(out, s[done:start]...)
		out = r.appendTo(out, s[start:end])
		changed, done = true, end
		if !all {
			break
		}
		if start == end {
			_, w := charAt(s, end, p.flags)
			out = in.growScratch(out, w)
			out = append(out, s[end:end+w]...)
			done += w
		}
	}
	if !changed {
		return s
	}
	out = in.growScratch(out, len(s)-done)
	return in.textOf(append(out, s[done:]...))
}

// size returns the length of the replacement for a match of n bytes.
func (r replacer) size(n int) int {
	size := n * (len(r) - 1)
	for _, s := range r {
		size += len(s)
	}
	return size
}

func (r replacer) appendTo(b []byte, match string) []byte {
	for i, s := range r {
		if i > 0 {
			b = append(b, match...)
		}
		b = append(b, s...)
	}
	return b
}

// caseOp compiles ${x^p} and similar operations.
func (c *compiler) caseOp(e *syntax.ParamExp) func(in *interp) func(string) string {
	pat := func(*interp) *pattern { return nil }
	if e.Arg != nil {
		pat = c.pattern(e.Arg)
	}
	conv := caseOf(e.Op)
	all := e.Op == syntax.ParamUpperAll || e.Op == syntax.ParamLowerAll || e.Op == syntax.ParamToggleAll
	return func(in *interp) func(string) string {
		p := pat(in)
		return func(s string) string { return in.mapCase(s, p, conv, all) }
	}
}

func caseOf(op syntax.ParamOp) func(rune) rune {
	switch op {
	case syntax.ParamUpper, syntax.ParamUpperAll:
		return unicode.ToUpper
	case syntax.ParamLower, syntax.ParamLowerAll:
		return unicode.ToLower
	}
	return func(r rune) rune {
		if unicode.IsUpper(r) {
			return unicode.ToLower(r)
		}
		return unicode.ToUpper(r)
	}
}

func (in *interp) mapCase(s string, p *pattern, conv func(rune) rune, all bool) string {
	var b strings.Builder
	in.chargeScratch(len(s))
	b.Grow(len(s))
	for i, n := 0, 0; i < len(s); n++ {
		if n%64 == 0 {
			in.chargeWork(4)
		}
		r, w := charAt(s, i, 0)
		ch := s[i : i+w]
		if r < rawByte && (!in.bytes || r < utf8.RuneSelf) && (p == nil || p.matchAll(in, ch)) {
			r = conv(r)
			if rest := len(s) - i - w; utf8.RuneLen(r) > w && b.Len()+utf8.RuneLen(r)+rest > b.Cap() {
				in.chargeScratch(2 * b.Cap())
				b.Grow(rest + len(s)) // at least half as much again: a letter has up to three bytes more
			}
			b.WriteRune(r)
		} else {
			b.WriteString(ch)
		}
		i += w
		if !all {
			b.WriteString(s[i:])
			break
		}
	}
	return b.String()
}

// changeCase applies the attributes -u, -l and -c to a value.
func (in *interp) changeCase(s string, a attr) string {
	in.chargeWork(len(s) >> 3)
	switch {
	case a&attrUpper != 0:
		return strings.ToUpper(s)
	case a&attrLower != 0:
		return strings.ToLower(s)
	}
	r, w := utf8.DecodeRuneInString(s)
	if w == 0 || r == utf8.RuneError {
		return s
	}
	return string(unicode.ToUpper(r)) + strings.ToLower(s[w:])
}

// countChars returns the length of s in characters.
func (in *interp) countChars(s string) int {
	if in.bytes {
		return len(s)
	}
	in.chargeWork(len(s) >> 6)
	return utf8.RuneCountInString(s)
}

// sliceOp compiles ${x:off:len}.
func (c *compiler) sliceOp(e *syntax.ParamExp, get fetch) fetch {
	off := c.sliceNumber(e, e.Off)
	var length func(in *interp) int64
	raw := ""
	if e.Len != nil {
		length = c.sliceNumber(e, e.Len)
		raw = strings.TrimSpace(e.Len.Raw)
	}
	sub := c.subscript(e.Index)
	return func(in *interp) value {
		v := get(in)
		if v.multi && !e.Indirect {
			return in.sliceList(e, v, sub, off, length)
		}
		o := off(in)
		n := int64(in.countChars(v.s))
		if o < 0 {
			o += n
		}
		if o < 0 || o > n {
			return value{set: v.set}
		}
		end := n
		if length != nil {
			l := length(in)
			if end = o + l; l < 0 {
				end = n + l
			} else if end > n || end < o {
				end = n
			}
			if end < o {
				in.errorf("%s: substring expression < 0", expandedLength(in, e, raw, l))
				in.abortArith()
			}
		}
		v.s = in.substring(v.s, int(o), int(end))
		return v
	}
}

func expandedLength(in *interp, e *syntax.ParamExp, raw string, l int64) string {
	if strings.ContainsAny(raw, "$`") {
		return (&compiler{}).arithText(e.Len.Word)(in)
	}
	return raw
}

// sliceNumber compiles an offset or length; its errors name the parameter.
func (c *compiler) sliceNumber(e *syntax.ParamExp, a *syntax.Arith) func(in *interp) int64 {
	f := c.arith(a)
	name := e.Name
	return func(in *interp) int64 {
		saved := in.cmdName
		in.cmdName = name
		n := f(in)
		in.cmdName = saved
		return n
	}
}

func (in *interp) substring(s string, from, to int) string {
	if in.bytes || len(s) == in.countChars(s) {
		return cutOut(s, from, to)
	}
	start, n := 0, 0
	for i := range s {
		if n == from {
			start = i
		}
		if n == to {
			return cutOut(s, start, i)
		}
		n++
	}
	if from >= n {
		return ""
	}
	return cutOut(s, start, len(s))
}

// sliceList slices $@ or an array.
func (in *interp) sliceList(e *syntax.ParamExp, v value, sub *subscript, off, length func(in *interp) int64) value {
	list := v.list
	if sub != nil && len(list) == 0 {
		return v
	}
	o := off(in)
	n := int64(len(list))
	var arr *array
	var x *variable
	switch {
	case sub == nil: // $@: $0 comes first
		if o < 0 {
			if o += n + 1; o < 0 {
				return value{multi: true, star: v.star}
			}
		}
		if o == 0 {
			list = append([]string{in.name0}, list...)
		} else {
			o--
		}
	default:
		x, _, _ = in.find(ref{name: e.Name})
		if x != nil && x.attrs&attrArray != 0 {
			arr = in.arrayOf(x)
		}
		o = in.listOffset(arr, x, o, n)
		if o < 0 {
			return value{multi: true, star: v.star}
		}
	}
	list = list[min(o, int64(len(list))):]
	if length != nil {
		l := length(in)
		if l < 0 {
			in.errorf("%s: substring expression < 0", expandedLength(in, e, strings.TrimSpace(e.Len.Raw), l))
			in.abortArith()
		}
		if l == 0 && x != nil && x.attrs&attrAssoc != 0 {
			l = 1 // bash does this too
		}
		list = list[:min(l, int64(len(list)))]
	}
	v.list, v.set = list, len(list) > 0
	return v
}

// listOffset converts an offset into an array to an index in the list of its
// values; -1 is before its start.
func (in *interp) listOffset(arr *array, v *variable, o, n int64) int64 {
	if arr == nil {
		if v != nil && v.attrs&attrAssoc != 0 {
			if o < 0 {
				o += n + 1
			}
			if o > 0 {
				o--
			}
			return o
		}
		if o < 0 {
			o += n
		}
		return o
	}
	if o < 0 {
		if o += arr.maxIndex() + 1; o < 0 {
			return -1
		}
	}
	if arr.sparse == nil && arr.holes == nil {
		return o
	}
	pos := int64(0)
	arr.eachElement(func(i int64, _ string) bool {
		if i >= o {
			return false
		}
		pos++
		return true
	})
	return pos
}

// transformOp compiles ${x@Q} and similar operations.
func (c *compiler) transformOp(e *syntax.ParamExp, get fetch) fetch {
	letter, _ := e.Arg.Literal()
	if letter == "A" || letter == "a" || letter == "K" || letter == "k" {
		return c.describeOp(e, letter, get)
	}
	f := transformFunc(letter)
	shown := rawName(e)
	return func(in *interp) value {
		v := get(in)
		if !v.multi {
			in.checkSet(v.set, shown)
			if v.set {
				v.s = f(in, v.s)
			}
			return v
		}
		v.list = in.mapList(v.list, func(s string) string { return f(in, s) }, true)
		return v
	}
}

// mapList returns the results of f for the texts of a list. If they are copies, it charges the small
// ones, which f does not.
func (in *interp) mapList(list []string, f func(string) string, copies bool) []string {
	in.chargeScratch(stringSize * len(list))
	out := make([]string, len(list))
	small := 0
	for i, s := range list {
		out[i] = f(s)
		n := len(out[i])
		in.chargeWork(1 + n>>6)
		if copies && n < minScratch {
			small += n
		}
		if small >= minScratch {
			in.chargeScratch(small)
			small = 0
		}
	}
	return out
}

func transformFunc(letter string) func(in *interp, s string) string {
	switch letter {
	case "Q":
		return func(in *interp, s string) string { return in.quoteLong(quoteAlways, s) }
	case "E":
		return func(in *interp, s string) string {
			in.chargeScratch(len(s))
			in.p.Tick(len(s) >> 6)
			return syntax.Unescape(s, func() { in.p.Tick(8) })
		}
	case "P":
		return func(in *interp, s string) string { return in.expandPrompt(s) }
	case "U":
		return func(in *interp, s string) string { return in.mapCase(s, nil, unicode.ToUpper, true) }
	case "u":
		return func(in *interp, s string) string { return in.mapCase(s, nil, unicode.ToUpper, false) }
	}
	return func(in *interp, s string) string { return in.mapCase(s, nil, unicode.ToLower, true) }
}

// describeOp compiles @A, @a, @K and @k, which describe the variable.
func (c *compiler) describeOp(e *syntax.ParamExp, letter string, get fetch) fetch {
	sub := c.subscript(e.Index)
	whole := sub != nil && sub.all != 0
	return func(in *interp) value {
		name := e.Name
		if e.Indirect {
			name = in.value(name)
		}
		val := get(in)
		if !isName(name) {
			return in.describeParams(letter, val)
		}
		v, r, ok := in.find(ref{name: name})
		if !ok || v == nil {
			return value{multi: whole, star: val.star}
		}
		switch letter {
		case "a":
			return in.describeAttrs(v, val)
		case "A":
			return in.describeAssign(r.name, v, val, whole)
		}
		if !whole {
			if val.set {
				val.s = in.quoteLong(quoteAlways, val.s)
			}
			return val
		}
		return in.describePairs(v, val, letter == "k")
	}
}

func (in *interp) describeParams(letter string, v value) value {
	switch {
	case letter == "A" && v.multi:
		return value{s: in.textOf(in.appendQuotedList([]byte("set --"), v.list)), set: true}
	case letter == "a" || letter == "A":
		return value{multi: v.multi, star: v.star}
	}
	list := make([]string, len(v.list))
	for i, s := range v.list {
		list[i] = in.quoteLong(quoteAlways, s)
	}
	v.list = list
	if !v.multi && v.set {
		v.s = in.quoteLong(quoteAlways, v.s)
	}
	return v
}

// appendQuotedList appends the words of a list, each after a space.
func (in *interp) appendQuotedList(b []byte, list []string) []byte {
	for _, s := range list {
		in.chargeWork(1)
		word := in.quoteLong(quoteAlways, s)
		b = in.growScratch(b, 1+len(word))
		b = append(append(b, ' '), word...)
	}
	return b
}

func (in *interp) describeAttrs(v *variable, val value) value {
	letters := attrLetters(v)
	if !val.multi {
		return value{s: letters, set: true}
	}
	list := make([]string, len(val.list))
	for i := range list {
		list[i] = letters
	}
	val.list = list
	return val
}

func (in *interp) describeAssign(name string, v *variable, val value, whole bool) value {
	letters := attrLetters(v)
	if whole && v.attrs&attrList != 0 {
		s := "declare -" + letters + " " + name
		if v.set {
			s += "=" + in.listText(v)
		}
		return value{s: s, set: true}
	}
	if val.multi {
		val.s = in.joinWords(val.list, true)
	}
	switch {
	case !val.set && letters == "":
		return value{}
	case !val.set:
		return value{s: "declare -" + letters + " " + name, set: true}
	case letters == "":
		return value{s: name + "=" + in.quoteLong(quoteAlways, val.s), set: true}
	}
	return value{s: "declare -" + letters + " " + name + "=" + in.quoteLong(quoteAlways, val.s), set: true}
}

// describePairs lists keys and values, as one quoted text or as words.
func (in *interp) describePairs(v *variable, val value, words bool) value {
	keys, vals := in.keysOf(v), in.elementsOf(v)
	in.chargeScratch(64 * len(keys))
	list := make([]string, 0, 2*len(keys))
	for i := range keys {
		if words {
			list = append(list, keys[i], vals[i])
		} else {
			list = append(list, in.quoteLong(quoteKey, keys[i]), in.quoteLong(quoteVar, vals[i]))
		}
	}
	in.chargeWork(len(list))
	if words {
		return value{list: list, multi: true, star: val.star, set: len(list) > 0}
	}
	s := strings.Join(list, " ")
	if v.attrs&attrAssoc != 0 && s != "" {
		s += " "
	}
	return value{s: s, set: true}
}
