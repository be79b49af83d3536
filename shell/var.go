package shell

import (
	"strconv"
	"strings"
	"sync/atomic"
)

// attr is a set of attributes of a variable.
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
	attrNoUnset // special: can't be unset
	attrNoSet   // special: assignments are ignored
)

const (
	attrCase = attrLower | attrUpper | attrCapital
	attrList = attrArray | attrAssoc
)

// variable is one variable. Only the store that owns it may change it, and
// only while no fork can see it.
type variable struct {
	owner  *lease
	attrs  attr
	set    bool // has a value
	num    bool // the value is n; s is stale
	local  bool // made by local
	tmp    bool // from the temporary environment of a command
	gone   bool // hides a special variable that was unset
	dyn    dynID
	hook   hookID
	level  int32 // the scope that it belongs to; 0 is global
	n      int64
	s      string
	tail   *strings.Builder // s as it grows by +=
	arr    *array
	assoc  *assoc
	prev   *variable // what it shadows
	charge int64     // what its value is charged with
}

// lease counts the stores that look at the same records. A store may write
// in place while it is the only one.
type lease struct {
	refs   atomic.Int32
	parent *lease // of the store that this one was forked from
}

// drop gives one reference back, and with the last one the parent's.
func (l *lease) drop() {
	for l != nil && l.refs.Add(-1) == 0 {
		l = l.parent
	}
}

// variables is the store of a shell process. Names lead to the innermost
// variable, which leads to those that it shadows.
type variables struct {
	m        map[string]*variable
	lease    *lease
	lent     bool // m is another store's
	scopes   []scope
	live     int64 // bytes that values are charged with
	env      []string
	envOK    bool
	ifs      separators
	bytes    bool   // characters are bytes: LC_ALL=C
	cmdName  string // the builtin that errors of arithmetic name
	pending  []*pendingArray
	depth    int     // of arithmetic that refers to itself
	nested   int     // of subscripts in subscripts
	index    bool    // a subscript is evaluated
	dollars  []int64 // the expansions of the expression that is evaluated
	trying   bool    // errors of arithmetic are a status
	broken   bool    // arithStop is under way
	seed     uint32
	lastRand uint32
	began    int64 // nanoseconds: what SECONDS counts from
	getopts  getoptState
	spare    *fieldList // for the next expansion
	bulk     int        // small charges that are not made yet
}

// bytesPerVariable is what a variable costs beside its value.
const bytesPerVariable = 256

// importEnv begins a store with the environment of the process.
func (in *interp) importEnv(env []string) {
	in.lease = &lease{}
	in.lease.refs.Store(1)
	in.m = make(map[string]*variable, len(env)+8)
	in.seed = uint32(in.shellPID)*2654435761 + uint32(in.now().UnixNano())
	in.began = in.now().UnixNano()
	in.ifs.reset(" \t\n", true)
	for _, e := range env {
		name, value, ok := strings.Cut(e, "=")
		if !ok || !isName(name) {
			continue
		}
		v := in.mutable(name)
		if v.attrs&(attrReadonly|attrNoSet) != 0 {
			continue
		}
		v.attrs |= attrExport
		in.setString(v, value)
	}
}

// fork returns the store of a subshell: O(1), and safe to use beside this one.
func (vs *variables) fork() variables {
	c := *vs
	vs.lease.refs.Add(1)
	c.lease = &lease{parent: vs.lease}
	c.lease.refs.Store(1)
	c.lent = true
	c.spare = nil
	c.pending = nil
	return c
}

// release ends a store. Its parent may write in place again.
func (vs *variables) release() {
	vs.lease.drop()
	vs.lease = nil
}

// own makes the table of names the store's own before it is changed.
func (vs *variables) own() {
	shared := vs.lease.refs.Load() > 1
	if !vs.lent && !shared {
		return
	}
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
		old.drop()
	}
	vs.lent = false
}

// charge accounts for n more (or fewer) bytes of values.
func (in *interp) charge(n int64) {
	if in.p != nil && n > 0 {
		in.p.Alloc(n)
	} else if in.p != nil && n < 0 {
		in.p.Free(-n)
	}
	in.live += n
}

// cost is what a string is charged with.
func cost(s string) int64 {
	if len(s) <= 16 {
		return 0
	}
	return int64(len(s)+15) &^ 15
}

// lookup returns the variable of that name as it is, nil if there is none.
func (in *interp) lookup(name string) *variable {
	if v, ok := in.m[name]; ok {
		if v.gone {
			return nil
		}
		return v
	}
	return specialVar(name)
}

// mutable returns the innermost variable of that name, to be changed. It is
// made, without a value, where there is none.
func (in *interp) mutable(name string) *variable {
	in.own()
	v := in.m[name]
	if v != nil && v.owner == in.lease {
		if v.gone {
			*v = variable{owner: in.lease, charge: v.charge, hook: hookOf(name)}
		}
		return v
	}
	c := in.copyOf(name, v)
	in.m[name] = c
	return c
}

// copyOf returns a copy of v that the store owns; v may be nil.
func (in *interp) copyOf(name string, v *variable) *variable {
	in.charge(bytesPerVariable)
	if v == nil {
		v = specialVar(name)
	}
	if v == nil || v.gone {
		return &variable{owner: in.lease, hook: hookOf(name)}
	}
	c := *v
	c.owner, c.tail, c.charge = in.lease, nil, 0
	switch {
	case v.arr != nil:
		c.arr = v.arr.clone()
		c.charge = c.arr.cost()
	case v.assoc != nil:
		c.assoc = v.assoc.clone()
		c.charge = c.assoc.cost()
	default:
		c.charge = cost(v.s)
	}
	in.charge(c.charge)
	return &c
}

// text returns the value of v as a string; for an array its element 0.
func (in *interp) text(v *variable) (string, bool) {
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

// get returns the value of a variable, name references followed.
func (in *interp) get(name string) (string, bool) {
	v := in.lookup(name)
	if v == nil {
		return "", false
	}
	if v.attrs&attrNameref != 0 {
		r, ok := in.deref(name, v)
		if !ok {
			return "", false
		}
		return in.refText(r)
	}
	return in.text(v)
}

// value is get for those who take unset for empty.
func (in *interp) value(name string) string {
	s, _ := in.get(name)
	return s
}

// set gives a variable a value, name references followed. It returns false,
// with a message printed, when that can't be done.
func (in *interp) set(name, value string) bool { return in.assign(ref{name: name}, value, false) }

// setInt is set for a number.
func (in *interp) setInt(name string, n int64) bool {
	v := in.m[name]
	if v == nil || v.attrs&^attrInteger != 0 || v.dyn != 0 || v.hook != 0 || in.opts&optAllexport != 0 {
		return in.set(name, strconv.FormatInt(n, 10))
	}
	v = in.mutable(name)
	if v.charge != 0 {
		in.charge(-v.charge)
		v.charge = 0
	}
	v.n, v.num, v.set, v.s, v.tail = n, true, true, "", nil
	return true
}

// setString stores a value in a variable that is no array; v is owned.
func (in *interp) setString(v *variable, s string) {
	if c := cost(s); c != v.charge {
		in.charge(c - v.charge)
		v.charge = c
	}
	v.s, v.num, v.set, v.tail = s, false, true, nil
	in.changed(v)
}

// appendString adds to the value of a variable that is no array.
func (in *interp) appendString(v *variable, s string) {
	old, _ := in.text(v)
	if v.num || len(old)+len(s) < 64 {
		in.setString(v, old+s)
		return
	}
	t := v.tail
	if t == nil || t.Len() != len(old) || t.Cap()-t.Len() < len(s) {
		size := len(old) + len(s)
		in.charge(int64(2*size) - v.charge)
		v.charge = int64(2 * size)
		in.work(size >> 6)
		t = &strings.Builder{}
		t.Grow(2 * size)
		t.WriteString(old)
	}
	t.WriteString(s)
	v.tail, v.s, v.set = t, t.String(), true
	in.changed(v)
}

// changed is told of every new value.
func (in *interp) changed(v *variable) {
	if in.opts&optAllexport != 0 && v.attrs&attrList == 0 {
		v.attrs |= attrExport
	}
	if v.attrs&attrExport != 0 {
		in.envOK = false
	}
	if v.hook != 0 {
		in.hooked(v)
	}
}

// drop frees what a variable that leaves the table is charged with.
func (in *interp) drop(v *variable) {
	if v.attrs&attrExport != 0 {
		in.envOK = false
	}
	if v.owner == in.lease {
		in.charge(-v.charge - bytesPerVariable)
		v.owner = nil
	}
}

// isName reports whether s can be the name of a variable.
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
