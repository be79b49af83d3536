package shell

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/syntax"
)

// job is a list that runs in the background, or a stopped command.
type job struct {
	n            int // %n
	proc         *kernel.Proc
	stmt         *syntax.Stmt
	endReported  bool   // its end was printed
	stopReported bool   // its stop was printed
	text         string // if stmt is nil
}

func (j *job) result() kernel.Status { return j.proc.Result() }

// jobTable holds the jobs of a shell process.
type jobTable struct {
	list      []*job // by number; a subshell sees those of its parent
	subs      []*kernel.Proc
	ended     []endedJob // recently ended jobs that were not waited for
	coproc    coproc
	inherited bool  // the list is the parent's
	recent    []int // job numbers, the current one last
}

type endedJob struct{ pid, status int }

type coproc struct {
	name string
	pid  int
	fds  [2]int
}

func (t *jobTable) forkJobs() jobTable {
	return jobTable{list: t.list[:len(t.list):len(t.list)], inherited: true, recent: t.recent[:len(t.recent):len(t.recent)]}
}

// add adds a new job.
func (t *jobTable) add(p *kernel.Proc, s *syntax.Stmt) *job {
	if t.inherited {
		t.list, t.recent, t.inherited = nil, nil, false
	}
	t.dropReported()
	n := 1
	if len(t.list) > 0 {
		n = t.list[len(t.list)-1].n + 1
	}
	j := &job{n: n, proc: p, stmt: s}
	t.list = append(t.list, j)
	t.recent = append(t.recent, n)
	return j
}

// dropReported removes jobs whose end was printed.
func (t *jobTable) dropReported() {
	for i := 0; i < len(t.list); i++ {
		if j := t.list[i]; j.endReported {
			t.removeJob(j)
			i--
		}
	}
}

func (t *jobTable) removeJob(j *job) {
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

// maxEnded limits the statuses that are kept for a late wait.
const maxEnded = 1024

func (t *jobTable) rememberStatus(pid, status int) {
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

// currentJobs returns the jobs %+ and %-; nil where there are none.
func (t *jobTable) currentJobs() (plus, minus *job) {
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

// jobProblem returns the error message for a specification without a job.
func jobProblem(spec, problem string) string {
	if problem == ambiguousJob {
		spec = strings.TrimPrefix(spec, "%")
	}
	return spec + ": " + problem
}

// findJob returns the job for a specification such as %1 %+ %- %cmd %?cmd, or
// nil and the problem.
func (in *interp) findJob(spec string) (*job, string) {
	t := &in.jobs
	plus, minus := t.currentJobs()
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

// describeJob returns the state of a job, as jobs prints it.
func (in *interp) describeJob(j *job) string {
	switch {
	case in.isJobStopped(j):
		return "Stopped"
	case !j.proc.Exited():
		return "Running"
	}
	st := j.result()
	switch {
	case st.Signal != 0:
		return st.Signal.Description()
	case st.Code != 0:
		return "Exit " + strconv.Itoa(st.Code)
	}
	return "Done"
}

// jobLine returns the line that jobs prints for a job.
func (in *interp) jobLine(j *job, long bool) string {
	plus, minus := in.jobs.currentJobs()
	sign := " "
	switch j {
	case plus:
		sign = "+"
	case minus:
		sign = "-"
	}
	text := in.jobText(j)
	if !j.proc.Exited() && !in.isJobStopped(j) {
		text += " &"
	}
	if long {
		return fmt.Sprintf("[%d]%s %5d %-24s%s\n", j.n, sign, j.proc.PID(), in.describeJob(j), text)
	}
	return fmt.Sprintf("[%d]%s  %-24s%s\n", j.n, sign, in.describeJob(j), text)
}

// isJobStopped reports whether a job is stopped. A shell without job control
// does not see that.
func (in *interp) isJobStopped(j *job) bool { return in.optOn(optMonitor) && j.proc.Stopped() }

// reportEndedJobs removes jobs that have ended from the list, as a
// non-interactive shell does between commands. It reports those that a signal
// ended, and all of them with set -m.
func (in *interp) reportEndedJobs() {
	if in.jobs.inherited {
		return
	}
	for i := 0; i < len(in.jobs.list); i++ {
		j := in.jobs.list[i]
		if !j.proc.Exited() {
			continue
		}
		if in.optOn(optMonitor) {
			in.writeStderr(in.jobLine(j, false))
		} else {
			in.reportKilledJob(j)
		}
		in.finishJob(j)
		i--
	}
}

// reportSignal prints that a signal ended a command in the foreground, as a
// non-interactive shell does.
func (in *interp) reportSignal(st kernel.Status, x syntax.Node) {
	switch {
	case st.Signal == 0 || st.Signal == kernel.SIGINT || st.Signal == kernel.SIGPIPE:
	case in.interactive != nil:
		in.writeStderr(st.Signal.Description() + "\n")
	case st.Signal == kernel.SIGTERM || in.traps.signals[st.Signal] != "":
		in.writeStderr(st.Signal.Description() + "\n")
	default:
		in.errorf("%5d %-23s %s", in.lastPID, st.Signal.Description(), syntax.Print(x))
	}
}

// waitForJob waits until a job ends and returns its status; noted is set if a
// trapped signal came first.
func (in *interp) waitForJob(j *job) (status int, noted bool) {
	st, err := in.p.Wait(j.proc, true)
	for err != nil && in.handleMinorSignals() {
		st, err = in.p.Wait(j.proc, true)
	}
	if err != nil {
		return in.interruptedStatus(), true
	}
	in.finishJob(j)
	return st.Code, false
}

// interruptedStatus returns the status of a wait that a trapped signal
// interrupted.
func (in *interp) interruptedStatus() int {
	s, ok := in.p.PeekSignal()
	if !ok {
		return 128
	}
	return 128 + int(s)
}

// finishJob removes a job that has ended from the list.
func (in *interp) finishJob(j *job) {
	_, _ = in.p.Wait(j.proc, false) // it has ended: this only releases it
	in.jobs.rememberStatus(j.proc.PID(), j.result().Code)
	if j.proc.PID() == in.jobs.coproc.pid {
		in.endCoproc()
	}
	in.jobs.removeJob(j)
}

func (in *interp) endCoproc() {
	c := in.jobs.coproc
	in.jobs.coproc = coproc{}
	for _, fd := range c.fds {
		if fd >= 0 && in.p.FD(fd) != nil {
			_ = in.p.SetFD(fd, nil) // the descriptor is open
		}
	}
	in.unsetVar(c.name)
	in.unsetVar(c.name + "_PID")
}
