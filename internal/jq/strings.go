package jq

import (
	"strings"
	"unicode/utf8"
)

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

// two returns a and b if both are strings.
func two(a, b Value) (string, string, bool) {
	s, ok := a.(string)
	t, ok2 := b.(string)
	return s, t, ok && ok2
}

func (m *machine) startsWith(in Value, args []Value) (Value, error) {
	s, t, ok := two(in, args[0])
	if !ok {
		return nil, failf("startswith() requires string inputs")
	}
	return strings.HasPrefix(s, t), nil
}

func (m *machine) endsWith(in Value, args []Value) (Value, error) {
	s, t, ok := two(in, args[0])
	if !ok {
		return nil, failf("endswith() requires string inputs")
	}
	return strings.HasSuffix(s, t), nil
}

func (m *machine) trimPrefix(in Value, args []Value) (Value, error) {
	s, t, ok := two(in, args[0])
	if !ok {
		return in, nil
	}
	return strings.TrimPrefix(s, t), nil
}

func (m *machine) trimSuffix(in Value, args []Value) (Value, error) {
	s, t, ok := two(in, args[0])
	if !ok {
		return in, nil
	}
	return strings.TrimSuffix(s, t), nil
}

func (m *machine) trimBoth(in Value, args []Value) (Value, error) {
	s, t, ok := two(in, args[0])
	if !ok {
		return in, nil
	}
	return strings.TrimSuffix(strings.TrimPrefix(s, t), t), nil
}

const space = " \t\n\r\f\v"

func (m *machine) trim(in Value, _ []Value) (Value, error) {
	s, ok := in.(string)
	if !ok {
		return nil, failf("trim input must be a string")
	}
	return strings.Trim(s, space), nil
}

func (m *machine) trimLeft(in Value, _ []Value) (Value, error) {
	s, ok := in.(string)
	if !ok {
		return nil, failf("trim input must be a string")
	}
	return strings.TrimLeft(s, space), nil
}

func (m *machine) trimRight(in Value, _ []Value) (Value, error) {
	s, ok := in.(string)
	if !ok {
		return nil, failf("trim input must be a string")
	}
	return strings.TrimRight(s, space), nil
}

func (m *machine) lower(in Value, _ []Value) (Value, error) { return m.mapASCII(in, 'A', 'Z', 'a'-'A') }
func (m *machine) upper(in Value, _ []Value) (Value, error) {
	return m.mapASCII(in, 'a', 'z', -('a' - 'A'))
}

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

func (m *machine) split(in Value, args []Value) (Value, error) {
	s, t, ok := two(in, args[0])
	if !ok {
		return nil, failf("split input and separator must be strings")
	}
	return m.splitString(s, t), nil
}

func (m *machine) splitString(s, sep string) *Array {
	out := NewArray()
	if s == "" {
		return out
	}
	n := strings.Count(s, sep) + 1
	m.alloc(int64(n)*2*valueSize + headSize)
	m.tick(n + len(s)>>6)
	for _, part := range strings.Split(s, sep) {
		out.Items = append(out.Items, part)
	}
	return out
}

func (m *machine) join(in Value, args []Value) (Value, error) {
	items, err := m.elements(in)
	if err != nil {
		return nil, err
	}
	if len(items) == 0 {
		return "", nil
	}
	sep, ok := args[0].(string)
	if !ok && len(items) > 1 && args[0] != nil {
		return nil, m.cannot(m.joined(items[0]), args[0], "added")
	}
	var b strings.Builder
	for i, v := range items {
		m.tick(1)
		if i > 0 {
			b.WriteString(sep)
		}
		if kindOf(v) >= kindArray {
			return nil, m.cannot(b.String(), v, "added")
		}
		s := m.joined(v)
		m.alloc(int64(len(s) + len(sep)))
		m.tick((len(s) + len(sep)) >> 6)
		b.WriteString(s)
	}
	return b.String(), nil
}

// joined is what join makes of an element.
func (m *machine) joined(v Value) string {
	if v == nil {
		return ""
	}
	return m.toText(v)
}

func (m *machine) indicesNative(in Value, args []Value) (Value, error) {
	if in == nil {
		return nil, nil
	}
	if s, t, ok := two(in, args[0]); ok {
		return m.stringIndices(s, t), nil
	}
	a, ok := in.(*Array)
	if !ok {
		return m.element(in, args[0])
	}
	if b, ok := args[0].(*Array); ok {
		return m.indices(a, b), nil
	}
	return m.indices(a, NewArray(args[0])), nil
}

// stringIndices are the places of t in s, in characters.
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

func (m *machine) firstIndex(in Value, args []Value) (Value, error) {
	v, err := m.indicesNative(in, args)
	if err != nil {
		return nil, err
	}
	return m.element(v, 0.0)
}

func (m *machine) lastIndex(in Value, args []Value) (Value, error) {
	v, err := m.indicesNative(in, args)
	if err != nil {
		return nil, err
	}
	return m.element(v, -1.0)
}
