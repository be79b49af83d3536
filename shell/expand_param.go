package shell

import (
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll/shell/syntax"
)

// value is the value of a parameter during its expansion.
type value struct {
	s     string
	list  []string
	multi bool // use list: $@, $*, a[@], a[*]
	star  bool // $* or a[*]: one field within quotes
	set   bool
	arg   bool // use the operand of ${x-word} instead
}

// fetch returns the value of a parameter.
type fetch func(in *interp) value

func isDefaultOp(op syntax.ParamOp) bool {
	return op >= syntax.ParamDefault && op <= syntax.ParamAltColon
}

// paramText compiles a parameter expansion to one string.
func (c *compiler) paramText(e *syntax.ParamExp) text {
	if f := c.plainParam(e); f != nil {
		return f
	}
	v := c.param(e)
	arg := c.word(e.Arg, tildeStart)
	if e.Quoted {
		arg = c.word(e.Arg, tildeNone)
	}
	star := c.value && (joinsLikeTrim(e) || e.Quoted && (e.Op != syntax.ParamNone || e.Indirect))
	return func(in *interp) string {
		x := v(in)
		switch {
		case x.arg:
			return arg(in)
		case x.multi:
			return in.joinWords(x.list, x.star || star && !in.ifs.none)
		}
		return x.s
	}
}

// joinsLikeTrim reports whether e trims, transforms or lists names: after
// these operations bash joins a list differently when it needs one string.
func joinsLikeTrim(e *syntax.ParamExp) bool {
	return e.Op >= syntax.ParamTrimPrefix && e.Op <= syntax.ParamTrimSuffixAll || e.Op == syntax.ParamTransform ||
		e.Op == syntax.ParamNamesAt
}

// paramEscaped is paramText for a pattern: quoted text in the operand is
// escaped.
func (c *compiler) paramEscaped(e *syntax.ParamExp) text {
	v, arg := c.param(e), c.escapedText(wordItems(e.Arg.Parts, tildeStart))
	return func(in *interp) string {
		x := v(in)
		switch {
		case x.arg:
			return arg(in)
		case x.multi:
			return in.joinWords(x.list, x.star)
		}
		return x.s
	}
}

// plainParam compiles $x; it returns nil for other expansions.
func (c *compiler) plainParam(e *syntax.ParamExp) text {
	if e.Op != syntax.ParamNone || e.Index != nil || e.Length || e.Indirect || e.Bad {
		return nil
	}
	name := e.Name
	if isName(name) {
		return func(in *interp) string {
			v := in.m[name]
			if v == nil || v.dyn != 0 || v.attrs&(attrNameref|attrList) != 0 || !v.set {
				return in.slowParam(name, name)
			}
			if v.num {
				return strconv.FormatInt(v.n, 10)
			}
			return v.s
		}
	}
	if name[0] >= '0' && name[0] <= '9' {
		return c.positionalParam(e)
	}
	shown := shownName(e)
	switch name {
	case "@", "*":
		star := name == "*"
		return func(in *interp) string { return in.joinWords(in.params, star) }
	case "?":
		return func(in *interp) string { return strconv.Itoa(in.status) }
	case "#":
		return func(in *interp) string { return strconv.Itoa(len(in.params)) }
	}
	return func(in *interp) string { return in.slowParam(name, shown) }
}

func (c *compiler) positionalParam(e *syntax.ParamExp) text {
	n, err := strconv.Atoi(e.Name)
	shown := shownName(e)
	return func(in *interp) string {
		switch {
		case err == nil && n == 0:
			return in.name0
		case err == nil && n <= len(in.params):
			return in.params[n-1]
		}
		in.checkSet(false, shown)
		return ""
	}
}

// shownName returns the name of a parameter in an error about an unset one.
func shownName(e *syntax.ParamExp) string {
	if e.Short && !isName(e.Name) {
		return "$" + e.Name
	}
	return e.Name
}

// slowParam returns the value of a special parameter or variable.
func (in *interp) slowParam(name, shown string) string {
	v := in.fetchName(name)
	if v.multi {
		return in.joinWords(v.list, v.star)
	}
	in.checkSet(v.set, shown)
	return v.s
}

// checkSet ends the shell if set -u is on and the parameter is not set.
func (in *interp) checkSet(set bool, shown string) {
	if !set && in.opts&optNounset != 0 {
		in.errorf("%s: unbound variable", shown)
		in.exitOnError(in.unboundStatus())
	}
}

// unboundStatus returns the status of a shell that ends at an unset parameter.
func (in *interp) unboundStatus() int {
	if in.interactive != nil {
		return 1
	}
	if in.subshell || in.fromStdin || len(in.frames) > 0 && in.frames[0].fn == "main" {
		return 1
	}
	return 127
}

// fetchName returns the value of a parameter without a subscript.
func (in *interp) fetchName(name string) value {
	if isName(name) {
		v := in.lookupVar(name)
		if v == nil {
			return value{}
		}
		if v.attrs&attrNameref != 0 {
			return in.fetchRef(ref{name: name})
		}
		s, ok := in.valueOf(v)
		return value{s: s, set: ok}
	}
	switch name {
	case "@", "*":
		return value{list: in.params, multi: true, star: name == "*", set: len(in.params) > 0}
	case "#":
		return value{s: strconv.Itoa(len(in.params)), set: true}
	case "?":
		return value{s: strconv.Itoa(in.status), set: true}
	case "-":
		return value{s: in.optString(), set: true}
	case "$":
		return value{s: strconv.Itoa(in.shellPID), set: true}
	case "!":
		if in.lastBG == 0 {
			return value{}
		}
		return value{s: strconv.Itoa(in.lastBG), set: true}
	case "0":
		return value{s: in.name0, set: true}
	}
	if n, err := strconv.Atoi(name); err == nil && n > 0 && n <= len(in.params) {
		return value{s: in.params[n-1], set: true}
	}
	return value{}
}

// fetchRef returns the value of a variable or an array element. It follows
// name references.
func (in *interp) fetchRef(r ref) value {
	v, r, ok := in.find(r)
	switch {
	case !ok || v == nil:
		switch {
		case r.sub == nil:
		case r.sub.all != 0:
			return value{multi: true, star: r.sub.all == '*'}
		default:
			r.sub.num(in) // for its errors and side effects
		}
		return value{}
	case r.sub == nil:
		if v.attrs&attrNameref != 0 {
			return value{}
		}
		s, ok := in.valueOf(v)
		return value{s: s, set: ok}
	case r.sub.all != 0:
		list := in.elementsOf(v)
		return value{list: list, multi: true, star: r.sub.all == '*', set: len(list) > 0}
	}
	s, ok := in.elementOf(v, r)
	return value{s: s, set: ok}
}

// fetchText returns the value of a parameter whose name is known at run time.
func (in *interp) fetchText(name string) (v value, ok bool) {
	if isName(name) || isSpecialParam(name) {
		return in.fetchName(name), true
	}
	r, ok := in.parseRef(name)
	if !ok {
		return value{}, false
	}
	return in.fetchRef(r), true
}

func isSpecialParam(s string) bool {
	if len(s) == 1 && strings.Contains("@*#?-$!", s) {
		return true
	}
	for i := 0; i < len(s); i++ {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}

// param compiles a parameter expansion.
func (c *compiler) param(e *syntax.ParamExp) fetch {
	if e.Bad || emptyIndex(e) || e.Op == syntax.ParamSlice && e.Len == nil && e.Off.Raw == "" {
		raw := e.Raw
		return func(in *interp) value {
			in.errorf("%s: bad substitution", raw)
			in.abortArith()
			return value{}
		}
	}
	if e.Op == syntax.ParamNames || e.Op == syntax.ParamNamesAt {
		prefix, star := e.Name, e.Op == syntax.ParamNames
		return func(in *interp) value {
			return value{list: in.variablesNamed(prefix), multi: true, star: star}
		}
	}
	get := c.compileFetch(e)
	if e.Length {
		return c.lengthOp(e, get)
	}
	if e.Indirect && (e.Index == nil || e.Index.Kind == syntax.IndexExpr) {
		get = c.indirectOp(e, get)
	}
	return c.compileOperation(e, get)
}

func emptyIndex(e *syntax.ParamExp) bool {
	return e.Index != nil && e.Index.Kind == syntax.IndexExpr && e.Index.Word != nil && e.Index.Word.Raw == ""
}

// compileFetch compiles reading the parameter that e names.
func (c *compiler) compileFetch(e *syntax.ParamExp) fetch {
	name := e.Name
	if e.Index == nil {
		return func(in *interp) value { return in.fetchName(name) }
	}
	r := ref{name: name, sub: c.subscript(e.Index)}
	if e.Indirect && r.sub.all != 0 {
		return func(in *interp) value {
			v, _, _ := in.find(ref{name: name})
			list := in.keysOf(v)
			return value{list: list, multi: true, star: r.sub.all == '*', set: len(list) > 0}
		}
	}
	return func(in *interp) value { return in.fetchRef(r) }
}

// lengthOp compiles ${#x}.
func (c *compiler) lengthOp(e *syntax.ParamExp, get fetch) fetch {
	name, all := e.Name, e.Index != nil && e.Index.Kind != syntax.IndexExpr
	shown, r := rawName(e), ref{name: name, sub: c.subscript(e.Index)}
	return func(in *interp) value {
		n := 0
		switch {
		case name == "@" || name == "*":
			n = len(in.params)
		case all:
			v, r, ok := in.find(ref{name: name})
			if !ok || r.sub != nil {
				v = nil
			}
			n = in.countElements(v)
			if v == nil && in.opts&optNounset != 0 {
				in.errorf("%s: unbound variable", name)
				in.exitOnError(1)
			}
		case r.sub != nil:
			n = in.countChars(in.elementToMeasure(r))
		default:
			v := get(in)
			in.checkSet(v.set, shown)
			n = in.countChars(v.s)
		}
		return value{s: strconv.Itoa(n), set: true}
	}
}

// elementToMeasure returns the array element in ${#a[i]}.
func (in *interp) elementToMeasure(r ref) string {
	v, t, ok := in.find(r)
	if !ok || v == nil || v.attrs&attrList == 0 {
		if in.opts&optNounset != 0 {
			in.errorf("%s: unbound variable", r.name)
			in.exitOnError(1)
		}
		if !ok || v == nil {
			return ""
		}
	}
	if v.attrs&attrArray != 0 {
		a, i := in.arrayOf(v), t.sub.num(in)
		if i < 0 {
			if i += a.maxIndex() + 1; i < 0 {
				in.errorf("%s]: bad array subscript", t.sub.raw)
				in.abortArith()
			}
		}
		s, _ := a.get(i)
		return s
	}
	s, _ := in.elementOf(v, t)
	return s
}

// rawName returns the parameter with its subscript, as in the source.
func rawName(e *syntax.ParamExp) string {
	if e.Index != nil && e.Index.Word != nil {
		return e.Name + "[" + e.Index.Word.Raw + "]"
	}
	return shownName(e)
}

// indirectOp compiles ${!x}: the value of x is the name of the parameter.
func (c *compiler) indirectOp(e *syntax.ParamExp, get fetch) fetch {
	name := e.Name
	isRef := e.Index == nil && isName(name)
	return func(in *interp) value {
		if isRef {
			if v := in.lookupVar(name); v != nil && v.attrs&attrNameref != 0 {
				if r, ok := in.followNameref(name, v); ok && r.name != name {
					if r.sub != nil {
						return value{s: r.name + "[" + r.sub.raw + "]", set: true}
					}
					return value{s: r.name, set: true}
				}
			}
		}
		v := get(in)
		if v.multi {
			v.s = in.joinWords(v.list, v.star)
		}
		in.chargeReading(v.s)
		if !v.set {
			if isDefaultOp(e.Op) {
				return value{}
			}
			in.errorf("%s: invalid indirect expansion", name)
			in.abortArith()
		}
		x, ok := in.fetchText(v.s)
		if !ok {
			in.errorf("%s: invalid variable name", v.s)
			in.abortArith()
		}
		return x
	}
}

// compileOperation compiles the operation of e on the value from get.
func (c *compiler) compileOperation(e *syntax.ParamExp, get fetch) fetch {
	shown := rawName(e)
	if e.Indirect {
		shown = "!" + e.Name
	}
	checked := func(in *interp) value {
		v := get(in)
		if !v.set && in.opts&optNounset != 0 && !v.multi {
			in.checkSet(false, shown)
		}
		return v
	}
	switch op := e.Op; {
	case op == syntax.ParamNone:
		return checked
	case isDefaultOp(op):
		return c.defaultOp(e, get)
	case op == syntax.ParamSlice:
		return c.sliceOp(e, checked)
	case op == syntax.ParamTransform:
		return c.transformOp(e, get)
	}
	change := c.changeOp(e)
	copies := true // not parts of the value
	switch e.Op {
	case syntax.ParamTrimPrefix, syntax.ParamTrimPrefixAll, syntax.ParamTrimSuffix, syntax.ParamTrimSuffixAll:
		copies = false
	}
	return func(in *interp) value {
		v := checked(in)
		f := change(in)
		if !v.multi {
			if v.set {
				v.s = f(v.s)
			}
			return v
		}
		v.list = in.mapList(v.list, f, copies)
		return v
	}
}

// defaultOp compiles ${x-w} ${x=w} ${x?w} ${x+w} and those with a colon.
func (c *compiler) defaultOp(e *syntax.ParamExp, get fetch) fetch {
	colon := (e.Op-syntax.ParamDefault)%2 == 1
	has := func(in *interp) (value, bool) {
		v := get(in)
		ok := v.set
		if ok && colon {
			ok = v.s != ""
			if v.multi {
				ok = len(v.list) > 1 || v.list[0] != ""
			}
		}
		return v, ok
	}
	switch e.Op {
	case syntax.ParamDefault, syntax.ParamDefaultColon:
		return func(in *interp) value {
			if v, ok := has(in); ok {
				return v
			}
			return value{arg: true}
		}
	case syntax.ParamAlt, syntax.ParamAltColon:
		return func(in *interp) value {
			if _, ok := has(in); ok {
				return value{arg: true}
			}
			return value{multi: e.Name == "@" || e.Index != nil && e.Index.Kind == syntax.IndexAt}
		}
	case syntax.ParamError, syntax.ParamErrorColon:
		return c.errorOp(e, has, colon)
	}
	return c.assignOp(e, has)
}

func (c *compiler) errorOp(e *syntax.ParamExp, has func(in *interp) (value, bool), colon bool) fetch {
	arg := c.scalar(e.Arg)
	name := rawName(e)
	name = strings.TrimPrefix(name, "$")
	return func(in *interp) value {
		v, ok := has(in)
		if ok {
			return v
		}
		msg := "parameter not set"
		if colon {
			msg = "parameter null or not set"
		}
		if e.Arg != nil {
			msg = arg(in)
		}
		in.errorf("%s: %s", name, msg)
		in.exitOnError(in.unboundStatus())
		return v
	}
}

func (c *compiler) assignOp(e *syntax.ParamExp, has func(in *interp) (value, bool)) fetch {
	saved := c.value
	c.value = true
	arg := c.scalar(e.Arg)
	if e.Quoted {
		arg = c.word(e.Arg, tildeNone)
	}
	c.value = saved
	r := ref{name: e.Name, sub: c.subscript(e.Index)}
	return func(in *interp) value {
		v, ok := has(in)
		if ok {
			return v
		}
		to := r
		if e.Indirect {
			if t, ok := in.parseRef(in.value(e.Name)); ok {
				to = t
			}
		}
		if !isName(to.name) || to.sub != nil && to.sub.all != 0 {
			in.errorf("$%s: cannot assign in this way", e.Name)
			in.abortArith()
		}
		if !in.assignRef(to, arg(in), false) {
			in.abortArith()
		}
		return in.fetchRef(to)
	}
}

// emitParam compiles a parameter expansion to fields.
func (c *compiler) emitParam(e *syntax.ParamExp, quoted bool) emit {
	if isScalarParam(e) {
		f := c.paramText(e)
		if quoted {
			return func(in *interp, b *fieldList) { b.addQuoted(f(in)) }
		}
		return func(in *interp, b *fieldList) { b.addSplit(f(in)) }
	}
	v := c.param(e)
	var arg emit
	if e.Arg != nil && isDefaultOp(e.Op) {
		if quoted {
			arg = c.emitQuoted(e.Arg.Parts)
		} else {
			arg = c.emitAll(wordItems(e.Arg.Parts, tildeStart), true)
		}
	}
	return func(in *interp, b *fieldList) {
		x := v(in)
		switch {
		case x.arg && arg != nil:
			arg(in, b)
			b.has = b.has || quoted
		case x.arg:
			if quoted {
				b.addQuoted("")
			}
		case x.multi && quoted && x.star:
			b.addQuoted(in.joinWords(x.list, true))
		case x.multi && !quoted && in.ifs.none && e.Index != nil && joinsLikeTrim(e):
			b.addUnquoted(strings.Join(x.list, " "))
		case x.multi:
			b.none = b.none || len(x.list) == 0
			b.addList(x.list, quoted)
		case quoted:
			b.addQuoted(x.s)
		default:
			b.addSplit(x.s)
		}
	}
}
