package shell

// doc is a builtin as help knows it.
type doc struct {
	name    string
	usage   string
	summary string
	special bool // a special builtin of POSIX
	run     builtin
}

// lookup returns the builtin of that name, or nil.
func lookup(name string) builtin {
	if d := describe(name); d != nil {
		return d.run
	}
	return nil
}

// describe returns what there is to know about a builtin, or nil.
func describe(name string) *doc {
	if len(name) == 0 {
		return nil
	}
	return docs().m[name]
}

// isSpecial reports whether POSIX calls the builtin of that name special.
func isSpecial(name string) bool {
	d := describe(name)
	return d != nil && d.special
}
