// Package shell is bash 5.2 on a virtual kernel. Scripts are parsed a command
// at a time, compiled to closures and run by virtual processes; nothing of
// the host is reachable from them.
package shell

import (
	"context"
	"io"
	"sync"
	"time"

	"github.com/atoll-sandbox/atoll/internal/kernel"
)

// Config says what a session is made of. The zero value of everything but
// Kernel is useful.
type Config struct {
	Kernel *kernel.Kernel
	Env    []string // the environment it begins with, "K=V"
	Dir    string   // the directory it begins in; empty: /
	Name   string   // $0 and the beginning of messages; empty: bash
	Params []string // $1…

	// Unknown returns a line that helps who called a command that does not
	// exist; it is printed below the message unless it is empty. Nil: [Hint].
	Unknown func(name string) string
}

// Shell is a session: variables, functions, aliases, options, traps, the
// working directory and the rest live on from command to command.
// Its methods may be called from any goroutine; commands run one by one.
type Shell struct {
	kernel  *kernel.Kernel
	unknown func(name string) string

	mu   sync.Mutex
	in   *interp  // guarded by mu
	pid  int      // guarded by mu; of every command's shell
	dir  string   // guarded by mu
	mask uint32   // guarded by mu
	kept []keptFD // guarded by mu; descriptors above 2 that exec opened
}

type keptFD struct {
	fd   int
	open *kernel.Open
}

// New returns a session in which nothing has run.
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
	s.in.boot(c.Env, s.dir)
	return s
}

// IO is what a command reads and writes.
type IO struct {
	Stdin   io.Reader     // nil: empty
	Stdout  io.Writer     // nil: kept in the Result, up to the kernel's limit
	Stderr  io.Writer     // likewise
	Timeout time.Duration // of the command; 0: the context's alone
	Output  int64         // bytes kept of each stream that is not given; 0: the kernel's limit
	Drain   time.Duration // how long jobs in the background may go on; 0: the kernel's default

	Signals <-chan string // names of signals to send to the command; nil: none
}

// Result is what became of a command.
type Result struct {
	ExitCode  int
	Signal    int // that ended it; 0 when it ended by itself
	Stdout    []byte
	Stderr    []byte
	Truncated bool // more was written than the kernel keeps
	Steps     int64
	Duration  time.Duration
}

// Execute runs a command in the session, as `bash -c` would, and returns
// when no process of it is left. A command that fails is a result; the error
// is the context's cause (a [context.DeadlineExceeded] for IO.Timeout), or
// [kernel.ErrSteps]. The session lives on in any case, with the state as of
// the last statement that was completed.
//
// It differs from `bash -c` in what a session needs: aliases are expanded, a
// trap on EXIT runs at the end of the command that set it, and `exit` and
// `exec` end the command, not the session.
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

// run is the life of the session's shell process during one command.
func (s *Shell) run(p *kernel.Proc, command string) int { //nolint:gocritic // runs with mu held by Execute
	in := s.in
	in.p = p
	defer s.settle(p)
	defer in.lastWords()
	p.Env = in.environ()
	for _, k := range s.kept {
		_ = p.SetFD(k.fd, k.open) // a number that was valid before
	}
	s.kept = nil
	p.Alloc(in.live)
	in.armTraps()
	_ = in.runText(command, source{kind: "-c", echo: true})
	in.exitTrap()
	return in.status
}

// settle takes over what lives on after a command, however it ended.
func (s *Shell) settle(p *kernel.Proc) {
	in := s.in
	in.calm()
	s.dir, s.mask = p.Dir(), p.Umask()
	for _, fd := range p.FDs() {
		if fd > 2 {
			s.kept = append(s.kept, keptFD{fd, p.TakeFD(fd)})
		}
	}
	p.Free(in.live)
	in.p = nil
}

// calm brings a shell that was perhaps torn out of its work back to where
// the next command can begin.
func (in *interp) calm() {
	in.aborting = nil
	in.rewind(mark{params: in.params})
	in.substFDs, in.borrowed, in.indent, in.calls = nil, 0, 0, 0
	in.inTrap, in.oneshot = false, false
	in.dropExitTrap()
	in.stash = nil
	in.jobs.subs = nil
	in.jobs.coproc = coproc{}
}

// Dir returns the working directory.
func (s *Shell) Dir() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dir
}

// Env returns the exported variables, "K=V".
func (s *Shell) Env() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.in.environ()...)
}

// Close gives up what the session holds open. It is not to be used after.
func (s *Shell) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range s.kept {
		k.open.Release()
	}
	s.kept = nil
}
