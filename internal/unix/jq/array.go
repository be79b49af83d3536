package jq

import (
	"math"
	"slices"
)

// sort implements sort/0.
func (m *machine) sort(in Value, _ []Value) (Value, error) {
	a, ok := in.(*Array)
	if !ok {
		return nil, failf("%s cannot be sorted, as it is not an array", m.kindAndText(in))
	}
	return m.sortedArray(a), nil
}

// sortedArray returns a in sorted order; it may change a.
func (m *machine) sortedArray(a *Array) *Array {
	a = m.ownArray(a, 0)
	m.sortValues(a.Items)
	return a
}

// keyed is an element with its sort key.
type keyed struct{ key, value Value }

// sortedPairs combines the elements of in with their keys and sorts them by key.
func (m *machine) sortedPairs(in, keys Value) ([]keyed, error) {
	a, ok := in.(*Array)
	k, ok2 := keys.(*Array)
	if !ok || !ok2 || len(a.Items) != len(k.Items) {
		return nil, failf("%s and %s cannot be sorted, as they are not both arrays", m.kindAndText(in), m.kindAndText(keys))
	}
	m.alloc(int64(len(a.Items)) * 2 * valueSize)
	list := make([]keyed, len(a.Items))
	for i := range list {
		list[i] = keyed{k.Items[i], share(a.Items[i])}
	}
	slices.SortStableFunc(list, func(x, y keyed) int { return m.compare(x.key, y.key) })
	return list, nil
}

// sortBy implements _sort_by/1.
func (m *machine) sortBy(in Value, args []Value) (Value, error) {
	list, err := m.sortedPairs(in, args[0])
	if err != nil {
		return nil, err
	}
	m.alloc(int64(len(list))*valueSize + headSize)
	out := &Array{Items: make([]Value, len(list))}
	for i := range list {
		out.Items[i] = list[i].value
	}
	return out, nil
}

// groupBy implements _group_by/1.
func (m *machine) groupBy(in Value, args []Value) (Value, error) {
	list, err := m.sortedPairs(in, args[0])
	if err != nil {
		return nil, err
	}
	out := NewArray()
	var group *Array
	for i := range list {
		m.alloc(2 * valueSize)
		if i == 0 || m.compare(list[i-1].key, list[i].key) != 0 {
			m.alloc(headSize + 2*valueSize)
			group = NewArray()
			out.Items = append(out.Items, group)
		}
		group.Items = append(group.Items, list[i].value)
	}
	return out, nil
}

// unique implements unique/0.
func (m *machine) unique(in Value, _ []Value) (Value, error) {
	a, ok := in.(*Array)
	if !ok {
		return nil, failf("%s cannot be sorted, as it is not an array", m.kindAndText(in))
	}
	a = m.sortedArray(a)
	a.Items = slices.CompactFunc(a.Items, func(x, y Value) bool { return m.compare(x, y) == 0 })
	return a, nil
}

// uniqueBy implements _unique_by/1.
func (m *machine) uniqueBy(in Value, args []Value) (Value, error) {
	list, err := m.sortedPairs(in, args[0])
	if err != nil {
		return nil, err
	}
	out := NewArray()
	for i := range list {
		if i == 0 || m.compare(list[i-1].key, list[i].key) != 0 {
			m.alloc(2 * valueSize)
			out.Items = append(out.Items, list[i].value)
		}
	}
	return out, nil
}

// findExtreme returns the element with the least (sign -1) or greatest key. Of equal elements it
// returns the first least, and the last greatest.
func (m *machine) findExtreme(in, keys Value, sign int) (Value, error) {
	a, ok := in.(*Array)
	k, ok2 := keys.(*Array)
	if !ok || !ok2 || len(a.Items) != len(k.Items) {
		return nil, failf("%s and %s cannot be iterated over", m.kindAndText(in), m.kindAndText(keys))
	}
	best := -1
	for i := range a.Items {
		if best < 0 {
			best = i
			continue
		}
		c := m.compare(k.Items[i], k.Items[best])
		if sign < 0 && c < 0 || sign > 0 && c >= 0 {
			best = i
		}
	}
	if best < 0 {
		return nil, nil
	}
	return share(a.Items[best]), nil
}

// reverse implements reverse/0.
func (m *machine) reverse(in Value, _ []Value) (Value, error) {
	switch v := in.(type) {
	case nil:
		return NewArray(), nil
	case *Array:
		a := m.ownArray(v, 0)
		slices.Reverse(a.Items)
		return a, nil
	case *Object:
		if len(v.entries) == 0 {
			return NewArray(), nil
		}
	case string:
		if v == "" {
			return NewArray(), nil
		}
	}
	if _, err := m.length(in, nil); err != nil {
		return nil, err
	}
	return nil, failf("Cannot index %s with number", typeName(in))
}

// flatten implements flatten/1.
func (m *machine) flatten(in Value, args []Value) (Value, error) {
	depth, ok := toFloat(args[0])
	if !ok {
		return nil, failf("flatten depth must not be negative")
	}
	if depth < 0 {
		return nil, failf("flatten depth must not be negative")
	}
	items, err := m.elementsOf(in)
	if err != nil {
		return nil, err
	}
	out := NewArray()
	m.flattenInto(out, items, depth, 0)
	return out, nil
}

// flattenInto appends items to out and flattens arrays up to depth.
func (m *machine) flattenInto(out *Array, items []Value, depth float64, level int) {
	if level > maxDepth {
		panic(tooDeep{})
	}
	for _, v := range items {
		m.tick(1)
		if a, ok := v.(*Array); ok && depth > 0 {
			m.flattenInto(out, a.Items, depth-1, level+1)
			continue
		}
		m.alloc(2 * valueSize)
		out.Items = append(out.Items, share(v))
	}
}

// transpose implements transpose/0.
func (m *machine) transpose(in Value, _ []Value) (Value, error) {
	rows, err := m.elementsOf(in)
	if err != nil {
		return nil, err
	}
	width := 0
	for _, row := range rows {
		n, err := m.length(row, nil)
		if err != nil {
			return nil, err
		}
		f, _ := toFloat(n)
		width = max(width, int(f))
	}
	out := NewArray()
	for i := range width {
		m.alloc(int64(len(rows)+2)*valueSize + headSize)
		m.tick(len(rows))
		column := &Array{Items: make([]Value, len(rows))}
		for j, row := range rows {
			v, err := m.elementOf(row, float64(i))
			if err != nil {
				return nil, err
			}
			column.Items[j] = share(v)
		}
		out.Items = append(out.Items, column)
	}
	return out, nil
}

// bsearch implements bsearch/1.
func (m *machine) bsearch(in Value, args []Value) (Value, error) {
	a, ok := in.(*Array)
	if !ok {
		return nil, failf("%s cannot be searched from", m.kindAndText(in))
	}
	i, found := slices.BinarySearchFunc(a.Items, args[0], m.compare)
	if found {
		return float64(i), nil
	}
	return float64(-1 - i), nil
}

// abs implements abs/0.
func (m *machine) abs(in Value, _ []Value) (Value, error) {
	switch v := in.(type) {
	case float64:
		if v < 0 {
			return -v, nil
		}
		return v, nil
	case *Number:
		if v.f < 0 {
			return math.Abs(v.f), nil
		}
		return v, nil
	}
	return nil, failf("%s cannot be negated", m.kindAndText(in))
}
