package shell

// doc describes a builtin, and is what help prints.
type doc struct {
	name    string
	usage   string
	summary string
	special bool // a special builtin of POSIX
	run     builtin
}

// lookupBuiltin returns the builtin with a name, or nil.
func lookupBuiltin(name string) builtin {
	if d := findDoc(name); d != nil {
		return d.run
	}
	return nil
}

// findDoc returns the description of a builtin, or nil.
func findDoc(name string) *doc {
	if len(name) == 0 {
		return nil
	}
	return builtinDocs().m[name]
}

// isSpecial reports whether a name is a special builtin of POSIX.
func isSpecial(name string) bool {
	d := findDoc(name)
	return d != nil && d.special
}
