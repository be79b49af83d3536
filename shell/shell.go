// Package shell implements bash 5.2 on a virtual kernel. It parses scripts a
// command at a time, compiles them to closures and runs them in virtual
// processes; scripts can't reach anything of the host.
package shell

import (
	"context"
	"io"
	"sync"
	"time"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
)

// Config configures a session. Kernel is required; the zero value of every
// other field is useful.
type Config struct {
	Kernel *kernel.Kernel
	Env    []string // initial environment, "K=V"
	Dir    string   // initial working directory; empty: /
	Name   string   // $0 and the prefix of messages; empty: bash
	Params []string // $1…

	// Unknown returns a hint for a command that does not exist. The hint is
	// printed below the error message unless it is empty. Nil means [Hint].
	Unknown func(name string) string
}

// Shell is a session: variables, functions, aliases, options, traps, the
// working directory and so on persist from command to command. Its methods
// are safe for concurrent use; commands run one at a time.
type Shell struct {
	kernel  *kernel.Kernel
	unknown func(name string) string

	mu      sync.Mutex
	in      *interp  // guarded by mu
	pid     int      // guarded by mu; process id of the session's shell
	dir     string   // guarded by mu
	mask    uint32   // guarded by mu
	keptFDs []keptFD // guarded by mu; descriptors above 2 that exec opened
}

type keptFD struct {
	fd   int
	open *kernel.FileDescription
}

// New returns a new session. Nothing has run in it.
func New(c Config) *Shell {
	s := &Shell{kernel: c.Kernel, unknown: c.Unknown, dir: c.Dir, mask: 0o022}
	if s.dir == "" {
		s.dir = "/"
	}
	name := c.Name
	if name == "" {
		name = "bash"
	}
	s.pid = c.Kernel.ReservePID()
	s.in = &interp{sh: s, opts: defaultOpts, shopts: defaultShopts, name0: name, params: c.Params, shellPID: s.pid}
	s.in.shopts |= shExpandAliases
	s.in.initVariables(c.Env, s.dir)
	return s
}

// IO configures the streams and limits of a command.
type IO struct {
	Stdin   io.Reader     // nil: empty
	Stdout  io.Writer     // nil: collected in the Result, up to Output bytes
	Stderr  io.Writer     // nil: collected in the Result, up to Output bytes
	Timeout time.Duration // limit for the command; 0: only the context's deadline
	Output  int64         // limit in bytes for each collected stream; 0: the kernel's limit
	Drain   time.Duration // how long background jobs may continue; 0: the kernel's default

	Signals <-chan string // names of signals to send to the command; nil: none
}

// Result is the outcome of a command.
type Result struct {
	ExitCode  int
	Signal    int // number of the signal that killed it; 0: it exited
	Stdout    []byte
	Stderr    []byte
	Truncated bool // output exceeded the limit
	Steps     int64
	Duration  time.Duration
}

// Execute runs a command in the session, as `bash -c` would, and returns
// when all its processes have ended. A command that fails is a Result, not an
// error; the error is the context's cause (a [context.DeadlineExceeded] for
// IO.Timeout), or [kernel.ErrSteps]. The session stays usable in any case,
// with the state after the last completed statement.
//
// In contrast to `bash -c`, aliases are expanded, a trap on EXIT runs at the
// end of the command that set it, and `exit` and `exec` end the command, not
// the session.
func (s *Shell) Execute(ctx context.Context, command string, o IO) (Result, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.Timeout)
		defer cancel()
	}
	start := time.Now()
	res, err := s.kernel.Run(ctx, kernel.Run{
		Args: []string{s.in.name0}, Dir: s.dir, Path: "/bin/bash", PID: s.pid, Umask: s.mask,
		Stdin: o.Stdin, Stdout: o.Stdout, Stderr: o.Stderr, Output: o.Output, Drain: o.Drain,
		Signals: o.Signals,
		Main:    func(p *kernel.Proc) int { return s.run(p, command) },
	})
	return Result{
		ExitCode: res.Status.Code, Signal: int(res.Status.Signal), Stdout: res.Stdout, Stderr: res.Stderr,
		Truncated: res.Truncated, Steps: res.Steps, Duration: time.Since(start),
	}, err
}

// run is the main function of the session's shell process for one command.
func (s *Shell) run(p *kernel.Proc, command string) int { //nolint:gocritic // runs with mu held by Execute
	in := s.in
	in.p = p
	defer s.saveAfterCommand(p)
	defer in.runExitTrapOnSignal()
	p.Env = in.environment()
	for _, k := range s.keptFDs {
		_ = p.SetFD(k.fd, k.open) // the number was valid before
	}
	s.keptFDs = nil
	p.Alloc(in.chargedBytes)
	in.armTraps()
	_ = in.runText(command, source{kind: "-c", echo: true})
	in.exitTrap()
	return in.status
}

// saveAfterCommand saves the session's state after a command, however it ended.
func (s *Shell) saveAfterCommand(p *kernel.Proc) {
	in := s.in
	in.resetAfterCommand()
	s.dir, s.mask = p.Dir(), p.Umask()
	for _, fd := range p.FDs() {
		if fd > 2 {
			s.keptFDs = append(s.keptFDs, keptFD{fd, p.TakeFD(fd)})
		}
	}
	p.Free(in.chargedBytes)
	in.p = nil
}

// resetAfterCommand resets a shell that may have been interrupted at any
// point, so that the next command can run.
func (in *interp) resetAfterCommand() {
	in.aborting = nil
	in.unwindTo(mark{params: in.params})
	in.chargedBytes -= in.inherited // the children have ended
	in.inherited = 0
	in.substFDs, in.scratchBytes, in.indent, in.callDepth = nil, 0, 0, 0
	in.inTrap, in.oneshot = false, false
	in.dropExitTrap()
	in.preparedTargets = nil
	in.jobs.subs = nil
	in.jobs.coproc = coproc{}
}

// Dir returns the working directory.
func (s *Shell) Dir() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dir
}

// Env returns the exported variables, each as "K=V".
func (s *Shell) Env() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.in.environment()...)
}

// Close releases the descriptors that the session holds open. The session
// must not be used afterwards.
func (s *Shell) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range s.keptFDs {
		k.open.Release()
	}
	s.keptFDs = nil
}
