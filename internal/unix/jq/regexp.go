package jq

import (
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/atoll-sandbox/atoll/internal/unix/regex"
)

// compiledPattern is a regular expression with its source and options as key.
type compiledPattern struct {
	key string
	re  *regex.Regexp
}

// matcher is a search: a regular expression with the flags of the search.
type matcher struct {
	re        *regex.Regexp
	global    bool
	skipEmpty bool
}

// match implements _match/3: it matches the input with the regular expression args[0] and the flags
// args[1]. It returns a boolean if args[2] is true, otherwise an array of matches.
func (m *machine) match(in Value, args []Value) (Value, error) {
	s, ok := in.(string)
	if !ok {
		return nil, failf("%s cannot be matched, as it is not a string", m.kindAndText(in))
	}
	re, flags := args[0], args[1]
	if a, ok := re.(*Array); ok {
		re, flags = nil, nil
		if len(a.Items) > 0 {
			re = a.Items[0]
		}
		if len(a.Items) > 1 {
			flags = a.Items[1]
		}
	} else if kindOf(re) != kindString {
		return nil, failf("%s not a string or array", typeName(re))
	}
	find, err := m.newMatcher(re, flags)
	if err != nil {
		return nil, err
	}
	if args[2] == true {
		return find.re.Match([]byte(s), 0, nil, m.budget), nil
	}
	return m.findMatches(find, s), nil
}

// newMatcher compiles a regular expression with flags.
func (m *machine) newMatcher(re, flags Value) (*matcher, error) {
	src, ok := re.(string)
	if !ok {
		return nil, failf("%s (%s) cannot be matched, as it is not a string", typeName(re), m.toJSON(re))
	}
	o := regex.Options{Syntax: regex.Perl, Budget: m.budget}
	find := &matcher{}
	letters, ok := flags.(string)
	if !ok && flags != nil {
		return nil, failf("%s is not a string", m.kindAndText(flags))
	}
	for _, c := range letters {
		switch c {
		case 'g':
			find.global = true
		case 'i':
			o.IgnoreCase = true
		case 'x':
			src = stripExtended(src)
		case 'p':
			o.DotAll = true
		case 'n':
			find.skipEmpty = true
		case 's', 'l':
		default:
			return nil, failf("%s is not a valid modifier string", letters)
		}
	}
	compiled, err := m.compilePattern(src, o)
	find.re = compiled
	return find, err
}

// compilePattern returns the compiled pattern, if possible from the cache.
func (m *machine) compilePattern(src string, o regex.Options) (*regex.Regexp, error) {
	key := src
	if o.IgnoreCase {
		key += "\x00i"
	}
	if o.DotAll {
		key += "\x00p"
	}
	for i := range m.patterns {
		if m.patterns[i].key == key {
			return m.patterns[i].re, nil
		}
	}
	m.tick(len(src))
	re, err := regex.Compile(src, o)
	if err != nil {
		var bad *regex.Error
		if errors.As(err, &bad) {
			return nil, failf("Regex failure: %s", strings.ToLower(bad.Error()))
		}
		return nil, err
	}
	if len(m.patterns) >= maxPatterns {
		m.patterns[0].re.Release(m.budget)
		m.patterns = append(m.patterns[:0], m.patterns[1:]...)
	}
	m.patterns = append(m.patterns, compiledPattern{key, re})
	return re, nil
}

const maxPatterns = 16 // patterns that stay compiled

// stripExtended removes the white space and comments of an extended pattern.
func stripExtended(src string) string {
	var b strings.Builder
	inSet := false
	for i := 0; i < len(src); i++ {
		c := src[i]
		switch {
		case c == '\\' && i+1 < len(src):
			b.WriteByte(c)
			i++
			c = src[i]
		case c == '[':
			inSet = true
		case c == ']':
			inSet = false
		case inSet:
		case strings.IndexByte(space, c) >= 0:
			continue
		case c == '#':
			for i < len(src) && src[i] != '\n' {
				i++
			}
			continue
		}
		b.WriteByte(c)
	}
	return b.String()
}

// findMatches returns the matches of s.
func (m *machine) findMatches(find *matcher, s string) *Array {
	src := []byte(s)
	m.alloc(int64(len(src)))
	out := NewArray()
	caps := make([]int, 2*(find.re.Groups()+1))
	where := runeCounter{s: s}
	for from := 0; from <= len(src); {
		if !find.re.Match(src, from, caps, m.budget) {
			break
		}
		begin, end := caps[0], caps[1]
		from = end
		if begin == end {
			_, n := utf8.DecodeRune(src[end:])
			from = end + max(n, 1)
		}
		if find.skipEmpty && begin == end {
			continue
		}
		m.tick(8 + (end-begin)>>4)
		out.Items = append(out.Items, m.matchObject(find.re, s, caps, &where))
		if !find.global {
			break
		}
	}
	return out
}

// runeCounter converts increasing byte offsets into character offsets.
type runeCounter struct {
	s     string
	bytes int
	runes int
}

// runeOffset returns the character offset of byte offset i.
func (c *runeCounter) runeOffset(i int) int {
	if i < c.bytes {
		return c.runes - utf8.RuneCountInString(c.s[i:c.bytes])
	}
	c.runes += utf8.RuneCountInString(c.s[c.bytes:i])
	c.bytes = i
	return c.runes
}

// matchObject returns the object of a match with its captures.
func (m *machine) matchObject(re *regex.Regexp, s string, caps []int, where *runeCounter) *Object {
	m.alloc(int64(len(caps)/2+1) * (headSize + 5*entrySize))
	captures := NewArray()
	names := re.Names()
	o := m.spanObject(s, caps[0], caps[1], where)
	for i := 1; i <= re.Groups(); i++ {
		var c *Object
		if begin, end := caps[2*i], caps[2*i+1]; begin == end {
			c = emptySpanObject(begin, where)
		} else {
			c = m.spanObject(s, begin, end, where)
		}
		if name := names[i-1]; name != "" {
			c.Set("name", name)
		} else {
			c.Set("name", nil)
		}
		captures.Items = append(captures.Items, c)
	}
	o.Set("captures", captures)
	return o
}

// emptySpanObject returns the object of a group that matched the empty text or took no part.
func emptySpanObject(begin int, where *runeCounter) *Object {
	o := NewObject()
	if begin < 0 {
		o.Set("offset", -1.0)
		o.Set("string", nil)
	} else {
		o.Set("offset", float64(where.runeOffset(begin)))
		o.Set("string", "")
	}
	o.Set("length", 0.0)
	return o
}

// spanObject returns the object of a match or group that isn't empty.
func (m *machine) spanObject(s string, begin, end int, where *runeCounter) *Object {
	o := NewObject()
	m.tick((end-begin)>>5 + 2)
	o.Set("offset", float64(where.runeOffset(begin)))
	o.Set("length", float64(utf8.RuneCountInString(s[begin:end])))
	o.Set("string", s[begin:end])
	return o
}

// captures implements _capture/0: it returns an object of the named groups of a match.
func (m *machine) captures(in Value, _ []Value) (Value, error) {
	list, err := m.getPath(in, []Value{"captures"})
	if err != nil {
		return nil, err
	}
	items, err := m.elementsOf(list)
	if err != nil {
		return nil, err
	}
	out := NewObject()
	for _, c := range items {
		o, ok := c.(*Object)
		if !ok {
			continue
		}
		name, _ := o.Get("name")
		if key, ok := name.(string); ok {
			v, _ := o.Get("string")
			m.setKey(out, key, v)
		}
	}
	return out, nil
}

// edit implements _edit/1: it replaces matches by texts. args[0] lists [offset, length, [texts]];
// the n-th result has the n-th texts.
func (m *machine) edit(in Value, args []Value) (Value, error) {
	s, _ := in.(string)
	edits, err := m.elementsOf(args[0])
	if err != nil {
		return nil, err
	}
	var results [][]byte
	at, runes := 0, 0
	for _, e := range edits {
		offset, length, texts := editParts(e)
		begin := skipRunes(s, at, offset-runes)
		end := skipRunes(s, begin, length)
		gap := s[at:begin]
		at, runes = end, offset+length
		for i, v := range texts {
			text, ok := v.(string)
			if !ok {
				return nil, m.operandError(gap, v, "added")
			}
			if i == len(results) {
				results = append(results, nil)
			}
			m.alloc(int64(len(gap) + len(text)))
			m.tick(1 + (len(gap)+len(text))>>5)
			results[i] = append(append(results[i], gap...), text...)
		}
	}
	out := NewArray()
	for i := range results {
		m.alloc(int64(len(s) - at))
		out.Items = append(out.Items, string(append(results[i], s[at:]...)))
	}
	if len(results) == 0 {
		out.Items = append(out.Items, in)
	}
	return out, nil
}

// editParts returns the parts of an edit.
func editParts(e Value) (offset, length int, texts []Value) {
	parts := e.(*Array).Items
	f, _ := toFloat(parts[0])
	g, _ := toFloat(parts[1])
	return int(f), int(g), parts[2].(*Array).Items
}

// skipRunes returns the byte offset n characters after at.
func skipRunes(s string, at, n int) int {
	for ; n > 0 && at < len(s); n-- {
		_, size := utf8.DecodeRuneInString(s[at:])
		at += size
	}
	return at
}
