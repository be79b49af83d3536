package virtual

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/guest/vt"
	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell"
	"github.com/atoll-sandbox/atoll/shell/command"
	"github.com/atoll-sandbox/atoll/vfs"
)

// Sandbox is a virtual computer. Its methods may be called from many goroutines at once.
type Sandbox struct {
	d           *Driver
	id          string
	spec        atoll.Spec
	created     time.Time
	disk        *diskStore    // nil when it is only in memory
	dir         *directory    // of disk; nil in memory, and in a worker
	sessionLock chan struct{} // holds a token while the session runs a command
	mounts      mounts
	closed      chan struct{} // closed when it is destroyed

	terminals vt.Set

	heapFiles int64 // of the runtime's memory limit, for its files; guarded by d.mu

	mu         sync.Mutex
	fs         *vfs.FS        // guarded by mu, as all below
	k          *kernel.Kernel // replaced, as fs and sh, when another process has changed the stored sandbox
	sh         *shell.Shell
	sessionDir string      // the session's directory
	state      shell.State // of the session after its last command; set only if the sandbox is stored
	active     time.Time
	commands   int64
	stopped    bool
	paused     bool
	destroyed  bool
	running    map[*operation]struct{}
	snapshots  []snapshot
	history    history
	watchers   int           // watches in progress, which need fs
	replaced   chan struct{} // closed when fs is replaced; nil while nothing watches it
}

// setUpKernel creates the kernel and the shell for the files of a sandbox.
func (s *Sandbox) setUpKernel(im *image, network kernel.Network, files *vfs.FS) {
	s.fs = files
	if s.replaced != nil {
		close(s.replaced)
		s.replaced = nil
	}
	cfg := kernel.Config{
		FS: files, Programs: im.programs, Now: s.d.Now, Rand: s.d.Rand,
		Policy: s.d.Policy, Network: network, Python: s.d.runPython,
		Limits: kernel.Limits{Memory: s.spec.Limits.Memory, Procs: s.spec.Limits.PIDs},
	}
	if cfg.Python == nil {
		cfg.Python = func(ctx context.Context, cold bool) (net.Conn, error) { return s.d.startPython(ctx, s.id, cold) }
	}
	s.k = kernel.New(cfg)
	s.sh = shell.New(shell.Config{Kernel: s.k, Env: s.commandEnv(nil), Dir: s.workingDir()})
	s.sessionDir = s.workingDir()
}

func (s *Sandbox) workingDir() string {
	if s.spec.Dir != "" {
		return s.spec.Dir
	}
	return DefaultDir
}

// commandEnv returns the environment of a command outside the session.
func (s *Sandbox) commandEnv(extra []string) []string {
	env := make([]string, 0, len(defaultEnv)+len(s.spec.Env)+len(extra))
	env = append(append(env, defaultEnv...), s.spec.Env...)
	return append(env, extra...)
}

// makeInitialFiles creates the files of a new sandbox that depend on its spec.
func (s *Sandbox) makeInitialFiles() error {
	if dir := s.workingDir(); dir != DefaultDir {
		if err := s.fs.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("dir %s: %w", dir, err)
		}
	}
	if s.spec.Network.Mode == "" && len(s.spec.Network.Allow) == 0 || s.spec.Network.Mode == atoll.NetworkNone && len(s.spec.Network.Allow) == 0 {
		return nil
	}
	for _, c := range command.Network() {
		if err := s.fs.WriteFile("/usr/bin/"+c.Name, kernel.StubFile(c.Name), 0o755); err != nil {
			return err
		}
	}
	return nil
}

// ID returns the sandbox's identifier.
func (s *Sandbox) ID() string { return s.id }

// operation is one call in progress.
type operation struct {
	s      *Sandbox
	cancel context.CancelCauseFunc
	done   chan struct{}
	held   bool
	follow *time.Timer // see followFiles; nil: it does not
}

// beginOperation starts an operation. It fails if the sandbox was destroyed, or, with needs, if it
// does not run. The context ends when the sandbox is destroyed. The caller closes the operation.
func (s *Sandbox) beginOperation(ctx context.Context, needs bool) (context.Context, *operation, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, nil, wrapTimeout(err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	op := &operation{s: s, cancel: cancel, done: make(chan struct{})}
	s.mu.Lock()
	err := s.checkStateLocked(needs && s.disk == nil) // another process may have changed a stored sandbox
	if err == nil {
		if s.running == nil {
			s.running = make(map[*operation]struct{})
		}
		s.running[op] = struct{}{}
	}
	s.mu.Unlock()
	if err == nil && s.disk != nil {
		if err = s.acquireStore(ctx); err == nil {
			op.held = true
			err = s.checkState(needs)
		}
	}
	if err == nil && needs {
		files, _, _ := s.currentParts()
		err = s.mountAll(files)
	}
	if err != nil {
		op.close()
		return nil, nil, err
	}
	op.followFiles()
	return ctx, op, nil
}

func (s *Sandbox) checkState(needs bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.checkStateLocked(needs)
}

// checkStateLocked reports why an operation can't begin; the caller holds mu.
func (s *Sandbox) checkStateLocked(needs bool) error {
	switch {
	case s.destroyed:
		return fmt.Errorf("%w: it was destroyed", atoll.ErrNotFound)
	case needs && s.stopped:
		return fmt.Errorf("%w: it is stopped; start it first", atoll.ErrState)
	case needs && s.paused:
		return fmt.Errorf("%w: it is paused; resume it first", atoll.ErrState)
	}
	return nil
}

// close ends an operation.
func (op *operation) close() {
	s := op.s
	op.cancel(nil)
	s.mu.Lock()
	delete(s.running, op)
	s.mu.Unlock()
	if op.held {
		s.releaseStore()
	}
	close(op.done)
	if op.follow != nil {
		op.follow.Stop()
	}
}

// currentParts returns the files, kernel and shell of the sandbox.
func (s *Sandbox) currentParts() (*vfs.FS, *kernel.Kernel, *shell.Shell) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fs, s.k, s.sh
}

// wrapError adds the operation and the sandbox to an error.
func (s *Sandbox) wrapError(op string, err error) error {
	var e *atoll.Error
	if err == nil || errors.As(err, &e) {
		return err
	}
	return &atoll.Error{Op: op, ID: s.id, Err: err}
}

// wrapTimeout makes the error of a passed deadline match atoll.ErrTimeout.
func wrapTimeout(err error) error {
	if errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, atoll.ErrTimeout) {
		return fmt.Errorf("%w: %w", atoll.ErrTimeout, err)
	}
	return err
}

// Status returns the state of the sandbox now.
func (s *Sandbox) Status(ctx context.Context) (atoll.Status, error) {
	_, op, err := s.beginOperation(ctx, false)
	if err != nil {
		return atoll.Status{}, s.wrapError("status", err)
	}
	defer op.close()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.statusLocked(), nil
}

// statusLocked returns the status; the caller holds mu.
func (s *Sandbox) statusLocked() atoll.Status {
	return sandboxStatus(s.id, s.spec, s.created, s.active, sandboxState(s.stopped, s.paused))
}

func isolationOf(runtime string) string {
	if runtime == Sealed {
		return sealedIsolation
	}
	return isolation
}

func sandboxStatus(id string, spec atoll.Spec, created, active time.Time, state atoll.State) atoll.Status {
	st := atoll.Status{
		ID: id, Name: spec.Name, Driver: "virtual", State: state, Labels: spec.Labels, Isolation: isolationOf(spec.Runtime),
		Created: created, Active: active,
	}
	ready := atoll.Condition{Type: "ready", True: true, Reason: "running", Since: created}
	switch state {
	case atoll.Stopped:
		ready = atoll.Condition{Type: "ready", Reason: "stopped", Message: "start it first", Since: active}
	case atoll.Paused:
		ready = atoll.Condition{Type: "ready", Reason: "paused", Message: "resume it first", Since: active}
	}
	st.Conditions = []atoll.Condition{ready}
	return st
}

// Stop ends all processes and refuses commands until Start. Files, session and snapshots remain.
func (s *Sandbox) Stop(ctx context.Context) error {
	return s.wrapError("stop", s.setStopped(ctx, true))
}

// Start lets commands run again.
func (s *Sandbox) Start(ctx context.Context) error {
	return s.wrapError("start", s.setStopped(ctx, false))
}

func (s *Sandbox) setStopped(ctx context.Context, stopped bool) error {
	_, op, err := s.beginOperation(ctx, false)
	if err != nil {
		return err
	}
	s.mu.Lock()
	if s.paused && !stopped {
		s.mu.Unlock()
		op.close()
		return fmt.Errorf("%w: it is paused, not stopped; resume it", atoll.ErrState)
	}
	s.stopped, s.paused = stopped, false
	s.active = s.d.currentTime()
	others, k := s.otherOperations(op), s.k
	s.mu.Unlock()
	err = s.save(ctx)
	op.close() // before waiting for the others: one of them may wait for this one
	if stopped {
		cancelAll(others, fmt.Errorf("%w: the sandbox was stopped", atoll.ErrState))
		k.Resume() // processes that were paused have ended
	}
	return err
}

// otherOperations returns the operations in progress besides op; the caller holds mu.
func (s *Sandbox) otherOperations(op *operation) []*operation {
	var list []*operation
	for o := range s.running {
		if o != op {
			list = append(list, o)
		}
	}
	return list
}

// cancelAll ends operations and waits for them. Each ends soon: its context is done, and it waits
// for nothing else.
func cancelAll(list []*operation, cause error) {
	for _, o := range list {
		o.cancel(cause)
	}
	for _, o := range list {
		<-o.done
	}
}

// Destroy ends all processes and removes the sandbox. Destroying it twice is not an error.
func (s *Sandbox) Destroy(ctx context.Context) error {
	s.mu.Lock()
	first := !s.destroyed
	s.destroyed = true
	list := s.otherOperations(nil)
	s.mu.Unlock()
	cancelAll(list, fmt.Errorf("%w: the sandbox was destroyed", atoll.ErrNotFound))
	if !first {
		return nil
	}
	close(s.closed)
	s.d.unregister(s)
	s.d.idle.remove(s)
	s.unmountAll()
	if s.dir != nil {
		if err := s.dir.remove(); err != nil && !errors.Is(err, os.ErrNotExist) {
			return s.wrapError("destroy", err)
		}
	}
	return nil
}

// Stats returns the resources that the sandbox uses now.
func (s *Sandbox) Stats(ctx context.Context) (atoll.Stats, error) {
	_, op, err := s.beginOperation(ctx, false)
	if err != nil {
		return atoll.Stats{}, s.wrapError("stats", err)
	}
	defer op.close()
	s.mu.Lock()
	defer s.mu.Unlock()
	u := s.fs.Usage()
	return atoll.Stats{
		ID: s.id, Files: u.Nodes, DiskUsed: u.Bytes, DiskLimit: u.Quota.Bytes, MemoryUsed: s.k.Memory(), Processes: len(s.k.Procs()),
		Commands: s.commands, Dir: s.sessionDir, Created: s.created, Active: s.active,
	}, nil
}
