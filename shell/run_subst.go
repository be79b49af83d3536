package shell

import (
	"bytes"
	"slices"
	"strconv"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/syntax"
)

// cmdSubst compiles $( ) and ` `.
func (c *compiler) cmdSubst(s *syntax.CmdSubst) func(in *interp) string {
	if s.Err != nil {
		err := s.Err
		return func(in *interp) string {
			in.syntaxError(err, "command substitution")
			in.abortLine(2)
			return ""
		}
	}
	if name := c.fileSubst(s); name != nil {
		return func(in *interp) string { return in.readSubst(name) }
	}
	body := c.list(s.Stmts)
	return func(in *interp) string { return in.commandSubst(body) }
}

// fileSubst compiles $(<file); it returns nil for other substitutions.
func (c *compiler) fileSubst(s *syntax.CmdSubst) func(in *interp) (string, bool) {
	if len(s.Stmts) != 1 || s.Stmts[0].Background || len(s.Stmts[0].Rest) > 0 {
		return nil
	}
	p := s.Stmts[0].First
	if len(p.Cmds) != 1 || p.Bangs > 0 || p.Time != syntax.NoTime || len(p.Cmds[0].Redirs) != 1 {
		return nil
	}
	simple, ok := p.Cmds[0].Body.(*syntax.Simple)
	r := p.Cmds[0].Redirs[0]
	if !ok || len(simple.Args)+len(simple.Assigns) > 0 || r.Op != syntax.RedirIn || r.Fd > 0 || r.FdVar != "" {
		return nil
	}
	raw, target := r.Target.Raw, c.redirTarget(r.Target)
	return func(in *interp) (string, bool) {
		name, ok := target(in)
		if !ok {
			in.errorf("%s: ambiguous redirect", raw)
		}
		return name, ok
	}
}

func (in *interp) readSubst(target func(in *interp) (string, bool)) string {
	in.substs++
	in.status = 1
	name, ok := target(in)
	if !ok {
		return ""
	}
	o, ok := in.openTarget(syntax.RedirIn, name)
	if !ok {
		return ""
	}
	fd, err := in.p.FreeFD(10)
	if err == nil {
		err = in.p.SetFD(fd, o)
	}
	if err != nil {
		o.Release()
		in.errorf("%s: %v", name, err)
		return ""
	}
	h := in.p.Handle(fd)
	defer func() { _ = h.Close() }() // opened for reading
	b, err := in.p.ReadAll(h)
	defer in.p.Free(int64(cap(b)))
	if err != nil {
		in.errorf("%s: read error: %v", name, kernel.Reason(err))
		return ""
	}
	in.status = 0
	return in.substText(b)
}

// commandSubst runs b in a subshell and returns its output without trailing
// newlines.
func (in *interp) commandSubst(b body) string {
	in.substs++
	buf, out := in.p.Buffer()
	defer buf.Close()
	st, err := in.callSubst(out, b)
	if err != nil {
		in.failFork(err)
	}
	text := in.substText(buf.Wait())
	in.status = st.Code
	return text
}

func (in *interp) callSubst(out *kernel.FileDescription, b body) (kernel.Status, error) {
	defer out.Release()
	s := kernel.Spawn{Stdout: out}
	keep := in.optOn(optPosix) || in.shoptOn(shInheritErrexit)
	return in.callSubshell(s, body{once: b.once, r: func(c *interp) flow {
		c.indent++
		if !keep {
			c.opts &^= optErrexit
		}
		return b.r(c)
	}})
}

// substText converts output to the text of a substitution.
func (in *interp) substText(b []byte) string {
	b = bytes.TrimRight(b, "\n")
	if bytes.IndexByte(b, 0) >= 0 {
		in.errorf("warning: command substitution: ignored null byte in input")
		b = slices.DeleteFunc(b, func(c byte) bool { return c == 0 }) // the buffer is ours
	}
	in.chargeScratch(len(b))
	return string(b)
}

// procSubst compiles <( ) and >( ).
func (c *compiler) procSubst(s *syntax.ProcSubst) func(in *interp) string {
	body, out := c.list(s.Stmts), s.Out
	return func(in *interp) string { return in.processSubst(body, out) }
}

// processSubst starts b concurrently with the shell and returns the path of
// the pipe to or from it.
func (in *interp) processSubst(b body, out bool) string {
	in.reapSubsts()
	fd := 63
	for in.p.FD(fd) != nil {
		fd--
	}
	if fd < 10 {
		in.errorf("cannot make pipe for process substitution: Too many open files")
		in.abortLine(1)
	}
	r, w := in.p.Pipe()
	mine, s := r, kernel.Spawn{Stdout: w}
	if out {
		mine, s = w, kernel.Spawn{Stdin: r}
	}
	child, err := in.spawnParallel(s, b)
	if out {
		r.Release()
	} else {
		w.Release()
	}
	if err != nil {
		mine.Release()
		in.failFork(err)
	}
	_ = in.p.SetFD(fd, mine) // the descriptor is free
	in.substFDs = append(in.substFDs, fd)
	in.substs++
	in.lastBG = child.PID()
	in.jobs.subs = append(in.jobs.subs, child)
	return "/dev/fd/" + strconv.Itoa(fd)
}

// reapSubsts releases processes of substitutions that have ended.
func (in *interp) reapSubsts() {
	rest := in.jobs.subs[:0]
	for _, p := range in.jobs.subs {
		if !p.Exited() {
			rest = append(rest, p)
			continue
		}
		st, _ := in.p.Wait(p, false) // it has ended
		in.jobs.rememberStatus(p.PID(), st.Code)
	}
	in.jobs.subs = rest
}
