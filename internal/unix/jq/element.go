package jq

import "math"

// isTracking reports whether the current instruction is part of a path expression.
func (m *machine) isTracking() bool { return m.track.on && m.track.sub == 0 }

// checkOnPath returns an error unless v is the value at the tracked path.
func (m *machine) checkOnPath(v, key Value) error {
	if isIdentical(v, m.track.value) {
		return nil
	}
	return failf("Invalid path expression near attempt to access element %s of %s", m.shortText(key), m.shortText(v))
}

// doIndex executes opIndex.
func (m *machine) doIndex(*instr) action {
	t, k := m.pop(), m.pop()
	return m.pushElement(t, k)
}

// doField executes opField.
func (m *machine) doField(in *instr) action {
	return m.pushElement(m.pop(), in.x)
}

// pushElement pushes t[k].
func (m *machine) pushElement(t, k Value) action {
	if m.isTracking() {
		if err := m.checkOnPath(t, k); err != nil {
			return m.unwindWith(err)
		}
	}
	v, err := m.elementOf(t, k)
	if err != nil {
		return m.unwindWith(err)
	}
	m.push(share(v))
	if m.isTracking() {
		m.extendPath(share(k), v)
	}
	return goOn
}

// doSliceKey executes opSliceKey.
func (m *machine) doSliceKey(*instr) action {
	to, from := m.pop(), m.pop()
	m.alloc(headSize + 2*entrySize)
	o := NewObject()
	o.Set("start", from)
	o.Set("end", to)
	m.push(o)
	return goOn
}

// elementOf returns t[k].
func (m *machine) elementOf(t, k Value) (Value, error) {
	switch t := t.(type) {
	case nil:
		switch kindOf(k) {
		case kindString, kindNumber, kindNull:
			if k != nil {
				return nil, nil
			}
		case kindObject:
			return nil, nil
		}
	case *Object:
		if key, ok := k.(string); ok {
			v, _ := t.Get(key)
			return v, nil
		}
	case *Array:
		if v, ok, err := m.arrayElement(t, k); ok || err != nil {
			return v, err
		}
	case string:
		if o, ok := k.(*Object); ok {
			return m.sliceString(t, o)
		}
	}
	if key, ok := k.(string); ok && kindOf(t) != kindObject {
		return nil, failf("Cannot index %s with string %s", typeName(t), m.toJSON(key))
	}
	return nil, failf("Cannot index %s with %s", typeName(t), typeName(k))
}

// arrayElement returns t[k] and reports whether k is a possible key.
func (m *machine) arrayElement(t *Array, k Value) (Value, bool, error) {
	switch k := k.(type) {
	case float64, *Number:
		f, _ := toFloat(k)
		if i, ok := resolveIndex(f, len(t.Items)); ok {
			return t.Items[i], true, nil
		}
		return nil, true, nil
	case *Object:
		from, to, err := sliceBounds(k, len(t.Items))
		if err != nil {
			return nil, false, err
		}
		m.alloc(int64(to-from)*valueSize + headSize)
		items := make([]Value, 0, to-from)
		return &Array{Items: m.appendShared(items, t.Items[from:to])}, true, nil
	case *Array:
		return m.arrayIndices(t, k), true, nil
	}
	return nil, false, nil
}

// resolveIndex converts an index, which may be negative, into one of n elements, and reports
// whether it exists.
func resolveIndex(f float64, n int) (int, bool) {
	if math.IsNaN(f) {
		return 0, false
	}
	f = math.Floor(f)
	if f < 0 {
		f += float64(n)
	}
	if f < 0 || f >= float64(n) {
		return 0, false
	}
	return int(f), true
}

// sliceBounds converts a slice key into a range of n elements.
func sliceBounds(o *Object, n int) (int, int, error) {
	start, ok := o.Get("start")
	end, ok2 := o.Get("end")
	if !ok || !ok2 {
		return 0, 0, failf("Array/string slice indices must be integers")
	}
	from, to := 0.0, float64(n)
	if start != nil {
		f, ok := toFloat(start)
		if !ok {
			return 0, 0, failf("Array/string slice indices must be integers")
		}
		from = f
	}
	if end != nil {
		f, ok := toFloat(end)
		if !ok {
			return 0, 0, failf("Array/string slice indices must be integers")
		}
		to = f
	}
	clamp := func(f float64) float64 {
		if f < 0 {
			f += float64(n)
		}
		if math.IsNaN(f) {
			return 0
		}
		return math.Max(0, math.Min(f, float64(n)))
	}
	i, j := int(math.Floor(clamp(from))), int(math.Ceil(clamp(to)))
	return i, max(i, j), nil
}

// sliceString slices by characters.
func (m *machine) sliceString(s string, o *Object) (Value, error) {
	m.tick(len(s) / 8)
	n := 0
	for range s {
		n++
	}
	from, to, err := sliceBounds(o, n)
	if err != nil {
		return nil, err
	}
	if n == len(s) {
		return s[from:to], nil
	}
	i, begin, end := 0, len(s), len(s)
	for at := range s {
		if i == from {
			begin = at
		}
		if i == to {
			end = at
			break
		}
		i++
	}
	return s[min(begin, end):end], nil
}

// arrayIndices returns the indices in a where b occurs.
func (m *machine) arrayIndices(a, b *Array) *Array {
	out := NewArray()
	if len(b.Items) == 0 {
		return out
	}
	for i := 0; i+len(b.Items) <= len(a.Items); i++ {
		if m.compareItems(a.Items[i:i+len(b.Items)], b.Items, 0) == 0 {
			m.alloc(2*valueSize + 8)
			out.Items = append(out.Items, float64(i))
		}
	}
	return out
}

// doEach executes opEach.
func (m *machine) doEach(in *instr) action {
	v := m.pop()
	if m.isTracking() && !isIdentical(v, m.track.value) {
		return m.unwindWith(failf("Invalid path expression near attempt to iterate through %s", m.shortText(v)))
	}
	n := 0
	switch c := v.(type) {
	case *Array:
		n = len(c.Items)
	case *Object:
		n = len(c.entries)
	default:
		return m.unwindWith(failf("Cannot iterate over %s", m.kindAndText(v)))
	}
	if n == 0 {
		return goBack
	}
	f := m.pushFork(forkEach, m.pc)
	f.over = share(v)
	m.nextElement(f)
	return goOn
}

// doRange executes opRange.
func (m *machine) doRange(*instr) action {
	to, ok := toFloat(m.pop())
	from, ok2 := toFloat(m.pop())
	m.pop()
	if !ok || !ok2 {
		return m.unwindWith(failf("Range bounds must be numeric"))
	}
	if !(from < to) {
		return goBack
	}
	f := m.pushFork(forkRange, m.pc)
	f.next, f.end = from, to
	m.nextNumber(f)
	return goOn
}

// doPathBegin executes opPathBegin.
func (m *machine) doPathBegin(*instr) action {
	v := m.pop()
	saved := m.track
	m.push(&saved)
	m.push(share(v))
	m.track = tracker{on: true, value: v}
	return goOn
}

// doPathEnd executes opPathEnd.
func (m *machine) doPathEnd(*instr) action {
	v := m.pop()
	if !isIdentical(v, m.track.value) {
		return m.unwindWith(failf("Invalid path expression with result %s", m.shortText(v)))
	}
	path := m.pathArray()
	m.track = *m.pop().(*tracker)
	m.push(path)
	return goOn
}

// pathArray returns the tracked path as an array.
func (m *machine) pathArray() *Array {
	n := 0
	for p := m.track.path; p != nil; p = p.up {
		n++
	}
	m.alloc(int64(n)*valueSize + headSize)
	m.tick(n)
	a := &Array{Items: make([]Value, n)}
	for p := m.track.path; p != nil; p = p.up {
		n--
		a.Items[n] = p.key
	}
	return a
}

// doGetPath executes opGetPath.
func (m *machine) doGetPath(*instr) action {
	p, t := m.pop(), m.pop()
	path, ok := p.(*Array)
	if !ok {
		return m.unwindWith(failf("Path must be specified as an array"))
	}
	if m.isTracking() && !isIdentical(t, m.track.value) {
		return m.unwindWith(failf("Invalid path expression with result %s", m.shortText(t)))
	}
	v, err := m.getPath(t, path.Items)
	if err != nil {
		return m.unwindWith(err)
	}
	m.push(share(v))
	if m.isTracking() {
		for _, key := range path.Items {
			m.extendPath(share(key), v)
		}
		m.track.value = v
	}
	return goOn
}

// getPath returns the value in t at path; any path in null leads to null.
func (m *machine) getPath(t Value, path []Value) (Value, error) {
	for _, key := range path {
		m.tick(1)
		if t == nil {
			return nil, nil
		}
		v, err := m.elementOf(t, key)
		if err != nil {
			return nil, err
		}
		t = v
	}
	return t, nil
}
