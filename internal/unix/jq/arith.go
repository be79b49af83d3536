package jq

import (
	"math"
	"strings"
)

// operatorFunc computes a binary operator. It may change its left operand if that is not shared.
type operatorFunc func(m *machine, l, r Value) (Value, error)

// operatorFuncs are the operators that compute a value, by name.
var operatorFuncs = map[string]operatorFunc{
	"+": (*machine).add, "-": (*machine).subtract, "*": (*machine).multiply, "/": (*machine).divide, "%": (*machine).modulo,
	"==": func(m *machine, l, r Value) (Value, error) { return m.equal(l, r), nil },
	"!=": func(m *machine, l, r Value) (Value, error) { return !m.equal(l, r), nil },
	"<":  func(m *machine, l, r Value) (Value, error) { return m.compare(l, r) < 0, nil },
	"<=": func(m *machine, l, r Value) (Value, error) { return m.compare(l, r) <= 0, nil },
	">":  func(m *machine, l, r Value) (Value, error) { return m.compare(l, r) > 0, nil },
	">=": func(m *machine, l, r Value) (Value, error) { return m.compare(l, r) >= 0, nil },
}

const briefText = 11 // bytes of a value that messages quote

// shortText returns at most 29 bytes of the JSON text of v.
func (m *machine) shortText(v Value) string { return shortenText(m.toJSON(v), 30) }

// shortenText returns s, or its beginning and "..." so that it has less than n bytes.
func shortenText(s string, n int) string {
	if len(s) <= n-1 {
		return s
	}
	cut := n - 4
	for cut > 0 && s[cut]&0xc0 == 0x80 {
		cut--
	}
	return s[:cut] + "..."
}

// describeValue returns the type of v with the beginning of its text.
func describeValue(v Value) string {
	m := machine{account: &account{}}
	return m.kindAndText(v)
}

// kindAndText returns the type of v with the beginning of its text, for messages.
func (m *machine) kindAndText(v Value) string {
	return typeName(v) + " (" + shortenText(m.toJSON(v), briefText+4) + ")"
}

// operandError returns the error of an operator that doesn't support its operands.
func (m *machine) operandError(l, r Value, what string) error {
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
			return m.concatArrays(x, y), nil
		}
		if m.host.AppendItems {
			return m.concatArrays(x, NewArray(r)), nil
		}
	case *Object:
		if y, ok := r.(*Object); ok {
			return m.mergeObjects(x, y), nil
		}
	}
	return nil, m.operandError(l, r, "added")
}

// concatArrays returns the elements of x followed by those of y.
func (m *machine) concatArrays(x, y *Array) *Array {
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

// mergeObjects returns x with the members of y.
func (m *machine) mergeObjects(x, y *Object) *Object {
	x = m.ownObject(x)
	m.tick(len(y.entries))
	for _, e := range y.entries {
		m.setKey(x, e.Key, share(e.Value))
	}
	return x
}

// subtract computes l - r for numbers, or removes the elements of r from l.
func (m *machine) subtract(l, r Value) (Value, error) {
	x, ok := toFloat(l)
	y, ok2 := toFloat(r)
	if ok && ok2 {
		return x - y, nil
	}
	a, ok := l.(*Array)
	b, ok2 := r.(*Array)
	if !ok || !ok2 {
		return nil, m.operandError(l, r, "subtracted")
	}
	out := NewArray()
	for _, v := range a.Items {
		if !m.containsEqual(b.Items, v) {
			m.alloc(2 * valueSize)
			out.Items = append(out.Items, share(v))
		}
	}
	return out, nil
}

// containsEqual reports whether an item equals v.
func (m *machine) containsEqual(items []Value, v Value) bool {
	for _, item := range items {
		if m.equal(item, v) {
			return true
		}
	}
	return false
}

// multiply multiplies numbers, repeats a string, or merges objects recursively.
func (m *machine) multiply(l, r Value) (Value, error) {
	x, ok := toFloat(l)
	y, ok2 := toFloat(r)
	switch {
	case ok && ok2:
		return x * y, nil
	case ok && kindOf(r) == kindString:
		return m.repeatString(r.(string), x)
	case ok2 && kindOf(l) == kindString:
		return m.repeatString(l.(string), y)
	}
	a, ok := l.(*Object)
	b, ok2 := r.(*Object)
	if !ok || !ok2 {
		return nil, m.operandError(l, r, "multiplied")
	}
	return m.deepMerge(a, b, 0), nil
}

// maxString is the maximum length of a repeated string, as in jq.
const maxString = 536870911

// repeatString returns s repeated f times; null if f is negative or nan.
func (m *machine) repeatString(s string, f float64) (Value, error) {
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

// deepMerge returns a with the members of b; objects in both are merged too.
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

// divide divides numbers, or splits a string.
func (m *machine) divide(l, r Value) (Value, error) {
	x, ok := toFloat(l)
	y, ok2 := toFloat(r)
	if ok && ok2 {
		if y == 0 {
			return nil, m.operandError(l, r, "divided because the divisor is zero")
		}
		return x / y, nil
	}
	s, ok := l.(string)
	t, ok2 := r.(string)
	if ok && ok2 {
		return m.splitString(s, t), nil
	}
	return nil, m.operandError(l, r, "divided")
}

// modulo computes the remainder of two truncated numbers.
func (m *machine) modulo(l, r Value) (Value, error) {
	x, ok := toFloat(l)
	y, ok2 := toFloat(r)
	if !ok || !ok2 {
		return nil, m.operandError(l, r, "divided")
	}
	if math.IsNaN(x) || math.IsNaN(y) {
		return math.NaN(), nil
	}
	i, j := toInt64(x), toInt64(y)
	if j == 0 {
		return nil, m.operandError(l, r, "divided (remainder) because the divisor is zero")
	}
	if j == math.MinInt64 {
		j = math.MaxInt64
	}
	if j < 0 {
		j = -j
	}
	return float64(i % j), nil
}

// toInt64 truncates f and limits it to the range of int64; nan is 0.
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
