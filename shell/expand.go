package shell

import (
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll/shell/syntax"
)

// text is a compiled expansion that results in one string.
type text func(in *interp) string

// item is a piece of a word: a part, or a tilde prefix.
type item struct {
	part  syntax.Part
	tilde bool
	user  string // after the tilde
}

// tildeMode selects where in a word tilde prefixes are recognized.
type tildeMode uint8

const (
	tildeNone   tildeMode = iota
	tildeStart            // at the start of the word
	tildeAssign           // at the start and after each colon
)

// wordItems splits a word into parts and tilde prefixes.
func wordItems(parts []syntax.Part, mode tildeMode) []item {
	list := make([]item, 0, len(parts))
	for i, p := range parts {
		l, ok := p.(*syntax.Lit)
		if !ok || mode == tildeNone || i > 0 && mode == tildeStart || strings.IndexByte(l.Value, '~') < 0 {
			list = append(list, item{part: p})
			continue
		}
		list = append(list, splitTildes(l.Value, mode, i == 0, i == len(parts)-1)...)
	}
	return list
}

// splitTildes splits literal text at its tilde prefixes.
func splitTildes(s string, mode tildeMode, first, last bool) []item {
	var list []item
	begin := first // a tilde may stand here
	done := 0
	for i := 0; i < len(s); i++ {
		if s[i] == '~' && begin {
			end := i + 1
			for end < len(s) && s[end] != '/' && (s[end] != ':' || mode != tildeAssign) {
				end++
			}
			if end < len(s) || last {
				if i > done {
					list = append(list, item{part: &syntax.Lit{Value: s[done:i]}})
				}
				list = append(list, item{tilde: true, user: s[i+1 : end]})
				done, i = end, end-1
				begin = false
				continue
			}
		}
		begin = mode == tildeAssign && s[i] == ':'
	}
	if done < len(s) {
		list = append(list, item{part: &syntax.Lit{Value: s[done:]}})
	}
	return list
}

// scalar compiles a word to one string: no splitting, no pathname expansion.
func (c *compiler) scalar(w *syntax.Word) func(in *interp) string { return c.word(w, tildeStart) }

// assignText compiles the value of an assignment.
func (c *compiler) assignText(w *syntax.Word) text {
	saved := c.value
	c.value = true
	f := c.word(w, tildeAssign)
	c.value = saved
	return f
}

// arithText compiles the text of an arithmetic expression, in which single
// quotes are ordinary characters.
func (c *compiler) arithText(w *syntax.Word) text {
	if w == nil {
		return c.word(nil, tildeNone)
	}
	list := wordItems(w.Parts, tildeNone)
	for i, it := range list {
		if q, ok := it.part.(*syntax.Quoted); ok && q.Kind == syntax.SingleQuote {
			list[i].part = &syntax.Lit{Value: q.Raw}
		}
	}
	return c.concat(list)
}

// heredoc compiles the body of a here-document.
func (c *compiler) heredoc(d *syntax.Heredoc) func(in *interp) string {
	return c.word(d.Body, tildeNone)
}

// word compiles a word to one string; nil is the empty string.
func (c *compiler) word(w *syntax.Word, mode tildeMode) text {
	if w == nil {
		return func(*interp) string { return "" }
	}
	return c.concat(wordItems(w.Parts, mode))
}

func (c *compiler) partsText(parts []syntax.Part) text { return c.concat(wordItems(parts, tildeNone)) }

// concat compiles items to one string.
func (c *compiler) concat(list []item) text {
	fs := make([]text, 0, len(list))
	lit := ""
	flush := func() {
		if lit != "" {
			s := strings.Clone(lit) // a variable that keeps it does not keep the source
			fs = append(fs, func(*interp) string { return s })
			lit = ""
		}
	}
	for _, it := range list {
		if s, ok := constantText(it); ok {
			lit += s
			continue
		}
		flush()
		fs = append(fs, c.textOf(it))
	}
	flush()
	return joinTexts(fs)
}

func joinTexts(fs []text) text {
	switch len(fs) {
	case 0:
		return func(*interp) string { return "" }
	case 1:
		return fs[0]
	case 2:
		f, g := fs[0], fs[1]
		return func(in *interp) string {
			a := f(in)
			b := g(in)
			in.chargeScratch(len(a) + len(b))
			return a + b
		}
	}
	return func(in *interp) string {
		list := make([]string, len(fs))
		n := 0
		for i, f := range fs {
			list[i] = f(in)
			n += len(list[i])
		}
		in.chargeScratch(n)
		return strings.Join(list, "")
	}
}

// constantText returns the text of an item that needs no expansion.
func constantText(it item) (string, bool) {
	switch p := it.part.(type) {
	case *syntax.Lit:
		return p.Value, true
	case *syntax.Quoted:
		return p.Value, true
	case *syntax.DblQuoted:
		s := ""
		for _, q := range p.Parts {
			t, ok := constantText(item{part: q})
			if !ok {
				return "", false
			}
			s += t
		}
		return s, true
	}
	return "", false
}

// textOf compiles one item to a string.
func (c *compiler) textOf(it item) text {
	if it.tilde {
		user := it.user
		return func(in *interp) string { return in.expandTilde(user) }
	}
	switch p := it.part.(type) {
	case *syntax.DblQuoted:
		return c.partsText(p.Parts)
	case *syntax.ParamExp:
		return c.paramText(p)
	case *syntax.CmdSubst:
		saved := c.value
		c.value = false
		f := c.cmdSubst(p)
		c.value = saved
		return f
	case *syntax.ArithExp:
		n := c.arith(p.X)
		return func(in *interp) string { return strconv.FormatInt(n(in), 10) }
	case *syntax.ProcSubst:
		return c.procSubst(p)
	}
	s, _ := constantText(it)
	s = strings.Clone(s) // as above
	return func(*interp) string { return s }
}

// pattern compiles a word to a pattern, in which quoted text is literal.
func (c *compiler) pattern(w *syntax.Word) func(in *interp) *pattern { return c.patternWith(w, 0) }

// patternWith is pattern with flags in addition to those of the shell's options.
func (c *compiler) patternWith(w *syntax.Word, flags patFlags) func(in *interp) *pattern {
	if w == nil {
		return func(*interp) *pattern { return &pattern{shape: shapeLit} }
	}
	list := wordItems(w.Parts, tildeStart)
	if s, ok := constantPattern(list); ok {
		memo := newPatternMemo(s)
		return func(in *interp) *pattern { return memo.get(in, in.patFlags()|flags) }
	}
	f := c.escapedText(list)
	var last lastPattern
	return func(in *interp) *pattern { return last.get(in, f(in), in.patFlags()|flags) }
}

func constantPattern(list []item) (string, bool) {
	var b strings.Builder
	for _, it := range list {
		switch p := it.part.(type) {
		case *syntax.Lit:
			b.WriteString(p.Value)
		case *syntax.Quoted, *syntax.DblQuoted:
			s, ok := constantText(it)
			if !ok {
				return "", false
			}
			b.WriteString(quotePattern(s))
		default:
			return "", false
		}
	}
	return b.String(), true
}

// patFlags returns the flags of the current shell options.
func (in *interp) patFlags() patFlags {
	flags := patFlags(0)
	if in.shopts&shExtglob != 0 {
		flags |= patExt
	}
	if in.shopts&shNocasematch != 0 {
		flags |= patFold
	}
	if in.bytes {
		flags |= patBytes
	}
	return flags
}

// escapedText compiles items to the text of a pattern, in which backslashes
// protect quoted characters.
func (c *compiler) escapedText(list []item) text {
	fs := make([]text, len(list))
	for i, it := range list {
		fs[i] = c.escapedPart(it)
	}
	return joinTexts(fs)
}

func (c *compiler) escapedPart(it item) text {
	switch p := it.part.(type) {
	case *syntax.Lit:
		s := p.Value
		return func(*interp) string { return s }
	case *syntax.ParamExp:
		if p.Arg != nil && isDefaultOp(p.Op) {
			return c.paramEscaped(p)
		}
		return c.paramText(p)
	case *syntax.CmdSubst, *syntax.ArithExp, *syntax.ProcSubst:
		return c.textOf(it)
	}
	f := c.textOf(it)
	return func(in *interp) string { return quotePattern(f(in)) }
}

// redirTarget compiles the target of a redirection; false means that it did
// not expand to exactly one word.
func (c *compiler) redirTarget(w *syntax.Word) func(in *interp) (string, bool) {
	f := c.fields([]*syntax.Word{w})
	return func(in *interp) (string, bool) {
		list := f(in)
		if len(list) != 1 {
			return "", false
		}
		return list[0], true
	}
}

// expandText expands parameters, commands and arithmetic in text, as for a
// prompt. Text with a syntax error is returned unchanged.
func (in *interp) expandText(s string) string {
	if !strings.ContainsAny(s, "$`\\") {
		return s
	}
	w, err := syntax.ParseText(s, in.valueOptions())
	if err != nil {
		return s
	}
	if !in.p.Enter() { // a prompt that contains itself
		in.errorf("%s: expansion nested too deeply", s)
		in.abortLine(1)
	}
	defer in.p.Leave()
	return (&compiler{}).word(w, tildeNone)(in)
}
