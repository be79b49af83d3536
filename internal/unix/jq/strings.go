package jq

import (
	"strings"
	"unicode/utf8"
)

// explode implements explode/0.
func (m *machine) explode(in Value, _ []Value) (Value, error) {
	s, ok := in.(string)
	if !ok {
		return nil, failf("explode input must be a string")
	}
	n := utf8.RuneCountInString(s)
	m.alloc(int64(n)*(valueSize+8) + headSize)
	m.tick(n / 4)
	a := &Array{Items: make([]Value, 0, n)}
	for _, r := range s {
		a.Items = append(a.Items, float64(r))
	}
	return a, nil
}

// implode implements implode/0.
func (m *machine) implode(in Value, _ []Value) (Value, error) {
	a, ok := in.(*Array)
	if !ok {
		return nil, failf("implode input must be an array")
	}
	m.alloc(int64(len(a.Items)) * 4)
	m.tick(len(a.Items))
	var b strings.Builder
	for _, v := range a.Items {
		f, ok := toFloat(v)
		if !ok {
			return nil, failf("%s can't be imploded, unicode codepoint needs to be numeric", m.kindAndText(v))
		}
		r := rune(utf8.RuneError)
		if f >= 0 && f <= utf8.MaxRune {
			r = rune(f)
		}
		b.WriteRune(r)
	}
	return b.String(), nil
}

// bothStrings returns a and b if both are strings.
func bothStrings(a, b Value) (string, string, bool) {
	s, ok := a.(string)
	t, ok2 := b.(string)
	return s, t, ok && ok2
}

// startsWith implements startswith/1.
func (m *machine) startsWith(in Value, args []Value) (Value, error) {
	s, t, ok := bothStrings(in, args[0])
	if !ok {
		return nil, failf("startswith() requires string inputs")
	}
	return strings.HasPrefix(s, t), nil
}

// endsWith implements endswith/1.
func (m *machine) endsWith(in Value, args []Value) (Value, error) {
	s, t, ok := bothStrings(in, args[0])
	if !ok {
		return nil, failf("endswith() requires string inputs")
	}
	return strings.HasSuffix(s, t), nil
}

// trimPrefix implements ltrimstr/1.
func (m *machine) trimPrefix(in Value, args []Value) (Value, error) {
	s, t, ok := bothStrings(in, args[0])
	if !ok {
		return in, nil
	}
	return strings.TrimPrefix(s, t), nil
}

// trimSuffix implements rtrimstr/1.
func (m *machine) trimSuffix(in Value, args []Value) (Value, error) {
	s, t, ok := bothStrings(in, args[0])
	if !ok {
		return in, nil
	}
	return strings.TrimSuffix(s, t), nil
}

// trimBoth implements trimstr/1.
func (m *machine) trimBoth(in Value, args []Value) (Value, error) {
	s, t, ok := bothStrings(in, args[0])
	if !ok {
		return in, nil
	}
	return strings.TrimSuffix(strings.TrimPrefix(s, t), t), nil
}

// space is the white space that trim removes.
const space = " \t\n\r\f\v"

// trim implements trim/0.
func (m *machine) trim(in Value, _ []Value) (Value, error) {
	s, ok := in.(string)
	if !ok {
		return nil, failf("trim input must be a string")
	}
	return strings.Trim(s, space), nil
}

// trimLeft implements ltrim/0.
func (m *machine) trimLeft(in Value, _ []Value) (Value, error) {
	s, ok := in.(string)
	if !ok {
		return nil, failf("trim input must be a string")
	}
	return strings.TrimLeft(s, space), nil
}

// trimRight implements rtrim/0.
func (m *machine) trimRight(in Value, _ []Value) (Value, error) {
	s, ok := in.(string)
	if !ok {
		return nil, failf("trim input must be a string")
	}
	return strings.TrimRight(s, space), nil
}

// lower implements ascii_downcase/0.
func (m *machine) lower(in Value, _ []Value) (Value, error) { return m.mapASCII(in, 'A', 'Z', 'a'-'A') }

// upper implements ascii_upcase/0.
func (m *machine) upper(in Value, _ []Value) (Value, error) {
	return m.mapASCII(in, 'a', 'z', -('a' - 'A'))
}

// mapASCII adds by to all bytes between from and to.
func (m *machine) mapASCII(in Value, from, to byte, by int) (Value, error) {
	s, ok := in.(string)
	if !ok {
		return nil, failf("explode input must be a string")
	}
	m.alloc(int64(len(s)) + valueSize)
	m.tick(len(s) >> 5)
	b := []byte(s)
	for i, c := range b {
		if c >= from && c <= to {
			b[i] = byte(int(c) + by)
		}
	}
	return string(b), nil
}

// split implements split/1.
func (m *machine) split(in Value, args []Value) (Value, error) {
	s, t, ok := bothStrings(in, args[0])
	if !ok {
		return nil, failf("split input and separator must be strings")
	}
	return m.splitString(s, t), nil
}

// splitString returns the parts of s between separators.
func (m *machine) splitString(s, sep string) *Array {
	out := NewArray()
	if s == "" {
		return out
	}
	n := strings.Count(s, sep) + 1
	m.alloc(int64(n)*2*valueSize + headSize)
	out.Items = make([]Value, 0, n)
	for part := range strings.SplitSeq(s, sep) {
		m.tick(1 + len(part)>>6)
		out.Items = append(out.Items, part)
	}
	return out
}

// join implements join/1.
func (m *machine) join(in Value, args []Value) (Value, error) {
	items, err := m.elementsOf(in)
	if err != nil {
		return nil, err
	}
	if len(items) == 0 {
		return "", nil
	}
	sep, ok := args[0].(string)
	if !ok && len(items) > 1 && args[0] != nil {
		return nil, m.operandError(m.joinText(items[0]), args[0], "added")
	}
	var b strings.Builder
	for i, v := range items {
		m.tick(1)
		if i > 0 {
			b.WriteString(sep)
		}
		if kindOf(v) >= kindArray {
			return nil, m.operandError(b.String(), v, "added")
		}
		s := m.joinText(v)
		m.alloc(int64(len(s) + len(sep)))
		m.tick((len(s) + len(sep)) >> 6)
		b.WriteString(s)
	}
	return b.String(), nil
}

// joinText returns the text that join uses for an element.
func (m *machine) joinText(v Value) string {
	if v == nil {
		return ""
	}
	return m.toText(v)
}

// indicesNative implements indices/1.
func (m *machine) indicesNative(in Value, args []Value) (Value, error) {
	if in == nil {
		return nil, nil
	}
	if s, t, ok := bothStrings(in, args[0]); ok {
		return m.stringIndices(s, t), nil
	}
	a, ok := in.(*Array)
	if !ok {
		return m.elementOf(in, args[0])
	}
	if b, ok := args[0].(*Array); ok {
		return m.arrayIndices(a, b), nil
	}
	return m.arrayIndices(a, NewArray(args[0])), nil
}

// stringIndices returns the character offsets where t occurs in s.
func (m *machine) stringIndices(s, t string) *Array {
	out := NewArray()
	if t == "" {
		return out
	}
	runes, at := 0, 0
	for {
		m.tick(1)
		i := strings.Index(s[at:], t)
		if i < 0 {
			return out
		}
		m.tick(i >> 5)
		m.alloc(2*valueSize + 8)
		runes += utf8.RuneCountInString(s[at : at+i])
		out.Items = append(out.Items, float64(runes))
		_, n := utf8.DecodeRuneInString(s[at+i:])
		at += i + n
		runes++
	}
}

// firstIndex implements index/1.
func (m *machine) firstIndex(in Value, args []Value) (Value, error) {
	v, err := m.indicesNative(in, args)
	if err != nil {
		return nil, err
	}
	return m.elementOf(v, 0.0)
}

// lastIndex implements rindex/1.
func (m *machine) lastIndex(in Value, args []Value) (Value, error) {
	v, err := m.indicesNative(in, args)
	if err != nil {
		return nil, err
	}
	return m.elementOf(v, -1.0)
}
