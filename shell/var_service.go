package shell

import (
	"sort"
	"strconv"
)

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

// globNames returns the names that a pattern matches.
func (in *interp) globNames(pat string) []string {
	g := globber{in: in, flags: in.globFlags()}
	g.walkPattern("", pat)
	return g.found
}

// globMatch reports whether a pattern matches s.
func (in *interp) globMatch(pat, s string) bool {
	return in.compilePattern(pat, in.patFlags()).matchAll(in, s)
}

// funcNestLimit returns the limit of nested function calls in FUNCNEST.
func (in *interp) funcNestLimit() (int, bool) {
	s, ok := in.get("FUNCNEST")
	if !ok {
		return 0, false
	}
	n, err := strconv.Atoi(s)
	return n, err == nil && n > 0
}
