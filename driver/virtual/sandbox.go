package virtual

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/kernel"
	"github.com/atoll-sandbox/atoll/internal/vt"
	"github.com/atoll-sandbox/atoll/shell"
	"github.com/atoll-sandbox/atoll/vfs"
)

// Sandbox is a virtual computer.
type Sandbox struct {
	d       *Driver
	id      string
	spec    atoll.Spec
	created time.Time
	keep    *keeper       // nil when it is only in memory
	turn    chan struct{} // holds a token while the session runs a command
	mounts  mounts
	gone    chan struct{} // closed when it is destroyed

	terminals vt.Set

	mu        sync.Mutex
	fs        *vfs.FS        // guarded by mu, as all below
	k         *kernel.Kernel // likewise k and sh: Restore from disk replaces them
	sh        *shell.Shell
	where     string      // the session's directory
	state     shell.State // of the session after its last command; only where it is kept
	active    time.Time
	commands  int64
	stopped   bool
	paused    bool
	destroyed bool
	running   map[*operation]struct{}
	snapshots []snapshot
	past      history
	replaced  chan struct{} // closed when fs is another; nil while nobody watches
}

// assemble connects files, kernel and shell.
func (s *Sandbox) assemble(im *image, net *network, files *vfs.FS) {
	s.fs = files
	if s.replaced != nil {
		close(s.replaced)
		s.replaced = nil
	}
	cfg := kernel.Config{
		FS: files, Programs: im.programs, Now: s.d.Now, Rand: s.d.Rand,
		Policy: s.d.Policy,
		Limits: kernel.Limits{Memory: s.spec.Limits.Memory, Procs: s.spec.Limits.PIDs},
	}
	if net != nil {
		cfg.Network = net
	}
	s.k = kernel.New(cfg)
	s.sh = shell.New(shell.Config{Kernel: s.k, Env: s.environ(nil), Dir: s.dir()})
	s.where = s.dir()
}

func (s *Sandbox) dir() string {
	if s.spec.Dir != "" {
		return s.spec.Dir
	}
	return DefaultDir
}

// environ is the environment of a command that is not the session's.
func (s *Sandbox) environ(extra []string) []string {
	env := make([]string, 0, len(defaultEnv)+len(s.spec.Env)+len(extra))
	env = append(append(env, defaultEnv...), s.spec.Env...)
	return append(env, extra...)
}

// setUp makes what a new sandbox has of its own.
func (s *Sandbox) setUp() error {
	if dir := s.dir(); dir != DefaultDir {
		if err := s.fs.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("dir %s: %w", dir, err)
		}
	}
	if s.spec.Network.Mode == "" && len(s.spec.Network.Allow) == 0 || s.spec.Network.Mode == atoll.NetworkNone && len(s.spec.Network.Allow) == 0 {
		return nil
	}
	return s.fs.WriteFile("/usr/bin/curl", kernel.Stub("curl"), 0o755)
}

// ID returns the sandbox's identifier.
func (s *Sandbox) ID() string { return s.id }

// operation is one call under way.
type operation struct {
	s      *Sandbox
	cancel context.CancelCauseFunc
	done   chan struct{}
	held   bool
}

// begin starts an operation: the sandbox must be there, and running where
// needs says so. The context ends when the sandbox is destroyed.
func (s *Sandbox) begin(ctx context.Context, needs bool) (context.Context, *operation, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, nil, timedOut(err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	op := &operation{s: s, cancel: cancel, done: make(chan struct{})}
	s.mu.Lock()
	err := s.refuse(needs && s.keep == nil) // another process may have changed what is kept
	if err == nil {
		if s.running == nil {
			s.running = make(map[*operation]struct{})
		}
		s.running[op] = struct{}{}
	}
	s.mu.Unlock()
	if err == nil && s.keep != nil {
		if err = s.hold(ctx); err == nil {
			op.held = true
			err = s.refuseLocked(needs)
		}
	}
	if err == nil && needs {
		files, _, _ := s.parts()
		err = s.mount(files)
	}
	if err != nil {
		op.end()
		return nil, nil, err
	}
	return ctx, op, nil
}

func (s *Sandbox) refuseLocked(needs bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refuse(needs)
}

// refuse says why an operation can't begin; the caller holds mu.
func (s *Sandbox) refuse(needs bool) error {
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

// end finishes an operation.
func (op *operation) end() {
	s := op.s
	op.cancel(nil)
	s.mu.Lock()
	delete(s.running, op)
	s.mu.Unlock()
	if op.held {
		s.release()
	}
	close(op.done)
}

// parts returns what the sandbox is made of now.
func (s *Sandbox) parts() (*vfs.FS, *kernel.Kernel, *shell.Shell) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fs, s.k, s.sh
}

// fail wraps an error of an operation.
func (s *Sandbox) fail(op string, err error) error {
	var e *atoll.Error
	if err == nil || errors.As(err, &e) {
		return err
	}
	return &atoll.Error{Op: op, ID: s.id, Err: err}
}

// timedOut makes a context's deadline an ErrTimeout.
func timedOut(err error) error {
	if errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, atoll.ErrTimeout) {
		return fmt.Errorf("%w: %w", atoll.ErrTimeout, err)
	}
	return err
}

// Status returns the facts of this moment.
func (s *Sandbox) Status(ctx context.Context) (atoll.Status, error) {
	_, op, err := s.begin(ctx, false)
	if err != nil {
		return atoll.Status{}, s.fail("status", err)
	}
	defer op.end()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status(), nil
}

// status is Status; the caller holds mu.
func (s *Sandbox) status() atoll.Status {
	return statusOf(s.id, s.spec, s.created, s.active, stateOf(s.stopped, s.paused))
}

func statusOf(id string, spec atoll.Spec, created, active time.Time, state atoll.State) atoll.Status {
	st := atoll.Status{
		ID: id, Name: spec.Name, Driver: "virtual", State: state, Labels: spec.Labels, Isolation: isolation,
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

// Stop ends what runs and refuses commands until Start. Files, session and
// snapshots stay.
func (s *Sandbox) Stop(ctx context.Context) error { return s.fail("stop", s.setStopped(ctx, true)) }

// Start lets commands run again.
func (s *Sandbox) Start(ctx context.Context) error { return s.fail("start", s.setStopped(ctx, false)) }

func (s *Sandbox) setStopped(ctx context.Context, stopped bool) error {
	_, op, err := s.begin(ctx, false)
	if err != nil {
		return err
	}
	s.mu.Lock()
	if s.paused && !stopped {
		s.mu.Unlock()
		op.end()
		return fmt.Errorf("%w: it is paused, not stopped; resume it", atoll.ErrState)
	}
	s.stopped, s.paused = stopped, false
	s.active = s.d.now()
	others, k := s.others(op), s.k
	s.mu.Unlock()
	err = s.save(ctx)
	op.end() // before the others are waited for: one of them may wait for this
	if stopped {
		cancelAll(others, fmt.Errorf("%w: the sandbox was stopped", atoll.ErrState))
		k.Resume() // what stood still has ended
	}
	return err
}

// others returns the operations under way besides op; the caller holds mu.
func (s *Sandbox) others(op *operation) []*operation {
	var list []*operation
	for o := range s.running {
		if o != op {
			list = append(list, o)
		}
	}
	return list
}

// cancelAll ends operations and waits for them. Each ends soon: its context
// is done, and nothing of it waits for anything else.
func cancelAll(list []*operation, cause error) {
	for _, o := range list {
		o.cancel(cause)
	}
	for _, o := range list {
		<-o.done
	}
}

// Destroy ends what runs and removes the sandbox.
func (s *Sandbox) Destroy(ctx context.Context) error {
	s.mu.Lock()
	first := !s.destroyed
	s.destroyed = true
	list := s.others(nil)
	s.mu.Unlock()
	cancelAll(list, fmt.Errorf("%w: the sandbox was destroyed", atoll.ErrNotFound))
	if !first {
		return nil
	}
	close(s.gone)
	s.d.forget(s)
	s.unmount()
	if s.keep != nil {
		if err := s.keep.remove(); err != nil && !errors.Is(err, os.ErrNotExist) {
			return s.fail("destroy", err)
		}
	}
	return nil
}

// Stats returns what the sandbox uses now.
func (s *Sandbox) Stats(ctx context.Context) (atoll.Stats, error) {
	_, op, err := s.begin(ctx, false)
	if err != nil {
		return atoll.Stats{}, s.fail("stats", err)
	}
	defer op.end()
	s.mu.Lock()
	defer s.mu.Unlock()
	u := s.fs.Usage()
	return atoll.Stats{
		ID: s.id, Files: u.Nodes, DiskUsed: u.Bytes, DiskLimit: u.Quota.Bytes, MemoryUsed: s.k.Memory(), Processes: len(s.k.Procs()),
		Commands: s.commands, Dir: s.where, Created: s.created, Active: s.active,
	}, nil
}
