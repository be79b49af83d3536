package shell

import (
	"sort"
	"strconv"
)

// exportName gives a variable the export attribute.
func (in *interp) exportName(name string) {
	in.mutable(name).attrs |= attrExport
	in.envOK = false
}

// listVariables returns all variables as set lists them.
func (in *interp) listVariables() string { return in.variablesText() }

// setArray gives an indexed array all its elements.
func (in *interp) setArray(name string, vals []string) {
	v := in.mutable(name)
	if v.attrs&attrReadonly != 0 {
		return
	}
	if v.attrs&attrArray == 0 {
		in.clear(v)
		v.attrs = v.attrs&^attrAssoc | attrArray
	}
	v.arr, v.set = newArray(vals), true
	in.recharge(v, v.arr.cost())
}

// arrayValues returns the values of an array.
func (in *interp) arrayValues(name string) []string {
	v, _, ok := in.find(ref{name: name})
	if !ok {
		return nil
	}
	return in.elems(v)
}

// variableNames returns the names of all variables, or of the exported ones.
func (in *interp) variableNames(exported bool) []string {
	var list []string
	for _, name := range in.names("") {
		if v := in.lookup(name); v.set && (!exported || v.attrs&attrExport != 0) {
			list = append(list, name)
		}
	}
	return list
}

// arrayNames returns the names of all arrays.
func (in *interp) arrayNames() []string {
	var list []string
	for _, name := range in.names("") {
		if in.lookup(name).attrs&attrList != 0 {
			list = append(list, name)
		}
	}
	sort.Strings(list)
	return list
}

// globbed returns the names that a pattern matches.
func (in *interp) globbed(pat string) []string {
	g := globber{in: in, flags: in.globFlags()}
	g.walk("", pat)
	return g.found
}

// globMatch reports whether a pattern matches s.
func (in *interp) globMatch(pat, s string) bool {
	return compilePattern(pat, in.patFlags()).match(in, s)
}

// funcnest returns the limit of nested function calls that FUNCNEST sets.
func (in *interp) funcnest() (int, bool) {
	s, ok := in.get("FUNCNEST")
	if !ok {
		return 0, false
	}
	n, err := strconv.Atoi(s)
	return n, err == nil && n > 0
}
