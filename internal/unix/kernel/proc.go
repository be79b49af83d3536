package kernel

import (
	"bufio"
	"fmt"
	"io"
	"path"
	"runtime/debug"
	"slices"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/atoll-sandbox/atoll/vfs"
)

// Status describes how a process ended.
type Status struct {
	Code   int    // 0-255; 128+signal if a signal ended it
	Signal Signal // 0 if it ended by itself
}

// Proc is a virtual process, the receiver of every system call of a program.
//
// Its methods must be called on the goroutine that runs the program, except Kill, PID and the
// accessors that document otherwise. When a process must end (a signal, the deadline, the memory
// limit), its next call unwinds it by a panic that only the kernel recovers, so programs need not
// check for it.
type Proc struct {
	Args   []string // Args[0] is the name of the command
	Env    []string // "K=V"
	Stdin  *Handle
	Stdout *Handle
	Stderr *Handle

	public atomic.Pointer[publicInfo] // visible to other processes

	k      *Kernel
	t      *task
	parent *Proc
	pid    int
	pgid   atomic.Int32
	path   string // of the executable
	main   Program
	dir    string
	umask  uint32

	sharesArgs bool // Args are the parent's, which is charged for them
	start      time.Time
	depth      int
	left       int   // units of work until the next check
	linkBytes  int64 // of the file system at the last path that was used
	mem        int64 // bytes charged
	fds        []slot
	std        [3]Handle
	began      time.Time     // when its goroutine began to run it
	ended      time.Duration // from began to its end
	idle       time.Duration // since then, in which it waited, or a child ran on its goroutine
	childTime  atomic.Int64  // run time of children that have ended, in nanoseconds
	out        *bufio.Writer

	wakeMu   sync.Mutex
	woken    bool          // guarded by wakeMu; wakeUp was called while the process did not wait
	wake     chan struct{} // one for each wait
	pending  atomic.Uint64 // signals to deliver
	caught   atomic.Uint64 // signals delivered to a handler
	ignored  atomic.Uint64
	handled  atomic.Uint64
	blocked  atomic.Int32 // a blockKind, for draining and ps; written with wakeMu held
	wakeAt   atomic.Int64 // unix nanoseconds of the end of a sleep
	exited   atomic.Bool
	stopped  atomic.Bool
	status   Status
	oom      atomic.Bool // it is killed for its memory
	killedBy Signal
	callee   atomic.Pointer[Proc] // the child that Call runs on this goroutine

	mu       sync.Mutex
	children []*Proc // guarded by mu; spawned and not waited for
}

type blockKind = int32

const (
	blockNone  blockKind = iota
	blockInner           // by another process, a pipe or a signal
	blockSleep           // until wakeAt
	blockHost            // by the host's end of a stream
)

// unwind is the panic value that ends a process.
type unwind struct{ p *Proc }

// PID returns the process id. It is safe for concurrent use.
func (p *Proc) PID() int { return p.pid }

// PPID returns the parent's process id: 1 if the parent has ended, and 0 for the first process of a
// command.
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

// SetGroup moves the process to a group; 0 makes it the leader of a new one.
func (p *Proc) SetGroup(id int) {
	if id == 0 {
		id = p.pid
	}
	p.pgid.Store(int32(id))
}

// Kernel returns the kernel that runs the process.
func (p *Proc) Kernel() *Kernel { return p.k }

// FS returns the file system. Prefer the process's own methods, which apply its directory, its
// umask and devices.
func (p *Proc) FS() *vfs.FS { return p.k.fs }

// publicInfo is the information that other processes may read; it is replaced, never changed.
type publicInfo struct {
	args []string
	path string
}

// publishArgs makes the present arguments and executable visible to other processes.
func (p *Proc) publishArgs() { p.public.Store(&publicInfo{args: p.Args, path: p.path}) }

// Name returns the base name of Args[0].
func (p *Proc) Name() string {
	args := p.public.Load().args
	if len(args) == 0 {
		return ""
	}
	return path.Base(args[0])
}

// Executable returns the path of the executable.
func (p *Proc) Executable() string { return p.public.Load().path }

// Started returns the start time of the process.
func (p *Proc) Started() time.Time { return p.start }

// State returns the state letter of ps: R, S, T or Z.
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

// Network returns the sandbox's network, or nil if it has none.
func (p *Proc) Network() Network { return p.k.network }

// Python returns the function that starts Python interpreters, or nil if there is none.
func (p *Proc) Python() Python { return p.k.python }

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

// Out returns a buffered writer to standard output, which the kernel flushes when the program
// returns.
func (p *Proc) Out() *bufio.Writer {
	if p.out == nil {
		p.out = writers.Get().(*bufio.Writer)
		p.out.Reset(p.Stdout)
	}
	return p.out
}

var writers = sync.Pool{New: func() any { return bufio.NewWriterSize(nil, 16<<10) }}

// Errorf writes one line to standard error: the process's name, a colon and the message. It flushes
// standard output first.
func (p *Proc) Errorf(format string, a ...any) {
	if p.out != nil {
		_ = p.out.Flush() // an error shows at the next write
	}
	n := int64(0)
	for _, v := range a {
		if s, ok := v.(string); ok && len(s) >= longArg {
			n += 3 * int64(len(s)) // the buffer grows, and is copied once
		}
	}
	p.Alloc(n)
	msg := p.Name() + ": " + fmt.Sprintf(format, a...) + "\n"
	_, _ = io.WriteString(p.Stderr, msg) // an error can't be reported
	p.Free(n)
}

// longArg is the length from which an argument of a program is charged to it.
const longArg = 64 << 10

// chargeArgs charges the long arguments of a program that starts: the text, and as much again for the
// messages that quote it.
func (p *Proc) chargeArgs() {
	n := 0
	for _, a := range p.Args {
		if len(a) < longArg {
			continue
		}
		n += 2 * len(a)
		for i := range len(a) {
			if a[i] < ' ' || a[i] >= 0x7f {
				n += 3
			}
		}
		p.Tick(len(a) >> 6)
	}
	p.Alloc(int64(n))
}

// Spawn describes a child to start.
type Spawn struct {
	Args   []string // Args[0] is the visible name
	Env    []string // nil: the parent's
	Dir    string   // empty: the parent's
	Path   string   // of the executable, for /proc
	Main   Program
	Stdin  *FileDescription // nil: the parent's, also below
	Stdout *FileDescription
	Stderr *FileDescription
	Group  int               // process group to join; 0: the parent's; -1: a new one
	Setup  func(child *Proc) // runs before the child starts, on the parent's goroutine
}

// childCost is what a child costs until its parent has waited for it, in bytes: the limit on processes
// does not count children that have ended.
const childCost = 1 << 10

// Spawn starts a child in a new goroutine. The parent must Wait for it. If there are too many
// processes, the error is [vfs.EAGAIN].
func (p *Proc) Spawn(s Spawn) (*Proc, error) {
	p.Tick(tickEvery / 64)
	p.Alloc(childCost)
	c, err := p.newChild(s)
	if err != nil {
		p.Free(childCost)
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

// Call runs a child on the caller's goroutine, and returns how it ended.
func (p *Proc) Call(s Spawn) (Status, error) {
	c, err := p.newChild(s)
	if err != nil {
		return Status{}, err
	}
	c.t.add()
	p.callee.Store(c)
	p.passPending(c)
	c.run()
	p.idle += c.ended
	p.callee.Store(nil)
	c.t.done()
	p.check()
	return c.status, nil
}

func (p *Proc) newChild(s Spawn) (*Proc, error) {
	if p.depth+1 >= p.k.limits.Depth {
		return nil, vfs.EAGAIN
	}
	c := &Proc{
		Args: s.Args, Env: s.Env, k: p.k, t: p.t, parent: p, path: s.Path, main: s.Main,
		dir: p.dir, umask: p.umask, depth: p.depth + 1, left: tickEvery, start: p.k.now(),
		wake: make(chan struct{}, 1), linkBytes: p.k.fs.LinkBytes(),
	}
	if s.Env == nil {
		c.Env = p.Env
	}
	if s.Dir != "" {
		c.dir = p.Path(s.Dir)
	}
	c.publishArgs()
	c.ignored.Store(p.ignored.Load())
	if err := p.k.addProc(c, 0); err != nil {
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
	c.inheritFiles(p, [3]*FileDescription{s.Stdin, s.Stdout, s.Stderr})
	c.bindStreams()
	if s.Setup != nil {
		s.Setup(c)
	}
	c.sharesArgs = len(c.Args) > 0 && len(p.Args) > 0 && &c.Args[0] == &p.Args[0]
	if c.t.dead.Load() {
		c.pending.Or(SIGKILL.bit())
	}
	return c, nil
}

// bindStreams makes the three stream handles.
func (p *Proc) bindStreams() {
	for i := range p.std {
		p.std[i] = Handle{p: p, fd: i}
	}
	p.Stdin, p.Stdout, p.Stderr = &p.std[0], &p.std[1], &p.std[2]
}

// run runs the program until it ends, and releases its resources.
func (p *Proc) run() {
	code := 128 + int(SIGKILL)
	p.began = p.k.now()
	defer func() { p.finishProc(code) }()
	code = p.runGuarded(p.startMain)
}

// startMain charges the arguments, unless they are those of the parent, and runs the main function.
func (p *Proc) startMain(*Proc) int {
	if !p.sharesArgs {
		p.chargeArgs()
	}
	return p.main(p)
}

// runGuarded calls f, and converts a panic to an exit status.
func (p *Proc) runGuarded(f Program) (code int) {
	defer func() {
		switch v := recover().(type) {
		case nil:
		case unwind:
			if v.p != p {
				panic(v) // the unwinding of the process that owns this goroutine
			}
			code = 128 + int(p.killedBy)
		default:
			code = 134
			p.k.recordIncident(Incident{Time: p.k.now(), Program: p.Name(), Value: fmt.Sprint(v), Stack: string(debug.Stack())})
			p.runQuietly(func() { p.Errorf("internal error: %v", v) })
		}
	}()
	p.check()
	code = f(p) & 0xff
	if p.out != nil {
		_ = p.out.Flush() // a broken pipe has ended the process already
	}
	return code
}

// runQuietly runs f, and recovers if that ends the process.
func (p *Proc) runQuietly(f func()) {
	defer func() {
		if v := recover(); v != nil {
			if u, ok := v.(unwind); !ok || u.p != p {
				panic(v)
			}
		}
	}()
	f()
}

func (p *Proc) finishProc(code int) {
	if p.out != nil {
		p.out.Reset(nil)
		writers.Put(p.out)
		p.out = nil
	}
	if p.oom.Load() {
		p.reportOOM()
	}
	p.closeAll()
	p.k.mem.Add(-p.mem)
	p.mem = 0
	p.status = Status{Code: code, Signal: p.killedBy}
	p.ended = p.k.now().Sub(p.began)
	if p.parent != nil {
		p.parent.childTime.Add(int64(p.ended-p.idle) + p.childTime.Load())
	}
	p.k.removeProc(p)
	p.exited.Store(true)
	if p.parent != nil {
		p.parent.wakeUp()
		p.parent.raiseSignal(SIGCHLD)
	}
}

// reportOOM writes to standard error that the process ran out of memory, if that is possible.
func (p *Proc) reportOOM() {
	if len(p.fds) > 2 && p.fds[2].f != nil && !p.t.dead.Load() {
		msg := fmt.Sprintf("%s: memory limit of %d MiB exceeded\n", p.Name(), p.k.limits.Memory>>20)
		p.fds[2].f.tryWrite([]byte(msg))
	}
}

// Exited reports whether the process has ended. It is safe for concurrent use.
func (p *Proc) Exited() bool { return p.exited.Load() }

// Result returns how the process ended; the zero Status if it has not.
func (p *Proc) Result() Status {
	if !p.exited.Load() {
		return Status{}
	}
	return p.status
}

// Children returns the children that were spawned and not waited for.
func (p *Proc) Children() []*Proc {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]*Proc(nil), p.children...)
}

// Wait waits until a child ends. With intr it returns [vfs.EINTR] when a signal arrives that the
// process handles.
func (p *Proc) Wait(c *Proc, intr bool) (Status, error) {
	for {
		if intr && p.caught.Load() != 0 {
			return Status{}, vfs.EINTR
		}
		if c.exited.Load() {
			break
		}
		p.blockUntilWoken(blockInner)
	}
	p.removeChild(c)
	return c.status, nil
}

// WaitJob waits until a child ends, or is stopped by a signal.
func (p *Proc) WaitJob(c *Proc) (st Status, stopped bool) {
	for !c.exited.Load() {
		if c.Stopped() {
			return Status{}, true
		}
		p.blockUntilWoken(blockInner)
	}
	p.removeChild(c)
	return c.status, false
}

// WaitAny waits until one of the children in list ends, and returns it; [vfs.ECHILD] if the list is
// empty. It returns [vfs.EINTR] as Wait does.
func (p *Proc) WaitAny(list []*Proc, intr bool) (*Proc, error) {
	if len(list) == 0 {
		return nil, vfs.ECHILD
	}
	for {
		for _, c := range list {
			if c.exited.Load() {
				p.removeChild(c)
				return c, nil
			}
		}
		if intr && p.caught.Load() != 0 {
			return nil, vfs.EINTR
		}
		p.blockUntilWoken(blockInner)
	}
}

func (p *Proc) removeChild(c *Proc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.Index(p.children, c)
	switch {
	case i < 0:
		return
	case i == 0: // most wait for the oldest; the others would move, as often as there are children
		p.children[0] = nil
		p.children = p.children[1:]
	default:
		p.children = slices.Delete(p.children, i, i+1)
	}
	p.Free(childCost)
}

// Sleep waits for a duration. With intr it also returns when a signal arrives that the process
// handles. It returns the remaining time.
func (p *Proc) Sleep(d time.Duration, intr bool) time.Duration {
	if d <= 0 {
		p.check()
		return 0
	}
	end := time.Now().Add(d)
	timer := time.AfterFunc(d, p.wakeUp)
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
		p.blockUntilWoken(blockSleep)
	}
}

// Pause waits until the process is woken, by a signal that it handles or a child that ends. It may
// return early.
func (p *Proc) Pause() { p.blockUntilWoken(blockInner) }

// wakeUp wakes the process if it waits; otherwise its next wait returns at once. It is safe for
// concurrent use.
func (p *Proc) wakeUp() {
	p.wakeMu.Lock()
	asleep := p.blocked.Load() != blockNone
	if asleep {
		p.blocked.Store(blockNone) // it counts as running from here, although it has not noticed yet
		p.t.moved.Add(1)
	}
	p.woken = !asleep
	p.wakeMu.Unlock()
	if asleep {
		p.wake <- struct{}{} // does not block: one for each sleep
	}
}

// sleepUntilWoken sleeps until the next wakeUp, unless there was one since the last sleep.
func (p *Proc) sleepUntilWoken(kind blockKind) {
	p.wakeMu.Lock()
	kicked := p.woken
	p.woken = false
	if !kicked {
		p.blocked.Store(kind)
	}
	p.wakeMu.Unlock()
	if !kicked {
		p.t.notifyIdle()
		from := p.k.now()
		<-p.wake
		p.idle += p.k.now().Sub(from)
	}
}

// RunTime returns how long the process has run, and how long its children did that have ended, with theirs: the time in which
// they did not wait. Only the process itself may call it.
func (p *Proc) RunTime() (own, children time.Duration) {
	return p.k.now().Sub(p.began) - p.idle, time.Duration(p.childTime.Load())
}

// blockUntilWoken waits for the next wakeUp, and then delivers signals.
func (p *Proc) blockUntilWoken(kind blockKind) {
	p.check()
	p.sleepUntilWoken(kind)
	p.check()
}

// Enter adds a level of nesting, and reports whether that is allowed. Every Enter that returns true
// needs a Leave.
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

// Cmdline returns the arguments in the form of ps.
func (p *Proc) Cmdline() string { return strings.Join(p.public.Load().args, " ") }
