package shell

import (
	"io"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
)

// Programs returns the executables that the shell provides, by name, for
// [kernel.Config]: sh and bash, and the builtins that other programs run.
func Programs() map[string]kernel.Program {
	m := map[string]kernel.Program{"sh": shellMain, "bash": shellMain}
	for _, name := range []string{"echo", "printf", "test", "[", "pwd", "kill", "true", "false"} {
		m[name] = asProgram(name)
	}
	return m
}

// asProgram returns a program that runs a builtin.
func asProgram(name string) kernel.Program {
	return func(p *kernel.Proc) int {
		in := &interp{p: p, opts: defaultOpts, shopts: defaultShopts, name0: p.Args[0], shellPID: p.PID(), shellPPID: p.PPID(), program: true}
		in.importEnv(p.Env)
		var status int
		_ = in.runAndCatch(func(in *interp) flow {
			status = lookupBuiltin(name)(in, append([]string{name}, p.Args[1:]...))
			in.status = status
			return flowNext
		})
		return in.status
	}
}

// initVariables imports the environment and sets the variables that every
// shell has.
func (in *interp) initVariables(env []string, dir string) {
	in.importEnv(env)
	if v, ok := in.get("PWD"); !ok || !in.samePlace(v, dir) {
		in.set("PWD", dir)
	}
	in.exportName("PWD")
	level, _ := parseNumber(in.value("SHLVL"))
	in.set("SHLVL", itoa(max(level, 0)+1))
	in.exportName("SHLVL")
	if _, ok := in.get("PATH"); !ok {
		in.set("PATH", kernel.DefaultPath)
	}
	if _, ok := in.get("SHELL"); !ok {
		in.set("SHELL", "/bin/bash")
	}
	for _, e := range env {
		if opts, ok := strings.CutPrefix(e, "SHELLOPTS="); ok {
			in.inheritOptions(opts)
		}
	}
}

// inheritOptions turns on the options of an inherited SHELLOPTS.
func (in *interp) inheritOptions(opts string) {
	for _, o := range strings.Split(opts, ":") {
		if bit, known := optNamed(o); known {
			in.opts |= bit
		}
	}
}

// samePlace reports whether an inherited PWD names the working directory dir.
func (in *interp) samePlace(pwd, dir string) bool {
	if pwd == dir || in.p == nil {
		return pwd == dir
	}
	if !strings.HasPrefix(pwd, "/") {
		return false
	}
	a, errA := in.p.Stat(pwd)
	b, errB := in.p.Stat(dir)
	return errA == nil && errB == nil && a.Ino() == b.Ino()
}

// invocation is the parsed command line of a shell.
type invocation struct {
	command   string
	isC       bool
	stdin     bool // -s
	noProfile bool
	noRC      bool
	rc        string // --rcfile
	rest      []string
}

// shellMain is the main function of /bin/sh and /bin/bash.
func shellMain(p *kernel.Proc) int {
	in := &interp{p: p, opts: defaultOpts, shopts: defaultShopts, name0: p.Args[0], shellPID: p.PID(), shellPPID: p.PPID()}
	if p.Name() == "sh" || p.Name() == "-sh" {
		in.setOption(optPosix, true)
	}
	if strings.HasPrefix(p.Args[0], "-") {
		in.shopts |= shLoginShell
	}
	defer in.runExitTrapOnSignal()
	in.initVariables(p.Env, p.Dir())
	in.importFunctions(p.Env)
	inv, status, done := in.parseInvocation(p.Args)
	if done {
		return status
	}
	if in.startUp(&inv) {
		in.exitTrap()
		return in.status
	}
	switch {
	case inv.isC:
		if len(inv.rest) > 0 {
			in.name0, in.params = inv.rest[0], inv.rest[1:]
		}
		_ = in.runText(inv.command, source{kind: "-c", echo: true})
	case !inv.stdin && len(inv.rest) > 0:
		in.name0, in.params = inv.rest[0], inv.rest[1:]
		return in.scriptFile(inv.rest[0])
	default:
		in.params = inv.rest
		if in.atTerminal() {
			in.runInteractive(&inv)
		} else {
			in.runStdin()
		}
	}
	in.exitTrap()
	return in.status
}

// startUp runs the startup files of a shell: the profiles of a login shell,
// and the file named by BASH_ENV. It reports whether one of them exited.
func (in *interp) startUp(inv *invocation) (ended bool) {
	var files []string
	if in.shoptOn(shLoginShell) && !inv.noProfile {
		files = append(files, "/etc/profile")
		home := in.value("HOME")
		for _, f := range []string{"/.bash_profile", "/.bash_login", "/.profile"} {
			if info, err := in.p.Stat(home + f); err == nil && info.Mode().IsRegular() {
				files = append(files, home+f)
				break
			}
		}
	}
	if file := in.value("BASH_ENV"); file != "" && !in.optOn(optPosix) {
		files = append(files, in.expandText(file))
	}
	if !inv.isC && !inv.stdin && len(inv.rest) > 0 {
		name := in.name0
		in.name0 = inv.rest[0]
		defer func() { in.name0 = name }()
	}
	for _, file := range files {
		if _, err := in.p.Stat(file); err != nil {
			continue
		}
		if in.runBuiltin(bSource, []string{"source", file}) == flowExit {
			return true
		}
	}
	return false
}

// runScript runs a script without an interpreter line.
func runScript(p *kernel.Proc, file string, params []string) int {
	in := &interp{p: p, opts: defaultOpts, shopts: defaultShopts, name0: file, params: params, shellPID: p.PID(), shellPPID: p.PPID()}
	defer in.runExitTrapOnSignal()
	in.initVariables(p.Env, p.Dir())
	in.importFunctions(p.Env)
	return in.scriptFile(file)
}

// scriptFile runs a file as the shell's script and returns its status.
func (in *interp) scriptFile(file string) int {
	text, status := in.openScript(file)
	if status != 0 {
		return status
	}
	in.frames = append(in.frames, frame{fn: "main", source: file})
	_ = in.runText(text, source{file: file, echo: true})
	in.exitTrap()
	return in.status
}

// openScript reads a script; status is not zero if it can't be run.
func (in *interp) openScript(file string) (text string, status int) {
	path := file
	if _, err := in.p.Stat(file); err != nil && !strings.Contains(file, "/") {
		if found, err := in.p.LookPath(file); err == nil {
			path = found
		}
	}
	info, err := in.p.Stat(path)
	if err == nil && info.IsDir() {
		in.writeStderr(in.p.Args[0] + ": " + file + ": Is a directory\n")
		return "", 126
	}
	var b []byte
	if err == nil {
		b, err = in.p.ReadFile(path)
	}
	if err != nil {
		in.writeStderr(in.p.Args[0] + ": " + file + ": " + kernel.Reason(err).Error() + "\n")
		return "", 127
	}
	line, _, _ := strings.Cut(string(b[:min(len(b), 80)]), "\n")
	if strings.IndexByte(line, 0) >= 0 {
		in.writeStderr(file + ": " + file + ": cannot execute binary file\n")
		return "", 126
	}
	return string(b), 0
}

// runStdin runs commands from standard input. It reads a line at a time, so
// that commands can read the lines after them.
func (in *interp) runStdin() {
	at := int32(1)
	next := func() (string, error) {
		line, ok := in.readLine()
		if !ok && line == "" {
			return "", io.EOF
		}
		at++
		if ok {
			line += "\n"
		}
		if in.optOn(optVerbose) {
			in.writeStderr(line)
		}
		return line, nil
	}
	in.fromStdin = true
	for {
		start := at
		line, err := next()
		if err != nil {
			return
		}
		f := in.runText(line, source{file: "main", line: start, more: next})
		if f != flowNext {
			return
		}
	}
}

// importFunctions defines the functions that the environment exports.
func (in *interp) importFunctions(env []string) {
	for _, e := range env {
		name, body, ok := strings.Cut(e, "=")
		fn, isFunc := strings.CutPrefix(name, "BASH_FUNC_")
		if !ok || !isFunc || !strings.HasSuffix(fn, "%%") || !strings.HasPrefix(body, "() {") {
			continue
		}
		fn = strings.TrimSuffix(fn, "%%")
		_ = in.runText(fn+" "+body, source{kind: fn})
		if f, defined := in.funcs.get(fn); defined {
			c := *f
			c.export = true
			in.funcs.set(fn, &c)
		}
	}
}

// exportedFunctions returns the environment entries of exported functions.
func (in *interp) exportedFunctions() []string {
	var list []string
	for name, f := range in.funcs.m {
		if f.export {
			text := strings.TrimPrefix(printFunction(f), name+" ")
			text = strings.Replace(strings.Replace(text, "() \n", "() ", 1), "{ \n    ", "{  ", 1)
			list = append(list, "BASH_FUNC_"+name+"%%="+text)
		}
	}
	return list
}
