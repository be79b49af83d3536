package shell

import (
	"sort"
	"strings"
)

// scope is a level of the dynamic scoping of variables: a function call, or
// the temporary environment of a command.
type scope struct {
	names    []string // of the variables that belong to it
	function bool
	saved    optSet // the options to come back to, for `local -`
	restore  bool
}

// scopeDepth returns how many scopes are open.
func (in *interp) scopeDepth() int { return len(in.scopes) }

// pushScope opens the scope of a function call.
func (in *interp) pushScope() { in.open(scope{function: true}) }

func (in *interp) open(s scope) {
	if in.lent || in.lease.refs.Load() > 1 {
		in.own()
	}
	in.scopes = append(in.scopes, s)
}

// popScope closes the innermost scope: what its variables have hidden comes
// back.
func (in *interp) popScope() {
	s := in.scopes[len(in.scopes)-1]
	if len(s.names) > 0 {
		in.own()
	}
	level := int32(len(in.scopes))
	for i := len(s.names) - 1; i >= 0; i-- {
		in.uncover(s.names[i], level)
	}
	in.scopes = in.scopes[:len(in.scopes)-1]
	if s.restore {
		in.opts = s.saved
	}
}

// uncover removes the variable of a scope that closes.
func (in *interp) uncover(name string, level int32) {
	v := in.m[name]
	if v == nil || v.level != level {
		return
	}
	in.drop(v)
	if v.prev == nil {
		delete(in.m, name)
	} else {
		in.m[name] = v.prev
		if v.prev.attrs&attrExport != 0 {
			in.envOK = false
		}
	}
	if v.hook != 0 {
		in.reverted(name, v.hook)
	}
}

// functionScope returns the level of the innermost function call, 0 outside.
func (in *interp) functionScope() int32 {
	for i := len(in.scopes) - 1; i >= 0; i-- {
		if in.scopes[i].function {
			return int32(i + 1)
		}
	}
	return 0
}

// shadow puts a new variable of a scope over those of the same name.
func (in *interp) shadow(name string, level int32) *variable {
	in.own()
	in.charge(bytesPerVariable)
	v := &variable{owner: in.lease, level: level, hook: hookOf(name)}
	top := in.m[name]
	if top != nil && top.level > level {
		// a temporary environment lies over the function: go below it
		below := in.mutable(name)
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

// localVar returns the variable that `local name` is about: a new one, or
// the one that the function already has.
func (in *interp) localVar(name string) *variable {
	level := in.functionScope()
	old := in.m[name]
	if old != nil && old.level == level && !old.gone {
		v := in.mutable(name)
		v.local = true
		return v
	}
	v := in.shadow(name, level)
	v.local = true
	switch {
	case old != nil && old.tmp && old.level == level-1:
		v.attrs, v.tmp = old.attrs, true
		in.inherit(v, old)
	case in.shopt(shLocalvarInherit) && old != nil && !old.gone:
		v.attrs = old.attrs &^ attrNameref
		in.inherit(v, old)
	case old != nil:
		v.attrs = old.attrs & attrExport
	}
	return v
}

// inherit copies the value of old.
func (in *interp) inherit(v, old *variable) {
	v.arr, v.assoc = nil, nil
	switch {
	case old.arr != nil:
		v.arr, v.set = old.arr.clone(), old.set
		in.recharge(v, v.arr.cost())
	case old.assoc != nil:
		v.assoc, v.set = old.assoc.clone(), old.set
		in.recharge(v, v.assoc.cost())
	case old.set:
		s, _ := in.text(old)
		in.setString(v, s)
	}
}

// globalVar returns the outermost variable of that name, to be changed.
func (in *interp) globalVar(name string) *variable {
	v := in.mutable(name)
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
			if p.gone {
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

// unset removes a variable; a local one stays, without value, until its
// function returns.
func (in *interp) unset(name string) {
	v := in.m[name]
	if v == nil {
		if specialVar(name) != nil {
			in.mutable(name)
			in.unset(name)
		}
		return
	}
	fn := in.functionScope()
	v = in.mutable(name)
	if v.local && (v.level == fn || in.shopt(shLocalvarUnset) && v.level < fn) {
		in.clear(v)
		keep := v.attrs & attrExport
		if !v.tmp {
			keep = 0
		}
		v.attrs, v.tmp = keep, false
		in.envOK = false
		if v.hook != 0 {
			in.reverted(name, v.hook)
		}
		return
	}
	in.drop(v)
	switch {
	case v.prev != nil:
		in.m[name] = v.prev
		in.envOK = false
	case specialVar(name) != nil:
		in.charge(bytesPerVariable)
		in.m[name] = &variable{owner: in.lease, gone: true}
	default:
		delete(in.m, name)
	}
	if v.hook != 0 {
		in.reverted(name, v.hook)
	}
}

// clear takes the value of an owned variable away.
func (in *interp) clear(v *variable) {
	in.charge(-v.charge)
	v.charge = 0
	v.s, v.num, v.set, v.tail, v.arr, v.assoc, v.dyn = "", false, false, nil, nil, nil, 0
}

// unsetElem removes an element of an array.
func (in *interp) unsetElem(name string, v *variable, sub *subscript) bool {
	if v.attrs&attrList == 0 {
		if sub.all == 0 && sub.num(in) == 0 {
			in.unset(name)
			return true
		}
		in.errorf("unset: %s: not an array variable", name)
		return false
	}
	v = in.mutable(name)
	if v.attrs&attrAssoc != 0 {
		if key := sub.key(in); v.assoc != nil {
			v.assoc.unset(key)
			in.recharge(v, v.assoc.cost())
		}
		return true
	}
	if sub.all != 0 {
		in.unset(name)
		return true
	}
	i := sub.num(in)
	if i < 0 {
		if i += v.arr.top() + 1; i < 0 {
			in.errorf("unset: [%s]: bad array subscript", sub.raw)
			return false
		}
	}
	if v.arr != nil {
		v.arr.unset(i)
		in.recharge(v, v.arr.cost())
	}
	return true
}

// names returns the names of all variables that begin with prefix, sorted.
func (in *interp) names(prefix string) []string {
	var list []string
	for name, v := range in.m {
		if !v.gone && strings.HasPrefix(name, prefix) {
			list = append(list, name)
		}
	}
	for _, name := range specialNames() {
		if _, ok := in.m[name]; !ok && strings.HasPrefix(name, prefix) {
			list = append(list, name)
		}
	}
	in.work(len(in.m))
	sort.Strings(list)
	return list
}

// environ returns the environment of commands. The caller must not change it.
func (in *interp) environ() []string {
	if in.envOK {
		return in.env
	}
	var names []string
	for name, v := range in.m {
		if v.attrs&attrExport != 0 && v.set && !v.gone && v.attrs&attrList == 0 {
			names = append(names, name)
		}
	}
	in.work(len(in.m))
	sortByHash(names)
	env := make([]string, 0, len(names)+2)
	for _, name := range names {
		s, ok := in.text(in.m[name])
		if ok {
			env = append(env, name+"="+s)
		}
	}
	in.env, in.envOK = env, true
	return env
}
