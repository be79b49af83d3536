package shell

import (
	"bufio"
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/syntax"
)

// simple is a compiled simple command with at least one word.
type simple struct {
	x       *syntax.Cmd
	line    int32
	args    func(in *interp) []string
	assigns func(in *interp) bool
	prefix  func(in *interp, f func()) bool
	redirs  []redir
	static  []string // args, if they need no expansion; never changed
	builtin *doc     // the builtin that the first word names, if that is known
}

func (c *compiler) simple(x *syntax.Cmd, s *syntax.Simple) run {
	if len(s.Args) == 0 {
		return c.bare(x, s)
	}
	k := &simple{x: x, line: commandLine(x, s), redirs: c.redirs(x.Redirs)}
	name, _ := s.Args[0].Literal()
	k.builtin, k.static = findDoc(name), literalWords(s.Args)
	switch {
	case s.Decl && name != "eval" && name != "let":
		k.args = c.declArgs(s.Args)
	default:
		k.args = c.fields(s.Args)
	}
	if len(s.Assigns) > 0 {
		k.assigns, k.prefix = c.assigns(s.Assigns), c.prefix(s.Assigns)
	}
	return k.run
}

// commandLine returns the line number that bash gives a command: the end of
// its second word, which the parser has read when it creates the command.
func commandLine(x *syntax.Cmd, s *syntax.Simple) int32 {
	if len(s.Assigns) > 0 {
		a := s.Assigns[0]
		if a.Value != nil {
			return a.Value.Pos.Line + int32(strings.Count(a.Value.Raw, "\n"))
		}
		return a.Pos.Line
	}
	if len(s.Args) < 2 {
		return x.Pos.Line
	}
	w := s.Args[1]
	for _, r := range x.Redirs {
		if r.Pos.Line < w.Pos.Line || r.Pos.Line == w.Pos.Line && r.Pos.Col < w.Pos.Col {
			return r.Pos.Line
		}
	}
	return w.Pos.Line + int32(strings.Count(w.Raw, "\n"))
}

// literalWords returns the words if none of them needs expansion, else nil.
func literalWords(ws []*syntax.Word) []string {
	list := make([]string, len(ws))
	for i, w := range ws {
		text, ok := w.Literal()
		if !ok || w.Assign != nil || strings.ContainsAny(text, "~*?[{\\+@!(") {
			return nil
		}
		list[i] = strings.Clone(text) // the command may keep it, but not the source
	}
	return list
}

// bare compiles a command without words: assignments and redirections.
func (c *compiler) bare(x *syntax.Cmd, s *syntax.Simple) run {
	line, assigns, redirs := commandLine(x, s), c.assigns(s.Assigns), c.redirs(x.Redirs)
	return func(in *interp) flow {
		if f := in.beginCommand(x, line); f != flowNext {
			return skipToNext(f)
		}
		return in.assignOnly(assigns, redirs, in.substs)
	}
}

// assignOnly runs a command without a name. Its status is that of its last
// command substitution; before is the count of substitutions at its start.
func (in *interp) assignOnly(assigns func(in *interp) bool, redirs []redir, before int) flow {
	s := in.beginScratch()
	in.last = ""
	if assigns != nil && !assigns(in) {
		in.abortAssignment()
	}
	if in.substs == before {
		in.status = 0
	}
	if len(redirs) > 0 && !in.touchRedirs(redirs) {
		in.status = 1
	}
	if in.scratchBytes > s.borrowed || len(in.substFDs) > s.fds {
		in.endScratch(s)
	}
	return in.endCommand(flowNext)
}

// abortAssignment ends the command line after an assignment that failed; a
// POSIX shell exits.
func (in *interp) abortAssignment() {
	in.abortLine(1)
}

// touchRedirs applies redirections and undoes them.
func (in *interp) touchRedirs(redirs []redir) bool {
	var undo undo
	defer in.undoRedirs(&undo)
	return in.checkRedirPolicy(redirs) && in.applyRedirs(redirs, &undo)
}

// beginCommand runs before every simple command.
func (in *interp) beginCommand(x *syntax.Cmd, line int32) flow {
	in.line = line
	in.p.Tick(1)
	if !in.inTrap {
		in.node = x
		if in.traps.debug != "" {
			return in.runDebugTrap()
		}
	}
	return flowNext
}

// endCommand runs after every simple command.
func (in *interp) endCommand(f flow) flow {
	in.pipeOne = in.status
	if in.pipestat != nil {
		in.pipestat = nil
	}
	if f != flowNext {
		return f
	}
	if in.status != 0 && in.ignoreFailure == 0 {
		if f = in.handleFailure(); f != flowNext {
			return f
		}
	}
	if in.p.HasCaughtSignal() {
		return in.runSignalTraps()
	}
	return flowNext
}

func (k *simple) run(in *interp) flow {
	once, stage := in.oneshot, in.stage
	in.oneshot, in.stage = false, false
	if f := in.beginCommand(k.x, k.line); f != flowNext {
		return skipToNext(f)
	}
	s := in.beginScratch()
	before := in.substs
	args := k.static
	if args == nil {
		args = k.args(in)
		in.chargeReading(args...)
	}
	if len(args) == 0 {
		return in.assignOnly(k.assigns, k.redirs, before)
	}
	var f flow
	if k.prefix == nil && len(k.redirs) == 0 && in.opts&optXtrace == 0 {
		if k.checkPolicy(in, args) {
			f = in.exec(k, args, once)
		}
	} else {
		f = k.runWithPrefix(in, args, once)
	}
	in.last = args[len(args)-1]
	if in.scratchBytes > s.borrowed || len(in.substFDs) > s.fds {
		in.endScratch(s)
	}
	if stage {
		return f // the process ends; only the pipe as a whole can fail
	}
	return in.endCommand(f)
}

// runWithPrefix runs a command with redirections, assignments or set -x.
func (k *simple) runWithPrefix(in *interp, args []string, once bool) (f flow) {
	if k.prefix == nil {
		if in.optOn(optXtrace) {
			in.traceArgs(args)
		}
		return k.runRedirected(in, args, once)
	}
	if in.optOn(optPosix) && isSpecial(args[0]) {
		if !k.assigns(in) {
			in.abortAssignment()
		}
		if in.optOn(optXtrace) {
			in.traceArgs(args)
		}
		return k.runRedirected(in, args, once)
	}
	ok := k.prefix(in, func() {
		if in.optOn(optXtrace) {
			in.traceArgs(args)
		}
		f = k.runRedirected(in, args, once)
	})
	if !ok {
		in.status = 1
		return flowNext
	}
	return f
}

func (k *simple) runRedirected(in *interp, args []string, once bool) flow {
	if !k.checkPolicy(in, args) {
		return flowNext
	}
	if len(k.redirs) == 0 {
		return in.exec(k, args, once)
	}
	var undo undo
	defer in.undoRedirs(&undo)
	if !in.applyRedirs(k.redirs, &undo) {
		in.status = 1
		if in.optOn(optPosix) && isSpecial(args[0]) {
			return flowExit
		}
		return flowNext
	}
	if words := in.skipCommand(args); words[0] == "exec" && in.isBuiltin("exec") {
		return in.execBuiltin(words, &undo)
	}
	return in.exec(k, args, once)
}

// skipCommand returns the words after "command". If it has options all words are returned.
func (in *interp) skipCommand(args []string) []string {
	for len(args) > 1 && args[0] == "command" && in.isBuiltin(args[0]) && !strings.HasPrefix(args[1], "-") {
		args = args[1:]
	}
	return args
}

// exec runs the function, builtin or program that the first word names.
func (in *interp) exec(k *simple, args []string, once bool) flow {
	name := args[0]
	if len(in.funcs.m) > 0 && !(in.opts&optPosix != 0 && isSpecial(name)) {
		if fn, ok := in.funcs.m[name]; ok {
			return in.callFunction(fn, args)
		}
	}
	if k.builtin != nil && in.disabled == nil {
		return in.runBuiltin(k.builtin.run, args)
	}
	if b := in.findBuiltin(name); b != nil {
		return in.runBuiltin(b, args)
	}
	return in.runProgram(k, args, once)
}

// runBuiltin calls a builtin and returns the flow that it requests.
func (in *interp) runBuiltin(b builtin, args []string) flow {
	if len(args) == 2 && args[1] == "--help" && hasHelp(args[0]) {
		in.status = 2
		_ = bHelp(in, []string{"help", args[0]}) // it reports its own errors
		return flowNext
	}
	in.status = b(in, args)
	if out := in.p.Out(); out.Buffered() > 0 {
		in.flush(out, args[0])
	}
	f := in.flow
	in.flow = flowNext
	if in.usageError {
		in.usageError = false
		if in.optOn(optPosix) && isSpecial(args[0]) {
			return flowExit
		}
	}
	return f
}

// flush writes a builtin's buffered output.
func (in *interp) flush(out *bufio.Writer, name string) {
	if err := out.Flush(); err != nil {
		out.Reset(in.p.Stdout)
		in.errorf("%s: write error: %v", name, kernel.Reason(err))
		in.status = 1
	}
}

// findBuiltin returns the builtin with a name, or nil if it is disabled.
func (in *interp) findBuiltin(name string) builtin {
	if in.disabled != nil && in.disabled[name] {
		return nil
	}
	return lookupBuiltin(name)
}

func (in *interp) isBuiltin(name string) bool {
	if _, ok := in.funcs.m[name]; ok {
		return false
	}
	return in.findBuiltin(name) != nil
}

// callFunction calls a function with args[1:].
func (in *interp) callFunction(fn *function, args []string) flow {
	if !in.enterFunction(fn.name) {
		return flowNext
	}
	in.callDepth++
	saved := callState{params: in.params, loops: in.loops, traps: in.hideTraps(fn)}
	in.frames = append(in.frames, frame{fn: fn.name, source: fn.source, line: in.line, args: len(args) - 1})
	in.pushScope()
	in.loops = 0
	saved.cost = in.pushParams(args[1:])
	defer in.leaveFunction(&saved)
	if in.traps.debug != "" {
		in.line = fn.line
		if f := in.runDebugTrap(); f != flowNext && f != flowSkip {
			return f
		}
	}
	return in.finishReturn(fn.body(in))
}

// finishReturn ends a function or a sourced file: the RETURN trap sees $? as
// it was before return.
func (in *interp) finishReturn(f flow) flow {
	if in.traps.ret != "" && (f == flowNext || f == flowReturn) {
		status := in.status
		if f == flowReturn {
			in.status = in.beforeReturn
		}
		tf := in.runTrap(trapReturn, in.traps.ret)
		if tf == flowExit {
			return tf
		}
		in.status = status
	}
	if f == flowReturn {
		return flowNext
	}
	return f
}

// callState is what leaveFunction restores after a function call.
type callState struct {
	params []string
	cost   int64
	loops  int
	traps  hiddenTraps
}

func (in *interp) leaveFunction(s *callState) {
	if in.aborting == nil {
		in.line = in.frames[len(in.frames)-1].line
		in.frames = in.frames[:len(in.frames)-1]
		in.popScope()
		in.loops = s.loops
	}
	in.popParams(s.params, s.cost)
	in.callDepth--
	in.showTraps(&s.traps)
	in.p.Leave()
}

// enterFunction adds a level of nesting; it aborts the command line if there
// are too many.
func (in *interp) enterFunction(name string) bool {
	if limit, ok := in.funcNestLimit(); ok && in.callDepth >= limit {
		in.errorf("%s: maximum function nesting level exceeded (%d)", name, limit)
		in.abortLine(1)
	}
	if !in.p.Enter() {
		in.errorf("%s: maximum function nesting level exceeded (%d)", name, in.p.Kernel().Limits().Depth)
		in.abortLine(1)
	}
	return true
}

// funcNestLimit returns the limit of nested function calls in FUNCNEST.
func (in *interp) funcNestLimit() (int, bool) {
	s, ok := in.get("FUNCNEST")
	if !ok {
		return 0, false
	}
	n, err := strconv.Atoi(s)
	return n, err == nil && n > 0
}
