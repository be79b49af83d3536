package jq

import (
	"math"
	"strings"
)

// arithmetic is an operator; it may change its left operand if nobody else has it.
type arithmetic func(m *machine, l, r Value) (Value, error)

var operatorsOf = map[string]arithmetic{
	"+": (*machine).add, "-": (*machine).subtract, "*": (*machine).multiply, "/": (*machine).divide, "%": (*machine).modulo,
	"==": func(m *machine, l, r Value) (Value, error) { return m.equal(l, r), nil },
	"!=": func(m *machine, l, r Value) (Value, error) { return !m.equal(l, r), nil },
	"<":  func(m *machine, l, r Value) (Value, error) { return m.compare(l, r) < 0, nil },
	"<=": func(m *machine, l, r Value) (Value, error) { return m.compare(l, r) <= 0, nil },
	">":  func(m *machine, l, r Value) (Value, error) { return m.compare(l, r) > 0, nil },
	">=": func(m *machine, l, r Value) (Value, error) { return m.compare(l, r) >= 0, nil },
}

const briefText = 11 // bytes of a value that messages quote

// brief is the text of v, cut short.
func (m *machine) brief(v Value) string { return shorten(m.toJSON(v), 30) }

func shorten(s string, n int) string {
	if len(s) <= n-1 {
		return s
	}
	cut := n - 4
	for cut > 0 && s[cut]&0xc0 == 0x80 {
		cut--
	}
	return s[:cut] + "..."
}

// describe is the type of v with its text, cut short.
func describe(v Value) string {
	m := machine{account: &account{}}
	return m.kindAndText(v)
}

func (m *machine) kindAndText(v Value) string {
	return typeName(v) + " (" + shorten(m.toJSON(v), briefText+4) + ")"
}

func (m *machine) cannot(l, r Value, what string) error {
	return failf("%s and %s cannot be %s", m.kindAndText(l), m.kindAndText(r), what)
}

func (m *machine) add(l, r Value) (Value, error) {
	if l == nil {
		return r, nil
	}
	if r == nil {
		return l, nil
	}
	if x, ok := l.(float64); ok {
		if y, ok := toFloat(r); ok {
			return x + y, nil
		}
	}
	switch x := l.(type) {
	case *Number:
		if y, ok := toFloat(r); ok {
			return x.f + y, nil
		}
	case string:
		if y, ok := r.(string); ok {
			m.alloc(int64(len(x)+len(y)) + valueSize)
			m.tick((len(x) + len(y)) >> 6)
			return x + y, nil
		}
	case *Array:
		if y, ok := r.(*Array); ok {
			return m.concat(x, y), nil
		}
	case *Object:
		if y, ok := r.(*Object); ok {
			return m.merge(x, y), nil
		}
	}
	return nil, m.cannot(l, r, "added")
}

func (m *machine) concat(x, y *Array) *Array {
	if len(x.Items) == 0 && !y.shared {
		return y
	}
	x = m.ownArray(x, len(y.Items))
	if len(x.Items)+len(y.Items) > cap(x.Items) {
		m.alloc(int64(len(x.Items)+2*len(y.Items)) * valueSize)
	}
	x.Items = m.appendShared(x.Items, y.Items)
	return x
}

func (m *machine) merge(x, y *Object) *Object {
	x = m.ownObject(x)
	m.tick(len(y.entries))
	for _, e := range y.entries {
		m.setKey(x, e.Key, share(e.Value))
	}
	return x
}

func (m *machine) subtract(l, r Value) (Value, error) {
	x, ok := toFloat(l)
	y, ok2 := toFloat(r)
	if ok && ok2 {
		return x - y, nil
	}
	a, ok := l.(*Array)
	b, ok2 := r.(*Array)
	if !ok || !ok2 {
		return nil, m.cannot(l, r, "subtracted")
	}
	out := NewArray()
	for _, v := range a.Items {
		if !m.contained(b.Items, v) {
			m.alloc(2 * valueSize)
			out.Items = append(out.Items, share(v))
		}
	}
	return out, nil
}

func (m *machine) contained(items []Value, v Value) bool {
	for _, item := range items {
		if m.equal(item, v) {
			return true
		}
	}
	return false
}

func (m *machine) multiply(l, r Value) (Value, error) {
	x, ok := toFloat(l)
	y, ok2 := toFloat(r)
	switch {
	case ok && ok2:
		return x * y, nil
	case ok && kindOf(r) == kindString:
		return m.repeat(r.(string), x)
	case ok2 && kindOf(l) == kindString:
		return m.repeat(l.(string), y)
	}
	a, ok := l.(*Object)
	b, ok2 := r.(*Object)
	if !ok || !ok2 {
		return nil, m.cannot(l, r, "multiplied")
	}
	return m.deepMerge(a, b, 0), nil
}

const maxString = 536870911

func (m *machine) repeat(s string, f float64) (Value, error) {
	if math.IsNaN(f) || f < 0 {
		return nil, nil
	}
	n := int64(min(f, maxString))
	if n > 0 && int64(len(s)) > maxString/n {
		return nil, failf("Repeat string result too long")
	}
	m.alloc(int64(len(s))*n + valueSize)
	m.tick(int(int64(len(s)) * n >> 6))
	return strings.Repeat(s, int(n)), nil
}

func (m *machine) deepMerge(a, b *Object, depth int) *Object {
	if depth > maxDepth {
		panic(tooDeep{})
	}
	a = m.ownObject(a)
	m.tick(len(b.entries))
	for _, e := range b.entries {
		old, _ := a.Get(e.Key)
		x, ok := old.(*Object)
		y, ok2 := e.Value.(*Object)
		if ok && ok2 {
			m.setKey(a, e.Key, m.deepMerge(x, y, depth+1))
			continue
		}
		m.setKey(a, e.Key, share(e.Value))
	}
	return a
}

func (m *machine) divide(l, r Value) (Value, error) {
	x, ok := toFloat(l)
	y, ok2 := toFloat(r)
	if ok && ok2 {
		if y == 0 {
			return nil, m.cannot(l, r, "divided because the divisor is zero")
		}
		return x / y, nil
	}
	s, ok := l.(string)
	t, ok2 := r.(string)
	if ok && ok2 {
		return m.splitString(s, t), nil
	}
	return nil, m.cannot(l, r, "divided")
}

func (m *machine) modulo(l, r Value) (Value, error) {
	x, ok := toFloat(l)
	y, ok2 := toFloat(r)
	if !ok || !ok2 {
		return nil, m.cannot(l, r, "divided")
	}
	if math.IsNaN(x) || math.IsNaN(y) {
		return math.NaN(), nil
	}
	i, j := toInt64(x), toInt64(y)
	if j == 0 {
		return nil, m.cannot(l, r, "divided (remainder) because the divisor is zero")
	}
	if j == math.MinInt64 {
		j = math.MaxInt64
	}
	if j < 0 {
		j = -j
	}
	return float64(i % j), nil
}

// toInt64 truncates, and stays within the range.
func toInt64(f float64) int64 {
	switch {
	case f != f:
		return 0
	case f >= math.MaxInt64:
		return math.MaxInt64
	case f <= math.MinInt64:
		return math.MinInt64
	}
	return int64(f)
}
