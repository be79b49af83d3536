package shell

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/atoll-sandbox/atoll/shell/syntax"
)

// separators is the preprocessed value of IFS.
type separators struct {
	kind  *[256]byte // kind of each byte
	first string     // the first character, which joins the words of "$*"
	wide  string     // IFS, if it contains characters beyond ASCII
	none  bool       // IFS is empty: nothing is split
}

const (
	ifsSpace byte = 1 << iota // white space of IFS: a run of it separates once
	ifsMark                   // other separator
	globMark                  // may begin a pattern
)

// defaultKinds is the table for the default IFS.
var defaultKinds = makeKinds(" \t\n")

func makeKinds(ifs string) *[256]byte {
	t := &[256]byte{'*': globMark, '?': globMark, '[': globMark, '\\': globMark, '(': globMark}
	for i := 0; i < len(ifs); i++ {
		switch c := ifs[i]; {
		case c == ' ' || c == '\t' || c == '\n':
			t[c] |= ifsSpace
		case c < utf8.RuneSelf:
			t[c] |= ifsMark
		}
	}
	return t
}

// reset sets the value of IFS; if it is not set, the default applies.
func (f *separators) reset(ifs string, set bool) {
	if !set {
		ifs = " \t\n"
	}
	f.none, f.first, f.wide = ifs == "", "", ""
	if ifs != "" {
		_, n := utf8.DecodeRuneInString(ifs)
		f.first = strings.Clone(ifs[:n])
	}
	for i := 0; i < len(ifs); i++ {
		if ifs[i] >= utf8.RuneSelf {
			f.wide = ifs
		}
	}
	if ifs == " \t\n" {
		f.kind = defaultKinds
	} else {
		f.kind = makeKinds(ifs)
	}
}

// sepAt returns the kind and the width of the character of s at i.
func (f *separators) sepAt(s string, i int) (byte, int) {
	if f.wide == "" || s[i] < utf8.RuneSelf {
		return f.kind[s[i]] & (ifsSpace | ifsMark), 1
	}
	r, w := utf8.DecodeRuneInString(s[i:])
	if strings.ContainsRune(f.wide, r) {
		return ifsMark, w
	}
	return 0, w
}

// fieldList collects the fields that words expand to.
type fieldList struct {
	in        *interp
	out       []string
	cur       []byte // the current field
	pat       []byte // the current field as a pattern, if glob is set
	glob      bool   // cur has an active pattern character
	has       bool   // cur is a field even if it is empty
	after     bool   // cur begins after white space of IFS
	none      bool   // a quoted list had no elements
	uncharged int    // bytes that are not charged yet
}

// fieldCost is the memory of a field besides its text: its string, and its share of a list that
// grows.
const fieldCost = 32

// emit is a compiled expansion that adds fields to a list.
type emit func(in *interp, b *fieldList)

// addUnquoted adds unquoted literal text.
func (b *fieldList) addUnquoted(s string) {
	if s == "" {
		return
	}
	b.has, b.after = true, false
	b.addText(s, true)
}

// addQuoted adds text that is neither split nor a pattern.
func (b *fieldList) addQuoted(s string) {
	b.has, b.after = true, false
	b.addText(s, false)
}

func (b *fieldList) addText(s string, active bool) {
	b.in.chargeWork(len(s) >> 6)
	if b.chargeBytes(len(s)); active && !b.glob && isActive(b.in, s) {
		b.glob = true
		b.pat = appendQuoted(b.pat[:0], string(b.cur))
	}
	b.cur = append(b.cur, s...)
	switch {
	case !b.glob:
	case active:
		b.pat = append(b.pat, s...)
	default:
		b.pat = appendQuoted(b.pat, s)
	}
}

func (b *fieldList) chargeBytes(n int) {
	if b.uncharged += n; b.uncharged >= 4096 {
		b.in.chargeWork(b.uncharged >> 6)
		b.in.chargeScratch(b.uncharged)
		b.uncharged = 0
	}
}

func isActive(in *interp, s string) bool {
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '*', '?', '[', '\\':
			return true
		case '(':
			if i > 0 && in.shopts&shExtglob != 0 {
				return true
			}
		}
	}
	return false
}

// addSplit adds the result of an unquoted expansion, split at IFS.
func (b *fieldList) addSplit(s string) {
	f := &b.in.ifs
	if s == "" {
		return
	}
	if f.none {
		b.addUnquoted(s)
		return
	}
	start := 0
	for i := 0; i < len(s); {
		kind, w := f.sepAt(s, i)
		if kind == 0 {
			i += w
			continue
		}
		b.addUnquoted(s[start:i])
		switch {
		case b.has:
			b.endField()
			b.after = kind == ifsSpace
		case kind == ifsSpace || b.after:
			b.after = b.after && kind == ifsSpace
		default:
			b.addQuoted("")
			b.endField()
		}
		i += w
		start = i
	}
	b.addUnquoted(s[start:])
}

// endField ends the current field, if there is one.
func (b *fieldList) endField() {
	if b.has {
		b.push()
	}
	b.after = false
}

func (b *fieldList) push() {
	b.chargeBytes(fieldCost)
	if b.glob && b.in.opts&optNoglob == 0 && hasPattern(string(b.pat), b.in.shopts&shExtglob != 0) {
		b.out = b.in.globField(b.out, string(b.pat), string(b.cur))
	} else {
		b.out = append(b.out, b.copyField())
	}
	b.cur, b.glob, b.has = b.cur[:0], false, false
}

// copyField returns the text of the current field. A large one is charged twice for the instant in which
// it exists twice.
func (b *fieldList) copyField() string {
	n := int64(len(b.cur))
	if n < 64<<10 || b.in.p == nil {
		return string(b.cur)
	}
	b.in.p.Alloc(n)
	s := string(b.cur)
	b.cur = nil
	b.in.p.Free(n)
	return s
}

// addList adds the elements of "$@" or an array, each as a field.
func (b *fieldList) addList(vals []string, quoted bool) {
	if f := &b.in.ifs; !quoted && f.first != "" && f.kind[f.first[0]]&ifsMark != 0 {
		b.addSplit(b.in.joinWords(vals, true))
		return
	}
	for i, s := range vals {
		if i > 0 {
			b.endField()
		}
		if quoted {
			b.addQuoted(s)
		} else {
			b.addSplit(s)
		}
		b.in.chargeWork(1)
	}
}

// fields compiles words to the fields that they expand to.
func (c *compiler) fields(ws []*syntax.Word) func(in *interp) []string {
	fs := make([]func(in *interp, out []string) []string, 0, len(ws))
	consts := make([]string, 0, len(ws))
	for _, w := range ws {
		for _, x := range expandBraces(w) {
			f, s, isConst := c.fieldWord(x)
			if isConst && len(fs) == len(consts) {
				consts = append(consts, s)
			}
			fs = append(fs, f)
		}
	}
	if len(consts) == len(fs) {
		return func(*interp) []string { return append(make([]string, 0, len(consts)), consts...) }
	}
	return func(in *interp) []string {
		out := make([]string, 0, len(fs))
		for _, f := range fs {
			out = f(in, out)
		}
		return out
	}
}

// fieldWord compiles one word after brace expansion. If the word needs no
// expansion, isConst is set and s is its text.
func (c *compiler) fieldWord(w bracedWord) (f func(in *interp, out []string) []string, s string, isConst bool) {
	if w.lazy != nil {
		return c.lazyBraces(w.lazy), "", false
	}
	if s, ok := plainWord(w.word); ok {
		s = strings.Clone(s) // a variable that keeps it does not keep the source
		return func(_ *interp, out []string) []string { return append(out, s) }, s, true
	}
	if len(w.word.Parts) == 1 {
		if f := c.singlePart(w.word.Parts[0]); f != nil {
			return f, "", false
		}
	}
	e := c.emitWord(w.word, !w.expanded)
	return func(in *interp, out []string) []string {
		b := in.acquireFields(out)
		e(in, b)
		b.endField()
		return in.releaseFields(b)
	}, "", false
}

// acquireFields returns an empty list of fields; releaseFields returns its
// fields and keeps the list for reuse.
func (in *interp) acquireFields(out []string) *fieldList {
	b := in.spareFields
	in.spareFields = nil
	if b == nil {
		b = &fieldList{}
	}
	*b = fieldList{in: in, out: out, cur: b.cur[:0], pat: b.pat[:0]}
	return b
}

func (in *interp) releaseFields(b *fieldList) []string {
	out := b.out
	b.out = nil
	if cap(b.cur) <= 1024 {
		in.spareFields = b
	}
	return out
}

// plainWord returns the text of a word that needs no expansion.
func plainWord(w *syntax.Word) (string, bool) {
	s := ""
	for i, p := range w.Parts {
		t, ok := constantText(item{part: p})
		if !ok {
			return "", false
		}
		if _, lit := p.(*syntax.Lit); lit {
			if strings.ContainsAny(t, "*?[\\(") || i == 0 && t[0] == '~' || strings.Contains(t, "=~") || strings.Contains(t, ":~") {
				return "", false
			}
		}
		s += t
	}
	if len(w.Parts) == 0 {
		return "", false
	}
	return s, true
}

// singlePart compiles the most common words without a list of fields; it
// returns nil for others.
func (c *compiler) singlePart(p syntax.Part) func(in *interp, out []string) []string {
	switch p := p.(type) {
	case *syntax.DblQuoted:
		if hasList(p.Parts) {
			return nil
		}
		f := c.partsText(p.Parts)
		return func(in *interp, out []string) []string { return append(out, f(in)) }
	case *syntax.ParamExp:
		if !isPlainParam(p) {
			return nil
		}
		f := c.paramText(p)
		return func(in *interp, out []string) []string { return in.splitText(out, f(in)) }
	case *syntax.CmdSubst:
		f := c.cmdSubst(p)
		return func(in *interp, out []string) []string { return in.splitText(out, f(in)) }
	case *syntax.ArithExp:
		n := c.arith(p.X)
		return func(in *interp, out []string) []string {
			return in.splitText(out, strconv.FormatInt(n(in), 10))
		}
	}
	return nil
}

// splitText adds the fields of an unquoted expansion that is a whole word.
func (in *interp) splitText(out []string, s string) []string {
	kind := in.ifs.kind
	mask := byte(ifsSpace | ifsMark | globMark)
	for i := 0; i < len(s); i++ {
		if kind[s[i]]&mask != 0 || s[i] >= utf8.RuneSelf && in.ifs.wide != "" {
			b := in.acquireFields(out)
			b.addSplit(s)
			b.endField()
			return in.releaseFields(b)
		}
	}
	if s == "" {
		return out
	}
	return append(out, s)
}

// hasList reports whether the parts of a quoted text contain "$@" or another
// list, or may contain one.
func hasList(parts []syntax.Part) bool {
	for _, p := range parts {
		switch p := p.(type) {
		case *syntax.ParamExp:
			if !isScalarParam(p) {
				return true
			}
		case *syntax.DblQuoted:
			if hasList(p.Parts) {
				return true
			}
		}
	}
	return false
}

// isScalarParam reports whether e always expands to one string.
func isScalarParam(e *syntax.ParamExp) bool {
	if e.Name == "@" || e.Name == "*" || e.Indirect || e.Arg != nil && isDefaultOp(e.Op) || e.Op == syntax.ParamNames ||
		e.Op == syntax.ParamNamesAt {
		return e.Length
	}
	return e.Index == nil || e.Index.Kind == syntax.IndexExpr || e.Length
}

// isPlainParam reports whether e is valid and always expands to one string.
func isPlainParam(e *syntax.ParamExp) bool { return isScalarParam(e) && !e.Bad }

// emitWord compiles a word to fields and leaves the last field open. assigns
// means that the word may look like an assignment.
func (c *compiler) emitWord(w *syntax.Word, assigns bool) emit {
	if assigns && len(w.Parts) > 0 {
		if l, ok := w.Parts[0].(*syntax.Lit); ok && assignsLike(l.Value) {
			return c.emitAssignLike(w, l.Value)
		}
	}
	return c.emitAll(wordItems(w.Parts, tildeStart), false)
}

// assignsLike reports whether text begins like an assignment, after which a
// tilde prefix may follow.
func assignsLike(s string) bool {
	i := strings.IndexByte(s, '=')
	return i > 0 && isName(strings.TrimSuffix(s[:i], "+"))
}

// emitAssignLike compiles a word that looks like an assignment.
func (c *compiler) emitAssignLike(w *syntax.Word, first string) emit {
	i := strings.IndexByte(first, '=') + 1
	parts := w.Parts
	list := []item{{part: &syntax.Lit{Value: first[:i]}}}
	rest := parts[1:]
	if i < len(first) {
		rest = append([]syntax.Part{&syntax.Lit{Value: first[i:]}}, rest...)
	}
	return c.emitAll(append(list, wordItems(rest, tildeAssign)...), false)
}

// emitAll compiles items. With operand set they are the operand of an unquoted
// ${ }, in which literal text is split too.
func (c *compiler) emitAll(list []item, operand bool) emit {
	es := make([]emit, len(list))
	for i, it := range list {
		es[i] = c.emitPart(it, operand)
	}
	if len(es) == 1 {
		return es[0]
	}
	return func(in *interp, b *fieldList) {
		for _, e := range es {
			e(in, b)
		}
	}
}

func (c *compiler) emitPart(it item, operand bool) emit {
	switch p := it.part.(type) {
	case *syntax.Lit:
		s := p.Value
		if operand {
			return func(_ *interp, b *fieldList) { b.addSplit(s) }
		}
		return func(_ *interp, b *fieldList) { b.addUnquoted(s) }
	case *syntax.DblQuoted:
		return c.emitQuoted(p.Parts)
	case *syntax.ParamExp:
		return c.emitParam(p, p.Quoted)
	case *syntax.CmdSubst, *syntax.ArithExp:
		f := c.textOf(it)
		return func(in *interp, b *fieldList) { b.addSplit(f(in)) }
	}
	f := c.textOf(it)
	return func(in *interp, b *fieldList) { b.addQuoted(f(in)) }
}

// emitQuoted compiles the content of double quotes.
func (c *compiler) emitQuoted(parts []syntax.Part) emit {
	if !hasList(parts) {
		f := c.partsText(parts)
		return func(in *interp, b *fieldList) { b.addQuoted(f(in)) }
	}
	es := make([]emit, len(parts))
	for i, p := range parts {
		if e, ok := p.(*syntax.ParamExp); ok {
			es[i] = c.emitParam(e, true)
			continue
		}
		if d, ok := p.(*syntax.DblQuoted); ok {
			es[i] = c.emitQuoted(d.Parts)
			continue
		}
		f := c.textOf(item{part: p})
		es[i] = func(in *interp, b *fieldList) { b.addQuoted(f(in)) }
	}
	return func(in *interp, b *fieldList) {
		had, fields, none := b.has, len(b.out), b.none
		b.none = false
		for _, e := range es {
			e(in, b)
		}
		if b.none && len(b.cur) == 0 && len(b.out) == fields {
			b.has = had // "$@" without elements makes no field, even beside empty text
		}
		b.none = none
	}
}
