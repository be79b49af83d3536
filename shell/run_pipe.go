package shell

import (
	"runtime"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/kernel"
	"github.com/atoll-sandbox/atoll/shell/syntax"
)

// pipeline compiles one command or several joined by pipes, perhaps timed
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
		r = negated(r, p.Negated())
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
			return func(in *interp) flow { return in.redirected(redirs, inner) }
		}
	}
	return c.timed(r, p)
}

// negated inverts a status; set -e does not look at such a command.
func negated(r run, odd bool) run {
	return func(in *interp) flow {
		in.quiet++
		f := r(in)
		in.quiet--
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
		if in.status != 0 && in.quiet == 0 {
			if f := in.failed(); f != flowNext {
				return f
			}
		}
		if in.p.Caught() {
			return in.signals()
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

// body is what a subshell runs.
type body struct {
	r     run
	once  bool // it is one simple command, which may take the process over
	stage bool // that command stands in a pipe or in the background itself
}

// child compiles a command that has a process of its own.
func (c *compiler) child(x *syntax.Cmd) body {
	if s, ok := x.Body.(*syntax.Subshell); ok && len(x.Redirs) == 0 {
		return c.list(s.Body)
	}
	_, once := x.Body.(*syntax.Simple)
	return body{c.cmd(x), once, once}
}

// list compiles what stands between the parentheses of a subshell.
func (c *compiler) list(stmts []*syntax.Stmt) body {
	return body{r: c.stmts(stmts), once: isOne(stmts)}
}

func isOne(stmts []*syntax.Stmt) bool {
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

// runPipe runs the stages beside each other and waits for them.
func (in *interp) runPipe(stages []stage) (f flow) {
	var in0, out0 *kernel.Open // ends that no process has yet
	defer func() {
		for _, o := range []*kernel.Open{in0, out0} {
			if o != nil {
				o.Release()
			}
		}
	}()
	last := len(stages) - 1
	fr := in.front()
	procs := make([]*kernel.Proc, 0, last+1)
	for i := range stages[:last] {
		var next *kernel.Open
		next, out0 = in.p.Pipe()
		s := kernel.Spawn{Stdin: in0, Stdout: out0}
		if stages[i].stderr {
			s.Stderr = out0
		}
		fr.place(&s)
		child, err := in.spawn(s, stages[i].body)
		if in0 != nil {
			in0.Release()
		}
		out0.Release()
		in0, out0 = next, nil
		if err != nil {
			in.noFork(err)
		}
		procs = append(procs, child)
		runtime.Gosched() // so that the stages begin in their order
	}
	end := &stages[last]
	status := 0
	if in.shopt(shLastpipe) && !in.opt(optMonitor) {
		open := in0
		in0 = nil
		f = in.lastStage(end.body, open)
		status = in.status
	} else {
		s := kernel.Spawn{Stdin: in0}
		fr.place(&s)
		in.asSub(&s, end.body)
		st, err := in.callFront(fr, s, func() string { return pipeText(stages) })
		in0.Release()
		in0 = nil
		if err != nil {
			in.noFork(err)
		}
		status = st.Code
		in.report(st, end.text)
	}
	in.collect(procs, status)
	return f
}

// pipeText returns what a pipe is called as a job.
func pipeText(stages []stage) string {
	var list []string
	for i := range stages {
		list = append(list, syntax.Print(stages[i].text))
	}
	return strings.Join(list, " | ")
}

// lastStage runs the last command of a pipe in this very process, reading
// from r, whose reference it takes over.
func (in *interp) lastStage(b body, r *kernel.Open) flow {
	var undo undo
	defer in.restore(&undo)
	in.replace(0, r, &undo)
	return b.r(in)
}

// collect waits for the stages before the last and sets $? and PIPESTATUS.
func (in *interp) collect(procs []*kernel.Proc, last int) {
	all := make([]int, 0, len(procs)+1)
	fail := last
	for i := range procs {
		if in.person != nil && in.person.halted && !procs[i].Exited() {
			in.jobs.subs = append(in.jobs.subs, procs[i])
			continue
		}
		st, _ := in.p.Wait(procs[i], false)
		all = append(all, st.Code)
	}
	all = append(all, last)
	in.status = last
	if in.opt(optPipefail) {
		for _, st := range all {
			if st != 0 {
				fail = st
			}
		}
		in.status = fail
	}
	in.pipestat = all
}

// noFork says that there is no process for a command.
func (in *interp) noFork(err error) {
	in.errorf("fork: %v", kernel.Reason(err))
	in.fatal(254)
}

// spawn starts a subshell beside this process.
func (in *interp) spawn(s kernel.Spawn, b body) (*kernel.Proc, error) {
	in.asSub(&s, b)
	return in.p.Spawn(s)
}

// callSub runs a subshell to its end.
func (in *interp) callSub(s kernel.Spawn, b body) (kernel.Status, error) {
	in.asSub(&s, b)
	return in.p.Call(s)
}

// asSub makes s run b in a copy of this shell.
func (in *interp) asSub(s *kernel.Spawn, b body) {
	var c *interp
	setup := s.Setup
	s.Args, s.Env, s.Path = in.p.Args, in.p.Env, in.p.Executable()
	s.Setup = func(p *kernel.Proc) {
		c = in.fork(p)
		in.lastPID = p.PID()
		if setup != nil {
			setup(p)
		}
	}
	s.Main = func(*kernel.Proc) int { return c.subMain(b) }
}

// subMain is the life of a subshell.
func (in *interp) subMain(b body) int {
	defer in.variables.release()
	defer in.lastWords()
	in.loops = 0
	in.oneshot, in.stage = b.once, b.stage
	_ = in.catch(b.r)
	in.oneshot, in.stage = false, false
	in.exitTrap()
	return in.status
}

func (c *compiler) subshell(x *syntax.Cmd, s *syntax.Subshell) run {
	body, line := c.list(s.Body), x.Pos.Line
	return func(in *interp) flow {
		in.line = line
		in.p.Tick(1)
		fr, s := in.front(), kernel.Spawn{}
		fr.place(&s)
		in.asSub(&s, body)
		st, err := in.callFront(fr, s, printed(x))
		if err != nil {
			in.noFork(err)
		}
		in.status = st.Code
		in.report(st, x)
		return in.end(flowNext)
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
		if _, err := in.launch(s, b); err != nil {
			in.noFork(err)
		}
		in.status = 0
		return flowNext
	}
}

// maxFinished is how many jobs may be on the list before those that have
// ended are taken off.
const maxFinished = 64

// launch starts a job in the background.
func (in *interp) launch(s *syntax.Stmt, b body) (*job, error) {
	spec := kernel.Spawn{}
	if in.opt(optMonitor) {
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
		in.notify()
	}
	child, err := in.spawn(spec, b)
	if err != nil {
		return nil, err
	}
	in.lastBG = child.PID()
	j := in.jobs.add(child, s)
	if in.person != nil {
		in.complain("[" + itoa(j.n) + "] " + itoa(child.PID()) + "\n")
	}
	return j, nil
}
