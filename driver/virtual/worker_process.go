package virtual

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/guest"
	"github.com/atoll-sandbox/atoll/internal/isolation/fdpass"
)

// workerProcess is a worker as its parent sees it.
type workerProcess struct {
	cmd    *exec.Cmd
	conn   net.Conn // on which the worker serves its sandbox
	stderr endOfText
	mounts bool // it can keep directories

	assigned chan workerConfig // receives one
	ended    chan struct{}     // closed when the process has ended

	mu      sync.Mutex
	server  *guest.CallServer // guarded by mu, as all below; nil until a sandbox is assigned
	failure error             // why the worker could not make its sandbox, as it said
	exit    error             // how the process has ended
	at      time.Time         // when
	killed  bool              // by this process
}

// workerHelper is the name of the worker's program.
const workerHelper = "atoll-worker"

// startWorker starts a worker without a sandbox.
func (d *Driver) startWorker() (*workerProcess, error) {
	path, err := d.findWorker()
	if err != nil {
		return nil, err
	}
	served, theirServed, err := socketPair()
	if err != nil {
		return nil, err
	}
	calls, theirCalls, err := socketPair()
	if err != nil {
		return nil, errors.Join(err, served.Close(), theirServed.Close())
	}
	w := &workerProcess{conn: served, mounts: true, assigned: make(chan workerConfig, 1), ended: make(chan struct{})}
	start := func() error {
		w.cmd = exec.Command(path) //nolint:noctx // it outlives this call
		w.cmd.Env, w.cmd.Dir, w.cmd.Stderr = []string{}, "/", &w.stderr
		w.cmd.ExtraFiles = []*os.File{theirServed, theirCalls}
		w.cmd.SysProcAttr = workerAttr(w.mounts)
		return w.cmd.Start()
	}
	if err = fdpass.SealInherited(); err == nil {
		err = start()
	}
	if errors.Is(err, syscall.EPERM) { // no namespaces for this user
		w.mounts = false
		err = start()
	}
	err = errors.Join(err, theirServed.Close(), theirCalls.Close())
	if err != nil {
		return nil, errors.Join(fmt.Errorf("starting %s: %w", workerHelper, err), served.Close(), calls.Close())
	}
	go w.serveCalls(calls)
	go w.wait()
	return w, nil
}

// socketPair returns the two ends of a new stream: this process's, and the one for a worker.
func socketPair() (net.Conn, *os.File, error) {
	fds, err := newSocketPair()
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "worker"), os.NewFile(uintptr(fds[1]), "worker")
	conn, err := net.FileConn(ours)
	if err = errors.Join(err, ours.Close()); err != nil {
		return nil, nil, errors.Join(err, theirs.Close())
	}
	return conn, theirs, nil
}

// serveCalls answers the worker's calls until its connection ends.
func (w *workerProcess) serveCalls(conn net.Conn) {
	first := guest.CallServer{Calls: guest.Calls{
		callStart: func(ctx context.Context, _ *guest.Request) (any, error) {
			select {
			case c := <-w.assigned:
				return c, nil
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		},
	}}
	first.Otherwise = func() *guest.CallServer {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.server
	}
	first.ServeConn(conn)
}

// wait waits for the end of the process.
func (w *workerProcess) wait() {
	err := w.cmd.Wait()
	w.mu.Lock()
	w.exit, w.at = err, time.Now()
	w.mu.Unlock()
	close(w.ended)
}

// assign gives the worker a sandbox, and returns the connection on which it serves.
func (w *workerProcess) assign(c workerConfig, h *workerHost) (net.Conn, error) {
	if len(c.Spec.Mounts) > 0 && !w.mounts {
		w.kill()
		return nil, fmt.Errorf("%w: mounts of a sealed sandbox: they need root or user namespaces (see kernel.unprivileged_userns_clone and kernel.apparmor_restrict_unprivileged_userns)", atoll.ErrUnavailable)
	}
	w.mu.Lock()
	w.server = h.server()
	w.mu.Unlock()
	w.assigned <- c
	return w.conn, nil
}

// kill ends the process, and waits for its end.
func (w *workerProcess) kill() {
	w.mu.Lock()
	w.killed = true
	w.mu.Unlock()
	_ = w.conn.Close()
	_ = w.cmd.Process.Kill() // it may have ended
	<-w.ended
}

func (w *workerProcess) setFailure(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failure = err
}

// wasUnlucky reports whether the process has ended for a reason that is not its sandbox's; nil has
// not.
func (w *workerProcess) wasUnlucky() bool {
	if !w.hasEnded() {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.failure == nil && !w.killed
}

// hasEnded reports whether the process has ended; nil has not.
func (w *workerProcess) hasEnded() bool {
	if w == nil {
		return false
	}
	select {
	case <-w.ended:
		return true
	default:
		return false
	}
}

func (w *workerProcess) endTime() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.at
}

// reason returns why the process has ended.
func (w *workerProcess) reason() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failure != nil {
		return w.failure
	}
	text := w.stderr.String()
	switch {
	case w.killed:
		return fmt.Errorf("%w: the sandbox's process was ended", atoll.ErrUnavailable)
	case strings.Contains(text, "out of memory") || strings.Contains(text, "cannot allocate memory") || strings.Contains(text, "failed to create new OS thread"):
		return fmt.Errorf("%w: the sandbox's process ran out of memory and has ended", atoll.ErrQuota)
	case wasForbidden(w.exit):
		return fmt.Errorf("%w: the sandbox's process made a forbidden system call and was ended", atoll.ErrDenied)
	}
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return fmt.Errorf("%w: the sandbox's process has ended (%v): %.200q", atoll.ErrUnavailable, w.exit, line) //nolint:errorlint // its status is for people
}

// workerPool starts workers before they are needed.
type workerPool struct {
	mu      sync.Mutex
	program string           // guarded by mu, as all below; empty: not found yet
	spare   []*workerProcess // without a sandbox
	begun   int              // workers that are being started
	taken   int              // workers that were needed
	closed  bool
}

// spareWorkers is the number of workers that wait for a sandbox.
const spareWorkers = 2

// take returns a worker, and starts others to replace it.
func (p *workerPool) take(ctx context.Context, d *Driver) (*workerProcess, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil, fmt.Errorf("%w: the driver is closed", atoll.ErrUnavailable)
	}
	var w *workerProcess
	for w == nil && len(p.spare) > 0 {
		if w = p.spare[0]; w.hasEnded() {
			w = nil
		}
		p.spare = p.spare[1:]
	}
	p.mu.Unlock()
	var err error
	if w == nil {
		w, err = d.startWorker()
	}
	p.mu.Lock()
	p.taken++
	more := d.SealOthers || p.taken > 1 // a command that makes one sandbox needs no others
	p.mu.Unlock()
	if err == nil && more {
		p.fill(d)
	}
	return w, err
}

// fill starts the workers that are missing.
func (p *workerPool) fill(d *Driver) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for !p.closed && len(p.spare)+p.begun < spareWorkers {
		p.begun++
		go p.addSpare(d)
	}
}

func (p *workerPool) addSpare(d *Driver) {
	w, err := d.startWorker()
	p.mu.Lock()
	p.begun--
	keep := err == nil && !p.closed
	if keep {
		p.spare = append(p.spare, w)
	}
	p.mu.Unlock()
	if err == nil && !keep {
		w.kill()
	}
}

// close ends the waiting workers.
func (p *workerPool) close() {
	p.mu.Lock()
	list := p.spare
	p.spare, p.closed = nil, true
	p.mu.Unlock()
	for _, w := range list {
		w.kill()
	}
}

// endOfText keeps the last bytes that are written to it.
type endOfText struct {
	mu   sync.Mutex
	text []byte // guarded by mu
}

// maxEndOfText is the largest number of bytes that endOfText keeps.
const maxEndOfText = 8 << 10

// Write adds text.
func (e *endOfText) Write(b []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.text = append(e.text, b[max(0, len(b)-maxEndOfText):]...)
	if len(e.text) > maxEndOfText {
		e.text = slices.Clone(e.text[len(e.text)-maxEndOfText:])
	}
	return len(b), nil
}

func (e *endOfText) String() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return string(e.text)
}
