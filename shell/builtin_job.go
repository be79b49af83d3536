package shell

import (
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/vfs"
)

func bJobs(in *interp, args []string) int {
	if len(args) > 1 && args[1] == "-x" {
		return in.jobsX(args[2:])
	}
	set, rest, ok := in.parseFlags(args, "lnprs")
	if !ok {
		return 2
	}
	if !in.optOn(optMonitor) {
		in.reportEndedJobs()
	}
	list := append([]*job(nil), in.jobs.list...)
	status := 0
	if len(rest) > 0 {
		list = nil
		for _, spec := range rest {
			j, problem := in.findJob(spec)
			if j == nil {
				in.errorf("jobs: %s", jobProblem(spec, problem))
				status = 1
				continue
			}
			list = append(list, j)
		}
	}
	var b strings.Builder
	for _, j := range list {
		running := !j.proc.Exited() && !in.isJobStopped(j)
		if set['r'] && !running || set['s'] && !in.isJobStopped(j) {
			continue
		}
		if set['p'] {
			b.WriteString(itoa(j.proc.PID()) + "\n")
			continue
		}
		b.WriteString(in.jobLine(j, set['l']))
		if j.proc.Exited() && !in.jobs.inherited { // those of the parent are its own
			j.endReported = true
		}
	}
	st := in.print("jobs", b.String())
	if !in.jobs.inherited {
		for _, j := range list {
			if j.endReported {
				in.finishJob(j)
			}
		}
	}
	return max(st, status)
}

// jobsX runs a command with job specifications replaced by process ids.
func (in *interp) jobsX(args []string) int {
	out := append([]string(nil), args...)
	for i, a := range out {
		if strings.HasPrefix(a, "%") {
			if j, _ := in.findJob(a); j != nil {
				out[i] = itoa(j.proc.PID())
			}
		}
	}
	if len(out) == 0 {
		return 0
	}
	return in.runCommand(out, false)
}

func bWait(in *interp, args []string) int {
	next, name := false, ""
	i := 1
	for ; i < len(args) && len(args[i]) > 1 && args[i][0] == '-'; i++ {
		if args[i] == "--" {
			i++
			break
		}
		for j := 1; j < len(args[i]); j++ {
			switch c := args[i][j]; c {
			case 'n':
				next = true
			case 'f':
			case 'p':
				if name = args[i][j+1:]; name == "" {
					if i++; i >= len(args) {
						in.errorf("wait: -p: option requires an argument")
						return in.reportUsage("wait", "")
					}
					name = args[i]
				}
				j = len(args[i])
			default:
				in.errorf("wait: -%c: invalid option", c)
				return in.reportUsage("wait", "")
			}
		}
	}
	if name != "" {
		if !isName(name) {
			in.errorf("wait: `%s': not a valid identifier", name)
			return 1
		}
		in.unsetVar(name)
	}
	rest := args[i:]
	switch {
	case next:
		return in.waitNext(rest, name)
	case len(rest) == 0:
		return in.waitAll()
	}
	status := 0
	for _, spec := range rest {
		var pid int
		if status, pid = in.waitOne(spec); name != "" && pid > 0 {
			in.set(name, itoa(pid))
		}
		if in.p.HasCaughtSignal() {
			break
		}
	}
	return status
}

// waitAll waits for all jobs.
func (in *interp) waitAll() int {
	for !in.jobs.inherited && len(in.jobs.list) > 0 {
		if _, trapped := in.waitForJob(in.jobs.list[0]); trapped {
			return in.interruptedStatus()
		}
	}
	for _, p := range in.jobs.subs {
		if _, err := in.p.Wait(p, true); err != nil {
			return in.interruptedStatus()
		}
	}
	in.reapSubsts()
	return 0
}

// waitOne waits for a job or a process.
func (in *interp) waitOne(spec string) (status, pid int) {
	if strings.HasPrefix(spec, "%") {
		j, problem := in.findJob(spec)
		if j == nil || in.jobs.inherited {
			in.errorf("wait: %s", jobProblem(spec, problem))
			return 127, 0
		}
		status, _ = in.waitForJob(j)
		return status, j.proc.PID()
	}
	n, ok := parseNumber(spec)
	if !ok || n < 0 {
		in.errorf("wait: `%s': not a pid or valid job spec", spec)
		return 1, 0
	}
	if j := in.jobs.byPID(n); j != nil && !in.jobs.inherited {
		status, _ = in.waitForJob(j)
		in.reportKilledJob(j)
		return status, n
	}
	for _, p := range in.jobs.subs {
		if p.PID() == n {
			st, err := in.p.Wait(p, true)
			if err != nil {
				return in.interruptedStatus(), n
			}
			in.reapSubsts()
			return st.Code, n
		}
	}
	for i := len(in.jobs.ended) - 1; i >= 0; i-- {
		if e := in.jobs.ended[i]; e.pid == n {
			return e.status, n
		}
	}
	in.errorf("wait: pid %d is not a child of this shell", n)
	return 127, 0
}

// reportKilledJob prints that a signal killed a job that was waited for by its
// process id.
func (in *interp) reportKilledJob(j *job) {
	st := j.result()
	if st.Signal == 0 || st.Signal == kernel.SIGINT || st.Signal == kernel.SIGPIPE || st.Signal == kernel.SIGTERM || j.endReported || !j.proc.Exited() {
		return
	}
	j.endReported = true
	in.errorf("%5d %-23s %s", j.proc.PID(), st.Signal.Description(), in.jobText(j))
}

// waitNext waits for the first of several jobs to end.
func (in *interp) waitNext(specs []string, name string) int {
	var list []*job
	if len(specs) == 0 && !in.jobs.inherited {
		list = append(list, in.jobs.list...)
	}
	for _, spec := range specs {
		j := in.jobOrPID(spec)
		if j == nil {
			in.errorf("wait: %s: no such job", spec)
			continue
		}
		list = append(list, j)
	}
	if len(list) == 0 {
		return 127
	}
	procs := make([]*kernel.Proc, len(list))
	for i, j := range list {
		procs[i] = j.proc
	}
	p, err := in.p.WaitAny(procs, true)
	if err != nil {
		return in.interruptedStatus()
	}
	if name != "" {
		in.set(name, itoa(p.PID()))
	}
	for _, j := range list {
		if j.proc == p {
			in.finishJob(j)
		}
	}
	return p.Result().Code
}

func (in *interp) jobOrPID(spec string) *job {
	if in.jobs.inherited {
		return nil
	}
	if strings.HasPrefix(spec, "%") {
		j, _ := in.findJob(spec)
		return j
	}
	n, _ := parseNumber(spec)
	return in.jobs.byPID(n)
}

func bFg(in *interp, args []string) int {
	args = skipDashes(args)
	if !in.optOn(optMonitor) {
		in.errorf("fg: no job control")
		return 1
	}
	spec := "%+"
	if len(args) > 1 {
		spec = args[1]
	}
	j, problem := in.findJob(spec)
	if j == nil {
		if len(args) == 1 {
			spec = "current"
		}
		in.errorf("fg: %s: %s", spec, problem)
		return 1
	}
	_ = in.print("fg", in.jobText(j)+"\n")
	if in.interactive != nil {
		return in.resumeJob(j)
	}
	_ = j.proc.Kill(kernel.SIGCONT) // fails if it has ended
	status, _ := in.waitForJob(j)
	return status
}

func bBg(in *interp, args []string) int {
	args = skipDashes(args)
	if !in.optOn(optMonitor) {
		in.errorf("bg: no job control")
		return 1
	}
	specs := args[1:]
	if len(specs) == 0 {
		specs = []string{"%+"}
	}
	for _, spec := range specs {
		j, problem := in.findJob(spec)
		if j == nil {
			in.errorf("bg: %s: %s", strings.Replace(spec, "%+", "current", 1), problem)
			return 1
		}
		if !j.proc.Stopped() {
			in.errorf("bg: job %d already in background", j.n)
			continue
		}
		if in.interactive != nil {
			_ = in.p.Kernel().KillGroup(j.proc.Group(), kernel.SIGCONT) // fails if it has ended
			j.stopReported = false
		}
		_ = j.proc.Kill(kernel.SIGCONT) // it is stopped, so it exists
		_ = in.print("bg", "["+itoa(j.n)+"]+ "+in.jobText(j)+" &\n")
	}
	return 0
}

func bDisown(in *interp, args []string) int {
	set, rest, ok := in.parseFlags(args, "ahr")
	if !ok {
		return 2
	}
	list := append([]*job(nil), in.jobs.list...)
	status := 0
	switch {
	case len(rest) > 0:
		list = nil
		for _, spec := range rest {
			j := in.jobOrPID(spec)
			if j == nil {
				in.errorf("disown: %s: no such job", spec)
				status = 1
				continue
			}
			list = append(list, j)
		}
	case !set['a'] && !set['r']:
		plus, _ := in.jobs.currentJobs()
		if plus == nil {
			in.errorf("disown: current: no such job")
			return 1
		}
		list = []*job{plus}
	}
	for _, j := range list {
		if set['r'] && (j.proc.Exited() || j.proc.Stopped()) {
			continue
		}
		if set['h'] {
			continue // the shell sends no SIGHUP to jobs anyway
		}
		in.jobs.subs = append(in.jobs.subs, j.proc)
		in.jobs.removeJob(j)
	}
	return status
}

func bKill(in *interp, args []string) int {
	sig, i := kernel.SIGTERM, 1
	if len(args) > 1 {
		switch a := args[1]; {
		case a == "-l" || a == "-L":
			return in.killList(args[2:])
		case a == "-s" || a == "-n":
			if len(args) < 3 {
				in.errorf("kill: %s: option requires an argument", a)
				return 1
			}
			s, ok := killSignal(args[2])
			if !ok {
				in.errorf("kill: %s: invalid signal specification", args[2])
				return 1
			}
			sig, i = s, 3
		case a == "--":
			i = 2
		case len(a) > 1 && a[0] == '-':
			name := a[1:]
			if len(name) > 1 && (name[0] == 's' || name[0] == 'n') {
				if s, ok := killSignal(name[1:]); ok {
					sig, i = s, 2
					break
				}
			}
			s, ok := killSignal(name)
			if !ok {
				in.errorf("kill: %s: invalid signal specification", name)
				return 1
			}
			sig, i = s, 2
		}
	}
	if i < len(args) && args[i] == "--" {
		i++
	}
	if i >= len(args) {
		return in.reportUsage("kill", "")
	}
	status := 0
	for _, who := range args[i:] {
		if !in.killOne(sig, who) {
			status = 1
		}
	}
	return status
}

// killSignal parses a signal's name or number; 0 and EXIT only check that the
// process exists.
func killSignal(s string) (kernel.Signal, bool) {
	if n, err := strconv.Atoi(s); err == nil {
		return kernel.Signal(n), n >= 0 && n < kernel.NumSignals
	}
	return kernel.ParseSignal(s)
}

func (in *interp) killOne(sig kernel.Signal, who string) bool {
	if strings.HasPrefix(who, "%") {
		j, problem := in.findJob(who)
		if j == nil {
			in.errorf("kill: %s", jobProblem(who, problem))
			return false
		}
		if j.proc.Kill(sig) != nil {
			in.errorf("kill: (%d) - No such process", j.proc.PID())
			return false
		}
		return true
	}
	pid, err := strconv.Atoi(who)
	if err != nil {
		if who == "" {
			in.errorf("kill: `': not a pid or valid job spec")
		} else {
			in.errorf("kill: %s: arguments must be process or job IDs", who)
		}
		return false
	}
	k := in.p.Kernel()
	switch {
	case pid < -1:
		err = k.KillGroup(-pid, sig)
	case pid == 0:
		err = k.KillGroup(in.p.Group(), sig)
	default:
		err = vfs.ESRCH
		if p := k.Proc(pid); p != nil {
			err = p.Kill(sig)
		}
	}
	in.p.Tick(1 << 11) // delivers a signal to this process now
	if err != nil {
		in.errorf("kill: (%d) - %v", pid, kernel.Reason(err))
		return false
	}
	return true
}

func (in *interp) killList(args []string) int {
	if len(args) == 0 {
		return in.print("kill", signalList())
	}
	status := 0
	b := in.p.Out()
	for _, a := range args {
		if n, err := strconv.Atoi(a); err == nil {
			if n > 128 {
				n -= 128
			}
			if n < 0 || n >= kernel.NumSignals {
				in.errorf("kill: %s: invalid signal specification", a)
				status = 1
				continue
			}
			b.WriteString(kernel.Signal(n).String() + "\n")
			continue
		}
		s, ok := kernel.ParseSignal(a)
		if !ok {
			in.errorf("kill: %s: invalid signal specification", a)
			status = 1
			continue
		}
		b.WriteString(itoa(int(s)) + "\n")
	}
	return status
}

// signalList returns the table of kill -l and trap -l.
func signalList() string {
	var b strings.Builder
	col := 0
	for n := 1; n < kernel.NumSignals; n++ {
		if n == 32 || n == 33 {
			continue
		}
		b.WriteString(padLeft(itoa(n), 2) + ") SIG" + kernel.Signal(n).String())
		if col++; col == 5 {
			b.WriteByte('\n')
			col = 0
		} else {
			b.WriteByte('\t')
		}
	}
	if col > 0 {
		b.WriteByte('\n')
	}
	return b.String()
}
