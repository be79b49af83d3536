package shell

import (
	"github.com/atoll-sandbox/atoll/internal/kernel"
	"github.com/atoll-sandbox/atoll/shell/syntax"
)

// front is a command in the foreground of an interactive shell: a process
// group that has the terminal while it runs.
type front struct {
	in    *interp
	group int
}

// front begins a command in the foreground; it is nil where the shell has no
// terminal to give away.
func (in *interp) front() *front {
	if in.person == nil {
		return nil
	}
	return &front{in: in}
}

// place makes s a process of the command.
func (f *front) place(s *kernel.Spawn) {
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
			f.in.person.tty.SetForeground(f.group)
		}
		if setup != nil {
			setup(p)
		}
	}
}

// call runs s as the last process of the command, and returns how it ended.
// text is what the command is called if it is stopped.
func (f *front) call(s kernel.Spawn, text func() string) (kernel.Status, error) {
	c, err := f.in.p.Spawn(s)
	if err != nil {
		f.over(kernel.Status{Signal: kernel.SIGHUP})
		return kernel.Status{}, err
	}
	return f.in.attend(c, text), nil
}

// attend waits for a process in the foreground to end or to be stopped, and
// takes the terminal back.
func (in *interp) attend(c *kernel.Proc, text func() string) kernel.Status {
	st, stopped := in.p.WaitJob(c)
	if in.person.halted = stopped; stopped {
		in.front().over(kernel.Status{Signal: kernel.SIGTSTP})
		in.display("\n")
		j := in.jobs.byPID(c.PID())
		if j == nil {
			j = in.jobs.add(c, nil)
			j.text = text()
		}
		j.told = true
		in.complain(in.jobLine(j, false))
		in.dropLine(128 + int(kernel.SIGTSTP))
		return kernel.Status{Code: 128 + int(kernel.SIGTSTP)}
	}
	in.front().over(st)
	if st.Signal == kernel.SIGINT {
		in.dropLine(0)
	}
	return st
}

// over takes the terminal back from a command that ended, or was stopped.
func (f *front) over(st kernel.Status) {
	me := f.in.person
	me.tty.SetForeground(f.in.p.Group())
	if st.Signal != 0 {
		me.tty.SetMode(me.mode)
	} else {
		me.mode = me.tty.Mode()
	}
}

// dropLine gives up the command line that runs, at the next look at signals:
// as ^C would, or with a status.
func (in *interp) dropLine(status int) {
	in.person.abandoned = status
	_ = in.p.Kill(kernel.SIGINT) // it is there
	in.p.Sleep(0, false)         // which delivers it
}

// callFront runs a child to its end, in the foreground where there is one.
func (in *interp) callFront(f *front, s kernel.Spawn, text func() string) (kernel.Status, error) {
	if f == nil {
		return in.p.Call(s)
	}
	return f.call(s, text)
}

// printed returns the text of a command, for a job.
func printed(x *syntax.Cmd) func() string {
	return func() string { return syntax.Print(x) }
}

// resume continues a job in the foreground and waits for it.
func (in *interp) resume(j *job) int {
	in.person.tty.SetForeground(j.proc.Group())
	_ = in.p.Kernel().KillGroup(j.proc.Group(), kernel.SIGCONT) // it may have ended
	j.told = false
	st := in.attend(j.proc, func() string { return in.jobText(j) })
	if j.proc.Exited() {
		in.finish(j)
	}
	return st.Code
}

// tell reports the jobs that have ended or stopped since the last prompt.
func (in *interp) tell() {
	in.notify()
	if in.jobs.alien {
		return
	}
	for _, j := range in.jobs.list {
		if j.proc.Stopped() && !j.told {
			j.told = true
			in.complain(in.jobLine(j, false))
		}
	}
}
