package shell

import (
	"errors"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/vfs"
)

// runProgram runs a program. In a process that has nothing to do afterwards
// (once) the program replaces the process.
func (in *interp) runProgram(k *simple, args []string, once bool) flow {
	s, ok := in.loadProgram(args)
	if !ok {
		return flowNext
	}
	if once && in.canReplaceShell() {
		in.status = in.p.Exec(s)
		return flowExit
	}
	s.Setup = func(p *kernel.Proc) { in.lastPID = p.PID() }
	fr := in.newForeground()
	fr.addProcess(&s)
	st, err := in.callForeground(fr, s, func() string { return strings.Join(args, " ") })
	if err != nil {
		in.failFork(err)
	}
	in.status = st.Code
	if k != nil {
		in.reportSignal(st, k.x)
	}
	if len(in.jobs.list) > 0 {
		in.reportEndedJobs()
	}
	return flowNext
}

// canReplaceShell reports whether the shell has nothing to do after its last
// command.
func (in *interp) canReplaceShell() bool {
	return in.traps.exit == "" && in.ignoreFailure == 0 && in.traps.err == ""
}

// loadProgram finds and loads a program. If that fails, it prints an error and
// sets the status.
func (in *interp) loadProgram(args []string) (kernel.Spawn, bool) {
	file, err := in.findProgram(args[0])
	var s kernel.Spawn
	if err == nil {
		s, err = in.loadFile(file, args)
	}
	if err != nil {
		return s, in.reportCannotRun(args, file, err)
	}
	s.Env = in.childEnv(in.p.Path(file))
	return s, true
}

// childEnv returns the environment of a program: the exported variables and
// functions, and $_ with the program's path.
func (in *interp) childEnv(file string) []string {
	env := in.environment()
	env = append(env[:len(env):len(env)], "_="+file)
	if len(in.funcs.m) > 0 {
		env = append(env, in.exportedFunctions()...)
	}
	return env
}

// findProgram returns the file of a command and remembers its path.
func (in *interp) findProgram(name string) (string, error) {
	path, _ := in.get("PATH")
	if strings.Contains(name, "/") || !in.optOn(optHashall) {
		return in.p.LookIn(path, name)
	}
	if path != in.hashPath {
		in.hash, in.hashPath = cow[hashed]{}, path
	}
	if h, found := in.hash.get(name); found {
		if _, err := in.p.LookIn("", h.path); err == nil || !in.shoptOn(shCheckhash) {
			in.hash.set(name, hashed{h.path, h.hits + 1})
			return h.path, nil
		}
	}
	if path == "" { // the name is a path itself
		_, err := in.p.LookIn(".", name)
		return name, err
	}
	file, err := in.p.LookIn(path, name)
	if err == nil && strings.HasPrefix(file, "/") {
		in.rememberPath(name, hashed{file, 1})
	}
	return file, err
}

// loadFile prepares a file to run; a text file without an interpreter line is
// a script of this shell.
func (in *interp) loadFile(file string, args []string) (kernel.Spawn, error) {
	s, err := in.p.LoadVetted(file, args)
	if errors.Is(err, vfs.ENOEXEC) && in.p.IsText(file) {
		return kernel.Spawn{
			Args: args, Path: file,
			Main: func(p *kernel.Proc) int { return runScript(p, file, args[1:]) },
		}, nil
	}
	return s, err
}

// reportCannotRun prints why a command was not run, and sets its status.
func (in *interp) reportCannotRun(args []string, file string, err error) bool {
	name := args[0]
	in.status = 127
	var ce *kernel.CommandError
	if errors.As(err, &ce) {
		in.status = ce.Code
	}
	switch {
	case in.status == 127 && !strings.Contains(name, "/") && file == "":
		in.handleNotFound(args)
	case errors.Is(err, vfs.ENOEXEC):
		in.errorf("%s: cannot execute binary file: %v", file, vfs.ENOEXEC)
	case in.status == 126 && errors.Is(err, vfs.ENOENT):
		in.errorf("%s: cannot execute: required file not found", name)
		in.status = 127
	case errors.Is(err, vfs.EACCES) && in.isDir(name):
		in.errorf("%s: %v", name, vfs.EISDIR)
	default:
		if file != "" {
			name = file
		}
		in.errorf("%s: %v", name, kernel.Reason(err))
	}
	return false
}

func (in *interp) isDir(name string) bool {
	info, err := in.p.Stat(name)
	return err == nil && info.IsDir()
}

// handleNotFound runs command_not_found_handle, or prints that the command
// does not exist and a hint.
func (in *interp) handleNotFound(args []string) {
	if fn, ok := in.funcs.get("command_not_found_handle"); ok {
		st, err := in.callSubshell(kernel.Spawn{}, body{r: func(in *interp) flow {
			return in.callFunction(fn, append([]string{fn.name}, args...))
		}})
		if err != nil {
			in.failFork(err)
		}
		in.status = st.Code
		return
	}
	in.status = 127
	in.errorf("%s: command not found", args[0])
	hint := ""
	switch {
	case in.sh == nil: // bash -c and scripts print what bash prints, except for the names of programs that agents expect
		hint = hintForMissing(args[0])
	case in.sh.unknown != nil:
		hint = in.sh.unknown(args[0])
	default:
		hint = Hint(in.p, args[0])
	}
	if hint != "" {
		in.writeStderr(hint + "\n")
	}
}
