package shell

import (
	"errors"
	"path"
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
)

func bTrue(*interp, []string) int  { return 0 }
func bFalse(*interp, []string) int { return 1 }

// parseNumber parses a decimal number as the builtins do.
func parseNumber(s string) (int, bool) {
	n, err := strconv.ParseInt(strings.TrimSpace(s), 10, 64)
	return int(n), err == nil
}

// bBreak implements break and continue.
func bBreak(in *interp, args []string) int {
	args = skipDashes(args)
	levels := 1
	if in.loops == 0 && in.optOn(optPosix) {
		return 0
	}
	if in.loops == 0 {
		in.errorf("%s: only meaningful in a `for', `while', or `until' loop", args[0])
		return 0
	}
	if len(args) > 1 {
		n, ok := parseNumber(args[1])
		if !ok {
			in.errorf("%s: %s: numeric argument required", args[0], args[1])
			in.exitOnError(128)
		}
		if len(args) > 2 {
			in.errorf("%s: too many arguments", args[0])
			if len(in.frames) > 0 && in.frames[0].fn == "main" || in.fromStdin {
				in.abortLine(1)
			}
			in.exitOnError(1)
		}
		if n <= 0 {
			in.errorf("%s: %s: loop count out of range", args[0], args[1])
			in.flow, in.loopLevels = flowBreak, in.loops
			return 1
		}
		levels = n
	}
	in.loopLevels = min(levels, in.loops)
	in.flow = flowBreak
	if args[0] == "continue" {
		in.flow = flowContinue
	}
	return 0
}

// skipDashes removes a "--" that is the first argument.
func skipDashes(args []string) []string {
	if len(args) > 1 && args[1] == "--" {
		return append([]string{args[0]}, args[2:]...)
	}
	return args
}

// exitStatus parses the argument of exit and return.
func (in *interp) exitStatus(args []string) (status int, ok bool) {
	if len(args) == 1 {
		return in.status, true
	}
	n, valid := parseNumber(args[1])
	if !valid {
		in.errorf("%s: %s: numeric argument required", args[0], args[1])
		return 2, true
	}
	if len(args) > 2 {
		in.errorf("%s: too many arguments", args[0])
		return 1, false
	}
	return n & 0xff, true
}

func bExit(in *interp, args []string) int {
	args = skipDashes(args)
	status, ok := in.exitStatus(args)
	if !ok {
		return status
	}
	in.flow = flowExit
	return status
}

func bLogout(in *interp, args []string) int {
	if !in.shoptOn(shLoginShell) {
		in.errorf("logout: not login shell: use `exit'")
		return 1
	}
	return bExit(in, args)
}

func bReturn(in *interp, args []string) int {
	args = skipDashes(args)
	if len(in.frames) == 0 || in.frames[len(in.frames)-1].fn == "main" {
		if len(args) > 1 {
			if _, valid := parseNumber(args[1]); !valid {
				in.errorf("return: %s: numeric argument required", args[1])
			}
		}
		in.errorf("return: can only `return' from a function or sourced script")
		in.usageError = true
		return 2
	}
	status, ok := in.exitStatus(args)
	if !ok {
		in.exitOnError(status)
	}
	in.flow, in.beforeReturn = flowReturn, in.status
	return status
}

func bShift(in *interp, args []string) int {
	args = skipDashes(args)
	n := 1
	if len(args) > 1 {
		v, ok := parseNumber(args[1])
		if !ok {
			in.errorf("shift: %s: numeric argument required", args[1])
			return 1
		}
		if len(args) > 2 {
			in.errorf("shift: too many arguments")
			return 1
		}
		n = v
	}
	if n < 0 {
		in.errorf("shift: %s: shift count out of range", args[1])
		return 1
	}
	if n > len(in.params) {
		if in.shoptOn(shShiftVerbose) {
			in.errorf("shift: %d: shift count out of range", n)
		}
		return 1
	}
	in.params = in.params[n:]
	return 0
}

func bEval(in *interp, args []string) int {
	args = skipDashes(args)
	if len(args) > 1 && len(args[1]) > 1 && args[1][0] == '-' {
		in.errorf("eval: %s: invalid option", args[1][:2])
		return in.reportUsage("eval", "")
	}
	text := strings.Join(args[1:], " ")
	if strings.TrimSpace(text) == "" {
		return 0
	}
	if !in.p.Enter() {
		in.errorf("eval: maximum eval nesting level exceeded (%d)", in.p.Kernel().Limits().Depth)
		in.abortLine(1)
	}
	defer in.p.Leave()
	in.indent++
	defer func() { in.indent-- }()
	in.status = 0
	in.flow = in.runText(text, source{kind: "eval", line: in.line})
	return in.status
}

func bSource(in *interp, args []string) int {
	name := args[0]
	args = skipDashes(args)
	if len(args) < 2 {
		in.errorf("%s: filename argument required", name)
		return in.reportUsage(name, "")
	}
	if len(args[1]) > 1 && args[1][0] == '-' {
		in.errorf("%s: %s: invalid option", name, args[1][:2])
		return in.reportUsage(name, "")
	}
	file := in.sourcePath(args[1])
	text, ok := in.readScript(file)
	if !ok {
		in.usageError = true
		return 1
	}
	if !in.p.Enter() {
		in.errorf("%s: maximum source nesting level exceeded (%d)", name, in.p.Kernel().Limits().Depth)
		in.abortLine(1)
	}
	saved := sourceState{params: in.params, loops: in.loops, replaced: len(args) > 2, traps: in.hideSourceTraps()}
	in.frames = append(in.frames, frame{fn: "source", source: file, line: in.line})
	if saved.replaced {
		saved.cost = in.pushParams(args[2:])
	}
	defer in.leaveSource(&saved)
	in.status = 0
	f := in.runText(text, source{file: file})
	in.flow = in.finishReturn(f)
	return in.status
}

// sourceState is what leaveSource restores after a sourced file.
type sourceState struct {
	params   []string
	cost     int64
	loops    int
	replaced bool
	traps    string
}

func (in *interp) hideSourceTraps() string {
	if in.optOn(optFunctrace) {
		return ""
	}
	debug := in.traps.debug
	in.traps.debug = ""
	return debug
}

func (in *interp) leaveSource(s *sourceState) {
	if in.aborting == nil {
		in.line = in.frames[len(in.frames)-1].line
		in.frames = in.frames[:len(in.frames)-1]
	}
	if s.replaced {
		in.popParams(s.params, s.cost)
	}
	if s.traps != "" && in.traps.debug == "" {
		in.traps.debug = s.traps
	}
	in.p.Leave()
}

// sourcePath returns the file that source reads: a name without a slash is
// looked up in $PATH.
func (in *interp) sourcePath(name string) string {
	if strings.Contains(name, "/") || !in.shoptOn(shSourcepath) {
		return name
	}
	path, _ := in.get("PATH")
	for _, dir := range strings.Split(path, ":") {
		if dir == "" {
			dir = "."
		}
		if info, err := in.p.Stat(dir + "/" + name); err == nil && info.Mode().IsRegular() {
			return dir + "/" + name
		}
	}
	return name
}

// readScript returns the text of a file for source.
func (in *interp) readScript(file string) (string, bool) {
	info, err := in.p.Stat(file)
	if err == nil && info.IsDir() {
		in.errorf("%s: is a directory", file)
		return "", false
	}
	var b []byte
	h, err := in.p.Open(file)
	if err == nil {
		defer func() { _ = h.Close() }() // opened for reading
		b, err = in.p.ReadAll(h)
		in.p.Free(int64(cap(b)))
	}
	if err != nil {
		in.errorf("%s: %v", file, kernel.Reason(err))
		return "", false
	}
	head := b[:min(len(b), 80)]
	for _, c := range head {
		if c == '\n' {
			break
		}
		if c == 0 {
			in.errorf("%s: cannot execute binary file", file)
			return "", false
		}
	}
	in.chargeScratch(len(b))
	return string(b), true
}

func bExec(in *interp, args []string) int { return in.replaceShell(args) }

// replaceShell implements exec with a command. The shell ends with it.
func (in *interp) replaceShell(args []string) int {
	i, name, clean, login := 1, "", false, false
	for ; i < len(args) && len(args[i]) > 1 && args[i][0] == '-'; i++ {
		if args[i] == "--" {
			i++
			break
		}
		for j := 1; j < len(args[i]); j++ {
			switch args[i][j] {
			case 'c':
				clean = true
			case 'l':
				login = true
			case 'a':
				if name = args[i][j+1:]; name == "" && i+1 < len(args) {
					i++
					name = args[i]
				}
				j = len(args[i])
			default:
				in.errorf("exec: -%c: invalid option", args[i][j])
				return in.reportUsage("exec", "")
			}
		}
	}
	if i >= len(args) {
		return 0
	}
	return in.execProgram(args[i:], name, clean, login)
}

func (in *interp) execProgram(args []string, name string, clean, login bool) int {
	if !in.checkNamedCommand(args) {
		return in.status
	}
	file, err := in.findProgram(args[0])
	if err == nil {
		argv := append([]string(nil), args...)
		if name != "" {
			argv[0] = name
		}
		if login {
			argv[0] = "-" + argv[0]
		}
		var s kernel.Spawn
		if s, err = in.loadFile(file, argv); err == nil {
			s.Env = in.childEnv(in.p.Path(file))
			if clean {
				s.Env = []string{}
			}
			in.dropExitTrap()
			in.flow = flowExit
			return in.p.Exec(s)
		}
	}
	in.status = 127
	if ce := (*kernel.CommandError)(nil); errors.As(err, &ce) {
		in.status = ce.Code
	}
	if in.status == 127 && !strings.Contains(args[0], "/") {
		in.errorf("exec: %s: not found", args[0])
	} else {
		in.errorf("%s: %v", path.Clean(in.p.Path(args[0])), kernel.Reason(err))
	}
	if !in.shoptOn(shExecfail) {
		in.flow = flowExit
	}
	return in.status
}

// execBuiltin implements exec with redirections, which become permanent.
func (in *interp) execBuiltin(args []string, u *undo) flow {
	in.status = in.replaceShell(args)
	f := in.flow
	in.flow = flowNext
	if f == flowNext && in.status == 0 {
		u.makePermanent()
	}
	return f
}

func bCommand(in *interp, args []string) int {
	i, verbose, describe, std := 1, false, false, false
	for ; i < len(args) && len(args[i]) > 1 && args[i][0] == '-'; i++ {
		if args[i] == "--" {
			i++
			break
		}
		for _, c := range args[i][1:] {
			switch c {
			case 'p':
				std = true
			case 'v':
				describe = true
			case 'V':
				verbose = true
			default:
				in.errorf("command: -%c: invalid option", c)
				return in.reportUsage("command", "")
			}
		}
	}
	rest := args[i:]
	if len(rest) == 0 {
		return 0
	}
	if describe || verbose {
		return in.describeAll(rest, verbose, std)
	}
	return in.runCommand(rest, std)
}

// runCommand implements command: it runs a builtin or program, not a function.
func (in *interp) runCommand(args []string, std bool) int {
	if !in.checkNamedCommand(args) {
		return in.status
	}
	if b := in.findBuiltin(args[0]); b != nil {
		if args[0] == "exec" {
			return in.replaceShell(args)
		}
		status := b(in, args)
		in.usageError = false // called like this, it is not a special builtin
		return status
	}
	in.flushOut()
	if std {
		old, _ := in.get("PATH")
		in.set("PATH", kernel.DefaultPath)
		defer in.set("PATH", old)
	}
	_ = in.runProgram(nil, args, false)
	return in.status
}

// flushOut writes the buffered output of the running builtin.
func (in *interp) flushOut() {
	if out := in.p.Out(); out.Buffered() > 0 {
		_ = out.Flush() // the end of the builtin reports the same error
	}
}

func bBuiltin(in *interp, args []string) int {
	_, rest, ok := in.parseFlags(args, "")
	if !ok {
		return 2
	}
	args = append([]string{"builtin"}, rest...)
	if len(args) < 2 {
		return 0
	}
	b := in.findBuiltin(args[1])
	if b == nil {
		in.errorf("builtin: %s: not a shell builtin", args[1])
		return 1
	}
	if !in.checkNamedCommand(args[1:]) {
		return in.status
	}
	return b(in, args[1:])
}

func bCaller(in *interp, args []string) int {
	if len(in.frames) == 0 {
		return 1
	}
	depth := 0
	if len(args) > 1 {
		n, ok := parseNumber(args[1])
		if !ok || n < 0 {
			in.errorf("caller: %s: invalid number", args[1])
			return in.reportUsage("caller", "")
		}
		depth = n
	}
	at := len(in.frames) - 1 - depth
	if at < 0 || len(args) > 1 && at == 0 {
		return 1
	}
	var b strings.Builder
	b.WriteString(strconv.Itoa(int(in.frames[at].line)))
	source, fn := "NULL", "main"
	if at > 0 {
		source, fn = in.frames[at-1].source, in.frames[at-1].fn
	}
	if len(args) > 1 {
		b.WriteString(" " + fn)
	}
	b.WriteString(" " + source + "\n")
	return in.print("caller", b.String())
}

func bTimes(in *interp, args []string) int {
	if _, _, ok := in.parseFlags(args, ""); !ok {
		return 2
	}
	own, children := in.p.RunTime()
	return in.print("times", formatDuration(own, 3, true)+" 0m0.000s\n"+formatDuration(children, 3, true)+" 0m0.000s\n")
}

func bSuspend(in *interp, _ []string) int {
	in.errorf("suspend: cannot suspend: no job control")
	return 1
}

func bBind(in *interp, _ []string) int {
	in.errorf("bind: warning: line editing not enabled")
	return 0
}
