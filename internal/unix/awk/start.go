package awk

import (
	"strings"
)

// globalSymbol returns the symbol of a global variable; it creates it if needed.
func (in *interp) globalSymbol(name string) *symbol {
	s := in.prog.globals[name]
	if s == nil {
		s = &symbol{name: name}
		in.prog.globals[name] = s
	}
	return s
}

// globalCell returns the cell of a global scalar.
func (in *interp) globalCell(name string) *value {
	s := in.globalSymbol(name)
	if s.cell == nil {
		s.cell = &value{}
	}
	return s.cell
}

// globalArray returns the array of a global.
func (in *interp) globalArray(name string) *array {
	s := in.globalSymbol(name)
	s.kind = symArray
	if s.array == nil {
		s.array = &array{name: name}
	}
	return s.array
}

// start sets the variables and compiles the program.
func (in *interp) start() {
	in.setVariables()
	for _, v := range in.cfg.Vars {
		name, val, ok := splitAssignment(v)
		if !ok {
			in.fatal(0, "`%s' argument to `-v' not in `var=value' form", v)
		}
		in.assignOperand(name, val)
	}
	for _, f := range in.prog.funcs {
		if f.defined {
			in.sourceName = sourceName(in.prog.srcs[f.src])
			in.compileFunction(f)
		}
	}
	for _, r := range in.prog.rules {
		in.sourceName = sourceName(in.prog.srcs[r.src])
		in.compileRule(r)
	}
	in.hasInput = len(in.mains)+len(in.ends)+len(in.fileBegins)+len(in.fileEnds) > 0
}

// compileRule compiles a rule and adds it to the list of its kind.
func (in *interp) compileRule(r *rule) {
	c := &compiler{in: in, line: r.line}
	to := map[ruleKind]*[]stmtFn{
		ruleMain: &in.mains, ruleBegin: &in.begins, ruleEnd: &in.ends,
		ruleBeginFile: &in.fileBegins, ruleEndFile: &in.fileEnds,
	}[r.kind]
	*to = append(*to, c.compileRule(r))
}

// setVariables sets the initial values of the built-in variables.
func (in *interp) setVariables() {
	for name, s := range map[string]string{
		"FS": in.fs, "RS": in.rs, "OFS": in.ofs, "ORS": in.ors, "SUBSEP": in.subsep,
		"CONVFMT": in.convfmt, "OFMT": in.ofmt, "FIELDWIDTHS": "", "FPAT": "[^[:space:]]+",
		"ERRNO": "", "RT": "", "FILENAME": "",
	} {
		*in.globalCell(name) = strValue(s)
	}
	for name, n := range map[string]float64{"IGNORECASE": 0, "RSTART": 0, "RLENGTH": -1, "ARGIND": 0} {
		*in.globalCell(name) = numValue(n)
	}
	in.fname, in.rt, in.argind = in.globalCell("FILENAME"), in.globalCell("RT"), in.globalCell("ARGIND")
	in.rstart, in.rlength, in.errno = in.globalCell("RSTART"), in.globalCell("RLENGTH"), in.globalCell("ERRNO")
	in.argc = in.globalCell("ARGC")
	*in.argc = numValue(float64(len(in.cfg.Args) + 1))
	in.argv = in.globalArray("ARGV")
	in.setNum(in.argv, 0, strValue(in.cfg.Name))
	for i, a := range in.cfg.Args {
		in.setNum(in.argv, int64(i+1), inValue(a))
	}
	in.operand = 1
	env := in.globalArray("ENVIRON")
	for _, e := range in.cfg.Environ {
		if name, val, ok := strings.Cut(e, "="); ok {
			in.set(env, name, inValue(val))
		}
	}
	in.setProcinfo()
}

// setProcinfo fills PROCINFO.
func (in *interp) setProcinfo() {
	in.procinfo = in.globalArray("PROCINFO")
	for name, s := range map[string]string{
		"version": "5.2.1", "FS": "FS", "platform": "posix", "strftime": defaultTimeFormat,
	} {
		in.set(in.procinfo, name, strValue(s))
	}
	for name, n := range map[string]int{
		"pid": in.cfg.PID, "ppid": in.cfg.PPID, "pgrpid": in.cfg.PID, "uid": 0, "gid": 0, "euid": 0, "egid": 0,
	} {
		in.set(in.procinfo, name, numValue(float64(n)))
	}
}

// assignOperand performs an assignment of the command line, including its escape sequences.
func (in *interp) assignOperand(name, val string) {
	if strings.IndexByte(val, '\\') >= 0 {
		val = unescapeString(val, func(c string) {
			in.printWarning(0, "escape sequence `\\%s' treated as plain `%s'", c, c)
		})
	}
	if f := in.prog.funcs[name]; f != nil && f.defined {
		in.fatal(0, "cannot use function `%s' as variable name", name)
	}
	s := in.globalSymbol(name)
	if s.kind == symArray {
		in.fatal(0, "cannot assign to array `%s' from the command line", name)
	}
	if _, set := in.counterAccess(name, 0); set != nil {
		set(toNumber(val))
		return
	}
	in.storeValue(in.globalCell(name), inValue(val))
	if after := in.assignHook(s, 0); after != nil {
		after()
	}
}

// runRules runs rules in order until one executes next or nextfile.
func (in *interp) runRules(rules []stmtFn) {
	for _, r := range rules {
		switch r() {
		case doNext:
			return
		case doNextFile:
			in.skip = true
			return
		}
	}
}

// runBegin runs the BEGIN rules.
func (in *interp) runBegin() { in.runRules(in.begins) }

// runEnd runs the END rules.
func (in *interp) runEnd() { in.runRules(in.ends) }

// runMainLoop runs the rules for every record.
func (in *interp) runMainLoop() {
	for !in.runRecords() {
		in.resetStack()
		in.skip = in.skip || in.jump == doNextFile
	}
}

// runRecords runs the rules for records. It returns true at the end of the input, and false after
// next or nextfile in a function.
func (in *interp) runRecords() (ended bool) {
	defer func() {
		if in.unwinding == leaving {
			_ = recover() // it is ours
			in.unwinding = running
			ended = false
		}
	}()
	for in.nextMain(nil, 1) > 0 {
		in.freeTemp(0)
		in.runRules(in.mains)
	}
	return true
}
