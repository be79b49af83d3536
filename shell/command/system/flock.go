package system

import (
	"os"
	"strconv"
	"time"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/option"
	"github.com/atoll-sandbox/atoll/shell/command/program"
)

const flockUsage = `Usage: flock [OPTION]... FILE COMMAND [ARG]...
  or:  flock [OPTION]... FILE -c 'COMMAND'
  or:  flock [OPTION]... NUMBER
Run a command with a lock of a file or directory, or lock the file of a descriptor.

  -s, --shared               get a shared lock
  -x, -e, --exclusive        get an exclusive lock (default)
  -u, --unlock               remove a lock
  -n, --nonblock             fail rather than wait
  -w, --timeout=SECONDS      wait for a limited time
  -E, --conflict-exit-code=N exit status after a conflict or timeout (1)
  -o, --close                close the file before running the command
  -F, --no-fork, -v, --verbose: accepted
`

var flockOptions = option.Parser{StopAtOperand: true, Options: []option.Option{
	{Short: 's', Long: "shared"},
	{Short: 'x', Long: "exclusive"},
	{Short: 'e', ID: 'x'},
	{Short: 'u', Long: "unlock"},
	{Short: 'n', Long: "nonblock"},
	{Long: "nb", ID: 'n'},
	{Short: 'w', Long: "timeout", Arg: option.Required},
	{Long: "wait", Arg: option.Required, ID: 'w'},
	{Short: 'E', Long: "conflict-exit-code", Arg: option.Required},
	{Short: 'o', Long: "close"},
	{Short: 'F', Long: "no-fork"},
	{Short: 'v', Long: "verbose"},
	{Short: 'h', Long: "help"},
}}

// Exit statuses of flock, of sysexits.h.
const (
	flockUsageError  = 64
	flockBadData     = 65
	flockNoInput     = 66
	flockUnavailable = 69
)

// flockJob is the state of one run of flock.
type flockJob struct {
	p              *kernel.Proc
	shared, unlock bool
	detach         bool
	wait           time.Duration // -1: for ever
	conflict       int
}

func runFlock(p *kernel.Proc) int {
	opts, args, ok := flockOptions.Parse(p)
	if !ok {
		return flockUsageError
	}
	j := &flockJob{p: p, wait: -1, conflict: 1}
	for _, o := range opts {
		switch o.Key {
		case 's':
			j.shared = true
		case 'x':
			j.shared = false
		case 'u':
			j.unlock = true
		case 'n':
			j.wait = 0
		case 'o':
			j.detach = true
		case 'w':
			span, ok := parseSpan(o.Value)
			if !ok {
				p.Errorf("invalid timeout value: '%s'", o.Value)
				return flockUsageError
			}
			j.wait = span
		case 'E':
			n, err := strconv.Atoi(o.Value)
			if err != nil || n < 0 || n > 255 {
				p.Errorf("exit code out of range (expected 0 to 255)")
				return flockUsageError
			}
			j.conflict = n
		case 'h':
			_, _ = p.Out().WriteString(flockUsage) // Flush reports the error
			return 0
		}
	}
	if len(args) == 0 {
		p.Errorf("not enough arguments")
		return flockUsageError
	}
	if len(args) == 1 {
		return j.lockDescriptor(args[0])
	}
	return j.runLocked(args[0], args[1:])
}

// lockDescriptor locks or unlocks the file of a descriptor that the caller has opened; its lock lasts as long as that.
func (j *flockJob) lockDescriptor(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		j.p.Errorf("bad file descriptor: '%s'", text)
		return flockUsageError
	}
	h := j.p.Handle(n)
	if h == nil || h.Open() == nil {
		j.p.Errorf("%d: Bad file descriptor", n)
		return flockBadData
	}
	if j.unlock {
		j.p.Unlock(h)
		return 0
	}
	if h.File() == nil {
		j.p.Errorf("%d: only regular files can be locked here", n)
		return flockBadData
	}
	return j.lock(h)
}

// lock locks a file, and waits if it must.
func (j *flockJob) lock(h *kernel.Handle) int {
	const pause = 5 * time.Millisecond
	for waited := time.Duration(0); !j.p.TryLock(h, !j.shared); waited += pause {
		if j.wait >= 0 && waited >= j.wait {
			return j.conflict
		}
		j.p.Sleep(pause, false)
	}
	return 0
}

// runLocked runs a command while it holds the lock of a file.
func (j *flockJob) runLocked(name string, args []string) int {
	if args[0] == "-c" || args[0] == "--command" {
		if len(args) != 2 {
			j.p.Errorf("%s requires exactly one command argument", args[0])
			return flockUsageError
		}
		args = []string{"/bin/sh", "-c", args[1]}
	}
	h, err := j.p.OpenFile(name, os.O_RDONLY|os.O_CREATE, 0o666)
	if err != nil {
		j.p.Errorf("cannot open lock file %s: %s", name, program.Reason(err))
		return flockNoInput
	}
	if h.File() == nil {
		j.p.Errorf("%s: only regular files can be locked here", name)
		return flockNoInput
	}
	if code := j.lock(h); code != 0 {
		return code
	}
	if j.detach {
		j.p.CloseOnExec(h.Fd())
	}
	s, err := j.p.Command(args)
	if err != nil {
		j.p.Errorf("failed to execute %s: %s", args[0], program.Reason(err))
		return flockUnavailable
	}
	st, err := j.p.Call(s)
	if err != nil {
		return reportExecError(j.p, args[0], err)
	}
	return st.Code
}
