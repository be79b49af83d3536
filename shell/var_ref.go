package shell

import (
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll/shell/syntax"
)

// ref names a variable, or an element of an array.
type ref struct {
	name   string
	sub    *subscript // nil for the whole variable
	global bool       // the outermost variable with the name
}

// subscript is a compiled index. The array determines whether it is evaluated
// as a number or as a key.
type subscript struct {
	all byte // '@' or '*' for all elements, else 0
	raw string
	num func(in *interp) int64
	key func(in *interp) string
}

// subscript compiles an index; nil results in nil.
func (c *compiler) subscript(ix *syntax.Index) *subscript {
	if ix == nil {
		return nil
	}
	switch ix.Kind {
	case syntax.IndexAt:
		return &subscript{all: '@', raw: "@", num: noIndex, key: func(*interp) string { return "@" }}
	case syntax.IndexStar:
		return &subscript{all: '*', raw: "*", num: noIndex, key: func(*interp) string { return "*" }}
	}
	s := &subscript{raw: ix.Arith.Raw, num: subscriptValue(c.arithExpr(ix.Arith)), key: c.scalar(ix.Word)}
	if ix.Word != nil {
		s.raw = ix.Word.Raw
	}
	return s
}

// noIndex is the numeric value of the subscripts @ and *.
func noIndex(*interp) int64 { return 0 }

// subscriptValue evaluates a subscript. Its errors name no command and abandon
// more than the command line.
func subscriptValue(f calc) func(in *interp) int64 {
	return func(in *interp) int64 {
		name, trying, index := in.cmdName, in.recoverErrors, in.index
		in.recoverErrors, in.cmdName, in.index = false, "", true
		n := f(in)
		in.recoverErrors, in.cmdName, in.index = trying, name, index
		return n
	}
}

// constIndex returns the subscript of a known index.
func constIndex(i int64) *subscript {
	text := strconv.FormatInt(i, 10)
	return &subscript{raw: text, num: func(*interp) int64 { return i }, key: func(*interp) string { return text }}
}

// constKey returns the subscript of a known key.
func constKey(key string) *subscript {
	return &subscript{
		raw: key, key: func(*interp) string { return key },
		num: func(in *interp) int64 { return in.evalText(key) },
	}
}

// parseRef parses name or name[index].
func (in *interp) parseRef(text string) (ref, bool) {
	if isName(text) {
		return ref{name: text}, true
	}
	open := strings.IndexByte(text, '[')
	if open < 0 {
		return ref{}, false
	}
	if index := strings.TrimSuffix(text[open+1:], "]"); len(index) == len(text)-open-2 && isWord(index) && isName(text[:open]) {
		return ref{name: text[:open], sub: constKey(index)}, true
	}
	name, index, ok := syntax.ParseRef(text, in.valueOptions())
	if !ok {
		return ref{}, false
	}
	c := &compiler{}
	r := ref{name: name, sub: c.subscript(index)}
	if r.sub != nil {
		r.sub.raw = strings.TrimSuffix(text[len(name)+1:], "]")
	}
	return r, true
}

// isWord reports whether s consists of letters, digits and underscores.
func isWord(s string) bool {
	for i := 0; i < len(s); i++ {
		if !isNameByte(s[i]) {
			return false
		}
	}
	return s != ""
}

func (in *interp) valueOptions() syntax.Options {
	return syntax.Options{Budget: in.p, ExtGlob: func() bool { return in.shoptOn(shExtglob) }}
}

// maxNameref limits the length of a chain of name references.
const maxNameref = 8

// followNameref follows the name reference v with the given name. A reference
// without a target is returned itself.
func (in *interp) followNameref(name string, v *variable) (r ref, ok bool) {
	return in.followNamerefDeep(name, v, 0)
}

func (in *interp) followNamerefDeep(name string, v *variable, depth int) (r ref, ok bool) {
	r = ref{name: name}
	start := name
	for range maxNameref {
		if !v.set || v.s == "" {
			return r, true
		}
		target := v.s
		if !isName(target) {
			t, ok := in.parseRef(target)
			if !ok {
				return ref{}, false
			}
			if w := in.lookupVar(t.name); w != nil && w.attrs&attrNameref != 0 {
				if depth == maxNameref || t.name == start {
					in.errorf("warning: %s: circular name reference", start)
					return ref{}, false
				}
				u, ok := in.followNamerefDeep(t.name, w, depth+1)
				return ref{name: u.name, sub: t.sub}, ok && u.sub == nil
			}
			return t, true
		}
		if target == start || target == r.name {
			return in.resolveCircular(start, target)
		}
		r.name = target
		if v = in.lookupVar(target); v == nil || v.attrs&attrNameref == 0 {
			return r, true
		}
	}
	in.errorf("warning: %s: circular name reference", start)
	return ref{}, false
}

// resolveCircular handles a reference to itself: within a function it refers
// to the global variable with its name.
func (in *interp) resolveCircular(start, target string) (ref, bool) {
	in.errorf("warning: %s: circular name reference", start)
	if v := in.lookupVar(start); v != nil && v.level > 0 {
		return ref{name: target, global: true}, true
	}
	return ref{}, false
}

// find returns the variable that r refers to, and r with name references
// resolved. ok is false if a reference can't be resolved.
func (in *interp) find(r ref) (v *variable, to ref, ok bool) {
	v = in.lookupVar(r.name)
	if v == nil || v.attrs&attrNameref == 0 {
		return v, r, true
	}
	t, ok := in.followNameref(r.name, v)
	if !ok {
		return nil, r, false
	}
	if r.sub != nil {
		if t.sub != nil {
			return nil, r, false
		}
		t.sub = r.sub
	}
	if t.global {
		for v = in.lookupVar(t.name); v != nil && v.prev != nil; {
			v = v.prev
		}
		if v != nil && v.hidden {
			v = nil
		}
		return v, t, true
	}
	return in.lookupVar(t.name), t, true
}

// refText returns the value of r.
func (in *interp) refText(r ref) (string, bool) {
	v, r, ok := in.find(r)
	switch {
	case !ok:
		return "", false
	case v == nil:
		if r.sub != nil && r.sub.all == 0 {
			r.sub.num(in) // for its errors and side effects
		}
		return "", false
	case v.attrs&attrNameref != 0:
		return "", false
	case r.sub == nil:
		return in.valueOf(v)
	}
	return in.elementOf(v, r)
}

// elementOf returns one element of v, or all of them joined.
func (in *interp) elementOf(v *variable, r ref) (string, bool) {
	switch {
	case r.sub.all != 0 && v.attrs&attrAssoc == 0 || r.sub.all != 0 && v.dyn == 0:
		vals := in.elementsOf(v)
		return in.joinWords(vals, r.sub.all == '*'), len(vals) > 0
	case v.attrs&attrAssoc != 0:
		key := r.sub.key(in)
		if key == "" {
			in.errorf("%s: bad array subscript", r.name)
			return "", false
		}
		if v.dyn != 0 {
			return in.dynAssoc(v).get(key)
		}
		return v.assoc.get(key)
	}
	i := r.sub.num(in)
	if v.attrs&attrArray == 0 {
		if i < 0 {
			in.errorf("%s: bad array subscript", r.name)
		}
		if i != 0 {
			return "", false
		}
		return in.valueOf(v)
	}
	a := in.arrayOf(v)
	if i < 0 {
		if i += a.maxIndex() + 1; i < 0 {
			in.errorf("%s: bad array subscript", r.name)
			return "", false
		}
	}
	return a.get(i)
}

// arrayOf returns the elements of an indexed array, which may be dynamic.
func (in *interp) arrayOf(v *variable) *array {
	if v.dyn != 0 {
		return in.dynArray(v)
	}
	return v.arr
}

// elementsOf returns all values of v; a scalar has one.
func (in *interp) elementsOf(v *variable) []string {
	switch {
	case v == nil:
		return nil
	case v.attrs&attrArray != 0:
		return in.arrayOf(v).values()
	case v.attrs&attrAssoc != 0:
		a := v.assoc
		if v.dyn != 0 {
			a = in.dynAssoc(v)
		}
		pairs := a.orderedPairs()
		list := make([]string, len(pairs))
		for i, p := range pairs {
			list[i] = p.val
		}
		return list
	}
	if s, ok := in.valueOf(v); ok {
		return []string{s}
	}
	return nil
}

// keysOf returns all indices or keys of v.
func (in *interp) keysOf(v *variable) []string {
	var list []string
	switch {
	case v == nil:
	case v.attrs&attrArray != 0:
		in.arrayOf(v).eachElement(func(i int64, _ string) bool {
			list = append(list, strconv.FormatInt(i, 10))
			return true
		})
	case v.attrs&attrAssoc != 0:
		a := v.assoc
		if v.dyn != 0 {
			a = in.dynAssoc(v)
		}
		for _, p := range a.orderedPairs() {
			list = append(list, p.key)
		}
	default:
		if _, ok := in.valueOf(v); ok {
			list = []string{"0"}
		}
	}
	return list
}

// countElements returns the number of elements of v.
func (in *interp) countElements(v *variable) int {
	switch {
	case v == nil:
		return 0
	case v.attrs&attrArray != 0:
		return in.arrayOf(v).len()
	case v.attrs&attrAssoc != 0 && v.dyn == 0:
		return v.assoc.len()
	case v.attrs&attrAssoc != 0:
		return in.dynAssoc(v).len()
	}
	if _, ok := in.valueOf(v); ok {
		return 1
	}
	return 0
}

// assignRef sets the value of r, or appends to it. It returns false if that
// fails, and prints the error.
func (in *interp) assignRef(r ref, value string, add bool) bool {
	in.chargeReading(value)
	v, t, ok := in.find(r)
	if !ok {
		return in.refFailed(r)
	}
	if v != nil && v.attrs&attrNameref != 0 && t.sub == nil {
		return in.pointRef(t.name, value)
	}
	return in.storeValue(v, t, value, add)
}

// refFailed prints why assigning through a name reference failed.
func (in *interp) refFailed(r ref) bool {
	if v := in.lookupVar(r.name); v != nil && v.attrs&attrNameref != 0 && r.sub != nil {
		in.errorf("%s[%s]: bad array subscript", v.s, r.sub.raw)
	}
	return false
}

// pointRef sets the target of a name reference that has none.
func (in *interp) pointRef(name, value string) bool {
	if !in.validTarget(value) {
		in.errorf("`%s': not a valid identifier", value)
		return false
	}
	in.setString(in.mutableVar(name), value)
	return true
}

// validTarget reports whether s can be the target of a name reference.
func (in *interp) validTarget(s string) bool {
	if isName(s) {
		return true
	}
	i := strings.IndexByte(s, '[')
	return i > 0 && isName(s[:i]) && strings.HasSuffix(s, "]") && len(s) > i+2
}

// storeValue assigns to a variable that is not a name reference; v may be nil.
func (in *interp) storeValue(v *variable, r ref, value string, add bool) bool {
	if v != nil && v.attrs&attrReadonly != 0 {
		in.errorf("%s: readonly variable", r.name)
		return false
	}
	if v != nil && v.attrs&attrNoSet != 0 {
		return true
	}
	if r.sub != nil && r.sub.all != 0 && (v == nil || v.attrs&attrAssoc == 0) {
		in.errorf("%s[%s]: bad array subscript", r.name, r.sub.raw)
		return false
	}
	v = in.writableVar(r)
	if r.sub == nil && v.attrs&attrList == 0 {
		in.storeScalar(v, value, add)
		return true
	}
	return in.storeElem(v, r, value, add)
}

// writableVar returns the variable of r, which is not a name reference.
func (in *interp) writableVar(r ref) *variable {
	if r.global {
		return in.globalVar(r.name)
	}
	return in.mutableVar(r.name)
}

// setFor sets the variable of a for loop. A name reference gets the value as
// its target.
func (in *interp) setFor(name, value string) bool {
	v := in.lookupVar(name)
	if v == nil || v.attrs&attrNameref == 0 {
		return in.set(name, value)
	}
	if v.attrs&attrReadonly != 0 {
		in.errorf("%s: readonly variable", name)
		return false
	}
	return in.pointRef(name, value)
}

// storeScalar assigns to a variable that is not an array, as its attributes
// require.
func (in *interp) storeScalar(v *variable, value string, add bool) {
	switch {
	case v.dyn != 0:
		in.dynSet(v, value)
	case v.attrs&attrInteger != 0:
		n := in.evalText(value)
		if add {
			old, _ := in.valueOf(v)
			n += in.evalText(old)
		}
		in.setString(v, strconv.FormatInt(n, 10))
	case v.attrs&attrCase != 0:
		if add {
			old, _ := in.valueOf(v)
			value = old + value
		}
		in.setString(v, in.changeCase(value, v.attrs))
	case add:
		in.appendString(v, value)
	default:
		in.setString(v, value)
	}
}

// storeElem assigns to an element of v, and converts v to an array if needed.
func (in *interp) storeElem(v *variable, r ref, value string, add bool) bool {
	if v.attrs&attrAssoc != 0 {
		key := "0"
		if r.sub != nil {
			key = r.sub.key(in)
		}
		if key == "" {
			in.errorf("%s[%s]: bad array subscript", r.name, r.sub.raw)
			return false
		}
		old, _ := v.assoc.get(key)
		in.putKey(v, key, in.elemValue(v, old, value, add))
		return true
	}
	i := int64(0)
	if r.sub != nil {
		if r.sub.all != 0 || strings.TrimSpace(r.sub.raw) == "" {
			in.errorf("%s[%s]: bad array subscript", r.name, r.sub.raw)
			return false
		}
		i = r.sub.num(in)
	}
	in.toArray(v)
	if i < 0 {
		if i += v.arr.maxIndex() + 1; i < 0 {
			in.errorf("%s[%s]: bad array subscript", r.name, r.sub.raw)
			return false
		}
	}
	old, _ := v.arr.get(i)
	in.putElem(v, i, in.elemValue(v, old, value, add))
	return true
}

// elemValue returns the new value of an element, as the attributes require.
func (in *interp) elemValue(v *variable, old, value string, add bool) string {
	switch {
	case v.attrs&attrInteger != 0:
		n := in.evalText(value)
		if add {
			n += in.evalText(old)
		}
		return strconv.FormatInt(n, 10)
	case add:
		value = old + value
	}
	if v.attrs&attrCase != 0 {
		value = in.changeCase(value, v.attrs)
	}
	return value
}

// toArray converts v to an indexed array; its value becomes element 0.
func (in *interp) toArray(v *variable) {
	if v.attrs&attrArray == 0 {
		old, had := in.valueOf(v)
		v.attrs |= attrArray
		v.arr = &array{}
		v.s, v.num, v.tail, v.dyn = "", false, nil, 0
		if had {
			v.arr.set(0, old)
		}
	}
	if v.arr == nil {
		v.arr = &array{}
	}
	if v.dyn != 0 {
		v.arr, v.dyn = in.dynArray(v).clone(), 0
	}
}

// putElem stores an element of an owned indexed array.
func (in *interp) putElem(v *variable, i int64, s string) {
	v.arr.set(i, s)
	v.set = true
	in.updateCharge(v, v.arr.memoryCost())
}

// putKey stores an element of an owned associative array.
func (in *interp) putKey(v *variable, key, s string) {
	if v.assoc == nil {
		v.assoc = newAssoc()
	}
	in.chargeReading(key, s)
	v.assoc.set(key, s)
	v.set = true
	in.updateCharge(v, v.assoc.memoryCost())
	if v.dyn != 0 {
		in.dynPut(v, key, s)
	}
}

// joinWords joins strings: with the first character of IFS, as "$*" does, or
// with a space.
func (in *interp) joinWords(list []string, ifs bool) string {
	sep := " "
	if ifs {
		sep = in.ifs.first
	}
	in.chargeWork(len(list))
	return in.joinScratch(list, sep)
}
