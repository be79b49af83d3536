package shell

import (
	"io"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/kernel"
)

// Programs returns the executables that the shell provides, by name, for
// [kernel.Config]: the shells, and the builtins that other programs run too.
func Programs() map[string]kernel.Program {
	m := map[string]kernel.Program{"sh": shellMain, "bash": shellMain}
	for _, name := range []string{"echo", "printf", "test", "[", "pwd", "kill", "true", "false"} {
		m[name] = asProgram(name)
	}
	return m
}

// asProgram makes a program of a builtin.
func asProgram(name string) kernel.Program {
	return func(p *kernel.Proc) int {
		in := &interp{p: p, opts: defaultOpts, shopts: defaultShopts, name0: p.Args[0], shellPID: p.PID(), program: true}
		in.importEnv(p.Env)
		var status int
		_ = in.catch(func(in *interp) flow {
			status = lookup(name)(in, append([]string{name}, p.Args[1:]...))
			in.status = status
			return flowNext
		})
		return in.status
	}
}

// boot fills in what every shell finds in its variables.
func (in *interp) boot(env []string, dir string) {
	in.importEnv(env)
	if v, ok := in.get("PWD"); !ok || !in.samePlace(v, dir) {
		in.set("PWD", dir)
	}
	in.exportName("PWD")
	level, _ := number(in.value("SHLVL"))
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

// samePlace reports whether an inherited PWD is true.
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

// invocation is how /bin/bash was called.
type invocation struct {
	command   string
	isC       bool
	stdin     bool // -s
	noProfile bool
	noRC      bool
	rc        string // --rcfile
	rest      []string
}

// shellMain is /bin/sh and /bin/bash.
func shellMain(p *kernel.Proc) int {
	in := &interp{p: p, opts: defaultOpts, shopts: defaultShopts, name0: p.Args[0], shellPID: p.PID()}
	if p.Name() == "sh" || p.Name() == "-sh" {
		in.turn(optPosix, true)
	}
	if strings.HasPrefix(p.Args[0], "-") {
		in.shopts |= shLoginShell
	}
	defer in.lastWords()
	in.boot(p.Env, p.Dir())
	in.importFunctions(p.Env)
	inv, status, done := in.invoked(p.Args)
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
			in.interact(&inv)
		} else {
			in.runStdin()
		}
	}
	in.exitTrap()
	return in.status
}

// startUp runs the files that a shell begins with: the profile of a login
// shell, and what BASH_ENV names. It reports whether one of them ended it.
func (in *interp) startUp(inv *invocation) (ended bool) {
	var files []string
	if in.shopt(shLoginShell) && !inv.noProfile {
		files = append(files, "/etc/profile")
		home := in.value("HOME")
		for _, f := range []string{"/.bash_profile", "/.bash_login", "/.profile"} {
			if info, err := in.p.Stat(home + f); err == nil && info.Mode().IsRegular() {
				files = append(files, home+f)
				break
			}
		}
	}
	if file := in.value("BASH_ENV"); file != "" && !in.opt(optPosix) {
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

// runScript runs a script that names no interpreter.
func runScript(p *kernel.Proc, file string, params []string) int {
	in := &interp{p: p, opts: defaultOpts, shopts: defaultShopts, name0: file, params: params, shellPID: p.PID()}
	defer in.lastWords()
	in.boot(p.Env, p.Dir())
	in.importFunctions(p.Env)
	return in.scriptFile(file)
}

// scriptFile runs a file as the shell's script.
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

func (in *interp) openScript(file string) (text string, status int) {
	path := file
	if _, err := in.p.Stat(file); err != nil && !strings.Contains(file, "/") {
		if found, err := in.p.LookPath(file); err == nil {
			path = found
		}
	}
	info, err := in.p.Stat(path)
	if err == nil && info.IsDir() {
		in.complain(in.p.Args[0] + ": " + file + ": Is a directory\n")
		return "", 126
	}
	var b []byte
	if err == nil {
		b, err = in.p.ReadFile(path)
	}
	if err != nil {
		in.complain(in.p.Args[0] + ": " + file + ": " + kernel.Reason(err).Error() + "\n")
		return "", 127
	}
	line, _, _ := strings.Cut(string(b[:min(len(b), 80)]), "\n")
	if strings.IndexByte(line, 0) >= 0 {
		in.complain(file + ": " + file + ": cannot execute binary file\n")
		return "", 126
	}
	return string(b), 0
}

// runStdin reads commands from standard input, a line at a time, so that
// commands can read what follows them.
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
		if in.opt(optVerbose) {
			in.complain(line)
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

// importFunctions defines the functions that the environment carries.
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

// exportedFunctions returns the functions that programs inherit.
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
