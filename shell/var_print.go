package shell

import (
	"strconv"
	"strings"
)

// attrLetters returns the letters of a variable's attributes, in the order of
// declare -p.
func attrLetters(v *variable) string {
	var b strings.Builder
	for _, x := range []struct {
		a attr
		c byte
	}{
		{attrArray, 'a'},
		{attrAssoc, 'A'},
		{attrInteger, 'i'},
		{attrNameref, 'n'},
		{attrReadonly, 'r'},
		{attrTrace, 't'},
		{attrExport, 'x'},
		{attrCapital, 'c'},
		{attrLower, 'l'},
		{attrUpper, 'u'},
	} {
		if v.attrs&x.a != 0 {
			b.WriteByte(x.c)
		}
	}
	return b.String()
}

// writeScratch writes s to b and charges what b grows by.
func (in *interp) writeScratch(b *strings.Builder, s string) {
	if b.Len()+len(s) > b.Cap() {
		in.chargeScratch(max(len(s), b.Cap()))
	}
	b.WriteString(s)
}

// listText returns the elements of an array as a compound assignment.
func (in *interp) listText(v *variable) string {
	var b strings.Builder
	b.WriteByte('(')
	if v.attrs&attrAssoc != 0 {
		a := v.assoc
		if v.dyn != 0 {
			a = in.dynAssoc(v)
		}
		for _, p := range a.orderedPairs() {
			in.chargeWork(1)
			in.writeScratch(&b, "["+in.quoteLong(quoteKey, p.key)+"]="+in.quoteLong(quoteVar, p.val)+" ")
		}
		b.WriteByte(')')
		return b.String()
	}
	sep := ""
	in.arrayOf(v).eachElement(func(i int64, s string) bool {
		in.chargeWork(1)
		in.writeScratch(&b, sep+"["+strconv.FormatInt(i, 10)+"]="+in.quoteLong(quoteVar, s))
		sep = " "
		return true
	})
	b.WriteByte(')')
	return b.String()
}

// declarationLine returns the line that declare -p prints.
func (in *interp) declarationLine(name string, v *variable) string {
	letters := attrLetters(v)
	if letters == "" {
		letters = "-"
	}
	line := "declare -" + letters + " " + name
	switch {
	case v.attrs&attrList != 0:
		if v.set {
			line += "=" + in.listText(v)
		}
	case v.attrs&attrNameref != 0:
		if v.set {
			line += "=" + quoteDouble(v.s)
		}
	default:
		if s, ok := in.valueOf(v); ok {
			line += "=" + in.quoteLong(quoteVar, s)
		}
	}
	return line + "\n"
}

// setLine returns the line that set prints; "" for a variable without a value.
func (in *interp) setLine(name string, v *variable) string {
	switch {
	case !v.set || v.dyn != 0 && v.attrs&(attrList|attrReadonly) == 0 || v.attrs&attrNoSet != 0 && name == "FUNCNAME" && len(in.frames) == 0:
		return ""
	case v.attrs&attrList != 0:
		return name + "=" + in.listText(v) + "\n"
	}
	s, ok := in.valueOf(v)
	if !ok {
		return ""
	}
	return name + "=" + in.quoteLong(quoteSet, s) + "\n"
}

// variablesText lists all variables as set does.
func (in *interp) variablesText() string {
	var b strings.Builder
	for _, name := range in.variablesNamed("") {
		in.writeScratch(&b, in.setLine(name, in.lookupVar(name)))
	}
	return b.String()
}

// declarationLines lists the variables that have all of the attributes, as
// declare -p does.
func (in *interp) declarationLines(with attr) string {
	var b strings.Builder
	for _, name := range in.variablesNamed("") {
		v := in.lookupVar(name)
		if v.attrs&with != with {
			continue
		}
		if v.dyn != 0 && v.attrs&(attrList|attrReadonly) == 0 { // its value is not computed for a list
			b.WriteString(in.declarationLine(name, &variable{attrs: v.attrs}))
			continue
		}
		b.WriteString(in.declarationLine(name, v))
	}
	return b.String()
}
