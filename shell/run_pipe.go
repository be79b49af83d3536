package shell

import (
	"runtime"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/syntax"
)

// pipeline compiles one command or several joined by pipes, optionally timed
// or negated.
func (c *compiler) pipeline(p *syntax.Pipeline) run {
	var r run
	switch len(p.Cmds) {
	case 0:
		r = func(in *interp) flow { in.status = 0; return flowNext }
	case 1:
		r = c.cmd(p.Cmds[0])
	default:
		r = c.pipe(p)
	}
	if p.Bangs > 0 {
		r = negateStatus(r, p.Negated())
	}
	if p.Time != syntax.NoTime {
		return c.timedPipeline(r, p)
	}
	return r
}

// timedPipeline compiles `time` before a pipeline. A subshell is timed
// within its redirections.
func (c *compiler) timedPipeline(r run, p *syntax.Pipeline) run {
	if len(p.Cmds) == 1 && p.Bangs == 0 && len(p.Cmds[0].Redirs) > 0 {
		if _, ok := p.Cmds[0].Body.(*syntax.Subshell); ok {
			redirs, inner := c.redirs(p.Cmds[0].Redirs), c.timed(c.compound(p.Cmds[0]), p)
			return func(in *interp) flow { return in.runRedirected(redirs, inner) }
		}
	}
	return c.timed(r, p)
}

// negateStatus compiles `!`: set -e ignores the command, and an odd number of
// bangs inverts its status.
func negateStatus(r run, odd bool) run {
	return func(in *interp) flow {
		in.ignoreFailure++
		f := r(in)
		in.ignoreFailure--
		if odd && f == flowNext {
			if in.status == 0 {
				in.status = 1
			} else {
				in.status = 0
			}
		}
		return f
	}
}

// stage is one command of a pipe.
type stage struct {
	body   body
	text   *syntax.Cmd
	stderr bool // |&
}

func (c *compiler) pipe(p *syntax.Pipeline) run {
	stages := make([]stage, len(p.Cmds))
	for i, x := range p.Cmds {
		stages[i] = stage{body: c.child(x), text: x}
		if i < len(p.Stderr) && p.Stderr[i] {
			stages[i] = c.bothStage(x)
		}
	}
	line := p.Pos.Line
	return func(in *interp) flow {
		in.line = line
		in.p.Tick(1)
		if f := in.runPipe(stages); f != flowNext {
			return f
		}
		if in.status != 0 && in.ignoreFailure == 0 {
			if f := in.handleFailure(); f != flowNext {
				return f
			}
		}
		if in.p.HasCaughtSignal() {
			return in.runSignalTraps()
		}
		return flowNext
	}
}

// bothStage compiles a command before |&: its standard error follows its
// standard output after its own redirections.
func (c *compiler) bothStage(x *syntax.Cmd) stage {
	if len(x.Redirs) == 0 {
		return stage{body: c.child(x), text: x, stderr: true}
	}
	both := *x
	one := &syntax.Word{Pos: x.End, Raw: "1", Parts: []syntax.Part{&syntax.Lit{Value: "1", Raw: "1"}}}
	both.Redirs = append(both.Redirs[:len(both.Redirs):len(both.Redirs)], &syntax.Redir{Pos: x.End, Op: syntax.RedirDupOut, Fd: 2, Target: one})
	return stage{body: c.child(&both), text: x}
}

// body is a compiled subshell.
type body struct {
	r     run
	once  bool // it is one simple command, which may replace the process
	stage bool // that command itself is a stage of a pipe or a background job
}

// child compiles a command that runs in a process of its own.
func (c *compiler) child(x *syntax.Cmd) body {
	if s, ok := x.Body.(*syntax.Subshell); ok && len(x.Redirs) == 0 {
		return c.list(s.Body)
	}
	_, once := x.Body.(*syntax.Simple)
	return body{c.cmd(x), once, once}
}

// list compiles the list in the parentheses of a subshell.
func (c *compiler) list(stmts []*syntax.Stmt) body {
	return body{r: c.stmts(stmts), once: isOneCommand(stmts)}
}

// isOneCommand reports whether stmts is a single simple command.
func isOneCommand(stmts []*syntax.Stmt) bool {
	if len(stmts) != 1 || stmts[0].Background || len(stmts[0].Rest) > 0 {
		return false
	}
	p := stmts[0].First
	if len(p.Cmds) != 1 || p.Bangs > 0 || p.Time != syntax.NoTime {
		return false
	}
	_, ok := p.Cmds[0].Body.(*syntax.Simple)
	return ok
}

// runPipe runs the stages concurrently and waits for them.
func (in *interp) runPipe(stages []stage) (f flow) {
	var in0, out0 *kernel.FileDescription // ends of pipes that no process owns yet
	defer func() {
		for _, o := range []*kernel.FileDescription{in0, out0} {
			if o != nil {
				o.Release()
			}
		}
	}()
	last := len(stages) - 1
	fr := in.newForeground()
	procs := make([]*kernel.Proc, 0, last+1)
	for i := range stages[:last] {
		var next *kernel.FileDescription
		next, out0 = in.p.Pipe()
		s := kernel.Spawn{Stdin: in0, Stdout: out0}
		if stages[i].stderr {
			s.Stderr = out0
		}
		fr.addProcess(&s)
		child, err := in.spawnSubshell(s, stages[i].body)
		if in0 != nil {
			in0.Release()
		}
		out0.Release()
		in0, out0 = next, nil
		if err != nil {
			in.failFork(err)
		}
		procs = append(procs, child)
		runtime.Gosched() // lets the stages begin in order
	}
	end := &stages[last]
	status := 0
	if in.shoptOn(shLastpipe) && !in.optOn(optMonitor) {
		open := in0
		in0 = nil
		f = in.runLastStage(end.body, open)
		status = in.status
	} else {
		s := kernel.Spawn{Stdin: in0}
		fr.addProcess(&s)
		in.prepareSubshell(&s, end.body)
		st, err := in.callForeground(fr, s, func() string { return pipeText(stages) })
		in0.Release()
		in0 = nil
		if err != nil {
			in.failFork(err)
		}
		status = st.Code
		in.reportSignal(st, end.text)
	}
	in.waitForStages(procs, status)
	return f
}

// pipeText returns the text of a pipe, for the job list.
func pipeText(stages []stage) string {
	var list []string
	for i := range stages {
		list = append(list, syntax.Print(stages[i].text))
	}
	return strings.Join(list, " | ")
}

// runLastStage runs the last command of a pipe in this process, with standard
// input from r. It takes ownership of r.
func (in *interp) runLastStage(b body, r *kernel.FileDescription) flow {
	var undo undo
	defer in.undoRedirs(&undo)
	in.replaceFD(0, r, &undo)
	return b.r(in)
}

// waitForStages waits for the stages before the last and sets $? and
// PIPESTATUS.
func (in *interp) waitForStages(procs []*kernel.Proc, last int) {
	all := make([]int, 0, len(procs)+1)
	fail := last
	for i := range procs {
		if in.interactive != nil && in.interactive.lastStopped && !procs[i].Exited() {
			in.jobs.subs = append(in.jobs.subs, procs[i])
			continue
		}
		st, _ := in.p.Wait(procs[i], false)
		all = append(all, st.Code)
	}
	all = append(all, last)
	in.status = last
	if in.optOn(optPipefail) {
		for _, st := range all {
			if st != 0 {
				fail = st
			}
		}
		in.status = fail
	}
	in.pipestat = all
}

// failFork prints that a process could not be started, and exits.
func (in *interp) failFork(err error) {
	in.errorf("fork: %v", kernel.Reason(err))
	in.exitOnError(254)
}

// spawnSubshell starts a subshell concurrently with this process.
func (in *interp) spawnSubshell(s kernel.Spawn, b body) (*kernel.Proc, error) {
	in.prepareSubshell(&s, b)
	return in.p.Spawn(s)
}

// spawnParallel starts a subshell that the shell does not wait for. It is charged for what the shell may
// replace while the subshell still has it.
func (in *interp) spawnParallel(s kernel.Spawn, b body) (*kernel.Proc, error) {
	cost := in.inheritedCost()
	if cost == 0 {
		return in.spawnSubshell(s, b)
	}
	in.p.Alloc(cost) // before the subshell exists: many could be started before the first one runs
	moved, setup := false, s.Setup
	s.Setup = func(child *kernel.Proc) {
		in.p.MoveCharge(cost, child)
		moved = true
		if setup != nil {
			setup(child)
		}
	}
	p, err := in.spawnSubshell(s, b)
	if !moved {
		in.p.Free(cost)
	}
	return p, err
}

// callSubshell runs a subshell to its end.
func (in *interp) callSubshell(s kernel.Spawn, b body) (kernel.Status, error) {
	in.prepareSubshell(&s, b)
	return in.p.Call(s)
}

// prepareSubshell makes s run b in a copy of this shell.
func (in *interp) prepareSubshell(s *kernel.Spawn, b body) {
	var c *interp
	setup := s.Setup
	s.Args, s.Env, s.Path = in.p.Args, in.p.Env, in.p.Executable()
	s.Setup = func(p *kernel.Proc) {
		c = in.forkSubshell(p)
		in.lastPID = p.PID()
		if setup != nil {
			setup(p)
		}
	}
	s.Main = func(*kernel.Proc) int { return c.runSubshell(b) }
}

// runSubshell is the main function of a subshell.
func (in *interp) runSubshell(b body) int {
	defer in.variables.releaseStore()
	defer in.runExitTrapOnSignal()
	in.loops = 0
	in.oneshot, in.stage = b.once, b.stage
	_ = in.runAndCatch(b.r)
	in.oneshot, in.stage = false, false
	in.exitTrap()
	return in.status
}

func (c *compiler) subshell(x *syntax.Cmd, s *syntax.Subshell) run {
	body, line := c.list(s.Body), x.Pos.Line
	return func(in *interp) flow {
		in.line = line
		in.p.Tick(1)
		fr, s := in.newForeground(), kernel.Spawn{}
		fr.addProcess(&s)
		in.prepareSubshell(&s, body)
		st, err := in.callForeground(fr, s, commandText(x))
		if err != nil {
			in.failFork(err)
		}
		in.status = st.Code
		in.reportSignal(st, x)
		return in.endCommand(flowNext)
	}
}

// background compiles a list that ends in &.
func (c *compiler) background(s *syntax.Stmt) run {
	front := *s
	front.Background = false
	if len(s.Rest) == 0 { // bash does not invert the status of a job
		first := *s.First
		first.Bangs = 0
		front.First = &first
	}
	b, line := body{r: c.andOr(&front)}, s.Pos.Line
	if len(s.Rest) == 0 && len(s.First.Cmds) == 1 && s.First.Time == syntax.NoTime {
		b = c.child(s.First.Cmds[0])
	}
	return func(in *interp) flow {
		in.line = line
		in.p.Tick(1)
		if _, err := in.startJob(s, b); err != nil {
			in.failFork(err)
		}
		in.status = 0
		return flowNext
	}
}

// maxFinished is the length of the job list above which ended jobs are
// removed.
const maxFinished = 64

// startJob starts a job in the background.
func (in *interp) startJob(s *syntax.Stmt, b body) (*job, error) {
	spec := kernel.Spawn{}
	if in.optOn(optMonitor) {
		spec.Group = -1
	} else {
		null, err := in.p.OpenAt("/dev/null", 0, 0)
		if err == nil {
			spec.Stdin = null
			defer null.Release()
		}
		spec.Setup = func(p *kernel.Proc) {
			p.SetSignal(kernel.SIGINT, kernel.Ignore)
			p.SetSignal(kernel.SIGQUIT, kernel.Ignore)
		}
	}
	if len(in.jobs.list) > maxFinished {
		in.reportEndedJobs()
	}
	child, err := in.spawnParallel(spec, b)
	if err != nil {
		return nil, err
	}
	in.lastBG = child.PID()
	j := in.jobs.add(child, s)
	if in.interactive != nil {
		in.writeStderr("[" + itoa(j.n) + "] " + itoa(child.PID()) + "\n")
	}
	return j, nil
}
