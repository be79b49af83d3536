package shell

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/syntax"
)

func (c *compiler) funcDecl(x *syntax.Cmd, d *syntax.FuncDecl) run {
	inner := &compiler{source: c.source}
	body := inner.cmd(d.Body)
	source := c.source
	if source == "" {
		source = "environment"
	}
	line := x.Pos.Line
	return func(in *interp) flow {
		in.line = line
		old, _ := in.funcs.get(d.Name)
		if old != nil && old.readonly {
			in.errorf("%s: readonly function", d.Name)
			in.status = 1
			return in.handleFailure()
		}
		if in.optOn(optPosix) && (isSpecial(d.Name) || !isName(d.Name)) {
			in.errorf("`%s': is a special builtin", d.Name)
			in.exitOnError(2)
		}
		fn := &function{name: d.Name, body: body, decl: d, source: source, line: d.Body.Pos.Line}
		if old != nil {
			fn.export, fn.traced = old.export, old.traced
		}
		in.setFunction(fn)
		in.status = 0
		return flowNext
	}
}

func (c *compiler) arithCmd(x *syntax.Cmd, a *syntax.ArithCmd) run {
	eval, line, text := c.arith(a.X), x.Pos.Line, a.X.Raw
	return func(in *interp) flow {
		in.line = line
		in.p.Tick(1)
		if in.isTracing() {
			if f := in.traceStep("(( "+text+" ))", "(("+text+"))"); f != flowNext {
				return skipToNext(f)
			}
		}
		v, _, f := in.evalArithCmd(eval)
		if f != flowNext {
			return f
		}
		in.status = 1
		if v != 0 {
			in.status = 0
		}
		return in.endCommand(flowNext)
	}
}

// evalArithCmd evaluates (( )). Its error messages begin with ((, and an error
// ends only the evaluation.
func (in *interp) evalArithCmd(eval func(in *interp) int64) (v int64, ok bool, f flow) {
	old, m := in.cmdName, in.currentMark()
	in.cmdName = "(("
	defer func() {
		in.cmdName = old
		if a := in.aborting; a != nil {
			_ = recover() // it is a: see runAndCatch
			v, ok, f = 0, false, in.endAbort(a, m)
		}
	}()
	return eval(in), true, flowNext
}

// isTracing reports whether set -x or the DEBUG trap is active.
func (in *interp) isTracing() bool { return in.opts&optXtrace != 0 || in.traps.debug != "" }

// skipToNext converts flowSkip to flowNext.
func skipToNext(f flow) flow {
	if f == flowSkip {
		return flowNext
	}
	return f
}

func (c *compiler) condCmd(x *syntax.Cmd, k *syntax.CondCmd) run {
	eval, line := c.cond(k.X), x.Pos.Line
	return func(in *interp) flow {
		in.line = line
		in.p.Tick(1)
		s := in.beginScratch()
		if in.traps.debug != "" {
			if !in.inTrap {
				in.node = x
			}
			if f := in.runDebugTrap(); f != flowNext {
				return skipToNext(f)
			}
		}
		in.status = eval(in)
		in.endScratch(s)
		return in.endCommand(flowNext)
	}
}

// coproc compiles coproc [name] command.
func (c *compiler) coproc(x *syntax.Cmd, k *syntax.Coproc) run {
	name := func(*interp) string { return "COPROC" }
	if k.Name != nil {
		name = c.scalar(k.Name)
	}
	body, line := c.child(k.Body), x.Pos.Line
	stmt := &syntax.Stmt{Pos: x.Pos, First: &syntax.Pipeline{Pos: x.Pos, Cmds: []*syntax.Cmd{x}}}
	return func(in *interp) flow {
		in.line = line
		in.status = in.startCoproc(name(in), stmt, body)
		return flowNext
	}
}

func (in *interp) startCoproc(name string, stmt *syntax.Stmt, b body) int {
	if !isName(name) {
		in.errorf("`%s': not a valid identifier", name)
		return 1
	}
	fromR, fromW := in.p.Pipe()
	toR, toW := in.p.Pipe()
	child, err := in.spawnParallel(kernel.Spawn{Stdin: toR, Stdout: fromW}, b)
	fromW.Release()
	toR.Release()
	if err != nil {
		fromR.Release()
		toW.Release()
		in.failFork(err)
	}
	rfd, wfd := in.useHighFD(fromR), in.useHighFD(toW)
	in.lastBG = child.PID()
	in.jobs.add(child, stmt)
	in.jobs.coproc = coproc{name: name, pid: child.PID(), fds: [2]int{rfd, wfd}}
	in.setArray(name, []string{strconv.Itoa(rfd), strconv.Itoa(wfd)})
	in.set(name+"_PID", strconv.Itoa(child.PID()))
	return 0
}

// useHighFD assigns o to the highest free descriptor below 64 and marks it
// close-on-exec; -1 if none is free.
func (in *interp) useHighFD(o *kernel.FileDescription) int {
	for fd := 63; fd > 9; fd-- {
		if in.p.FD(fd) == nil {
			_ = in.p.SetFD(fd, o) // the descriptor is free
			in.p.CloseOnExec(fd)
			return fd
		}
	}
	o.Release()
	return -1
}

// timed compiles `time pipeline`.
func (c *compiler) timed(r run, p *syntax.Pipeline) run {
	posix := p.Time == syntax.TimePosix
	return func(in *interp) (f flow) {
		start := in.p.Now()
		own, children := in.p.RunTime()
		used := own + children
		f = r(in)
		own, children = in.p.RunTime()
		used = own + children - used
		format, set := in.get("TIMEFORMAT")
		switch {
		case posix:
			format = "real %2R\nuser %2U\nsys %2S"
		case !set:
			format = "\nreal\t%3lR\nuser\t%3lU\nsys\t%3lS"
		case format == "":
			return f
		}
		in.writeStderr(in.timeText(format, in.p.Now().Sub(start), used) + "\n")
		return f
	}
}

// timeText expands TIMEFORMAT. The time in which processes run is user time; the kernel has none of its own.
func (in *interp) timeText(format string, real, user time.Duration) string {
	var b strings.Builder
	for i := 0; i < len(format); i++ {
		if format[i] != '%' || i+1 == len(format) {
			b.WriteByte(format[i])
			continue
		}
		i++
		if format[i] == '%' {
			b.WriteByte('%')
			continue
		}
		start, prec, long := i, 3, false
		if format[i] >= '0' && format[i] <= '9' {
			prec = min(3, int(format[i]-'0'))
			i++
		}
		if i < len(format) && format[i] == 'l' {
			long = true
			i++
		}
		letter := byte(0)
		if i < len(format) {
			letter = format[i]
		}
		switch letter {
		case 'R':
			b.WriteString(formatDuration(real, prec, long))
		case 'U':
			b.WriteString(formatDuration(user, prec, long))
		case 'S':
			b.WriteString(formatDuration(0, prec, long))
		case 'P':
			b.WriteString(formatShare(user, real))
		default:
			in.errorf("TIMEFORMAT: `%s': invalid format character", format[start:min(i+1, len(format))])
			return b.String()
		}
	}
	return b.String()
}

// formatShare returns the percentage of the real time that is time of the processor.
func formatShare(user, real time.Duration) string {
	if real <= 0 {
		return "0.00"
	}
	return fmt.Sprintf("%.2f", min(100*float64(user)/float64(real), 99999))
}

func formatDuration(d time.Duration, prec int, long bool) string {
	s := d.Seconds()
	if !long {
		return fmt.Sprintf("%.*f", prec, s)
	}
	m := int(s) / 60
	return fmt.Sprintf("%dm%.*fs", m, prec, s-float64(60*m))
}
