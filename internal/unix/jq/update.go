package jq

import (
	"math"
	"slices"
)

const maxIndex = 536870911 // of an array that is written to

// set stores v at t[k] and returns the result; it changes t in place unless t is shared.
func (m *machine) set(t, k, v Value) (Value, error) {
	switch key := k.(type) {
	case string:
		switch c := t.(type) {
		case nil:
			o := NewObject()
			m.alloc(headSize)
			m.setKey(o, key, v)
			return o, nil
		case *Object:
			o := m.ownObject(c)
			m.setKey(o, key, v)
			return o, nil
		}
	case float64, *Number:
		f, _ := toFloat(key)
		switch c := t.(type) {
		case nil:
			return m.setIndex(NewArray(), f, v)
		case *Array:
			return m.setIndex(c, f, v)
		}
	case *Object:
		switch c := t.(type) {
		case nil:
			return m.setSlice(NewArray(), key, v)
		case *Array:
			return m.setSlice(c, key, v)
		}
	}
	return nil, m.cannotSet(t, k)
}

// cannotSet returns the error of an assignment to t[k].
func (m *machine) cannotSet(t, k Value) error {
	if _, ok := k.(*Object); ok {
		switch t.(type) {
		case string:
			return failf("Cannot update string slices")
		case *Object:
			return failf("Cannot index object with object")
		}
		return failf("Cannot update field at object index of %s", typeName(t))
	}
	if _, ok := t.(*Array); ok && kindOf(k) == kindArray {
		return failf("Cannot update field at array index of array")
	}
	_, err := m.elementOf(t, k)
	if err == nil {
		err = failf("Cannot index %s with %s", typeName(t), typeName(k))
	}
	return err
}

// setIndex stores v in an array, which grows if needed.
func (m *machine) setIndex(a *Array, f float64, v Value) (Value, error) {
	if math.IsNaN(f) {
		return nil, failf("Cannot set array element at NaN index")
	}
	f = math.Floor(f)
	if f < 0 {
		f += float64(len(a.Items))
		if f < 0 {
			return nil, failf("Out of bounds negative array index")
		}
	}
	if f > maxIndex {
		return nil, failf("Array index too large")
	}
	i := int(f)
	grow := i + 1 - len(a.Items)
	if grow > 0 {
		m.alloc(int64(grow)*valueSize + int64(len(a.Items)))
	}
	a = m.ownArray(a, max(grow, 0))
	for len(a.Items) <= i {
		a.Items = append(a.Items, nil)
	}
	a.Items[i] = v
	return a, nil
}

// setSlice replaces a slice of an array.
func (m *machine) setSlice(a *Array, key *Object, v Value) (Value, error) {
	with, ok := v.(*Array)
	if !ok {
		return nil, failf("A slice of an array can only be assigned another array")
	}
	from, to, err := sliceBounds(key, len(a.Items))
	if err != nil {
		return nil, err
	}
	n := len(a.Items) - (to - from) + len(with.Items)
	m.alloc(int64(n)*valueSize + headSize)
	out := &Array{Items: make([]Value, 0, n)}
	for _, part := range [][]Value{a.Items[:from], with.Items, a.Items[to:]} {
		out.Items = m.appendShared(out.Items, part)
	}
	return out, nil
}

// changePath replaces the value in t at path with the result of f. If t isn't shared, the value is
// removed from it first, so that f may change the value in place.
func (m *machine) changePath(t Value, path []Value, f func(Value) (Value, error)) (Value, error) {
	if len(path) == 0 {
		return f(t)
	}
	if len(path) > maxDepth {
		panic(tooDeep{})
	}
	m.tick(1)
	old, err := m.elementOf(t, path[0])
	if err != nil {
		if _, ok := path[0].(*Object); ok {
			return nil, m.cannotSet(t, path[0])
		}
		return nil, err
	}
	t = m.releaseElement(t, path[0], old)
	v, err := m.changePath(old, path[1:], f)
	if err != nil {
		return nil, err
	}
	return m.set(t, path[0], v)
}

// releaseElement removes the element k of a container that isn't shared, so that the element has
// one owner. An element of a shared container is marked as shared.
func (m *machine) releaseElement(t, k, old Value) Value {
	switch c := t.(type) {
	case *Array:
		f, ok := toFloat(k)
		if i, in := resolveIndex(f, len(c.Items)); ok && in && m.mayChange(c.shared) {
			c.Items[i] = nil
			return t
		}
	case *Object:
		key, ok := k.(string)
		if i := c.find(key); ok && i >= 0 && m.mayChange(c.shared) {
			c.entries[i].Value = nil
			return t
		}
	}
	share(old)
	return t
}

// setPath stores v in t at path.
func (m *machine) setPath(t Value, path []Value, v Value) (Value, error) {
	return m.changePath(t, path, func(Value) (Value, error) { return v, nil })
}

// resolveKeys returns the values of the keys of p.
func (m *machine) resolveKeys(p *keyPath) []Value {
	keys := make([]Value, len(p.keys))
	for i, k := range p.keys {
		keys[i] = k.value
		if k.variable {
			keys[i] = share(m.outerFrame(k.level).vars[k.slot])
		}
	}
	return keys
}

// finishUpdate pushes v, or unwinds with err.
func (m *machine) finishUpdate(v Value, err error) action {
	if err != nil {
		return m.unwindWith(err)
	}
	m.push(v)
	return goOn
}

// doSetKeys executes opSetKeys.
func (m *machine) doSetKeys(in *instr) action {
	v, t := m.pop(), m.pop()
	return m.finishUpdate(m.setPath(t, m.resolveKeys(in.x.(*keyPath)), v))
}

// doUpdateKeys executes opUpdateKeys.
func (m *machine) doUpdateKeys(in *instr) action {
	p := in.x.(*keyPath)
	right, t := m.pop(), m.pop()
	return m.finishUpdate(m.changePath(t, m.resolveKeys(p), func(old Value) (Value, error) {
		return p.op(m, old, right)
	}))
}

// doGetKeys executes opGetKeys.
func (m *machine) doGetKeys(in *instr) action {
	v, err := m.getPath(m.peek(), m.resolveKeys(in.x.(*keyPath)))
	return m.finishUpdate(share(v), err)
}

// doDeleteKeys executes opDeleteKeys.
func (m *machine) doDeleteKeys(in *instr) action {
	t := m.pop()
	return m.finishUpdate(m.deletePaths(t, []Value{NewArray(m.resolveKeys(in.x.(*keyPath))...)}))
}

// doGetAt executes opGetAt.
func (m *machine) doGetAt(in *instr) action {
	m.pop()
	path := m.frame.vars[in.b].(*Array)
	v, err := m.getPath(m.frame.vars[in.a], path.Items)
	return m.finishUpdate(share(v), err)
}

// doSetAt executes opSetAt.
func (m *machine) doSetAt(in *instr) action {
	v := m.pop()
	root := m.frame.vars[in.a]
	m.frame.vars[in.a] = nil
	root, err := m.setPath(root, m.frame.vars[in.b].(*Array).Items, v)
	if err != nil {
		return m.unwindWith(err)
	}
	m.frame.vars[in.a] = root
	m.push(nil)
	return goOn
}

// doDeletePath executes opDeletePath.
func (m *machine) doDeletePath(in *instr) action {
	m.alloc(2 * valueSize)
	toDelete, ok := m.frame.vars[in.a].(*Array)
	if !ok {
		toDelete = NewArray()
		m.frame.vars[in.a] = toDelete
	}
	toDelete.Items = append(toDelete.Items, share(m.frame.vars[in.b]))
	return goOn
}

// doDeletePaths executes opDeletePaths.
func (m *machine) doDeletePaths(in *instr) action {
	toDelete, ok := m.frame.vars[in.b].(*Array)
	if !ok {
		return goOn
	}
	m.frame.vars[in.b] = nil
	return m.finishUpdate(m.deletePaths(m.pop(), toDelete.Items))
}

// deletePaths deletes paths in t, the last first, so that the indices of the others stay valid.
func (m *machine) deletePaths(t Value, paths []Value) (Value, error) {
	for _, p := range paths {
		if _, ok := p.(*Array); !ok {
			return nil, failf("Path must be specified as an array")
		}
	}
	paths = slices.Clone(paths)
	m.sortValues(paths)
	return m.deleteSorted(t, paths, 0)
}

// deleteSorted deletes sorted paths that have their first depth keys in common.
func (m *machine) deleteSorted(t Value, paths []Value, depth int) (Value, error) {
	if len(paths) > 0 && len(paths[0].(*Array).Items) == depth {
		return nil, nil
	}
	if depth > maxDepth {
		panic(tooDeep{})
	}
	var whole []Value // keys to delete from t itself
	for end := len(paths); end > 0; {
		key := paths[end-1].(*Array).Items[depth]
		begin := end - 1
		for begin > 0 && m.equal(paths[begin-1].(*Array).Items[depth], key) {
			begin--
		}
		m.tick(end - begin)
		group := paths[begin:end]
		end = begin
		if len(group[0].(*Array).Items) == depth+1 {
			whole = append(whole, key)
			continue
		}
		var err error
		if t, err = m.deleteBelow(t, key, group, depth); err != nil {
			return nil, err
		}
	}
	return m.deleteKeys(t, whole)
}

// deleteBelow deletes paths in the element key of t.
func (m *machine) deleteBelow(t, key Value, group []Value, depth int) (Value, error) {
	if t == nil {
		return nil, nil
	}
	old, err := m.elementOf(t, key)
	if err != nil || old == nil {
		return t, err
	}
	t = m.releaseElement(t, key, old)
	v, err := m.deleteSorted(old, group, depth+1)
	if err != nil {
		return nil, err
	}
	return m.set(t, key, v)
}

// deleteKeys deletes elements of t.
func (m *machine) deleteKeys(t Value, keys []Value) (Value, error) {
	if len(keys) == 0 {
		return t, nil
	}
	switch c := t.(type) {
	case nil:
		return nil, nil
	case *Array:
		return m.deleteItems(c, keys)
	case *Object:
		drop := make(map[string]bool, len(keys))
		for _, k := range keys {
			key, ok := k.(string)
			if !ok {
				return nil, failf("Cannot delete %s field of object", typeName(k))
			}
			drop[key] = true
		}
		o := m.ownObject(c)
		m.tick(len(o.entries))
		o.deleteAll(func(key string) bool { return drop[key] })
		return o, nil
	}
	return nil, failf("Cannot delete fields from %s", typeName(t))
}

// deleteItems deletes elements of an array.
func (m *machine) deleteItems(a *Array, keys []Value) (Value, error) {
	toDelete := make(map[int]bool, len(keys))
	for _, k := range keys {
		switch k := k.(type) {
		case float64, *Number:
			f, _ := toFloat(k)
			if i, ok := resolveIndex(f, len(a.Items)); ok {
				toDelete[i] = true
			}
		case *Object:
			from, to, err := sliceBounds(k, len(a.Items))
			if err != nil {
				return nil, err
			}
			for i := from; i < to; i++ {
				toDelete[i] = true
			}
		default:
			return nil, failf("Cannot delete %s element of array", typeName(k))
		}
	}
	m.alloc(int64(len(a.Items)) * valueSize)
	m.tick(len(a.Items) / 4)
	out := &Array{Items: make([]Value, 0, len(a.Items))}
	for i, v := range a.Items {
		if !toDelete[i] {
			out.Items = append(out.Items, share(v))
		}
	}
	return out, nil
}
