package shell

import (
	"sort"
	"strconv"
	"strings"
	"sync/atomic"
)

// attr is a set of variable attributes.
type attr uint16

const (
	attrExport attr = 1 << iota
	attrReadonly
	attrInteger
	attrLower
	attrUpper
	attrCapital
	attrTrace
	attrNameref
	attrArray
	attrAssoc
	attrNoUnset // special variable that can't be unset
	attrNoSet   // special variable whose assignments are ignored
)

const (
	attrCase = attrLower | attrUpper | attrCapital
	attrList = attrArray | attrAssoc
)

// variable is one variable. Only the store that owns it may change it, and
// only while no fork shares it.
type variable struct {
	owner     *lease
	attrs     attr
	set       bool // has a value
	num       bool // the value is n; s is stale
	local     bool // created by local
	temporary bool // in the temporary environment of a command
	hidden    bool // stands for a special variable that was unset
	dyn       dynID
	hook      hookID
	level     int32 // its scope; 0 is global
	n         int64
	s         string
	tail      *strings.Builder // s, if it grows by +=
	arr       *array
	assoc     *assoc
	prev      *variable // the variable that it shadows
	charge    int64     // bytes charged for its value
}

// lease counts the stores that share the same records. A store may write in
// place while it is the only one.
type lease struct {
	refs   atomic.Int32
	parent *lease // of the store that this one was forked from
}

// dropRef drops a reference; the last one also drops the parent's.
func (l *lease) dropRef() {
	for l != nil && l.refs.Add(-1) == 0 {
		l = l.parent
	}
}

// variables is the store of a shell process. It maps each name to the
// innermost variable, which links to those that it shadows.
type variables struct {
	m             map[string]*variable
	lease         *lease
	borrowed      bool // m belongs to another store
	scopes        []scope
	chargedBytes  int64 // bytes charged for values
	env           []string
	envOK         bool
	envCost       int64 // bytes charged for env
	ifs           separators
	bytes         bool   // characters are bytes: LC_ALL=C
	cmdName       string // builtin that arithmetic errors name
	pending       []*pendingArray
	depth         int     // nesting of arithmetic that refers to variables
	nested        int     // nesting of subscripts
	index         bool    // a subscript is being evaluated
	dollars       []int64 // expansions of the expression being evaluated
	recoverErrors bool    // arithmetic errors result in a status
	arithFailed   bool    // an arithStop panic is in progress
	seed          uint32
	lastRand      uint32
	began         int64 // start of SECONDS in nanoseconds
	getopts       getoptState
	spareFields   *fieldList // for reuse by the next expansion
	uncharged     int        // bytes of small charges that are not made yet
}

// importEnv initializes the store with an environment.
func (in *interp) importEnv(env []string) {
	in.lease = &lease{}
	in.lease.refs.Store(1)
	in.m = make(map[string]*variable, len(env)+8)
	in.seed = uint32(in.shellPID)*2654435761 + uint32(in.currentTime().UnixNano())
	in.began = in.currentTime().UnixNano()
	in.ifs.reset(" \t\n", true)
	for _, e := range env {
		name, value, ok := strings.Cut(e, "=")
		if !ok || !isName(name) {
			continue
		}
		v := in.mutableVar(name)
		if v.attrs&(attrReadonly|attrNoSet) != 0 {
			continue
		}
		v.attrs |= attrExport
		in.setString(v, value)
	}
}

// forkStore returns the store of a subshell. It takes constant time, and both
// stores may be used concurrently.
func (vs *variables) forkStore() variables {
	c := *vs
	vs.lease.refs.Add(1)
	c.lease = &lease{parent: vs.lease}
	c.lease.refs.Store(1)
	c.borrowed = true
	c.spareFields = nil
	c.pending = nil
	c.envCost = 0 // charged to the parent
	return c
}

// releaseStore ends a store. Its parent may write in place again.
func (vs *variables) releaseStore() {
	vs.lease.dropRef()
	vs.lease = nil
}

// ensureOwned copies the table of names before a change if it is shared.
func (in *interp) ensureOwned() {
	vs := &in.variables
	shared := vs.lease.refs.Load() > 1
	if !vs.borrowed && !shared {
		return
	}
	in.chargeTable(len(vs.m), vs.borrowed)
	m := make(map[string]*variable, len(vs.m)+4)
	for k, v := range vs.m {
		m[k] = v
	}
	vs.m = m
	scopes := make([]scope, len(vs.scopes), len(vs.scopes)+2)
	for i, s := range vs.scopes {
		s.names = s.names[:len(s.names):len(s.names)]
		scopes[i] = s
	}
	vs.scopes = scopes
	if shared {
		old := vs.lease
		vs.lease = &lease{parent: old.parent}
		if old.parent != nil {
			old.parent.refs.Add(1)
		}
		vs.lease.refs.Store(1)
		old.dropRef()
	}
	vs.borrowed = false
}

// lookupVar returns the variable with a name, without following name
// references; nil if there is none.
func (in *interp) lookupVar(name string) *variable {
	if v, ok := in.m[name]; ok {
		if v.hidden {
			return nil
		}
		return v
	}
	return specialVar(name)
}

// mutableVar returns the innermost variable with a name, ready to be changed.
// It creates one without a value if there is none.
func (in *interp) mutableVar(name string) *variable {
	in.ensureOwned()
	v := in.m[name]
	if v != nil && v.owner == in.lease {
		if v.hidden {
			*v = variable{owner: in.lease, charge: v.charge, hook: hookOf(name)}
		}
		return v
	}
	c := in.copyOf(name, v)
	in.m[strings.Clone(name)] = c // the name may be a part of a long text
	return c
}

// copyOf returns a copy of v that the store owns; v may be nil.
func (in *interp) copyOf(name string, v *variable) *variable {
	in.charge(bytesPerVariable)
	if v == nil {
		v = specialVar(name)
	}
	if v == nil || v.hidden {
		return &variable{owner: in.lease, hook: hookOf(name)}
	}
	c := *v
	c.owner, c.tail, c.charge = in.lease, nil, 0
	switch {
	case v.arr != nil:
		c.arr = v.arr.clone()
		c.charge = c.arr.memoryCost()
	case v.assoc != nil:
		c.assoc = v.assoc.clone()
		c.charge = c.assoc.memoryCost()
	default:
		c.charge = stringCost(v.s)
	}
	in.charge(c.charge)
	return &c
}

// valueOf returns the value of v as a string; of an array, its element 0.
func (in *interp) valueOf(v *variable) (string, bool) {
	switch {
	case v == nil:
		return "", false
	case v.dyn != 0:
		return in.dynText(v)
	case v.attrs&attrArray != 0:
		return v.arr.get(0)
	case v.attrs&attrAssoc != 0:
		return v.assoc.get("0")
	case v.num:
		return strconv.FormatInt(v.n, 10), v.set
	}
	return v.s, v.set
}

// get returns the value of a variable. It follows name references.
func (in *interp) get(name string) (string, bool) {
	v := in.lookupVar(name)
	if v == nil {
		return "", false
	}
	if v.attrs&attrNameref != 0 {
		r, ok := in.followNameref(name, v)
		if !ok {
			return "", false
		}
		return in.refText(r)
	}
	return in.valueOf(v)
}

// value returns the value of a variable; "" if it is not set.
func (in *interp) value(name string) string {
	s, _ := in.get(name)
	return s
}

// set sets a variable. It follows name references. It returns false if that
// fails, and prints the error.
func (in *interp) set(name, value string) bool { return in.assignRef(ref{name: name}, value, false) }

// setInt sets a variable to a number.
func (in *interp) setInt(name string, n int64) bool {
	v := in.m[name]
	if v == nil || v.attrs&^attrInteger != 0 || v.dyn != 0 || v.hook != 0 || in.opts&optAllexport != 0 {
		return in.set(name, strconv.FormatInt(n, 10))
	}
	v = in.mutableVar(name)
	if v.charge != 0 {
		in.charge(-v.charge)
		v.charge = 0
	}
	v.n, v.num, v.set, v.s, v.tail = n, true, true, "", nil
	return true
}

// setString sets a variable that is not an array; the store must own v.
func (in *interp) setString(v *variable, s string) {
	if c := stringCost(s); c != v.charge {
		in.charge(c - v.charge)
		v.charge = c
	}
	v.s, v.num, v.set, v.tail = s, false, true, nil
	in.valueChanged(v)
}

// appendString appends to the value of a variable that is not an array.
func (in *interp) appendString(v *variable, s string) {
	old, _ := in.valueOf(v)
	if v.num || len(old)+len(s) < 64 {
		in.setString(v, old+s)
		return
	}
	t := v.tail
	if t == nil || t.Len() != len(old) || t.Cap()-t.Len() < len(s) {
		size := len(old) + len(s)
		in.charge(int64(2*size) - v.charge)
		v.charge = int64(2 * size)
		in.chargeWork(size >> 6)
		t = &strings.Builder{}
		t.Grow(2 * size)
		t.WriteString(old)
	}
	t.WriteString(s)
	v.tail, v.s, v.set = t, t.String(), true
	in.valueChanged(v)
}

// valueChanged is called after every change of a value.
func (in *interp) valueChanged(v *variable) {
	if in.opts&optAllexport != 0 && v.attrs&attrList == 0 {
		v.attrs |= attrExport
	}
	if v.attrs&attrExport != 0 {
		in.envOK = false
	}
	if v.hook != 0 {
		in.applyHook(v)
	}
}

// dropVar releases the charge of a variable that is removed from the table.
func (in *interp) dropVar(v *variable) {
	if v.attrs&attrExport != 0 {
		in.envOK = false
	}
	if v.owner == in.lease {
		in.charge(-v.charge - bytesPerVariable)
		v.owner = nil
	}
}

// isName reports whether s is a valid variable name.
func isName(s string) bool {
	if s == "" || s[0] >= '0' && s[0] <= '9' {
		return false
	}
	for i := 0; i < len(s); i++ {
		if !isNameByte(s[i]) {
			return false
		}
	}
	return true
}

func isNameByte(c byte) bool {
	return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

// exportName adds the export attribute to a variable.
func (in *interp) exportName(name string) {
	in.mutableVar(name).attrs |= attrExport
	in.envOK = false
}

// setArray sets all elements of an indexed array.
func (in *interp) setArray(name string, vals []string) {
	v := in.mutableVar(name)
	if v.attrs&attrReadonly != 0 {
		return
	}
	if v.attrs&attrArray == 0 {
		in.clearValue(v)
		v.attrs = v.attrs&^attrAssoc | attrArray
	}
	v.arr, v.set = newArray(vals), true
	in.updateCharge(v, v.arr.memoryCost())
}

// arrayValues returns the values of an array.
func (in *interp) arrayValues(name string) []string {
	v, _, ok := in.find(ref{name: name})
	if !ok {
		return nil
	}
	return in.elementsOf(v)
}

// variableNames returns the names of all variables, or of the exported ones.
func (in *interp) variableNames(exported bool) []string {
	var list []string
	for _, name := range in.variablesNamed("") {
		if v := in.lookupVar(name); v.set && (!exported || v.attrs&attrExport != 0) {
			list = append(list, name)
		}
	}
	return list
}

// arrayNames returns the names of all arrays.
func (in *interp) arrayNames() []string {
	var list []string
	for _, name := range in.variablesNamed("") {
		if in.lookupVar(name).attrs&attrList != 0 {
			list = append(list, name)
		}
	}
	sort.Strings(list)
	return list
}
