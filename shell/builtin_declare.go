package shell

import (
	"sort"
	"strings"

	"github.com/atoll-sandbox/atoll/shell/syntax"
)

// pendingArray is a compound assignment among the arguments of declare. The
// argument itself contains only the name.
type pendingArray struct {
	arg  int
	add  bool
	list []element
}

// declArgs compiles the words of declare and similar builtins, in which
// assignments are not split and may have compound values.
func (c *compiler) declArgs(ws []*syntax.Word) func(in *interp) []string {
	type arg struct {
		plain func(in *interp) []string
		value text
		array *arrayValue
		name  string
		add   bool
	}
	list := make([]arg, len(ws))
	for i, w := range ws {
		a := w.Assign
		switch {
		case a == nil:
			list[i].plain = c.fields([]*syntax.Word{w})
			continue
		case a.Value != nil && a.Index == nil && hasBraces(a.Value):
			list[i].plain = c.fields([]*syntax.Word{wholeWord(a)})
			continue
		}
		list[i].name = a.Name
		if a.Index != nil && a.Index.Word != nil {
			list[i].plain = c.elementArg(a)
			continue
		}
		if a.Array != nil {
			list[i].array, list[i].add = c.arrayValue(a.Array), a.Append
		} else {
			if a.Append {
				list[i].name += "+"
			}
			list[i].name += "="
			list[i].value = c.assignText(a.Value)
		}
	}
	return func(in *interp) []string {
		var args []string
		in.pending = nil
		for i := range list {
			switch a := &list[i]; {
			case a.plain != nil:
				args = append(args, a.plain(in)...)
			case a.array != nil:
				p := &pendingArray{arg: len(args), add: a.add, list: a.array.expandElements(in)}
				if in.opts&optXtrace != 0 {
					in.printTrace((&assignment{r: ref{name: a.name}, add: a.add}).leftSide() + "=" + in.shownElements(p.list))
				}
				in.pending = append(in.pending, p)
				args = append(args, a.name)
			default:
				args = append(args, a.name+a.value(in))
			}
		}
		return args
	}
}

// wholeWord converts an assignment to a plain word.
func wholeWord(a *syntax.Assign) *syntax.Word {
	name := a.Name + "="
	if a.Append {
		name = a.Name + "+="
	}
	parts := append([]syntax.Part{&syntax.Lit{Value: name}}, a.Value.Parts...)
	return &syntax.Word{Pos: a.Pos, Parts: mergeParts(parts)}
}

// elementArg compiles name[index]=value; the builtin expands the index when it
// parses the argument.
func (c *compiler) elementArg(a *syntax.Assign) func(in *interp) []string {
	if a.Array != nil {
		return func(in *interp) []string {
			in.errorf("%s[%s]: cannot assign list to array member", a.Name, a.Index.Word.Raw)
			in.abortArith()
			return nil
		}
	}
	value, key := c.assignText(a.Value), c.scalar(a.Index.Word)
	op := "="
	if a.Append {
		op = "+="
	}
	return func(in *interp) []string {
		return []string{a.Name + "[" + key(in) + "]" + op + value(in)}
	}
}

// declareCall is a call of declare or a similar builtin.
type declareCall struct {
	in      *interp
	name    string // of the builtin
	on, off attr
	print   bool
	funcs   bool // -f
	fnames  bool // -F
	global  bool
	local   bool
	inherit bool
	status  int
	pending []*pendingArray
}

const declareLetters = "aAilucrtxn"

var declareAttrs = [...]attr{
	attrArray, attrAssoc, attrInteger, attrLower, attrUpper, attrCapital, attrReadonly, attrTrace, attrExport, attrNameref,
}

// parseOptions parses the options and returns the index of the first other
// argument.
func (d *declareCall) parseOptions(args []string, allowed string) (rest int, ok bool) {
	for i := 1; i < len(args); i++ {
		a := args[i]
		if a == "--" {
			return i + 1, true
		}
		if len(a) < 2 || a[0] != '-' && (a[0] != '+' || !strings.Contains(allowed, "+")) || strings.IndexByte(a, '=') > 0 {
			return i, true
		}
		for j := 1; j < len(a); j++ {
			if strings.IndexByte(allowed, a[j]) < 0 || a[j] == '+' {
				d.in.reportUsage(d.name, a[:1]+a[j:j+1]+": invalid option")
				return 0, false
			}
			d.setFlag(a[j], a[0] == '-')
		}
	}
	return len(args), true
}

func (d *declareCall) setFlag(c byte, on bool) {
	if k := strings.IndexByte(declareLetters, c); k >= 0 {
		a := declareAttrs[k]
		if !on {
			d.off |= a
			return
		}
		if a&attrCase != 0 {
			if d.on&attrCase != 0 && d.on&a == 0 {
				d.on &^= attrCase // -u and -l cancel each other
				return
			}
		}
		d.on |= a
		return
	}
	switch c {
	case 'p':
		d.print = true
	case 'f':
		d.funcs = true
	case 'F':
		d.funcs, d.fnames = true, true
	case 'g':
		d.global = on
	case 'I':
		d.inherit = on
	}
}

func bDeclare(in *interp, args []string) int { return in.runDeclare(args, "aAfFgiIlnprtucx+") }

func bLocal(in *interp, args []string) int {
	if in.functionScope() == 0 {
		in.pending = nil
		in.errorf("local: can only be used in a function")
		return 1
	}
	return in.runDeclare(args, "aAfFgiIlnprtucx+")
}

func (in *interp) runDeclare(args []string, allowed string) int {
	d := &declareCall{in: in, name: args[0], pending: in.pending}
	in.pending = nil
	saved := in.cmdName
	in.cmdName = d.name
	defer func() { in.cmdName = saved }()
	rest, ok := d.parseOptions(args, allowed)
	if !ok {
		return 2
	}
	d.local = in.functionScope() > 0 && !d.global
	if rest == len(args) {
		return d.list()
	}
	for i := rest; i < len(args); i++ {
		d.declareOne(args[i], d.pendingAt(i))
	}
	return d.status
}

func (d *declareCall) pendingAt(i int) *pendingArray {
	for _, p := range d.pending {
		if p.arg == i {
			return p
		}
	}
	return nil
}

func (d *declareCall) reportError(format string, a ...any) {
	d.in.errorf("%s: "+format, append([]any{d.name}, a...)...)
	d.status = 1
}

// list prints the variables or functions when no names are given.
func (d *declareCall) list() int {
	in := d.in
	switch {
	case d.funcs:
		return in.print(d.name, in.functionsText(d.fnames, d.on))
	case d.name == "local":
		return in.print(d.name, in.localsText())
	case d.on == 0 && !d.print:
		return in.print(d.name, in.variablesText()+in.functionsText(false, 0))
	}
	return in.print(d.name, in.declarationLines(d.on))
}

// localsText returns declarations of the function's local variables.
func (in *interp) localsText() string {
	var b strings.Builder
	level := in.functionScope()
	for _, name := range in.variablesNamed("") {
		if v := in.lookupVar(name); v.level == level && v.local {
			b.WriteString(in.declarationLine(name, v))
		}
	}
	return b.String()
}

// functionsText returns the definitions of the functions, or their names.
func (in *interp) functionsText(names bool, with attr) string {
	list := make([]string, 0, len(in.funcs.m))
	for name, f := range in.funcs.m {
		if with&attrExport != 0 && !f.export || with&attrReadonly != 0 && !f.readonly || with&attrTrace != 0 && !f.traced {
			continue
		}
		list = append(list, name)
	}
	sort.Strings(list)
	var b strings.Builder
	for _, name := range list {
		f, _ := in.funcs.get(name)
		if !names {
			b.WriteString(printFunction(f) + "\n")
		}
		if names || f.export || f.readonly || f.traced {
			b.WriteString("declare -f" + f.attrLetters() + " " + name + "\n")
		}
	}
	return b.String()
}

func (f *function) attrLetters() string {
	s := ""
	if f.readonly {
		s += "r"
	}
	if f.traced {
		s += "t"
	}
	if f.export {
		s += "x"
	}
	return s
}

// declareOne handles one argument.
func (d *declareCall) declareOne(arg string, pending *pendingArray) {
	switch {
	case d.funcs:
		d.declareFunction(arg)
		return
	case d.print && (d.on|d.off)&^attrExport == 0 && pending == nil && d.name != "local":
		d.printOne(arg)
		return
	case arg == "-" && d.name == "local":
		s := &d.in.scopes[d.in.functionScope()-1]
		if !s.restore {
			s.restore, s.saved = true, d.in.opts
		}
		return
	}
	name, value, add, has := cutAssign(arg)
	if has && d.in.opts&optXtrace != 0 && (d.name == "export" || d.name == "readonly") {
		d.in.printTrace(name + "=" + d.in.quoteLong(quoteSet, value))
	}
	r, ok := d.in.parseRef(name)
	if prefix, empty := strings.CutSuffix(name, "[]"); empty && isName(prefix) {
		d.in.errorf("%s: bad array subscript", name)
		d.status = 1
		return
	}
	if ok && r.sub != nil && (d.name == "export" || d.name == "readonly") {
		d.reportError("`%s': not a valid identifier", name)
		return
	}
	if !ok || r.sub != nil && d.on&attrNameref != 0 && !has && r.sub.all != 0 {
		d.reportError("`%s': not a valid identifier", arg)
		return
	}
	d.declareVariable(r, value, add, has, pending)
}

// cutAssign splits name=value or name+=value.
func cutAssign(arg string) (name, value string, add, has bool) {
	i := strings.IndexByte(arg, '=')
	if open := strings.IndexByte(arg, '['); open > 0 && open < i && isName(arg[:open]) {
		if end := strings.Index(arg, "]="); end > 0 {
			i = end + 1
		} else if end := strings.Index(arg, "]+="); end > 0 {
			i = end + 2
		}
	}
	if i <= 0 {
		return arg, "", false, false
	}
	name = cutOut(arg, 0, i) // it may be kept as a key
	if strings.HasSuffix(name, "+") {
		return name[:i-1], arg[i+1:], true, true
	}
	return name, arg[i+1:], false, true
}

func (d *declareCall) printOne(name string) {
	v := d.in.lookupVar(name)
	if v == nil {
		d.reportError("%s: not found", name)
		return
	}
	d.in.print(d.name, d.in.declarationLine(name, v))
}

func (d *declareCall) declareFunction(name string) {
	f, ok := d.in.funcs.get(name)
	if !ok {
		d.status = 1
		return
	}
	if d.on|d.off != 0 {
		d.in.markFunction(name, f, d.on, d.off)
		return
	}
	if d.fnames {
		d.in.print(d.name, name+"\n")
		return
	}
	d.in.print(d.name, printFunction(f)+"\n")
}

func (in *interp) markFunction(name string, f *function, on, off attr) {
	c := *f
	c.export = c.export && off&attrExport == 0 || on&attrExport != 0
	c.traced = c.traced && off&attrTrace == 0 || on&attrTrace != 0
	c.readonly = c.readonly || on&attrReadonly != 0
	in.funcs.set(name, &c)
}

// declareVariable declares one variable.
func (d *declareCall) declareVariable(r ref, value string, add, has bool, pending *pendingArray) {
	in := d.in
	if d.on&attrNameref != 0 && !d.checkTarget(r, value, has) {
		return
	}
	v, r, ok := d.findVariable(r)
	if !ok {
		return
	}
	if v.attrs&attrReadonly != 0 && (has || pending != nil || d.off&attrReadonly != 0) {
		d.status = 1
		if d.name == "readonly" || d.name == "export" {
			in.errorf("%s: readonly variable", r.name)
		} else {
			in.errorf("%s: %s: readonly variable", d.name, r.name)
		}
		return
	}
	if !d.convertArray(v, r, pending != nil) {
		return
	}
	d.applyAttrs(v)
	switch {
	case pending != nil:
		if v.attrs&attrNoSet == 0 && !in.fillArray(r.name, v, pending.list, pending.add) {
			d.status = 1
		}
	case has && d.on&attrList != 0 && r.sub == nil && strings.HasPrefix(value, "(") && strings.HasSuffix(value, ")"):
		d.assignCompound(v, r.name, value, add)
	case has && v.attrs&attrNameref != 0:
		in.setString(v, value)
	case has:
		d.assignValue(v, r, value, add)
	}
	if d.on&attrReadonly != 0 {
		v.attrs |= attrReadonly
	}
	if v.attrs&attrExport != 0 {
		in.envOK = false
	}
}

// checkTarget reports whether r may become a name reference to value.
func (d *declareCall) checkTarget(r ref, value string, has bool) bool {
	in := d.in
	switch {
	case has && value == r.name && !d.local:
		d.reportError("%s: nameref variable self references not allowed", r.name)
	case has && value == r.name:
		in.errorf("%s: warning: %s: circular name reference", d.name, r.name)
		return true
	case has && value == "":
		d.reportError("`': not a valid identifier")
	case has && !in.validTarget(value):
		d.reportError("`%s': invalid variable name for name reference", value)
	case d.on&attrList != 0:
		d.reportError("%s: reference variable cannot be an array", r.name)
	default:
		if v := in.lookupVar(r.name); v != nil && v.attrs&attrList != 0 && !d.local {
			d.reportError("%s: reference variable cannot be an array", r.name)
			return false
		}
		return true
	}
	return false
}

// findVariable returns the variable to declare, ready to be changed. Name
// references are followed unless their attribute itself is declared.
func (d *declareCall) findVariable(r ref) (*variable, ref, bool) {
	in := d.in
	isRef := (d.on|d.off)&attrNameref != 0
	old := in.m[r.name]
	if old != nil && old.attrs&attrNameref != 0 && !isRef && (!d.local || old.level == in.functionScope()) {
		if t, ok := in.followNameref(r.name, old); ok && !t.global {
			if t.sub == nil {
				t.sub = r.sub
			}
			r = t
		}
	}
	switch {
	case d.global:
		return in.globalVar(r.name), r, true
	case d.local && d.name != "export" && d.name != "readonly":
		if g := in.m[r.name]; g != nil && g.attrs&attrReadonly != 0 && g.level < in.functionScope() {
			d.reportError("%s: readonly variable", r.name)
			return nil, r, false
		}
		v := in.localVar(r.name)
		if d.inherit {
			if v.prev != nil && !v.set {
				v.attrs |= v.prev.attrs &^ attrNameref
				in.inheritValue(v, v.prev)
			}
		}
		return v, r, true
	}
	return in.mutableVar(r.name), r, true
}

// convertArray converts v to an array if one is declared.
func (d *declareCall) convertArray(v *variable, r ref, compound bool) bool {
	in := d.in
	switch {
	case d.off&attrList&v.attrs != 0 && v.attrs&attrList != 0:
		d.reportError("%s: cannot destroy array variables in this way", r.name)
		return false
	case d.on&attrAssoc != 0 && v.attrs&attrArray != 0:
		d.reportError("%s: cannot convert indexed to associative array", r.name)
		return false
	case d.on&attrArray != 0 && v.attrs&attrAssoc != 0:
		d.reportError("%s: cannot convert associative to indexed array", r.name)
		return false
	case d.on&attrAssoc != 0 && v.attrs&attrAssoc == 0:
		old, had := in.valueOf(v)
		in.clearValue(v)
		v.attrs |= attrAssoc
		if had {
			in.putKey(v, "0", old)
		}
	case v.attrs&attrList == 0 && (d.on&attrArray != 0 || compound || r.sub != nil):
		had := v.set
		in.toArray(v)
		v.set = had
	}
	return true
}

// applyAttrs sets and clears attributes.
func (d *declareCall) applyAttrs(v *variable) {
	on := d.on &^ (attrReadonly | attrList)
	if on&attrCase != 0 {
		v.attrs &^= attrCase
	}
	if d.off&attrNameref != 0 && v.attrs&attrNameref != 0 {
		v.attrs &^= attrNameref
	}
	if (on|d.off)&attrExport != 0 {
		d.in.envOK = false
	}
	v.attrs = (v.attrs | on) &^ (d.off &^ (attrReadonly | attrList))
	if d.in.opts&optAllexport != 0 && v.attrs&attrList == 0 && d.off&attrExport == 0 {
		v.attrs |= attrExport
	}
}

// assignCompound assigns a compound value that is given as text.
func (d *declareCall) assignCompound(v *variable, name, value string, add bool) {
	a, err := syntax.ParseArray(value, d.in.valueOptions())
	if err != nil {
		d.assignValue(v, ref{name: name}, value, add)
		return
	}
	list := (&compiler{}).arrayValue(a).expandElements(d.in)
	if !d.in.fillArray(name, v, list, add) {
		d.status = 1
	}
}

func (d *declareCall) assignValue(v *variable, r ref, value string, add bool) {
	in := d.in
	if v.attrs&attrNoSet != 0 {
		return
	}
	if v.attrs&attrList == 0 {
		in.storeScalar(v, value, add)
		return
	}
	if !in.storeElem(v, r, value, add) {
		d.status = 1
	}
}

func bExport(in *interp, args []string) int   { return in.markAll(args, attrExport) }
func bReadonly(in *interp, args []string) int { return in.markAll(args, attrReadonly) }

// markAll implements export and readonly.
func (in *interp) markAll(args []string, a attr) int {
	d := &declareCall{in: in, name: args[0], pending: in.pending, global: false}
	in.pending = nil
	saved := in.cmdName
	in.cmdName = d.name
	defer func() { in.cmdName = saved }()
	allowed := "aAfp"
	if a == attrExport {
		allowed = "fnp"
	}
	rest, ok := d.parseOptions(args, allowed)
	if !ok {
		return 2
	}
	if d.on&attrNameref != 0 { // export -n
		d.on, d.off = 0, a
	} else {
		d.on |= a
	}
	if rest == len(args) {
		if d.funcs {
			return in.print(d.name, in.functionsText(false, a))
		}
		return in.print(d.name, in.markedText(a|d.on))
	}
	for i := rest; i < len(args); i++ {
		switch p := d.pendingAt(i); {
		case d.funcs:
			d.markFunc(args[i])
		default:
			d.print = false
			d.declareOne(args[i], p)
		}
	}
	return d.status
}

// markedText lists exported or readonly variables; a POSIX shell prints the
// name of the builtin instead of declare.
func (in *interp) markedText(a attr) string {
	text := in.declarationLines(a)
	if !in.optOn(optPosix) {
		return text
	}
	name := "export "
	if a&attrReadonly != 0 {
		name = "readonly "
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		f := strings.SplitN(line, " ", 3)
		if len(f) == 3 && f[0] == "declare" {
			line = name + f[2]
		}
		b.WriteString(line)
	}
	return b.String()
}

func (d *declareCall) markFunc(name string) {
	f, ok := d.in.funcs.get(name)
	if !ok {
		d.reportError("%s: not a function", name)
		return
	}
	d.in.markFunction(name, f, d.on, d.off)
}
