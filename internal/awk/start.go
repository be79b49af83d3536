package awk

import (
	"strings"
)

// global returns the symbol of a variable, made if the program has none.
func (in *interp) global(name string) *symbol {
	s := in.prog.globals[name]
	if s == nil {
		s = &symbol{name: name}
		in.prog.globals[name] = s
	}
	return s
}

func (in *interp) globalCell(name string) *value {
	s := in.global(name)
	if s.cell == nil {
		s.cell = &value{}
	}
	return s.cell
}

func (in *interp) globalArray(name string) *array {
	s := in.global(name)
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
		name, val, ok := assignment(v)
		if !ok {
			in.fatal(0, "`%s' argument to `-v' not in `var=value' form", v)
		}
		in.assignOperand(name, val)
	}
	for _, f := range in.prog.funcs {
		if f.defined {
			in.where = where(in.prog.srcs[f.src])
			in.function(f)
		}
	}
	for _, r := range in.prog.rules {
		in.where = where(in.prog.srcs[r.src])
		in.compileRule(r)
	}
	in.hasInput = len(in.mains)+len(in.ends)+len(in.fileBegins)+len(in.fileEnds) > 0
}

func (in *interp) compileRule(r *rule) {
	c := &compiler{in: in, line: r.line}
	to := map[ruleKind]*[]stmtFn{
		ruleMain: &in.mains, ruleBegin: &in.begins, ruleEnd: &in.ends,
		ruleBeginFile: &in.fileBegins, ruleEndFile: &in.fileEnds,
	}[r.kind]
	*to = append(*to, c.rule(r))
}

// setVariables gives the built-in variables their first values.
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

// assignOperand does an assignment of the command line, in which escape
// sequences count.
func (in *interp) assignOperand(name, val string) {
	if strings.IndexByte(val, '\\') >= 0 {
		val = unescape(val, func(c string) {
			in.warning(0, "escape sequence `\\%s' treated as plain `%s'", c, c)
		})
	}
	if f := in.prog.funcs[name]; f != nil && f.defined {
		in.fatal(0, "cannot use function `%s' as variable name", name)
	}
	s := in.global(name)
	if s.kind == symArray {
		in.fatal(0, "cannot assign to array `%s' from the command line", name)
	}
	if _, set := in.counter(name, 0); set != nil {
		set(toNumber(val))
		return
	}
	in.store(in.globalCell(name), inValue(val))
	if after := in.hook(s, 0); after != nil {
		after()
	}
}

// runRules runs rules one after another until one ends the turn.
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

func (in *interp) begin() { in.runRules(in.begins) }
func (in *interp) end()   { in.runRules(in.ends) }

// main runs the rules for every record.
func (in *interp) mainLoop() {
	for !in.records() {
		in.resetStack()
		in.skip = in.skip || in.jump == doNextFile
	}
}

// records runs the main loop until the input ends, which it reports, or a
// function leaves a record.
func (in *interp) records() (ended bool) {
	defer func() {
		if in.unwinding == leaving {
			_ = recover() // it is ours
			in.unwinding = running
			ended = false
		}
	}()
	for in.nextMain(nil, 1) > 0 {
		in.settleTemp(0)
		in.runRules(in.mains)
	}
	return true
}
