package shell

import (
	"bufio"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/kernel"
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
	static  []string // args, where nothing in them is expanded; never changed
	builtin *doc     // what the first word names, where that is known
}

func (c *compiler) simple(x *syntax.Cmd, s *syntax.Simple) run {
	if len(s.Args) == 0 {
		return c.bare(x, s)
	}
	k := &simple{x: x, line: commandLine(x, s), redirs: c.redirs(x.Redirs)}
	name, _ := s.Args[0].Literal()
	k.builtin, k.static = describe(name), literals(s.Args)
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

// commandLine returns the line that bash counts a command to: the one where
// its second word ends, since that has been read when the command is made.
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

// literals returns the words when all of them stand for themselves.
func literals(ws []*syntax.Word) []string {
	list := make([]string, len(ws))
	for i, w := range ws {
		text, ok := w.Literal()
		if !ok || w.Assign != nil || strings.ContainsAny(text, "~*?[{\\+@!(") {
			return nil
		}
		list[i] = text
	}
	return list
}

// bare compiles a command without words: assignments and redirections.
func (c *compiler) bare(x *syntax.Cmd, s *syntax.Simple) run {
	line, assigns, redirs := commandLine(x, s), c.assigns(s.Assigns), c.redirs(x.Redirs)
	return func(in *interp) flow {
		if f := in.begin(x, line); f != flowNext {
			return skipped(f)
		}
		return in.assignOnly(assigns, redirs, in.substs)
	}
}

// assignOnly runs a command without a name. Its status is that of its last
// command substitution since before.
func (in *interp) assignOnly(assigns func(in *interp) bool, redirs []redir, before int) flow {
	s := in.scratch()
	in.last = ""
	if assigns != nil && !assigns(in) {
		in.unassigned()
	}
	if in.substs == before {
		in.status = 0
	}
	if len(redirs) > 0 && !in.touch(redirs) {
		in.status = 1
	}
	if in.borrowed > s.borrowed || len(in.substFDs) > s.fds {
		in.tidy(s)
	}
	return in.end(flowNext)
}

// unassigned abandons the command line after an assignment that failed; a
// POSIX shell ends.
func (in *interp) unassigned() {
	in.discard(1)
}

// touch applies redirections and takes them back.
func (in *interp) touch(redirs []redir) bool {
	var undo undo
	defer in.restore(&undo)
	return in.guardRedirs(redirs) && in.apply(redirs, &undo)
}

// begin is what comes before every simple command.
func (in *interp) begin(x *syntax.Cmd, line int32) flow {
	in.line = line
	in.p.Tick(1)
	if !in.inTrap {
		in.node = x
		if in.traps.debug != "" {
			return in.debug()
		}
	}
	return flowNext
}

// end is what comes after every simple command.
func (in *interp) end(f flow) flow {
	in.pipeOne = in.status
	if in.pipestat != nil {
		in.pipestat = nil
	}
	if f != flowNext {
		return f
	}
	if in.status != 0 && in.quiet == 0 {
		if f = in.failed(); f != flowNext {
			return f
		}
	}
	if in.p.Caught() {
		return in.signals()
	}
	return flowNext
}

func (k *simple) run(in *interp) flow {
	once, stage := in.oneshot, in.stage
	in.oneshot, in.stage = false, false
	if f := in.begin(k.x, k.line); f != flowNext {
		return skipped(f)
	}
	s := in.scratch()
	before := in.substs
	args := k.static
	if args == nil {
		args = k.args(in)
	}
	if len(args) == 0 {
		return in.assignOnly(k.assigns, k.redirs, before)
	}
	var f flow
	if k.prefix == nil && len(k.redirs) == 0 && in.opts&optXtrace == 0 {
		if k.guard(in, args) {
			f = in.exec(k, args, once)
		}
	} else {
		f = k.dressed(in, args, once)
	}
	in.last = args[len(args)-1]
	if in.borrowed > s.borrowed || len(in.substFDs) > s.fds {
		in.tidy(s)
	}
	if stage {
		return f // the process ends; the pipe is what failed
	}
	return in.end(f)
}

// dressed runs a command with redirections, assignments or set -x.
func (k *simple) dressed(in *interp, args []string, once bool) (f flow) {
	if k.prefix == nil {
		if in.opt(optXtrace) {
			in.traceArgs(args)
		}
		return k.redirected(in, args, once)
	}
	if in.opt(optPosix) && isSpecial(args[0]) {
		if !k.assigns(in) {
			in.unassigned()
		}
		if in.opt(optXtrace) {
			in.traceArgs(args)
		}
		return k.redirected(in, args, once)
	}
	ok := k.prefix(in, func() {
		if in.opt(optXtrace) {
			in.traceArgs(args)
		}
		f = k.redirected(in, args, once)
	})
	if !ok {
		in.status = 1
		return flowNext
	}
	return f
}

func (k *simple) redirected(in *interp, args []string, once bool) flow {
	if !k.guard(in, args) {
		return flowNext
	}
	if len(k.redirs) == 0 {
		return in.exec(k, args, once)
	}
	var undo undo
	defer in.restore(&undo)
	if !in.apply(k.redirs, &undo) {
		in.status = 1
		if in.opt(optPosix) && isSpecial(args[0]) {
			return flowExit
		}
		return flowNext
	}
	if args[0] == "exec" && in.isBuiltin("exec") {
		return in.execBuiltin(args, &undo)
	}
	return in.exec(k, args, once)
}

// exec runs what the first word names: a function, a builtin or a program.
func (in *interp) exec(k *simple, args []string, once bool) flow {
	name := args[0]
	if len(in.funcs.m) > 0 && !(in.opts&optPosix != 0 && isSpecial(name)) {
		if fn, ok := in.funcs.m[name]; ok {
			return in.call(fn, args)
		}
	}
	if k.builtin != nil && in.disabled == nil {
		return in.runBuiltin(k.builtin.run, args)
	}
	if b := in.builtin(name); b != nil {
		return in.runBuiltin(b, args)
	}
	return in.external(k, args, once)
}

// runBuiltin calls a builtin and takes over the flow it asks for.
func (in *interp) runBuiltin(b builtin, args []string) flow {
	if len(args) == 2 && args[1] == "--help" && hasHelp(args[0]) {
		in.status = 2
		_ = bHelp(in, []string{"help", args[0]}) // it reports what it can't print
		return flowNext
	}
	in.status = b(in, args)
	if out := in.p.Out(); out.Buffered() > 0 {
		in.flush(out, args[0])
	}
	f := in.flow
	in.flow = flowNext
	if in.misused {
		in.misused = false
		if in.opt(optPosix) && isSpecial(args[0]) {
			return flowExit
		}
	}
	return f
}

// flush writes out what a builtin printed.
func (in *interp) flush(out *bufio.Writer, name string) {
	if err := out.Flush(); err != nil {
		out.Reset(in.p.Stdout)
		in.errorf("%s: write error: %v", name, kernel.Reason(err))
		in.status = 1
	}
}

// builtin returns the builtin of that name, unless it is disabled.
func (in *interp) builtin(name string) builtin {
	if in.disabled != nil && in.disabled[name] {
		return nil
	}
	return lookup(name)
}

func (in *interp) isBuiltin(name string) bool {
	if _, ok := in.funcs.m[name]; ok {
		return false
	}
	return in.builtin(name) != nil
}

// call runs a function.
func (in *interp) call(fn *function, args []string) flow {
	if !in.deeper(fn.name) {
		return flowNext
	}
	in.calls++
	saved := callState{params: in.params, loops: in.loops, traps: in.hideTraps(fn)}
	in.frames = append(in.frames, frame{fn: fn.name, source: fn.source, line: in.line, args: len(args) - 1})
	in.pushScope()
	in.loops = 0
	saved.cost = in.newParams(args[1:])
	defer in.leave(&saved)
	if in.traps.debug != "" {
		in.line = fn.line
		if f := in.debug(); f != flowNext && f != flowSkip {
			return f
		}
	}
	return in.returned(fn.body(in))
}

// returned ends a function or a sourced file: the RETURN trap sees $? as it
// was before return.
func (in *interp) returned(f flow) flow {
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

// callState is what a function call puts back.
type callState struct {
	params []string
	cost   int64
	loops  int
	traps  hidden
}

func (in *interp) leave(s *callState) {
	if in.aborting == nil {
		in.line = in.frames[len(in.frames)-1].line
		in.frames = in.frames[:len(in.frames)-1]
		in.popScope()
		in.loops = s.loops
	}
	in.oldParams(s.params, s.cost)
	in.calls--
	in.showTraps(&s.traps)
	in.p.Leave()
}

// deeper enters one more level of nesting, or ends the command line where
// there are too many.
func (in *interp) deeper(name string) bool {
	if limit, ok := in.funcnest(); ok && in.calls >= limit {
		in.errorf("%s: maximum function nesting level exceeded (%d)", name, limit)
		in.discard(1)
	}
	if !in.p.Enter() {
		in.errorf("%s: maximum function nesting level exceeded (%d)", name, in.p.Kernel().Limits().Depth)
		in.discard(1)
	}
	return true
}
