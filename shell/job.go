package shell

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/kernel"
	"github.com/atoll-sandbox/atoll/shell/syntax"
)

// job is a list that was started in the background.
type job struct {
	n       int // %n
	proc    *kernel.Proc
	stmt    *syntax.Stmt
	noticed bool   // its end was reported
	told    bool   // that it is stopped was reported
	text    string // where there is no stmt
}

func (j *job) state() kernel.Status { return j.proc.Result() }

// jobTable holds the jobs of a shell process.
type jobTable struct {
	list   []*job // by number; a subshell sees those of its parent
	subs   []*kernel.Proc
	ended  []endedJob // the newest that nobody has waited for
	coproc coproc
	alien  bool  // the list is the parent's
	recent []int // job numbers, the current one last
}

type endedJob struct{ pid, status int }

type coproc struct {
	name string
	pid  int
	fds  [2]int
}

func (t *jobTable) fork() jobTable {
	return jobTable{list: t.list[:len(t.list):len(t.list)], alien: true, recent: t.recent[:len(t.recent):len(t.recent)]}
}

// add enters a new job.
func (t *jobTable) add(p *kernel.Proc, s *syntax.Stmt) *job {
	if t.alien {
		t.list, t.recent, t.alien = nil, nil, false
	}
	t.sweep()
	n := 1
	if len(t.list) > 0 {
		n = t.list[len(t.list)-1].n + 1
	}
	j := &job{n: n, proc: p, stmt: s}
	t.list = append(t.list, j)
	t.recent = append(t.recent, n)
	return j
}

// sweep drops jobs whose end was reported.
func (t *jobTable) sweep() {
	for i := 0; i < len(t.list); i++ {
		if j := t.list[i]; j.noticed {
			t.drop(j)
			i--
		}
	}
}

func (t *jobTable) drop(j *job) {
	for i, x := range t.list {
		if x == j {
			t.list = append(t.list[:i:i], t.list[i+1:]...)
			break
		}
	}
	for i, n := range t.recent {
		if n == j.n {
			t.recent = append(t.recent[:i:i], t.recent[i+1:]...)
			break
		}
	}
}

// maxEnded bounds the statuses that are kept for a late wait.
const maxEnded = 1024

func (t *jobTable) remember(pid, status int) {
	if len(t.ended) >= maxEnded {
		t.ended = append(t.ended[:0:0], t.ended[maxEnded/2:]...)
	}
	t.ended = append(t.ended, endedJob{pid, status})
}

func (t *jobTable) byPID(pid int) *job {
	for _, j := range t.list {
		if j.proc.PID() == pid {
			return j
		}
	}
	return nil
}

func (t *jobTable) byNumber(n int) *job {
	for _, j := range t.list {
		if j.n == n {
			return j
		}
	}
	return nil
}

// current returns %+ and %-.
func (t *jobTable) current() (plus, minus *job) {
	var order []*job
	for i := len(t.recent) - 1; i >= 0; i-- {
		if j := t.byNumber(t.recent[i]); j != nil {
			order = append(order, j)
		}
	}
	var stopped, others []*job
	for _, j := range order {
		if j.proc.Stopped() {
			stopped = append(stopped, j)
		} else {
			others = append(others, j)
		}
	}
	order = append(stopped, others...)
	if len(order) > 0 {
		plus = order[0]
	}
	if len(order) > 1 {
		minus = order[1]
	}
	return plus, minus
}

const ambiguousJob = "ambiguous job spec"

// jobProblem words why a specification means no job.
func jobProblem(spec, problem string) string {
	if problem == ambiguousJob {
		spec = strings.TrimPrefix(spec, "%")
	}
	return spec + ": " + problem
}

// findJob returns the job of a specification such as %1 %+ %- %cmd %?cmd.
func (in *interp) findJob(spec string) (*job, string) {
	t := &in.jobs
	plus, minus := t.current()
	s := strings.TrimPrefix(spec, "%")
	switch {
	case s == "" || s == "%" || s == "+":
		return plus, "no such job"
	case s == "-":
		if minus == nil {
			minus = plus
		}
		return minus, "no such job"
	}
	if n, err := strconv.Atoi(s); err == nil {
		return t.byNumber(n), "no such job"
	}
	var found *job
	for _, j := range t.list {
		text := in.jobText(j)
		match := strings.HasPrefix(text, s)
		if rest, ok := strings.CutPrefix(s, "?"); ok {
			match = strings.Contains(text, rest)
		}
		if match {
			if found != nil {
				return nil, ambiguousJob
			}
			found = j
		}
	}
	return found, "no such job"
}

func (in *interp) jobText(j *job) string {
	if j.stmt == nil {
		return j.text
	}
	front := *j.stmt
	front.Background = false
	return syntax.Print(&front)
}

// describeJob returns the state of a job as jobs prints it.
func (in *interp) describeJob(j *job) string {
	switch {
	case in.halted(j):
		return "Stopped"
	case !j.proc.Exited():
		return "Running"
	}
	st := j.state()
	switch {
	case st.Signal != 0:
		return st.Signal.Description()
	case st.Code != 0:
		return "Exit " + strconv.Itoa(st.Code)
	}
	return "Done"
}

// line returns what jobs prints of a job.
func (in *interp) jobLine(j *job, long bool) string {
	plus, minus := in.jobs.current()
	sign := " "
	switch j {
	case plus:
		sign = "+"
	case minus:
		sign = "-"
	}
	text := in.jobText(j)
	if !j.proc.Exited() && !in.halted(j) {
		text += " &"
	}
	if long {
		return fmt.Sprintf("[%d]%s %5d %-24s%s\n", j.n, sign, j.proc.PID(), in.describeJob(j), text)
	}
	return fmt.Sprintf("[%d]%s  %-24s%s\n", j.n, sign, in.describeJob(j), text)
}

// halted reports whether a job is stopped, which only a shell with job
// control sees.
func (in *interp) halted(j *job) bool { return in.opt(optMonitor) && j.proc.Stopped() }

// notify takes jobs that have ended off the list, as a shell that is not
// interactive does between commands: those ended by a signal are reported,
// and all of them with set -m.
func (in *interp) notify() {
	if in.jobs.alien {
		return
	}
	for i := 0; i < len(in.jobs.list); i++ {
		j := in.jobs.list[i]
		if !j.proc.Exited() {
			continue
		}
		if in.opt(optMonitor) {
			in.complain(in.jobLine(j, false))
		} else {
			in.notice(j)
		}
		in.finish(j)
		i--
	}
}

// report says that a command in the foreground was ended by a signal, as a
// shell that is not interactive does.
func (in *interp) report(st kernel.Status, x syntax.Node) {
	switch {
	case st.Signal == 0 || st.Signal == kernel.SIGINT || st.Signal == kernel.SIGPIPE:
	case in.person != nil:
		in.complain(st.Signal.Description() + "\n")
	case st.Signal == kernel.SIGTERM || in.traps.signals[st.Signal] != "":
		in.complain(st.Signal.Description() + "\n")
	default:
		in.errorf("%5d %-23s %s", in.lastPID, st.Signal.Description(), syntax.Print(x))
	}
}

// settle waits for a job to end and returns its status; noted is set where
// a trapped signal came first.
func (in *interp) settle(j *job) (status int, noted bool) {
	st, err := in.p.Wait(j.proc, true)
	for err != nil && in.minor() {
		st, err = in.p.Wait(j.proc, true)
	}
	if err != nil {
		return in.trapped(), true
	}
	in.finish(j)
	return st.Code, false
}

// trapped returns the status of a wait that a trapped signal ended.
func (in *interp) trapped() int {
	s, ok := in.p.PeekSignal()
	if !ok {
		return 128
	}
	return 128 + int(s)
}

// finish takes a job that has ended off the list.
func (in *interp) finish(j *job) {
	_, _ = in.p.Wait(j.proc, false) // it has ended: this only lets go of it
	in.jobs.remember(j.proc.PID(), j.state().Code)
	if j.proc.PID() == in.jobs.coproc.pid {
		in.endCoproc()
	}
	in.jobs.drop(j)
}

func (in *interp) endCoproc() {
	c := in.jobs.coproc
	in.jobs.coproc = coproc{}
	for _, fd := range c.fds {
		if fd >= 0 && in.p.FD(fd) != nil {
			_ = in.p.SetFD(fd, nil) // an open number
		}
	}
	in.unset(c.name)
	in.unset(c.name + "_PID")
}
