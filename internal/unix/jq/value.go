package jq

import (
	"math"
	"slices"
	"strings"
)

// Value is a JSON value: nil, bool, float64, *Number, string, *Array or *Object.
type Value any

// Array is a JSON array.
//
// Values may share containers. An array or object that is reachable in more than one way is marked
// as shared and is copied before a change; one with a single owner is changed in place.
type Array struct {
	Items []Value

	shared bool
	mark   uint32 // the last measurement of memory that counted it
}

// Object is a JSON object; it keeps its keys in the order of insertion.
type Object struct {
	entries []Entry
	index   map[string]int // only in objects with more than smallObject entries

	shared bool
	mark   uint32
}

// Entry is a key of an Object with its value.
type Entry struct {
	Key   string
	Value Value
}

// smallObject is the number of entries up to which an object has no index.
const (
	smallObject = 8
	maxDepth    = 10000 // nesting of values that functions follow
)

// NewArray returns an array of items; the caller must not use the slice any more.
func NewArray(items ...Value) *Array { return &Array{Items: items} }

// NewObject returns an empty object.
func NewObject() *Object { return &Object{} }

// Len returns the number of keys.
func (o *Object) Len() int { return len(o.entries) }

// Entries returns the keys and values in their order; the caller must not change the slice.
func (o *Object) Entries() []Entry { return o.entries }

// find returns the index of a key, or -1.
func (o *Object) find(key string) int {
	if o.index != nil {
		if i, ok := o.index[key]; ok {
			return i
		}
		return -1
	}
	for i := range o.entries {
		if o.entries[i].Key == key {
			return i
		}
	}
	return -1
}

// Get returns the value of key.
func (o *Object) Get(key string) (Value, bool) {
	if i := o.find(key); i >= 0 {
		return o.entries[i].Value, true
	}
	return nil, false
}

// Set sets the value of key; a new key is added at the end.
func (o *Object) Set(key string, v Value) {
	if i := o.find(key); i >= 0 {
		o.entries[i].Value = v
		return
	}
	o.entries = append(o.entries, Entry{key, v})
	switch {
	case o.index != nil:
		o.index[key] = len(o.entries) - 1
	case len(o.entries) > smallObject:
		o.buildIndex()
	}
}

// buildIndex rebuilds the index of a large object.
func (o *Object) buildIndex() {
	o.index = nil
	if len(o.entries) <= smallObject {
		return
	}
	o.index = make(map[string]int, 2*len(o.entries))
	for i := range o.entries {
		o.index[o.entries[i].Key] = i
	}
}

// deleteAll removes the keys for which drop returns true.
func (o *Object) deleteAll(drop func(key string) bool) {
	o.entries = slices.DeleteFunc(o.entries, func(e Entry) bool { return drop(e.Key) })
	o.buildIndex()
}

// sortedEntries returns the entries sorted by key. It counts its work with tick.
func (o *Object) sortedEntries(tick func(n int)) []Entry {
	s := slices.Clone(o.entries)
	slices.SortFunc(s, func(a, b Entry) int {
		tick(1)
		return strings.Compare(a.Key, b.Key)
	})
	return s
}

// share marks a container as reachable in more than one way and returns it.
func share(v Value) Value {
	switch v := v.(type) {
	case *Array:
		if !v.shared {
			v.shared = true
		}
	case *Object:
		if !v.shared {
			v.shared = true
		}
	}
	return v
}

// ownArray returns a, or a copy with room for more elements if a must not be changed.
func (m *machine) ownArray(a *Array, room int) *Array {
	if m.mayChange(a.shared) {
		return a
	}
	m.alloc(int64(len(a.Items)+room) * valueSize)
	c := &Array{Items: make([]Value, 0, len(a.Items)+room)}
	c.Items = m.appendShared(c.Items, a.Items)
	return c
}

// mayChange reports whether a container may be changed in place.
func (m *machine) mayChange(shared bool) bool { return !shared && !m.alwaysCopy }

const copyBatch = 4096 // items between two charges to the budget

// appendShared appends items that also stay in their container.
func (m *machine) appendShared(to, items []Value) []Value {
	for len(items) > 0 {
		n := min(len(items), copyBatch)
		m.tick(n/8 + 1)
		for _, v := range items[:n] {
			to = append(to, share(v))
		}
		items = items[n:]
	}
	return to
}

// ownObject returns o, or a copy if o must not be changed.
func (m *machine) ownObject(o *Object) *Object {
	if m.mayChange(o.shared) {
		return o
	}
	m.alloc(int64(len(o.entries)) * entrySize)
	m.tick(len(o.entries) / 4)
	c := &Object{entries: make([]Entry, len(o.entries), len(o.entries)+1)}
	for i, e := range o.entries {
		share(e.Value)
		c.entries[i] = e
	}
	c.buildIndex()
	return c
}

// setKey sets a key of o and charges the memory.
func (m *machine) setKey(o *Object, key string, v Value) {
	m.alloc(2 * entrySize)
	o.Set(key, v)
}

// kind is the kind of a value, in sort order.
type kind uint8

const (
	kindNull kind = iota
	kindFalse
	kindTrue
	kindNumber
	kindString
	kindArray
	kindObject
)

// kindOf returns the kind of v.
func kindOf(v Value) kind {
	switch v := v.(type) {
	case bool:
		if v {
			return kindTrue
		}
		return kindFalse
	case float64, *Number:
		return kindNumber
	case string:
		return kindString
	case *Array:
		return kindArray
	case *Object:
		return kindObject
	}
	return kindNull
}

// typeName returns the name of v's type in jq.
func typeName(v Value) string {
	return [...]string{"null", "boolean", "boolean", "number", "string", "array", "object"}[kindOf(v)]
}

// isTrue reports whether v is true as a condition: anything but null and false is.
func isTrue(v Value) bool {
	switch v := v.(type) {
	case nil:
		return false
	case bool:
		return v
	}
	return true
}

// compare compares values in the order of sort: null, false, true, numbers, strings, arrays,
// objects. nan is less than any number.
func (m *machine) compare(a, b Value) int { return m.compareAt(a, b, 0) }

// compareAt is compare at a depth of nesting.
func (m *machine) compareAt(a, b Value, depth int) int {
	ka, kb := kindOf(a), kindOf(b)
	if ka != kb {
		return int(ka) - int(kb)
	}
	if depth > maxDepth {
		panic(tooDeep{})
	}
	m.tick(1)
	switch ka {
	case kindNumber:
		return compareNumbers(a, b)
	case kindString:
		s, t := a.(string), b.(string)
		m.tick(min(len(s), len(t)) >> 6)
		return strings.Compare(s, t)
	case kindArray:
		return m.compareItems(a.(*Array).Items, b.(*Array).Items, depth)
	case kindObject:
		return m.compareObjects(a.(*Object), b.(*Object), depth)
	}
	return 0
}

// compareItems compares arrays element by element.
func (m *machine) compareItems(a, b []Value, depth int) int {
	for i := range min(len(a), len(b)) {
		if c := m.compareAt(a[i], b[i], depth+1); c != 0 {
			return c
		}
	}
	return len(a) - len(b)
}

// compareObjects compares the sorted keys of objects, then their values.
func (m *machine) compareObjects(a, b *Object, depth int) int {
	m.tick(len(a.entries) + len(b.entries))
	ea, eb := a.sortedEntries(m.tick), b.sortedEntries(m.tick)
	for i := range min(len(ea), len(eb)) {
		if c := strings.Compare(ea[i].Key, eb[i].Key); c != 0 {
			return c
		}
	}
	if c := len(ea) - len(eb); c != 0 {
		return c
	}
	for i := range ea {
		if c := m.compareAt(ea[i].Value, eb[i].Value, depth+1); c != 0 {
			return c
		}
	}
	return 0
}

// equal reports whether compare returns 0. Objects with different numbers of keys are unequal; their
// keys aren't sorted.
func (m *machine) equal(a, b Value) bool {
	x, ok := a.(*Object)
	y, ok2 := b.(*Object)
	if !ok || !ok2 {
		return m.compare(a, b) == 0
	}
	if x == y {
		return true
	}
	return len(x.entries) == len(y.entries) && m.compareObjects(x, y, 0) == 0
}

// isIdentical reports whether a and b are the same container or equal scalars, as path expressions
// require.
func isIdentical(a, b Value) bool {
	switch a := a.(type) {
	case *Array:
		b, ok := b.(*Array)
		return ok && a == b
	case *Object:
		b, ok := b.(*Object)
		return ok && a == b
	case float64:
		b, ok := b.(float64)
		return ok && (a == b || math.IsNaN(a) && math.IsNaN(b))
	}
	return a == b
}

// sortValues sorts stably by compare.
func (m *machine) sortValues(items []Value) {
	slices.SortStableFunc(items, m.compare)
}
