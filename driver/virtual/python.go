package virtual

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/guest"
	"github.com/atoll-sandbox/atoll/internal/helper"
	"github.com/atoll-sandbox/atoll/internal/isolation/fdpass"
	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
)

const (
	// maxInterpreters is how many Python interpreters run at once, those of all sandboxes of a driver together.
	maxInterpreters = 16
	// maxOfSandbox is how many of them are those of one sandbox.
	maxOfSandbox = 4
	// keepInterpreter is how long an interpreter waits for the next call of python3.
	keepInterpreter = time.Minute
	// endTime is how long a call waits for another one to end where as many run as may. An interpreter of a sealed sandbox
	// is counted for a moment after its call has returned there.
	endTime = 2 * time.Second
)

// pythonPool starts Python interpreters, one process for each call. One that has begun before it is needed answers sooner.
type pythonPool struct {
	mu      sync.Mutex
	spare   *interpreter   // guarded by mu, as all below; nil: none
	begun   bool           // a spare one is being started
	taken   int            // interpreters that were needed
	running map[string]int // the interpreters in use, by the ids of sandboxes
	closed  bool
	freed   chan struct{} // closed when one is not in use any more; nil: nothing waits
}

// interpreter is the process of a Python interpreter.
type interpreter struct {
	net.Conn // on which it makes its calls

	cmd    *exec.Cmd
	idle   *time.Timer // ends a spare one; nil: it is in use
	ended  chan struct{}
	end    sync.Once
	onEnd  func()
	stderr endOfText
}

// startPython returns the connection to an interpreter for a sandbox; closing it ends the interpreter.
func (d *Driver) startPython(ctx context.Context, id string, cold bool) (net.Conn, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	p := &d.python
	if err := p.admitWithin(ctx, id, endTime); err != nil {
		return nil, err
	}
	p.mu.Lock()
	var in *interpreter
	if p.spare != nil && !cold {
		in, p.spare = p.spare, nil
		in.idle.Stop()
	}
	p.mu.Unlock()
	if in != nil && in.hasEnded() {
		_ = in.Close() // nothing has used it
		in = nil
	}
	if in == nil {
		var err error
		if in, err = d.launchPython(cold); err != nil {
			p.release(id)
			return nil, err
		}
	}
	in.onEnd = func() { p.release(id) }
	p.mu.Lock()
	p.taken++
	more := d.SealOthers || p.taken > 1 // a command that runs one program needs no others
	p.mu.Unlock()
	if more {
		go d.addSparePython()
	}
	return in, nil
}

// admitWithin counts one more interpreter of a sandbox, if that is possible within some time.
func (p *pythonPool) admitWithin(ctx context.Context, id string, limit time.Duration) error {
	late := time.NewTimer(limit)
	defer late.Stop()
	for {
		p.mu.Lock()
		err := p.admit(id)
		if p.freed == nil {
			p.freed = make(chan struct{})
		}
		freed := p.freed
		p.mu.Unlock()
		if !errors.Is(err, atoll.ErrQuota) {
			return err
		}
		select {
		case <-freed:
		case <-late.C:
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// admit counts one more interpreter of a sandbox, or refuses it. p.mu is held.
func (p *pythonPool) admit(id string) error {
	all := 0
	for _, n := range p.running {
		all += n
	}
	switch {
	case p.closed:
		return fmt.Errorf("%w: the driver is closed", atoll.ErrUnavailable)
	case p.running[id] >= maxOfSandbox:
		return fmt.Errorf("%w: %d Python programs of this sandbox run already", atoll.ErrQuota, maxOfSandbox)
	case all >= maxInterpreters:
		return fmt.Errorf("%w: %d Python programs run already on this host: try again", atoll.ErrQuota, maxInterpreters)
	}
	if p.running == nil {
		p.running = make(map[string]int)
	}
	p.running[id]++
	return nil
}

// release ends the use of an interpreter by a sandbox.
func (p *pythonPool) release(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running[id]--; p.running[id] <= 0 {
		delete(p.running, id)
	}
	if p.freed != nil {
		close(p.freed)
		p.freed = nil
	}
}

// addSparePython starts an interpreter for the next call.
func (d *Driver) addSparePython() {
	p := &d.python
	p.mu.Lock()
	needed := p.spare == nil && !p.begun && !p.closed
	p.begun = p.begun || needed
	p.mu.Unlock()
	if !needed {
		return
	}
	in, err := d.launchPython(false)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.begun = false
	switch {
	case err != nil:
	case p.closed:
		_ = in.Close() // it was not used
	default:
		p.spare = in
		in.idle = time.AfterFunc(keepInterpreter, func() { p.drop(in) })
	}
}

// drop ends a spare interpreter that was not needed.
func (p *pythonPool) drop(in *interpreter) {
	p.mu.Lock()
	is := p.spare == in
	if is {
		p.spare = nil
	}
	p.mu.Unlock()
	if is {
		_ = in.Close() // it was not used
	}
}

// close ends the spare interpreter; those in use end with their sandboxes.
func (p *pythonPool) close() {
	p.mu.Lock()
	in := p.spare
	p.spare, p.closed = nil, true
	p.mu.Unlock()
	if in != nil {
		_ = in.Close() // it was not used
	}
}

// launchPython starts the process of an interpreter.
func (d *Driver) launchPython(cold bool) (*interpreter, error) {
	if runtime.GOOS != "linux" {
		return nil, fmt.Errorf("%w: python3 needs Linux: its interpreter is a sealed process", atoll.ErrUnsupported)
	}
	dir, err := d.Helpers.FindPython()
	if err != nil {
		return nil, err
	}
	path, err := d.Helpers.Find(helper.PythonProgram)
	if err != nil {
		return nil, err
	}
	if err := fdpass.SealInherited(); err != nil {
		return nil, err
	}
	ours, theirs, err := socketPair()
	if err != nil {
		return nil, err
	}
	in := &interpreter{Conn: ours, ended: make(chan struct{})}
	in.cmd = exec.Command(path, dir) //nolint:noctx // closing its connection ends it
	if cold {
		in.cmd.Args = append(in.cmd.Args, "cold")
	}
	in.cmd.Env, in.cmd.Dir, in.cmd.Stderr = []string{}, "/", &in.stderr
	in.cmd.ExtraFiles = []*os.File{theirs}
	in.cmd.SysProcAttr = workerAttr(true)
	started := make(chan error)
	go in.runProcess(started)
	if err = errors.Join(<-started, theirs.Close()); err != nil {
		return nil, errors.Join(fmt.Errorf("starting %s: %w", helper.PythonProgram, err), in.Close())
	}
	return in, nil
}

// runProcess starts the process and waits for its end, all on one thread: an interpreter that computes does not see that
// its connection has ended, but the system kills it (seal.Options.EndWithParent) when the thread ends that has started it.
func (in *interpreter) runProcess(started chan<- error) {
	defer close(in.ended)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := in.cmd.Start()
	if errors.Is(err, os.ErrPermission) { // no namespaces for this user
		in.cmd = &exec.Cmd{Path: in.cmd.Path, Args: in.cmd.Args, Env: []string{}, Dir: "/", Stderr: &in.stderr, ExtraFiles: in.cmd.ExtraFiles, SysProcAttr: workerAttr(false)}
		err = in.cmd.Start()
	}
	started <- err
	if err == nil {
		_ = in.cmd.Wait() // its end is what counts
	}
}

func (in *interpreter) hasEnded() bool {
	select {
	case <-in.ended:
		return true
	default:
		return false
	}
}

// Close ends the interpreter, and waits for its end.
func (in *interpreter) Close() error {
	in.end.Do(func() {
		_ = in.Conn.Close()
		if in.cmd.Process != nil {
			_ = in.cmd.Process.Kill() // it may have ended
		}
		<-in.ended
		if in.onEnd != nil {
			in.onEnd()
		}
	})
	return nil
}

// servePython connects a sealed sandbox to an interpreter: conn is that of the sandbox's worker.
func servePython(conn net.Conn, in net.Conn) {
	defer func() { _ = in.Close() }() // the interpreter
	done := make(chan struct{}, 2)
	relay := func(to, from net.Conn) {
		_, _ = io.Copy(to, from) // either end may be the first to end
		done <- struct{}{}
	}
	go relay(in, conn)
	go relay(conn, in)
	<-done
	_, _ = conn.Close(), in.Close() // both directions end
	<-done
}

// pythonQuestion is the question of callPython.
type pythonQuestion struct {
	Cold bool `json:"cold,omitempty"`
}

// parentPython starts interpreters through the parent of a worker.
func parentPython(parent *guest.Client) kernel.Python {
	return func(ctx context.Context, cold bool) (net.Conn, error) {
		return parent.OpenStream(ctx, callPython, pythonQuestion{cold})
	}
}
