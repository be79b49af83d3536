package shell

import (
	"sort"
	"strings"
)

// scope is a level of the dynamic scoping of variables: a function call, or
// the temporary environment of a command.
type scope struct {
	names    []string // names of its variables
	function bool
	saved    optSet // options to restore, for `local -`
	restore  bool
}

// scopeDepth returns the number of open scopes.
func (in *interp) scopeDepth() int { return len(in.scopes) }

// pushScope opens the scope of a function call.
func (in *interp) pushScope() { in.openScope(scope{function: true}) }

func (in *interp) openScope(s scope) {
	if in.borrowed || in.lease.refs.Load() > 1 {
		in.ensureOwned()
	}
	in.scopes = append(in.scopes, s)
}

// popScope closes the innermost scope; the variables that it shadowed become
// visible again.
func (in *interp) popScope() {
	s := in.scopes[len(in.scopes)-1]
	if len(s.names) > 0 {
		in.ensureOwned()
	}
	level := int32(len(in.scopes))
	for i := len(s.names) - 1; i >= 0; i-- {
		in.uncoverVar(s.names[i], level)
	}
	if len(s.names) > 0 {
		in.scopes[level-1] = scope{} // its names are no longer charged
	}
	in.scopes = in.scopes[:level-1]
	if s.restore {
		in.opts = s.saved
	}
}

// uncoverVar removes a variable of a scope that is being closed.
func (in *interp) uncoverVar(name string, level int32) {
	v := in.m[name]
	if v == nil || v.level != level {
		return
	}
	in.dropVar(v)
	if v.prev == nil {
		delete(in.m, name)
	} else {
		in.m[name] = v.prev
		if v.prev.attrs&attrExport != 0 {
			in.envOK = false
		}
	}
	if v.hook != 0 {
		in.revertHook(name, v.hook)
	}
}

// functionScope returns the level of the innermost function call; 0 outside.
func (in *interp) functionScope() int32 {
	for i := len(in.scopes) - 1; i >= 0; i-- {
		if in.scopes[i].function {
			return int32(i + 1)
		}
	}
	return 0
}

// shadowVar adds a variable in a scope, over those with the same name.
func (in *interp) shadowVar(name string, level int32) *variable {
	in.ensureOwned()
	name = strings.Clone(name) // it may be a part of a long text
	in.charge(bytesPerVariable)
	in.chargeWork(2)
	v := &variable{owner: in.lease, level: level, hook: hookOf(name)}
	top := in.m[name]
	if top != nil && top.level > level {
		// A temporary environment is above the function: insert beneath it.
		below := in.mutableVar(name)
		for below.prev != nil && below.prev.level > level {
			below = below.prev
		}
		v.prev, below.prev = below.prev, v
	} else {
		v.prev = top
		in.m[name] = v
	}
	s := &in.scopes[level-1]
	s.names = append(s.names, name)
	if top != nil && top.attrs&attrExport != 0 {
		in.envOK = false
	}
	return v
}

// localVar returns the variable that `local name` declares: a new one, or the
// one that the function already has.
func (in *interp) localVar(name string) *variable {
	level := in.functionScope()
	old := in.m[name]
	if old != nil && old.level == level && !old.hidden {
		v := in.mutableVar(name)
		v.local = true
		return v
	}
	v := in.shadowVar(name, level)
	v.local = true
	switch {
	case old != nil && old.temporary && old.level == level-1:
		v.attrs, v.temporary = old.attrs, true
		in.inheritValue(v, old)
	case in.shoptOn(shLocalvarInherit) && old != nil && !old.hidden:
		v.attrs = old.attrs &^ attrNameref
		in.inheritValue(v, old)
	case old != nil:
		v.attrs = old.attrs & attrExport
	}
	return v
}

// inheritValue copies the value of old.
func (in *interp) inheritValue(v, old *variable) {
	v.arr, v.assoc = nil, nil
	switch {
	case old.arr != nil:
		v.arr, v.set = old.arr.clone(), old.set
		in.updateCharge(v, v.arr.memoryCost())
	case old.assoc != nil:
		v.assoc, v.set = old.assoc.clone(), old.set
		in.updateCharge(v, v.assoc.memoryCost())
	case old.set:
		s, _ := in.valueOf(old)
		in.setString(v, s)
	}
}

// globalVar returns the outermost variable with a name, ready to be changed.
func (in *interp) globalVar(name string) *variable {
	v := in.mutableVar(name)
	if v.level == 0 {
		return v
	}
	for v.prev != nil {
		p := v.prev
		if p.owner != in.lease {
			p = in.copyOf(name, p)
			v.prev = p
		}
		if p.level == 0 {
			if p.hidden {
				*p = variable{owner: in.lease, charge: p.charge, hook: p.hook}
			}
			return p
		}
		v = p
	}
	in.charge(bytesPerVariable)
	v.prev = in.copyOf(name, nil)
	return v.prev
}

// unsetVar removes a variable; a local one remains, without a value, until its
// function returns.
func (in *interp) unsetVar(name string) {
	v := in.m[name]
	if v == nil {
		if specialVar(name) != nil {
			in.mutableVar(name)
			in.unsetVar(name)
		}
		return
	}
	fn := in.functionScope()
	v = in.mutableVar(name)
	if v.local && (v.level == fn || in.shoptOn(shLocalvarUnset) && v.level < fn) {
		in.clearValue(v)
		keep := v.attrs & attrExport
		if !v.temporary {
			keep = 0
		}
		v.attrs, v.temporary = keep, false
		in.envOK = false
		if v.hook != 0 {
			in.revertHook(name, v.hook)
		}
		return
	}
	in.dropVar(v)
	switch {
	case v.prev != nil:
		in.m[name] = v.prev
		in.envOK = false
	case specialVar(name) != nil:
		in.charge(bytesPerVariable)
		in.m[strings.Clone(name)] = &variable{owner: in.lease, hidden: true}
	default:
		delete(in.m, name)
	}
	if v.hook != 0 {
		in.revertHook(name, v.hook)
	}
}

// clearValue removes the value of an owned variable.
func (in *interp) clearValue(v *variable) {
	in.charge(-v.charge)
	v.charge = 0
	v.s, v.num, v.set, v.tail, v.arr, v.assoc, v.dyn = "", false, false, nil, nil, nil, 0
}

// unsetElem removes an element of an array.
func (in *interp) unsetElem(name string, v *variable, sub *subscript) bool {
	if v.attrs&attrList == 0 {
		if sub.all == 0 && sub.num(in) == 0 {
			in.unsetVar(name)
			return true
		}
		in.errorf("unset: %s: not an array variable", name)
		return false
	}
	v = in.mutableVar(name)
	if v.attrs&attrAssoc != 0 {
		if key := sub.key(in); v.assoc != nil {
			v.assoc.removeKey(key)
			in.updateCharge(v, v.assoc.memoryCost())
		}
		return true
	}
	if sub.all != 0 {
		in.unsetVar(name)
		return true
	}
	i := sub.num(in)
	if i < 0 {
		if i += v.arr.maxIndex() + 1; i < 0 {
			in.errorf("unset: [%s]: bad array subscript", sub.raw)
			return false
		}
	}
	if v.arr != nil {
		v.arr.removeIndex(i)
		in.updateCharge(v, v.arr.memoryCost())
	}
	return true
}

// variablesNamed returns the names of all variables with a prefix, sorted.
func (in *interp) variablesNamed(prefix string) []string {
	var list []string
	for name, v := range in.m {
		if !v.hidden && strings.HasPrefix(name, prefix) {
			list = append(list, name)
		}
	}
	for _, name := range specialNames() {
		if _, ok := in.m[name]; !ok && strings.HasPrefix(name, prefix) {
			list = append(list, name)
		}
	}
	in.chargeWork(len(in.m))
	sort.Strings(list)
	return list
}

// environment returns the environment of commands. The caller must not change
// it.
func (in *interp) environment() []string {
	if in.envOK {
		return in.env
	}
	var names []string
	cost := int64(0)
	for name, v := range in.m {
		if v.attrs&attrExport != 0 && v.set && !v.hidden && v.attrs&attrList == 0 {
			names = append(names, name)
			if v.dyn == 0 {
				if s, ok := in.valueOf(v); ok && len(s) >= 4096 {
					cost += int64(len(name) + 1 + len(s))
				}
			}
		}
	}
	in.chargeWork(len(in.m))
	in.charge(cost - in.envCost)
	in.envCost = cost
	sortByHash(names)
	env := make([]string, 0, len(names)+2)
	for _, name := range names {
		s, ok := in.valueOf(in.m[name])
		if ok {
			env = append(env, name+"="+s)
		}
	}
	in.env, in.envOK = env, true
	return env
}
