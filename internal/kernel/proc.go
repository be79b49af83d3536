package kernel

import (
	"bufio"
	"fmt"
	"io"
	"path"
	"runtime/debug"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/atoll-sandbox/atoll/vfs"
)

// Status is how a process ended.
type Status struct {
	Code   int    // 0-255; 128+signal where a signal ended it
	Signal Signal // 0 when it ended by itself
}

// Proc is a virtual process: the receiver of every call a program makes.
//
// Its methods belong to the goroutine that runs the program, except Kill,
// PID and the accessors that say otherwise. When a process is to end (a
// signal, the deadline, the memory limit), the next call that it makes
// unwinds it by a panic that only the kernel recovers, so programs need not
// check for it.
type Proc struct {
	Args   []string // Args[0] is the name it was called by
	Env    []string // "K=V"
	Stdin  *Handle
	Stdout *Handle
	Stderr *Handle

	shown atomic.Pointer[shown] // what other processes see

	k      *Kernel
	t      *task
	parent *Proc
	pid    int
	pgid   atomic.Int32
	path   string // of the executable
	main   Program
	dir    string
	umask  uint32
	start  time.Time
	depth  int
	left   int   // ticks until the next look at the clock
	mem    int64 // bytes charged
	fds    []slot
	std    [3]Handle
	out    *bufio.Writer

	resting  sync.Mutex
	kicked   bool          // guarded by resting; a kick came while it did not wait
	wake     chan struct{} // one for each wait
	pending  atomic.Uint64 // signals to deliver
	caught   atomic.Uint64 // signals delivered to a handler
	ignored  atomic.Uint64
	handled  atomic.Uint64
	blocked  atomic.Int32 // a blockKind, for draining and ps; written with resting held
	wakeAt   atomic.Int64 // unix nanoseconds that a sleeper wakes at
	exited   atomic.Bool
	stopped  atomic.Bool
	status   Status
	oom      bool
	killedBy Signal
	callee   atomic.Pointer[Proc] // the child that Call runs on this goroutine

	mu       sync.Mutex
	children []*Proc // guarded by mu; those spawned and not yet waited for
}

type blockKind = int32

const (
	blockNone  blockKind = iota
	blockInner           // on another process, a pipe, a signal
	blockSleep           // until wakeAt
	blockHost            // on the host's side of a stream
)

// unwind is the panic that ends a process.
type unwind struct{ p *Proc }

// PID returns the process's number. Any goroutine may call it.
func (p *Proc) PID() int { return p.pid }

// PPID returns the parent's number, 1 for a process whose parent has ended
// and 0 for the first process of a command.
func (p *Proc) PPID() int {
	switch {
	case p.parent == nil:
		return 0
	case p.parent.exited.Load():
		return 1
	}
	return p.parent.pid
}

// Group returns the process group.
func (p *Proc) Group() int { return int(p.pgid.Load()) }

// SetGroup moves the process to a group; 0 makes it the leader of its own.
func (p *Proc) SetGroup(id int) {
	if id == 0 {
		id = p.pid
	}
	p.pgid.Store(int32(id))
}

// Kernel returns the kernel that runs the process.
func (p *Proc) Kernel() *Kernel { return p.k }

// FS returns the file system. Prefer the process's own calls, which know its
// directory, its mask and the devices.
func (p *Proc) FS() *vfs.FS { return p.k.fs }

// shown is what others may see of a process; it is replaced, never changed.
type shown struct {
	args []string
	path string
}

// show lets others see the arguments and the executable as they are now.
func (p *Proc) show() { p.shown.Store(&shown{args: p.Args, path: p.path}) }

// Name returns the base name of Args[0].
func (p *Proc) Name() string {
	args := p.shown.Load().args
	if len(args) == 0 {
		return ""
	}
	return path.Base(args[0])
}

// Executable returns the path that the process was loaded from.
func (p *Proc) Executable() string { return p.shown.Load().path }

// Started returns when the process began.
func (p *Proc) Started() time.Time { return p.start }

// State returns the letter that ps shows: R, S, T or Z.
func (p *Proc) State() byte {
	switch {
	case p.exited.Load():
		return 'Z'
	case p.stopped.Load():
		return 'T'
	case p.blocked.Load() != blockNone:
		return 'S'
	}
	return 'R'
}

// Now returns the sandbox's time.
func (p *Proc) Now() time.Time { return p.k.now() }

// Rand fills b with random bytes.
func (p *Proc) Rand(b []byte) {
	if _, err := io.ReadFull(p.k.rand, b); err != nil {
		panic(fmt.Errorf("random source: %w", err))
	}
}

// Network returns the sandbox's way out, or nil where it has none.
func (p *Proc) Network() Network { return p.k.network }

// Getenv returns the value of an environment variable, or "".
func (p *Proc) Getenv(name string) string {
	v, _ := p.LookupEnv(name)
	return v
}

// LookupEnv returns the value of an environment variable and whether it is set.
func (p *Proc) LookupEnv(name string) (string, bool) {
	for i := len(p.Env) - 1; i >= 0; i-- {
		if e := p.Env[i]; len(e) > len(name) && e[len(name)] == '=' && e[:len(name)] == name {
			return e[len(name)+1:], true
		}
	}
	return "", false
}

// Out returns a buffered writer to standard output, which the kernel flushes
// when the program returns.
func (p *Proc) Out() *bufio.Writer {
	if p.out == nil {
		p.out = writers.Get().(*bufio.Writer)
		p.out.Reset(p.Stdout)
	}
	return p.out
}

var writers = sync.Pool{New: func() any { return bufio.NewWriterSize(nil, 16<<10) }}

// Errorf writes one line to standard error: the process's name, a colon and
// the message. What is buffered for standard output goes out first.
func (p *Proc) Errorf(format string, a ...any) {
	if p.out != nil {
		_ = p.out.Flush() // a lost stdout is the next write's business
	}
	msg := fmt.Sprintf(format, a...)
	_, _ = io.WriteString(p.Stderr, p.Name()+": "+msg+"\n") // nobody to tell
}

// Spawn says what a child runs and with what.
type Spawn struct {
	Args   []string // Args[0] is the name shown
	Env    []string // nil: the parent's
	Dir    string   // empty: the parent's
	Path   string   // of the executable, for /proc
	Main   Program
	Stdin  *Open // nil: the parent's, likewise below
	Stdout *Open
	Stderr *Open
	Group  int               // process group to join; 0: the parent's; -1: a new one
	Setup  func(child *Proc) // runs before the child starts, on the parent's goroutine
}

// Spawn starts a child beside its parent, which must Wait for it in the end.
// It returns [vfs.EAGAIN] when there are too many processes.
func (p *Proc) Spawn(s Spawn) (*Proc, error) {
	c, err := p.child(s)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	p.children = append(p.children, c)
	p.mu.Unlock()
	c.t.add()
	go func() {
		defer c.t.done()
		c.run()
	}()
	return c, nil
}

// Call runs a child on the caller's own goroutine and returns how it ended.
func (p *Proc) Call(s Spawn) (Status, error) {
	c, err := p.child(s)
	if err != nil {
		return Status{}, err
	}
	c.t.add()
	p.callee.Store(c)
	p.passPending(c)
	c.run()
	p.callee.Store(nil)
	c.t.done()
	p.check()
	return c.status, nil
}

func (p *Proc) child(s Spawn) (*Proc, error) {
	if p.depth+1 >= p.k.limits.Depth {
		return nil, vfs.EAGAIN
	}
	c := &Proc{
		Args: s.Args, Env: s.Env, k: p.k, t: p.t, parent: p, path: s.Path, main: s.Main,
		dir: p.dir, umask: p.umask, depth: p.depth + 1, left: tickEvery, start: p.k.now(),
		wake: make(chan struct{}, 1),
	}
	if s.Env == nil {
		c.Env = p.Env
	}
	if s.Dir != "" {
		c.dir = p.Path(s.Dir)
	}
	c.show()
	c.ignored.Store(p.ignored.Load())
	if err := p.k.add(c, 0); err != nil {
		return nil, err
	}
	switch s.Group {
	case 0:
		c.pgid.Store(p.pgid.Load())
	case -1:
		c.pgid.Store(int32(c.pid))
	default:
		c.pgid.Store(int32(s.Group))
	}
	c.inherit(p, [3]*Open{s.Stdin, s.Stdout, s.Stderr})
	c.bind()
	if s.Setup != nil {
		s.Setup(c)
	}
	if c.t.dead.Load() {
		c.pending.Or(SIGKILL.bit())
	}
	return c, nil
}

// bind points the three streams at their descriptors.
func (p *Proc) bind() {
	for i := range p.std {
		p.std[i] = Handle{p: p, fd: i}
	}
	p.Stdin, p.Stdout, p.Stderr = &p.std[0], &p.std[1], &p.std[2]
}

// run runs the program to its end and leaves nothing of it.
func (p *Proc) run() {
	code := 128 + int(SIGKILL)
	defer func() { p.finish(code) }()
	code = p.guard(p.main)
}

// guard calls f and turns a panic into an exit status.
func (p *Proc) guard(f Program) (code int) {
	defer func() {
		switch v := recover().(type) {
		case nil:
		case unwind:
			if v.p != p {
				panic(v) // of the process whose goroutine this one borrows
			}
			code = 128 + int(p.killedBy)
		default:
			code = 134
			p.k.record(Incident{Time: p.k.now(), Program: p.Name(), Value: fmt.Sprint(v), Stack: string(debug.Stack())})
			p.quietly(func() { p.Errorf("internal error: %v", v) })
		}
	}()
	p.check()
	code = f(p) & 0xff
	if p.out != nil {
		_ = p.out.Flush() // a broken pipe has ended the process already
	}
	return code
}

// quietly runs f, which may meet the end of the process.
func (p *Proc) quietly(f func()) {
	defer func() {
		if v := recover(); v != nil {
			if u, ok := v.(unwind); !ok || u.p != p {
				panic(v)
			}
		}
	}()
	f()
}

func (p *Proc) finish(code int) {
	if p.out != nil {
		p.out.Reset(nil)
		writers.Put(p.out)
		p.out = nil
	}
	if p.oom {
		p.complain()
	}
	p.closeAll()
	p.k.mem.Add(-p.mem)
	p.mem = 0
	p.status = Status{Code: code, Signal: p.killedBy}
	p.k.remove(p)
	p.exited.Store(true)
	if p.parent != nil {
		p.parent.kick()
		p.parent.raise(SIGCHLD)
	}
}

// complain says that the process ran out of memory, where standard error
// still takes it.
func (p *Proc) complain() {
	if len(p.fds) > 2 && p.fds[2].f != nil && !p.t.dead.Load() {
		msg := fmt.Sprintf("%s: memory limit of %d MiB exceeded\n", p.Name(), p.k.limits.Memory>>20)
		p.fds[2].f.tryWrite([]byte(msg))
	}
}

// Exited reports whether the process has ended. Any goroutine may call it.
func (p *Proc) Exited() bool { return p.exited.Load() }

// Result returns how the process ended; it is the zero Status before.
func (p *Proc) Result() Status {
	if !p.exited.Load() {
		return Status{}
	}
	return p.status
}

// Children returns those spawned and not yet waited for.
func (p *Proc) Children() []*Proc {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]*Proc(nil), p.children...)
}

// Wait waits for a child to end. With intr it also returns, with
// [vfs.EINTR], when a signal that the process handles has arrived.
func (p *Proc) Wait(c *Proc, intr bool) (Status, error) {
	for {
		if intr && p.caught.Load() != 0 {
			return Status{}, vfs.EINTR
		}
		if c.exited.Load() {
			break
		}
		p.block(blockInner)
	}
	p.forget(c)
	return c.status, nil
}

// WaitJob waits for a child to end, or to be stopped by a signal.
func (p *Proc) WaitJob(c *Proc) (st Status, stopped bool) {
	for !c.exited.Load() {
		if c.Stopped() {
			return Status{}, true
		}
		p.block(blockInner)
	}
	p.forget(c)
	return c.status, false
}

// WaitAny waits for whichever child of list ends first and returns it, or
// [vfs.ECHILD] when the list is empty. It returns [vfs.EINTR] as Wait does.
func (p *Proc) WaitAny(list []*Proc, intr bool) (*Proc, error) {
	if len(list) == 0 {
		return nil, vfs.ECHILD
	}
	for {
		for _, c := range list {
			if c.exited.Load() {
				p.forget(c)
				return c, nil
			}
		}
		if intr && p.caught.Load() != 0 {
			return nil, vfs.EINTR
		}
		p.block(blockInner)
	}
}

func (p *Proc) forget(c *Proc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, x := range p.children {
		if x == c {
			p.children = append(p.children[:i], p.children[i+1:]...)
			return
		}
	}
}

// Sleep waits for d of the sandbox's time. With intr it also ends when a
// signal that the process handles has arrived; it returns the time left.
func (p *Proc) Sleep(d time.Duration, intr bool) time.Duration {
	if d <= 0 {
		p.check()
		return 0
	}
	end := time.Now().Add(d)
	timer := time.AfterFunc(d, p.kick)
	defer timer.Stop()
	p.wakeAt.Store(end.UnixNano())
	for {
		rest := time.Until(end)
		if rest <= 0 {
			return 0
		}
		if intr && p.caught.Load() != 0 {
			return rest
		}
		p.block(blockSleep)
	}
}

// Pause waits until the process is woken: by a signal that it handles or a
// child that ends. It may return early.
func (p *Proc) Pause() { p.block(blockInner) }

// kick wakes the process if it waits, or else keeps it from waiting the next
// time. Any goroutine may call it.
func (p *Proc) kick() {
	p.resting.Lock()
	asleep := p.blocked.Load() != blockNone
	if asleep {
		p.blocked.Store(blockNone) // from here on it runs, although it does not yet know
		p.t.moved.Add(1)
	}
	p.kicked = !asleep
	p.resting.Unlock()
	if asleep {
		p.wake <- struct{}{} // there is room: one for each sleep
	}
}

// rest sleeps until the next kick, unless one has come already.
func (p *Proc) rest(kind blockKind) {
	p.resting.Lock()
	kicked := p.kicked
	p.kicked = false
	if !kicked {
		p.blocked.Store(kind)
	}
	p.resting.Unlock()
	if !kicked {
		p.t.idled()
		<-p.wake
	}
}

// block waits for the next kick, then delivers signals.
func (p *Proc) block(kind blockKind) {
	p.check()
	p.rest(kind)
	p.check()
}

// Enter notes one more level of nesting and reports whether it is allowed.
// Every Enter that returned true needs a Leave.
func (p *Proc) Enter() bool {
	if p.depth+1 >= p.k.limits.Depth {
		return false
	}
	p.depth++
	return true
}

// Leave ends a level of nesting.
func (p *Proc) Leave() { p.depth-- }

func sortProcs(list []*Proc) {
	sort.Slice(list, func(i, j int) bool { return list[i].pid < list[j].pid })
}

// Cmdline returns the arguments as ps shows them.
func (p *Proc) Cmdline() string { return strings.Join(p.shown.Load().args, " ") }
