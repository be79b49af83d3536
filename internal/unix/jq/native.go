package jq

import (
	"math"
	"strings"
	"unicode/utf8"
)

// native is a library function written in Go. It may change its input if that is not shared.
type native func(m *machine, in Value, args []Value) (Value, error)

// natives are the native functions by name and number of arguments.
var natives = map[string]native{
	"not/0":            func(_ *machine, in Value, _ []Value) (Value, error) { return !isTrue(in), nil },
	"type/0":           func(_ *machine, in Value, _ []Value) (Value, error) { return typeName(in), nil },
	"length/0":         (*machine).length,
	"utf8bytelength/0": (*machine).byteLength,
	"keys/0":           (*machine).keys,
	"keys_unsorted/0":  (*machine).keysUnsorted,
	"has/1":            (*machine).has,
	"contains/1":       (*machine).containsValue,
	"add/0":            (*machine).sum,
	"tojson/0":         func(m *machine, in Value, _ []Value) (Value, error) { return m.toJSON(in), nil },
	"fromjson/0":       (*machine).fromJSON,
	"tostring/0":       func(m *machine, in Value, _ []Value) (Value, error) { return m.toText(in), nil },
	"tonumber/0":       (*machine).toNumber,
	"toboolean/0":      (*machine).toBoolean,
	"error/0":          func(_ *machine, in Value, _ []Value) (Value, error) { return nil, &Error{in} },
	"error/1":          func(_ *machine, _ Value, args []Value) (Value, error) { return nil, &Error{args[0]} },
	"setpath/2":        (*machine).setPathNative,
	"delpaths/1":       (*machine).delPathsNative,
	"to_entries/0":     (*machine).toEntries,
	"from_entries/0":   (*machine).fromEntries,
	"sort/0":           (*machine).sort,
	"_sort_by/1":       (*machine).sortBy,
	"_group_by/1":      (*machine).groupBy,
	"unique/0":         (*machine).unique,
	"_unique_by/1":     (*machine).uniqueBy,
	"min/0":            func(m *machine, in Value, _ []Value) (Value, error) { return m.findExtreme(in, in, -1) },
	"max/0":            func(m *machine, in Value, _ []Value) (Value, error) { return m.findExtreme(in, in, 1) },
	"_min_by/1":        func(m *machine, in Value, args []Value) (Value, error) { return m.findExtreme(in, args[0], -1) },
	"_max_by/1":        func(m *machine, in Value, args []Value) (Value, error) { return m.findExtreme(in, args[0], 1) },
	"reverse/0":        (*machine).reverse,
	"flatten/0":        func(m *machine, in Value, _ []Value) (Value, error) { return m.flatten(in, []Value{math.Inf(1)}) },
	"flatten/1":        (*machine).flatten,
	"transpose/0":      (*machine).transpose,
	"bsearch/1":        (*machine).bsearch,
	"explode/0":        (*machine).explode,
	"implode/0":        (*machine).implode,
	"startswith/1":     (*machine).startsWith,
	"endswith/1":       (*machine).endsWith,
	"ltrimstr/1":       (*machine).trimPrefix,
	"rtrimstr/1":       (*machine).trimSuffix,
	"trimstr/1":        (*machine).trimBoth,
	"trim/0":           (*machine).trim,
	"ltrim/0":          (*machine).trimLeft,
	"rtrim/0":          (*machine).trimRight,
	"ascii_downcase/0": (*machine).lower,
	"ascii_upcase/0":   (*machine).upper,
	"split/1":          (*machine).split,
	"join/1":           (*machine).join,
	"indices/1":        (*machine).indicesNative,
	"index/1":          (*machine).firstIndex,
	"rindex/1":         (*machine).lastIndex,
	"format/1":         (*machine).format,
	"_match/3":         (*machine).match,
	"_capture/0":       (*machine).captures,
	"_edit/1":          (*machine).edit,
	"abs/0":            (*machine).abs,
	"toarray/0":        (*machine).toArray,

	"debug/0":                (*machine).debug,
	"stderr/0":               (*machine).stderr,
	"input_filename/0":       (*machine).inputFilename,
	"input_line_number/0":    (*machine).inputLine,
	"env/0":                  (*machine).env,
	"halt/0":                 func(*machine, Value, []Value) (Value, error) { return nil, &HaltError{Quiet: true} },
	"halt_error/0":           func(_ *machine, in Value, _ []Value) (Value, error) { return nil, &HaltError{Value: in, Status: 5} },
	"halt_error/1":           (*machine).haltError,
	"have_decnum/0":          constantNative(true),
	"have_literal_numbers/0": constantNative(true),
}

// constantNative returns a native that always returns v.
func constantNative(v Value) native {
	return func(*machine, Value, []Value) (Value, error) { return v, nil }
}

// length implements length/0.
func (m *machine) length(in Value, _ []Value) (Value, error) {
	switch v := in.(type) {
	case nil:
		return 0.0, nil
	case float64:
		return math.Abs(v), nil
	case *Number:
		return math.Abs(v.f), nil
	case string:
		m.tick(len(v) >> 6)
		return float64(utf8.RuneCountInString(v)), nil
	case *Array:
		return float64(len(v.Items)), nil
	case *Object:
		return float64(len(v.entries)), nil
	}
	return nil, failf("%s has no length", m.kindAndText(in))
}

// byteLength implements utf8bytelength/0.
func (m *machine) byteLength(in Value, _ []Value) (Value, error) {
	s, ok := in.(string)
	if !ok {
		return nil, failf("%s only strings have UTF-8 byte length", m.kindAndText(in))
	}
	return float64(len(s)), nil
}

// keys implements keys/0.
func (m *machine) keys(in Value, _ []Value) (Value, error) {
	o, ok := in.(*Object)
	if !ok {
		return m.keysUnsorted(in, nil)
	}
	m.tick(len(o.entries))
	return m.keyArray(o.sortedEntries(m.tick)), nil
}

// keysUnsorted implements keys_unsorted/0.
func (m *machine) keysUnsorted(in Value, _ []Value) (Value, error) {
	switch v := in.(type) {
	case *Object:
		return m.keyArray(v.entries), nil
	case *Array:
		m.alloc(int64(len(v.Items))*(valueSize+8) + headSize)
		a := &Array{Items: make([]Value, len(v.Items))}
		for i := range a.Items {
			a.Items[i] = float64(i)
		}
		return a, nil
	}
	return nil, failf("%s has no keys", m.kindAndText(in))
}

// keyArray returns the keys of entries.
func (m *machine) keyArray(entries []Entry) *Array {
	m.alloc(int64(len(entries))*2*valueSize + headSize)
	a := &Array{Items: make([]Value, len(entries))}
	for i := range entries {
		a.Items[i] = entries[i].Key
	}
	return a
}

// has implements has/1.
func (m *machine) has(in Value, args []Value) (Value, error) {
	switch v := in.(type) {
	case *Object:
		if key, ok := args[0].(string); ok {
			return v.find(key) >= 0, nil
		}
	case *Array:
		if f, ok := toFloat(args[0]); ok {
			return f >= 0 && f < float64(len(v.Items)), nil
		}
	}
	return nil, failf("Cannot check whether %s has a %s key", typeName(in), typeName(args[0]))
}

// containsValue implements contains/1.
func (m *machine) containsValue(in Value, args []Value) (Value, error) {
	return m.contains(in, args[0], 0)
}

// contains reports whether a contains b.
func (m *machine) contains(a, b Value, depth int) (bool, error) {
	if depth > maxDepth {
		panic(tooDeep{})
	}
	m.tick(1)
	switch x := a.(type) {
	case *Object:
		if y, ok := b.(*Object); ok {
			return m.containsObject(x, y, depth)
		}
	case *Array:
		if y, ok := b.(*Array); ok {
			return m.containsArray(x, y, depth)
		}
	case string:
		if y, ok := b.(string); ok {
			m.tick(len(x) >> 5)
			return strings.Contains(x, y), nil
		}
	}
	if typeName(a) != typeName(b) || depth == 0 && kindOf(a) >= kindArray {
		return false, m.cannotContain(a, b)
	}
	return m.equal(a, b), nil
}

// cannotContain returns the error of contains for values of different types.
func (m *machine) cannotContain(a, b Value) error {
	return failf("%s and %s cannot have their containment checked", m.kindAndText(a), m.kindAndText(b))
}

// containsObject reports whether x contains every member of y.
func (m *machine) containsObject(x, y *Object, depth int) (bool, error) {
	for _, e := range y.entries {
		v, ok := x.Get(e.Key)
		if !ok {
			return false, nil
		}
		ok, err := m.containsPart(v, e.Value, depth)
		if err != nil || !ok {
			return false, err
		}
	}
	return true, nil
}

// containsPart is like contains, but parts may be of different types.
func (m *machine) containsPart(a, b Value, depth int) (bool, error) {
	if typeName(a) != typeName(b) {
		return false, nil
	}
	return m.contains(a, b, depth+1)
}

// containsArray reports whether x contains every element of y.
func (m *machine) containsArray(x, y *Array, depth int) (bool, error) {
	for _, want := range y.Items {
		found := false
		for _, v := range x.Items {
			ok, err := m.containsPart(v, want, depth)
			if err != nil {
				return false, err
			}
			if ok {
				found = true
				break
			}
		}
		if !found {
			return false, nil
		}
	}
	return true, nil
}

// sum implements add/0: it adds up the elements of in.
func (m *machine) sum(in Value, _ []Value) (Value, error) {
	var items []Value
	switch v := in.(type) {
	case *Array:
		items = v.Items
	case *Object:
		for _, e := range v.entries {
			items = append(items, e.Value)
		}
	default:
		return nil, failf("Cannot iterate over %s", m.kindAndText(in))
	}
	if s, ok := m.sumStrings(items); ok {
		return s, nil
	}
	var total Value
	for _, v := range items {
		m.tick(1)
		var err error
		if total, err = m.add(total, share(v)); err != nil {
			return nil, err
		}
	}
	return total, nil
}

// sumStrings joins items, and reports whether they are all strings or null.
func (m *machine) sumStrings(items []Value) (Value, bool) {
	n := 0
	for _, v := range items {
		s, ok := v.(string)
		if !ok && v != nil {
			return nil, false
		}
		n += len(s)
	}
	if n == 0 {
		return nil, false
	}
	m.alloc(int64(n) + valueSize)
	m.tick(len(items) + n>>6)
	var b strings.Builder
	b.Grow(n)
	for _, v := range items {
		s, _ := v.(string)
		b.WriteString(s)
	}
	return b.String(), true
}

// fromJSON implements fromjson/0.
func (m *machine) fromJSON(in Value, _ []Value) (Value, error) {
	s, ok := in.(string)
	if !ok {
		return nil, failf("%s cannot be parsed as JSON", m.kindAndText(in))
	}
	v, err := decodeText(s, m.account)
	if err != nil {
		return nil, failf("%v (while parsing '%s')", err, s)
	}
	return v, nil
}

// toText returns a string itself, and the JSON text of other values.
func (m *machine) toText(v Value) string {
	if s, ok := v.(string); ok {
		return s
	}
	return m.toJSON(v)
}

// toNumber implements tonumber/0.
func (m *machine) toNumber(in Value, _ []Value) (Value, error) {
	switch v := in.(type) {
	case float64, *Number:
		return v, nil
	case string:
		if v == "nan" || v == "NaN" {
			return math.NaN(), nil
		}
		if n, ok := parseNumber(strings.TrimSpace(v)); ok {
			return n, nil
		}
	}
	return nil, failf("%s cannot be parsed as a number", m.kindAndText(in))
}

// toBoolean implements toboolean/0.
func (m *machine) toBoolean(in Value, _ []Value) (Value, error) {
	switch in {
	case true, "true":
		return true, nil
	case false, "false":
		return false, nil
	}
	return nil, failf("%s cannot be parsed as a boolean", m.kindAndText(in))
}

// setPathNative implements setpath/2.
func (m *machine) setPathNative(in Value, args []Value) (Value, error) {
	path, ok := args[0].(*Array)
	if !ok {
		return nil, failf("Path must be specified as an array")
	}
	return m.setPath(in, path.Items, args[1])
}

// delPathsNative implements delpaths/1.
func (m *machine) delPathsNative(in Value, args []Value) (Value, error) {
	paths, ok := args[0].(*Array)
	if !ok {
		return nil, failf("Paths must be specified as an array")
	}
	return m.deletePaths(in, paths.Items)
}

// toEntries implements to_entries/0.
func (m *machine) toEntries(in Value, _ []Value) (Value, error) {
	keys, err := m.keysUnsorted(in, nil)
	if err != nil {
		return nil, err
	}
	list := keys.(*Array)
	m.alloc(int64(len(list.Items)) * (headSize + 2*entrySize))
	m.tick(4 * len(list.Items))
	for i, key := range list.Items {
		v, err := m.elementOf(in, key)
		if err != nil {
			return nil, err
		}
		list.Items[i] = &Object{entries: []Entry{{"key", key}, {"value", share(v)}}}
	}
	return list, nil
}

// fromEntries implements from_entries/0.
func (m *machine) fromEntries(in Value, _ []Value) (Value, error) {
	items, err := m.elementsOf(in)
	if err != nil {
		return nil, err
	}
	m.alloc(headSize)
	out := NewObject()
	for _, item := range items {
		m.tick(4)
		key, err := m.firstOf(item, "key", "Key", "name", "Name")
		if err != nil {
			return nil, err
		}
		name, ok := key.(string)
		if !ok {
			return nil, failf("Cannot use %s as object key", m.kindAndText(key))
		}
		field := "Value"
		if o, ok := item.(*Object); ok && o.find("value") >= 0 {
			field = "value"
		}
		v, err := m.elementOf(item, field)
		if err != nil {
			return nil, err
		}
		m.setKey(out, name, share(v))
	}
	return out, nil
}

// firstOf returns the first of the fields that is neither null nor false, otherwise the last.
func (m *machine) firstOf(item Value, fields ...string) (Value, error) {
	var v Value
	for _, f := range fields {
		var err error
		if v, err = m.elementOf(item, f); err != nil || isTrue(v) {
			return v, err
		}
	}
	return v, nil
}

// elementsOf returns the values of an array or object.
func (m *machine) elementsOf(in Value) ([]Value, error) {
	switch v := in.(type) {
	case *Array:
		return v.Items, nil
	case *Object:
		m.alloc(int64(len(v.entries)) * valueSize)
		items := make([]Value, len(v.entries))
		for i, e := range v.entries {
			items[i] = e.Value
		}
		return items, nil
	}
	return nil, failf("Cannot iterate over %s", m.kindAndText(in))
}

// toArray implements toarray/0.
func (m *machine) toArray(in Value, _ []Value) (Value, error) {
	if _, ok := in.(*Array); ok {
		return in, nil
	}
	m.alloc(headSize + valueSize)
	return NewArray(in), nil
}

// debug implements debug/0.
func (m *machine) debug(in Value, _ []Value) (Value, error) {
	if m.host.Debug != nil {
		m.host.Debug(NewArray("DEBUG:", share(in)))
	}
	return in, nil
}

// stderr implements stderr/0.
func (m *machine) stderr(in Value, _ []Value) (Value, error) {
	if m.host.Stderr != nil {
		m.host.Stderr(share(in))
	}
	return in, nil
}

// inputFilename implements input_filename/0.
func (m *machine) inputFilename(Value, []Value) (Value, error) {
	if m.host.Filename == nil {
		return nil, nil
	}
	return m.host.Filename(), nil
}

// inputLine implements input_line_number/0.
func (m *machine) inputLine(Value, []Value) (Value, error) {
	if m.host.Line == nil {
		return 0.0, nil
	}
	return float64(m.host.Line()), nil
}

// env implements env/0.
func (m *machine) env(Value, []Value) (Value, error) {
	o := NewObject()
	for _, kv := range m.host.Environ {
		k, v, ok := strings.Cut(kv, "=")
		if ok {
			m.setKey(o, validText(k), validText(v))
		}
	}
	return o, nil
}

// haltError implements halt_error/1.
func (m *machine) haltError(in Value, args []Value) (Value, error) {
	f, ok := toFloat(args[0])
	if !ok {
		return nil, failf("halt_error/1: number required")
	}
	return nil, &HaltError{Value: in, Status: int(toInt64(f)) & 0xff}
}
