package shell

import (
	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/syntax"
)

// foreground is a command in the foreground of an interactive shell: a process
// group that has the terminal while it runs. A nil foreground does nothing.
type foreground struct {
	in    *interp
	group int
}

// newForeground starts a command in the foreground; it returns nil if the
// shell is not interactive.
func (in *interp) newForeground() *foreground {
	if in.interactive == nil {
		return nil
	}
	return &foreground{in: in}
}

// addProcess makes s a process of the command.
func (f *foreground) addProcess(s *kernel.Spawn) {
	if f == nil {
		return
	}
	setup, first := s.Setup, f.group == 0
	if s.Group = f.group; first {
		s.Group = -1
	}
	s.Setup = func(p *kernel.Proc) {
		if first {
			f.group = p.Group()
			f.in.interactive.tty.SetForeground(f.group)
		}
		if setup != nil {
			setup(p)
		}
	}
}

// runLast runs s as the last process of the command, and returns its status.
// text returns the command's text, for the job list if it is stopped.
func (f *foreground) runLast(s kernel.Spawn, text func() string) (kernel.Status, error) {
	c, err := f.in.p.Spawn(s)
	if err != nil {
		f.reclaimTerminal(kernel.Status{Signal: kernel.SIGHUP})
		return kernel.Status{}, err
	}
	return f.in.waitForeground(c, text), nil
}

// waitForeground waits until a process in the foreground ends or is stopped,
// and takes the terminal back.
func (in *interp) waitForeground(c *kernel.Proc, text func() string) kernel.Status {
	st, stopped := in.p.WaitJob(c)
	if in.interactive.lastStopped = stopped; stopped {
		in.newForeground().reclaimTerminal(kernel.Status{Signal: kernel.SIGTSTP})
		in.writeScreen("\n")
		j := in.jobs.byPID(c.PID())
		if j == nil {
			j = in.jobs.add(c, nil)
			j.text = text()
		}
		j.stopReported = true
		in.writeStderr(in.jobLine(j, false))
		in.interruptLine(128 + int(kernel.SIGTSTP))
		return kernel.Status{Code: 128 + int(kernel.SIGTSTP)}
	}
	in.newForeground().reclaimTerminal(st)
	if st.Signal == kernel.SIGINT {
		in.interruptLine(0)
	}
	return st
}

// reclaimTerminal takes the terminal back from a command that ended or was
// stopped.
func (f *foreground) reclaimTerminal(st kernel.Status) {
	state := f.in.interactive
	state.tty.SetForeground(f.in.p.Group())
	if st.Signal != 0 {
		state.tty.SetMode(state.mode)
	} else {
		state.mode = state.tty.Mode()
	}
}

// interruptLine abandons the running command line at the next check for
// signals, with a status; 0 means that of ^C.
func (in *interp) interruptLine(status int) {
	in.interactive.abandonStatus = status
	_ = in.p.Kill(kernel.SIGINT) // the process exists
	in.p.Sleep(0, false)         // delivers the signal
}

// callForeground runs a child to its end, in the foreground unless f is nil.
func (in *interp) callForeground(f *foreground, s kernel.Spawn, text func() string) (kernel.Status, error) {
	if f == nil {
		return in.p.Call(s)
	}
	return f.runLast(s, text)
}

// commandText returns a function that prints a command, for the job list.
func commandText(x *syntax.Cmd) func() string {
	return func() string { return syntax.Print(x) }
}

// resumeJob continues a job in the foreground and waits for it.
func (in *interp) resumeJob(j *job) int {
	in.interactive.tty.SetForeground(j.proc.Group())
	_ = in.p.Kernel().KillGroup(j.proc.Group(), kernel.SIGCONT) // the group may have ended
	j.stopReported = false
	st := in.waitForeground(j.proc, func() string { return in.jobText(j) })
	if j.proc.Exited() {
		in.finishJob(j)
	}
	return st.Code
}

// reportJobs prints the jobs that have ended or stopped since the last prompt.
func (in *interp) reportJobs() {
	in.reportEndedJobs()
	if in.jobs.inherited {
		return
	}
	for _, j := range in.jobs.list {
		if j.proc.Stopped() && !j.stopReported {
			j.stopReported = true
			in.writeStderr(in.jobLine(j, false))
		}
	}
}
