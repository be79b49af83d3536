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

// Run is one command from outside: what its first process runs and with what.
type Run struct {
	Args   []string
	Env    []string
	Dir    string // must be absolute; empty: /
	Path   string
	Main   Program
	PID    int // asked for, as a shell that lives on keeps its number; 0: the next
	Umask  uint32
	Stdin  io.Reader     // nil: empty
	Stdout io.Writer     // nil: kept in Result, up to Output
	Stderr io.Writer     // likewise; not used with a TTY
	Output int64         // bytes kept of each stream; 0: Limits.Output
	Drain  time.Duration // for processes in the background; 0: DefaultDrain
	Setup  func(p *Proc) // runs in the first process, before Main

	TTY     *atoll.TTY    // nil: no terminal
	Signals <-chan string // names of signals to send; nil: none
}

// Result is what became of a [Run].
type Result struct {
	Status    Status
	Stdout    []byte // what Run.Stdout would have got, if that was nil
	Stderr    []byte
	Truncated bool // more was written than Limits.Output
	Steps     int64
}

// ErrSteps is the cause when a command used up Limits.Steps.
var ErrSteps = errors.New("out of work steps")

// DefaultDrain is how long processes in the background may go on after the
// first process has ended.
const DefaultDrain = 500 * time.Millisecond

type reason = int32

const (
	reasonNone reason = iota
	reasonContext
	reasonSteps
	reasonEnd
	reasonSignal
)

// task is one command: its processes, its deadline, its steps.
type task struct {
	k     *Kernel
	ctx   context.Context //nolint:containedctx // a task lives exactly as long as the call that made it
	steps atomic.Int64
	dead  atomic.Bool
	why   atomic.Int32
	main  *Proc
	tty   *TTY // set before the first process runs; nil: none

	draining atomic.Bool
	moved    atomic.Uint64 // how often a process was woken or started
	stir     chan struct{}

	mu    sync.Mutex
	alive int           // guarded by mu
	empty chan struct{} // guarded by mu; closed when alive falls to 0, once asked for
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
	t.idled()
}

// gone returns a channel that is closed when no process is left.
func (t *task) gone() <-chan struct{} {
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

// idled tells a drain, or a pause, that a process has stopped running.
func (t *task) idled() {
	t.k.stirPause()
	if t.draining.Load() {
		select {
		case t.stir <- struct{}{}:
		default:
		}
	}
}

// kill ends every process of the task, and every one that it still starts.
func (t *task) kill(why reason) {
	t.why.CompareAndSwap(reasonNone, why)
	t.dead.Store(true)
	for _, p := range t.k.Procs() {
		if p.t == t {
			p.raise(SIGKILL)
		}
	}
}

// Run runs a command to its end. When it returns, no process of it is left
// and nothing of it can write any more. The error is the context's cause, or
// [ErrSteps]; the result then holds what was written so far.
func (k *Kernel) Run(ctx context.Context, r Run) (Result, error) {
	if err := context.Cause(ctx); err != nil {
		return Result{}, err
	}
	t := &task{k: k, ctx: ctx, stir: make(chan struct{}, 1)}
	p := &Proc{
		Args: r.Args, Env: r.Env, k: k, t: t, path: r.Path, main: r.Main, dir: r.Dir, umask: r.Umask,
		left: tickEvery, start: k.now(), wake: make(chan struct{}, 1),
	}
	p.show()
	if p.dir == "" {
		p.dir = "/"
	}
	if err := k.add(p, r.PID); err != nil {
		return Result{}, err
	}
	p.pgid.Store(int32(p.pid))
	t.main = p
	s := p.attach(r)
	p.bind()
	if r.Setup != nil {
		r.Setup(p)
	}
	stop := context.AfterFunc(ctx, func() { t.kill(reasonContext) })
	deaf := t.listen(r)
	t.add()
	p.run()
	t.done()
	t.drain(r.Drain)
	stop()
	<-t.gone()
	deaf()
	if t.tty != nil {
		t.tty.shut()
	}
	s.close(ctx)
	return t.result(p, s)
}

// listen passes on the signals and sizes that come while the command runs.
// What it returns ends that, and waits for it.
func (t *task) listen(r Run) (deaf func()) {
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
				t.signal(name)
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

// signal sends a signal from outside: to the foreground of the terminal, or
// else to the process group of the command. SIGKILL ends all of the command.
// A name that no signal has is nobody's.
func (t *task) signal(name string) {
	s, ok := SignalNamed(name)
	switch {
	case !ok || s == 0:
	case s == SIGKILL:
		t.kill(reasonSignal)
	case t.tty != nil:
		_ = t.k.KillGroup(t.tty.Foreground(), s) // there may be nobody
	default:
		_ = t.k.KillGroup(t.main.Group(), s) // likewise
	}
}

func (t *task) result(p *Proc, s *streams) (Result, error) {
	res := Result{Status: p.status, Steps: t.steps.Load()}
	res.Stdout, res.Stderr, res.Truncated = s.captured()
	switch t.why.Load() {
	case reasonContext:
		return res, context.Cause(t.ctx)
	case reasonSteps:
		return res, ErrSteps
	}
	return res, s.err(t.ctx)
}

// drain lets processes in the background finish what they can finish soon,
// and ends the rest: those that wait for what will not come, or too long.
func (t *task) drain(grace time.Duration) {
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
	gone := t.gone()
	for !t.stuck(end) {
		select {
		case <-gone:
			return
		case <-timer.C:
			if t.k.frozen.Load() { // what stands still has not used its time
				timer.Reset(grace)
				continue
			}
			t.kill(reasonEnd)
			return
		case <-t.stir:
		}
	}
	t.kill(reasonEnd)
}

// stuck reports whether no process of the task can go on before end. They are
// looked at one after the other: what moved meanwhile may have been missed.
func (t *task) stuck(end time.Time) bool {
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

// Await calls f, which may block on the host (the network), outside the
// virtual processes: its context ends when the process is to end.
func (p *Proc) Await(f func(ctx context.Context) error) error {
	p.check()
	ctx, cancel := context.WithCancel(p.t.ctx)
	defer cancel()
	done := make(chan error, 1)
	p.t.add()
	go func() {
		defer p.t.done()
		done <- f(ctx)
		p.kick()
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
		p.rest(blockHost)
	}
}

// Command makes ready to run args[0] as execvp would: it is looked for in
// $PATH if it has no slash. Errors are [vfs.ENOENT], [vfs.EACCES],
// [vfs.ENOEXEC]…, in a [*CommandError] that knows the exit status.
func (p *Proc) Command(args []string) (Spawn, error) {
	file, err := p.LookPath(args[0])
	if err != nil {
		return Spawn{}, err
	}
	s, err := p.Load(file, args)
	if errors.Is(err, vfs.ENOEXEC) && p.textual(p.Path(file)) {
		return p.Load("/bin/sh", append([]string{"sh", file}, args[1:]...))
	}
	return s, err
}

// Run runs another program to its end, with the process's own streams, and
// returns its status. A program that can't be run is reported on standard
// error, with status 126 or 127.
func (p *Proc) Run(args ...string) int {
	if p.out != nil {
		_ = p.out.Flush() // its order before the child's is what counts
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

// CommandError says why a program can't be run.
type CommandError struct {
	Name string
	Code int // 126 found but not runnable, 127 not found
	Err  vfs.Errno
}

// Error returns the name and the reason.
func (e *CommandError) Error() string { return e.Name + ": " + e.Err.Error() }

// Unwrap returns the reason.
func (e *CommandError) Unwrap() error { return e.Err }

// Reason returns the innermost reason of an error of a file or a program,
// as strerror words it.
func Reason(err error) error {
	var no vfs.Errno
	if errors.As(err, &no) {
		return no
	}
	return err
}
