package shell

import (
	"slices"
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll/shell/syntax"
)

// assignment is a compiled assignment.
type assignment struct {
	r     ref
	add   bool
	value text
	num   func(in *interp) int64 // the value is arithmetic
	array *arrayValue
	raw   string
}

// arrayValue is a compiled ( … ).
type arrayValue struct {
	elems []func(in *interp, list []element) []element
}

// element is an element of a compound assignment, with its value expanded.
type element struct {
	sub   *subscript // nil: the next index
	value string
	add   bool
	plain bool // a word without subscript; an associative array pairs such words
}

// assigns compiles assignments that are a command of their own.
func (c *compiler) assigns(as []*syntax.Assign) func(in *interp) bool {
	list := make([]*assignment, len(as))
	for i, a := range as {
		list[i] = c.assignment(a)
	}
	if len(list) == 1 {
		return list[0].run
	}
	return func(in *interp) bool {
		for _, a := range list {
			if !a.run(in) {
				return false
			}
		}
		return true
	}
}

func (c *compiler) assignment(a *syntax.Assign) *assignment {
	k := &assignment{r: ref{name: a.Name, sub: c.subscript(a.Index)}, add: a.Append}
	if a.Array != nil {
		k.array, k.raw = c.arrayValue(a.Array), rawArray(a.Array)
		return k
	}
	k.value = c.assignText(a.Value)
	if a.Value != nil {
		k.raw = a.Value.Raw
	}
	if a.Value != nil && len(a.Value.Parts) == 1 && a.Index == nil && !a.Append {
		if x, ok := a.Value.Parts[0].(*syntax.ArithExp); ok {
			k.num = c.arith(x.X)
		}
	}
	return k
}

// run assigns. It returns false if that fails, and prints the error.
func (k *assignment) run(in *interp) bool {
	switch {
	case k.array != nil:
		if in.opts&optXtrace != 0 {
			in.printTrace(k.leftSide() + "=(" + k.raw + ")")
		}
		return in.assignArray(k, k.array.expandElements(in))
	case k.num != nil && in.opts&optXtrace == 0:
		return in.setInt(k.r.name, k.num(in))
	}
	s := k.value(in)
	if in.opts&optXtrace != 0 {
		in.printTrace(k.traceText(in, s))
	}
	if k.r.sub == nil && !k.add {
		if v := in.m[k.r.name]; v != nil && v.attrs == 0 && v.dyn == 0 && v.hook == 0 && in.opts&optAllexport == 0 {
			in.setString(in.mutableVar(k.r.name), s)
			return true
		}
	}
	return in.assignRef(k.r, s, k.add)
}

// traceText returns the assignment as set -x prints it.
func (k *assignment) traceText(in *interp, s string) string {
	if s == "" {
		return k.leftSide() + "="
	}
	in.chargeScratch(quotedBound(s)) // the line
	return k.leftSide() + "=" + in.quoteLong(quoteWord, s)
}

func (k *assignment) leftSide() string {
	name := k.r.name
	if k.r.sub != nil {
		name += "[" + k.r.sub.raw + "]"
	}
	if k.add {
		name += "+"
	}
	return name
}

// rawArray returns a compound value as in the source.
func rawArray(a *syntax.Array) string {
	list := make([]string, 0, len(a.Elems))
	for _, e := range a.Elems {
		if e.Assign == nil {
			list = append(list, e.Word.Raw)
			continue
		}
		k := (&compiler{}).assignment(e.Assign)
		list = append(list, k.leftSide()+"="+k.raw)
	}
	return strings.Join(list, " ")
}

// arrayValue compiles the compound value of an array.
func (c *compiler) arrayValue(a *syntax.Array) *arrayValue {
	v := &arrayValue{}
	for i := range a.Elems {
		v.elems = append(v.elems, c.element(&a.Elems[i]))
	}
	return v
}

func (c *compiler) element(e *syntax.ArrayElem) func(in *interp, list []element) []element {
	if e.Assign == nil {
		f := c.fields([]*syntax.Word{e.Word})
		return func(in *interp, list []element) []element {
			words := f(in)
			in.p.Alloc(elementCost * int64(len(words))) // freed by expandElements
			list = slices.Grow(list, len(words))
			for _, s := range words {
				list = append(list, element{value: s, plain: true})
			}
			return list
		}
	}
	sub, value, add := c.subscript(e.Assign.Index), c.assignText(e.Assign.Value), e.Assign.Append
	return func(in *interp, list []element) []element {
		in.p.Alloc(elementCost)
		return append(list, element{sub: sub, value: value(in), add: add})
	}
}

func (v *arrayValue) expandElements(in *interp) []element {
	list := make([]element, 0, len(v.elems))
	for _, f := range v.elems {
		list = f(in, list)
		in.chargeWork(1)
	}
	in.p.Free(elementCost * int64(len(list)))
	return list
}

// elementCost is the size in bytes of an element and of the word it comes from.
const elementCost = 48

// assignArray assigns elements to an array.
func (in *interp) assignArray(k *assignment, list []element) bool {
	name := k.r.name
	if k.r.sub != nil {
		in.errorf("%s[%s]: cannot assign list to array member", name, k.r.sub.raw)
		return false
	}
	v, t, ok := in.find(k.r)
	if !ok || t.sub != nil {
		if ok {
			in.errorf("`%s[%s]': not a valid identifier", t.name, t.sub.raw)
		}
		return false
	}
	if v != nil && v.attrs&attrReadonly != 0 {
		in.errorf("%s: readonly variable", t.name)
		return false
	}
	if v != nil && v.attrs&attrNoSet != 0 {
		return true
	}
	return in.fillArray(t.name, in.writableVar(t), list, k.add)
}

// shownElements returns a compound value as set -x prints it for declare.
func (in *interp) shownElements(list []element) string {
	in.chargeScratch(24 * len(list))
	words := make([]string, len(list))
	for i, e := range list {
		if e.sub != nil {
			words[i] = "[" + quoteSingle(unquotePattern(e.sub.raw)) + "]="
		}
		words[i] += in.quoteLong(quoteSingle, e.value)
	}
	return "(" + in.joinScratch(words, " ") + ")"
}

// fillArray stores elements in v, which the store owns; without add it removes
// the old ones.
func (in *interp) fillArray(name string, v *variable, list []element, add bool) bool {
	if v.attrs&attrAssoc != 0 {
		return in.fillAssoc(name, v, list, add)
	}
	in.toArray(v)
	if !add {
		v.arr = &array{}
		if len(list) > 0 {
			v.arr.vals = make([]string, 0, len(list))
		}
	}
	v.set = true
	next := v.arr.maxIndex() + 1
	for _, e := range list {
		i := next
		if e.sub != nil {
			if e.sub.all != 0 || strings.TrimSpace(e.sub.raw) == "" {
				in.errorf("[%s]=%s: bad array subscript", e.sub.raw, e.value)
				continue
			}
			if i = e.sub.num(in); i < 0 {
				if i += v.arr.maxIndex() + 1; i < 0 {
					in.errorf("[%s]=%s: bad array subscript", e.sub.raw, e.value)
					continue
				}
			}
		}
		old := ""
		if e.add {
			old, _ = v.arr.get(i)
		}
		v.arr.set(i, in.elemValue(v, old, e.value, e.add))
		in.chargeWork(1)
		if i&1023 == 1023 {
			in.updateCharge(v, v.arr.memoryCost())
		}
		next = i + 1
	}
	in.updateCharge(v, v.arr.memoryCost())
	return true
}

func (in *interp) fillAssoc(name string, v *variable, list []element, add bool) bool {
	if !add || v.assoc == nil {
		v.assoc = newAssoc()
	}
	if !add {
		defer func() {
			if v.dyn != 0 {
				in.refillDynamic(v)
			}
		}()
	}
	v.set = true
	pairs := len(list) > 0 && list[0].plain
	for i := 0; i < len(list); i++ {
		e := list[i]
		in.chargeWork(1)
		if !e.plain {
			key := e.sub.key(in)
			if key == "" {
				in.errorf("[%s]=%s: bad array subscript", e.sub.raw, e.value)
				continue
			}
			was := ""
			if e.add {
				was, _ = v.assoc.get(key)
			}
			in.putKey(v, key, in.elemValue(v, was, e.value, e.add))
			continue
		}
		if !pairs {
			shown := e.value
			if in.cmdName != "" { // declare quotes it
				shown = quoteSingle(shown)
			}
			in.errorf("%s: %s: must use subscript when assigning associative array", name, shown)
			continue
		}
		value := ""
		if i+1 < len(list) {
			i++
			value = list[i].value
		}
		if e.value == "" {
			in.errorf("%s: bad array subscript", name)
			continue
		}
		in.putKey(v, e.value, in.elemValue(v, "", value, false))
	}
	in.updateCharge(v, v.assoc.memoryCost())
	return true
}

// refillDynamic sets the aliases or remembered paths from the new value.
func (in *interp) refillDynamic(v *variable) {
	if v.dyn == dynAliases {
		in.alias = cow[string]{}
	} else {
		in.hash = cow[hashed]{}
	}
	for _, p := range v.assoc.orderedPairs() {
		in.dynPut(v, p.key, p.val)
	}
}

// prefix compiles the assignments before a command, the temporary environment
// in which f runs. The result is false if f was not run.
func (c *compiler) prefix(as []*syntax.Assign) func(in *interp, f func()) bool {
	list := make([]*assignment, len(as))
	for i, a := range as {
		list[i] = c.assignment(a)
	}
	return func(in *interp, f func()) bool {
		depth := len(in.scopes)
		in.openScope(scope{})
		defer func() {
			for len(in.scopes) > depth {
				in.popScope()
			}
		}()
		for _, k := range list {
			k.assignTemporary(in)
		}
		f()
		return true
	}
}

// assignTemporary assigns in the innermost scope, for the environment of a
// command.
func (k *assignment) assignTemporary(in *interp) {
	if k.array != nil {
		list := k.array.expandElements(in)
		words := make([]string, len(list))
		for i, e := range list {
			words[i] = e.value
		}
		in.chargeScratch(16 * len(words))
		in.bindTemporary(k, "("+in.joinScratch(words, " ")+")")
		return
	}
	s := k.value(in)
	if in.opts&optXtrace != 0 {
		in.printTrace(k.traceText(in, s))
	}
	in.bindTemporary(k, s)
}

func (in *interp) bindTemporary(k *assignment, s string) {
	name := k.r.name
	if k.r.sub != nil {
		in.errorf("`%s[%s]': not a valid identifier", name, k.r.sub.raw)
		return
	}
	old := in.lookupVar(name)
	if old != nil && old.attrs&attrNameref != 0 {
		if r, ok := in.followNameref(name, old); ok && r.sub == nil {
			name, old = r.name, in.lookupVar(r.name)
		}
	}
	if old != nil && old.attrs&attrReadonly != 0 {
		in.errorf("%s: readonly variable", name)
		return
	}
	if k.add && old != nil {
		was, _ := in.valueOf(old)
		s = was + s
		if old.attrs&attrInteger != 0 {
			s = strconv.FormatInt(in.evalText(was)+in.evalText(strings.TrimPrefix(s, was)), 10)
		}
	}
	v := in.mutableTemporary(name)
	v.attrs = attrExport
	if old != nil {
		v.attrs |= old.attrs & (attrInteger | attrCase)
		if old.dyn != 0 && old.attrs&attrList == 0 {
			v.dyn = 0
		}
	}
	in.storeScalar(v, s, false)
}

// mutableTemporary returns the variable in the innermost scope, and creates it
// if it is missing.
func (in *interp) mutableTemporary(name string) *variable {
	level := int32(len(in.scopes))
	if v := in.m[name]; v != nil && v.level == level {
		return in.mutableVar(name)
	}
	v := in.shadowVar(name, level)
	v.temporary = true
	return v
}
