package shell

func bUnset(in *interp, args []string) int {
	var funcs, vars, refs bool
	i := 1
	for ; i < len(args) && len(args[i]) > 1 && args[i][0] == '-'; i++ {
		if args[i] == "--" {
			i++
			break
		}
		for _, c := range args[i][1:] {
			switch c {
			case 'f':
				funcs = true
			case 'v':
				vars = true
			case 'n':
				refs = true
			default:
				return in.reportUsage("unset", "-"+string(c)+": invalid option")
			}
		}
	}
	if funcs && vars {
		in.errorf("unset: cannot simultaneously unset a function and a variable")
		return 1
	}
	status := 0
	for _, name := range args[i:] {
		if !in.unsetOne(name, funcs, vars, refs) {
			status = 1
		}
	}
	return status
}

func (in *interp) unsetOne(name string, funcs, vars, refs bool) bool {
	r, ok := in.parseRef(name)
	if funcs || !ok && !vars {
		return in.unsetFunc(name)
	}
	if !ok {
		in.errorf("unset: `%s': not a valid identifier", name)
		return false
	}
	v := in.lookupVar(r.name)
	if v != nil && v.attrs&attrNameref != 0 && !refs {
		t, ok := in.followNameref(r.name, v)
		if !ok {
			return false
		}
		if t.name != r.name {
			if t.sub == nil {
				t.sub = r.sub
			}
			r, v = t, in.lookupVar(t.name)
		}
	}
	switch {
	case v == nil && !vars && !refs && r.sub == nil:
		return in.unsetFunc(r.name)
	case v == nil:
		return true
	case v.attrs&attrReadonly != 0:
		in.errorf("unset: %s: cannot unset: readonly variable", r.name)
		return false
	case refs && v.attrs&attrNameref == 0:
		return true
	case v.attrs&attrNoUnset != 0:
		in.errorf("unset: %s: cannot unset", r.name)
		return false
	case r.sub != nil:
		return in.unsetElem(r.name, v, r.sub)
	}
	in.unsetVar(r.name)
	return true
}

func (in *interp) unsetFunc(name string) bool {
	if f, ok := in.funcs.get(name); ok {
		if f.readonly {
			in.errorf("unset: %s: cannot unset: readonly function", name)
			return false
		}
		in.dropFunction(name)
	}
	return true
}
