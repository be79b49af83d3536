package kernel

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/vfs"
)

// Run describes a command to run, by its first process.
type Run struct {
	Args   []string
	Env    []string
	Dir    string // absolute; empty: /
	Path   string
	Main   Program
	PID    int // wanted process id, for a shell that keeps its number; 0: the next
	Umask  uint32
	Stdin  io.Reader     // nil: empty
	Stdout io.Writer     // nil: kept in Result, up to Output
	Stderr io.Writer     // likewise; not used with a TTY
	Output int64         // bytes kept of each stream; 0: Limits.Output
	Drain  time.Duration // time limit for background processes; 0: DefaultDrain
	Setup  func(p *Proc) // runs in the first process, before Main

	TTY     *atoll.TTY    // nil: no terminal
	Signals <-chan string // names of signals to send; nil: none
}

// Result is the result of a [Run].
type Result struct {
	Status    Status
	Stdout    []byte // output, if Run.Stdout was nil
	Stderr    []byte
	Truncated bool // more was written than Limits.Output
	Steps     int64
}

// ErrSteps is the error of a command that used up Limits.Steps.
var ErrSteps = errors.New("out of work steps")

// DefaultDrain is the time that background processes may go on after the first process has ended.
const DefaultDrain = 500 * time.Millisecond

type reason = int32

const (
	reasonNone reason = iota
	reasonContext
	reasonSteps
	reasonEnd
	reasonSignal
)

// task is a running command: its processes, its deadline, its steps.
type task struct {
	k     *Kernel
	ctx   context.Context //nolint:containedctx // a task lives as long as the call that made it
	steps atomic.Int64
	dead  atomic.Bool
	why   atomic.Int32
	main  *Proc
	tty   *TTY // set before the first process runs; nil: none

	draining  atomic.Bool
	moved     atomic.Uint64 // number of times that a process was woken or started
	wakeDrain chan struct{}

	mu    sync.Mutex
	alive int           // guarded by mu
	empty chan struct{} // guarded by mu; closed when alive becomes 0; made by emptyChan
}

func (t *task) add() {
	t.moved.Add(1)
	t.mu.Lock()
	t.alive++
	t.mu.Unlock()
}

func (t *task) done() {
	t.mu.Lock()
	t.alive--
	if t.alive == 0 && t.empty != nil {
		close(t.empty)
		t.empty = nil
	}
	t.mu.Unlock()
	t.notifyIdle()
}

// emptyChan returns a channel that is closed when there are no more processes.
func (t *task) emptyChan() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := make(chan struct{})
	if t.alive == 0 {
		close(c)
		return c
	}
	t.empty = c
	return c
}

// notifyIdle notifies drainBackground and Pause that a process has stopped running.
func (t *task) notifyIdle() {
	t.k.notifyPause()
	if t.draining.Load() {
		select {
		case t.wakeDrain <- struct{}{}:
		default:
		}
	}
}

// kill kills every process of the task, and every one that it starts later.
func (t *task) kill(why reason) {
	t.why.CompareAndSwap(reasonNone, why)
	t.dead.Store(true)
	for _, p := range t.k.Procs() {
		if p.t == t {
			p.raiseSignal(SIGKILL)
		}
	}
}

// Run runs a command until it ends. When it returns, no process of the command is left, and nothing
// writes to its streams. The error is the context's cause, or [ErrSteps]; the result then has the
// output so far.
func (k *Kernel) Run(ctx context.Context, r Run) (Result, error) {
	if err := context.Cause(ctx); err != nil {
		return Result{}, err
	}
	t := &task{k: k, ctx: ctx, wakeDrain: make(chan struct{}, 1)}
	p := &Proc{
		Args: r.Args, Env: r.Env, k: k, t: t, path: r.Path, main: r.Main, dir: r.Dir, umask: r.Umask,
		left: tickEvery, start: k.now(), wake: make(chan struct{}, 1), linkBytes: k.fs.LinkBytes(),
	}
	p.publishArgs()
	if p.dir == "" {
		p.dir = "/"
	}
	if err := k.addProc(p, r.PID); err != nil {
		return Result{}, err
	}
	p.pgid.Store(int32(p.pid))
	t.main = p
	s := p.attachStreams(r)
	p.bindStreams()
	if r.Setup != nil {
		r.Setup(p)
	}
	stop := context.AfterFunc(ctx, func() { t.kill(reasonContext) })
	deaf := t.forwardSignals(r)
	t.add()
	p.run()
	t.done()
	t.drainBackground(r.Drain)
	stop()
	<-t.emptyChan()
	deaf()
	if t.tty != nil {
		t.tty.closeTTY()
	}
	s.close(ctx)
	return t.collectResult(p, s)
}

// forwardSignals forwards signals and terminal sizes while the command runs. The returned function
// stops that, and waits for it.
func (t *task) forwardSignals(r Run) (deaf func()) {
	signals, sizes := r.Signals, (<-chan atoll.Size)(nil)
	if r.TTY != nil {
		sizes = r.TTY.Resize
	}
	if signals == nil && sizes == nil {
		return func() {}
	}
	over, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case name, ok := <-signals:
				if !ok {
					signals = nil
				}
				t.sendSignal(name)
			case size, ok := <-sizes:
				if !ok {
					sizes = nil
					continue
				}
				t.tty.SetSize(size)
			case <-over:
				return
			}
		}
	}()
	return func() {
		close(over)
		<-done
	}
}

// sendSignal sends a signal to the foreground group of the terminal, or to the process group of the
// command if there is no terminal. SIGKILL kills the whole command. An unknown name is ignored.
func (t *task) sendSignal(name string) {
	s, ok := ParseSignal(name)
	switch {
	case !ok || s == 0:
	case s == SIGKILL:
		t.kill(reasonSignal)
	case t.tty != nil:
		_ = t.k.KillGroup(t.tty.Foreground(), s) // the group may be empty
	default:
		_ = t.k.KillGroup(t.main.Group(), s) // likewise
	}
}

func (t *task) collectResult(p *Proc, s *streams) (Result, error) {
	res := Result{Status: p.status, Steps: t.steps.Load()}
	res.Stdout, res.Stderr, res.Truncated = s.capturedOutput()
	switch t.why.Load() {
	case reasonContext:
		return res, context.Cause(t.ctx)
	case reasonSteps:
		return res, ErrSteps
	}
	return res, s.writeError(t.ctx)
}

// drainBackground lets background processes finish, if they can within the grace period, and then
// kills the others. Those that only wait for events that can't happen are killed at once.
func (t *task) drainBackground(grace time.Duration) {
	t.mu.Lock()
	alive := t.alive
	t.mu.Unlock()
	if alive == 0 {
		return
	}
	if grace == 0 {
		grace = DefaultDrain
	}
	end := time.Now().Add(grace)
	timer := time.NewTimer(grace)
	defer timer.Stop()
	t.draining.Store(true)
	gone := t.emptyChan()
	for !t.isStuck(end) {
		select {
		case <-gone:
			return
		case <-timer.C:
			if t.k.frozen.Load() { // a frozen process has not used its time
				timer.Reset(grace)
				continue
			}
			t.kill(reasonEnd)
			return
		case <-t.wakeDrain:
		}
	}
	t.kill(reasonEnd)
}

// isStuck reports whether no process of the task can continue before end. The processes are checked
// one after the other: if one was woken meanwhile, it returns false.
func (t *task) isStuck(end time.Time) bool {
	moved := t.moved.Load()
	for _, p := range t.k.Procs() {
		if p.t != t {
			continue
		}
		switch p.blocked.Load() {
		case blockNone, blockHost:
			return false
		case blockSleep:
			if p.wakeAt.Load() < end.UnixNano() {
				return false
			}
		}
	}
	return t.moved.Load() == moved
}

// Await calls f, which may block on the host, such as on the network. Its context is done when the
// process must end.
func (p *Proc) Await(f func(ctx context.Context) error) error {
	p.check()
	ctx, cancel := context.WithCancel(p.t.ctx)
	defer cancel()
	done := make(chan error, 1)
	p.t.add()
	go func() {
		defer p.t.done()
		done <- f(ctx)
		p.wakeUp()
	}()
	for {
		select {
		case err := <-done:
			if p.t.ctx.Err() != nil {
				p.t.kill(reasonContext)
			}
			p.check()
			return err
		default:
		}
		if p.pending.Load() != 0 {
			cancel()
			err := <-done
			p.check()
			return err
		}
		p.sleepUntilWoken(blockHost)
	}
}

// Command prepares to run args[0] like execvp: it is searched in $PATH if it has no slash. The
// error is a [*CommandError] with [vfs.ENOENT], [vfs.EACCES] or [vfs.ENOEXEC], and the exit status.
func (p *Proc) Command(args []string) (Spawn, error) {
	file, err := p.LookPath(args[0])
	if err != nil {
		return Spawn{}, err
	}
	s, err := p.Load(file, args)
	if errors.Is(err, vfs.ENOEXEC) && p.isText(p.Path(file)) {
		return p.Load("/bin/sh", append([]string{"sh", file}, args[1:]...))
	}
	return s, err
}

// Run runs another program until it ends, with the process's own streams, and returns its status.
// If the program can't be run, it writes the reason to standard error, and returns 126 or 127.
func (p *Proc) Run(args ...string) int {
	if p.out != nil {
		_ = p.out.Flush() // before the child's output
	}
	s, err := p.Command(args)
	if err == nil {
		var st Status
		if st, err = p.Call(s); err == nil {
			return st.Code
		}
	}
	p.Errorf("%s: %v", args[0], Reason(err))
	var ce *CommandError
	if errors.As(err, &ce) {
		return ce.Code
	}
	return 126
}

// CommandError is the reason why a program can't be run.
type CommandError struct {
	Name string
	Code int // 126: found but not runnable, 127: not found
	Err  vfs.Errno
}

// Error returns the name and the reason.
func (e *CommandError) Error() string { return e.Name + ": " + e.Err.Error() }

// Unwrap returns the reason.
func (e *CommandError) Unwrap() error { return e.Err }

// Reason returns the innermost error of a file or program, in the words of strerror.
func Reason(err error) error {
	var no vfs.Errno
	if errors.As(err, &no) {
		return no
	}
	return err
}
