package virtual

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/guest"
)

// Sealed is the runtime (Spec.Runtime) of a sandbox in a process of its own, which can't make system
// calls but those that compute.
const Sealed = "sealed"

// sealedIsolation names the isolation of a sealed sandbox.
const sealedIsolation = "sealed process"

// sealedSandbox is a sandbox in a worker. Its methods may be called from many goroutines at once.
type sealedSandbox struct {
	guest.ServedSandbox // link

	d       *Driver
	id      string
	spec    atoll.Spec
	created time.Time
	dir     *directory // nil: it is in the worker's memory only
	link    guest.Link

	storing sync.Mutex // held while dir is used

	counts       sync.Mutex
	snapshots    int // guarded by counts, as below: the number in the stored record; negative: not known
	newSnapshots int // calls of Snapshot that have not stored one yet

	mu        sync.Mutex
	worker    *workerProcess        // guarded by mu, as all below; the newest; nil: none was needed yet
	begun     bool                  // a worker has made it
	exists    bool                  // it is stored
	forked    *savedState           // what it begins with; nil: the image
	scratch   string                // host directory with forked, if the sandbox is not stored
	forks     map[string]*directory // the storage of forks that are being made
	destroyed bool
	used      time.Time   // when the last operation began
	idle      *time.Timer // ends a worker without work; nil: none was needed
}

var (
	_ atoll.Sandbox          = (*sealedSandbox)(nil)
	_ atoll.DirFS            = (*sealedSandbox)(nil)
	_ atoll.Stopper          = (*sealedSandbox)(nil)
	_ atoll.Pauser           = (*sealedSandbox)(nil)
	_ atoll.Snapshotter      = (*sealedSandbox)(nil)
	_ atoll.SnapshotKeeper   = (*sealedSandbox)(nil)
	_ atoll.Forker           = (*sealedSandbox)(nil)
	_ atoll.Meter            = (*sealedSandbox)(nil)
	_ atoll.Historian        = (*sealedSandbox)(nil)
	_ atoll.Watcher          = (*sealedSandbox)(nil)
	_ atoll.Terminals        = (*sealedSandbox)(nil)
	_ atoll.TerminalAttacher = (*sealedSandbox)(nil)
)

// isSealed reports whether a sandbox with this spec gets a worker.
func (d *Driver) isSealed(spec *atoll.Spec) bool {
	return d.NameIsolation(spec.Runtime, spec.Owner) == sealedIsolation
}

// NameIsolation returns whether an owner's sandboxes with a runtime are in this process or in sealed ones.
func (d *Driver) NameIsolation(runtime string, owner atoll.Owner) string {
	if d.SealOthers && owner != (atoll.Owner{}) && owner != atoll.Local {
		return sealedIsolation
	}
	return isolationOf(runtime)
}

// createSealed creates a sandbox in a worker. from, if not nil, saves the state with which it begins.
func (d *Driver) createSealed(ctx context.Context, id string, spec atoll.Spec, from func(*directory) (*savedState, error)) (_ *sealedSandbox, err error) {
	if len(d.Extensions) > 0 {
		return nil, fmt.Errorf("runtime %s: %w with commands that are functions of this process", Sealed, atoll.ErrUnsupported)
	}
	spec.Runtime = Sealed
	s := d.newSealed(id, spec, nil)
	s.created, s.snapshots = d.currentTime(), 0
	storage, err := s.makeStorage(from != nil)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.discard(storage))
		}
	}()
	if from != nil {
		if s.forked, err = from(storage); err != nil {
			return nil, err
		}
	}
	s.dir = storage
	if err := s.startFirst(ctx); err != nil {
		return nil, err
	}
	if d.Dir != "" {
		s.exists = true
		if err := storage.publish(id); err != nil {
			return nil, err
		}
	}
	d.registerSealed(s)
	return s, nil
}

// startFirst waits until the first worker has made the sandbox. The workers that have waited for one
// may have ended: then others are tried.
func (s *sealedSandbox) startFirst(ctx context.Context) error {
	for try := 0; ; try++ {
		err := s.link.Call(ctx, "create", guest.OpReady, nil, nil)
		s.mu.Lock()
		s.begun = err == nil
		unlucky := s.worker.wasUnlucky()
		s.mu.Unlock()
		if err == nil || !unlucky || try == spareWorkers {
			return err
		}
	}
}

// makeStorage makes the directory in which a new sandbox is stored. Without a Dir of the driver a fork
// gets a temporary one, for what it begins with, others none.
func (s *sealedSandbox) makeStorage(fork bool) (*directory, error) {
	if s.d.Dir != "" {
		base, err := s.d.openBase()
		if err != nil {
			return nil, err
		}
		return createDirectory(s.d.Dir, s.id, base)
	}
	if !fork {
		return nil, nil
	}
	tmp, err := os.MkdirTemp("", "atoll-fork-")
	if err != nil {
		return nil, err
	}
	s.scratch = tmp
	return newDirectory(tmp, nil), nil
}

// discard ends and removes what could not be created.
func (s *sealedSandbox) discard(storage *directory) error {
	s.mu.Lock()
	s.destroyed = true
	w := s.worker
	s.mu.Unlock()
	s.link.Disconnect()
	if w != nil {
		w.kill()
	}
	if storage == nil {
		return nil
	}
	return storage.discard()
}

// newSealed returns a sandbox without a worker.
func (d *Driver) newSealed(id string, spec atoll.Spec, dir *directory) *sealedSandbox {
	s := &sealedSandbox{d: d, id: id, spec: spec, dir: dir, snapshots: -1}
	s.link = guest.Link{
		ID: id, Connect: s.connect, ExplainError: s.explainEnd, BeforeOp: s.noteUse, EndStuck: s.endStuck,
		// The worker completes commands; these timeouts only bound a worker that does not answer.
		Spec: atoll.Spec{Timeouts: atoll.Timeouts{Exec: specTimeout(spec), Transfer: spec.Timeouts.Transfer}},
	}
	if len(spec.Mounts) == 0 {
		s.link.MaxExport = maxStored(spec, 0)
	}
	s.ServedSandbox = &s.link
	return s
}

// specTimeout returns the timeout of the commands of a sandbox.
func specTimeout(spec atoll.Spec) time.Duration {
	if spec.Timeouts.Exec != 0 {
		return spec.Timeouts.Exec
	}
	return DefaultTimeout
}

func (d *Driver) registerSealed(s *sealedSandbox) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.sealed == nil {
		d.sealed = make(map[string]*sealedSandbox)
	}
	d.sealed[s.id] = s
}

// connect gives the sandbox a worker, and returns the connection on which it serves.
func (s *sealedSandbox) connect(ctx context.Context) (net.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.destroyed {
		return nil, fmt.Errorf("%w: it was destroyed", atoll.ErrNotFound)
	}
	if s.begun && !s.exists {
		return nil, fmt.Errorf("%w: what the sandbox was is lost: %w", atoll.ErrUnavailable, s.worker.reason())
	}
	network, err := newNetwork(s.spec.Network, s.d.Upstream)
	if err != nil {
		return nil, err
	}
	w, err := s.d.workers.take(ctx, s.d)
	if err != nil {
		return nil, err
	}
	if s.worker != nil {
		s.releaseStorage()
	}
	s.worker = w
	config := workerConfig{
		ID: s.id, Spec: withoutSecrets(s.spec), Stored: s.d.Dir != "", Exists: s.exists, Forked: s.forked, Created: s.created,
		Policy: s.d.Policy != nil, Network: network != nil, Memory: workerMemory(s.spec),
	}
	if s.dir != nil && s.dir.base != nil {
		config.Base = s.dir.base.root
	}
	return w.assign(config, &workerHost{s: s, network: network, worker: w})
}

// releaseStorage releases what a worker that has ended had locked and opened. The caller holds mu.
func (s *sealedSandbox) releaseStorage() {
	s.storing.Lock()
	defer s.storing.Unlock()
	if s.dir != nil && s.exists { // else it is being created
		s.dir.close()
	}
}

// releaseAfter is releaseStorage after a worker was ended, unless the sandbox has another one now.
func (s *sealedSandbox) releaseAfter(w *workerProcess) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.worker == w {
		s.releaseStorage()
	}
}

// withoutSecrets returns a spec without what only this process may know.
func withoutSecrets(spec atoll.Spec) atoll.Spec {
	spec.Network.Headers = nil
	spec.Mounts = slices.Clone(spec.Mounts)
	spec.Progress = nil
	return spec
}

// workerMargin is what a worker can allocate besides the memory and the files of its sandbox: what
// the Go runtime has not collected yet.
const workerMargin = 96 << 20

// workerMemory returns the hard limit of a worker's memory in bytes; 0: none.
func workerMemory(spec atoll.Spec) int64 {
	if spec.Limits.Memory < 0 || spec.Limits.Disk < 0 {
		return 0
	}
	n := memoryLimit(&spec) + filesLimit(&spec)
	return n + n/4 + workerMargin
}

// noteUse notes that an operation begins.
func (s *sealedSandbox) noteUse(string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used = time.Now()
	if s.exists && s.d.idleWorker() > 0 && s.idle == nil && !s.destroyed {
		s.idle = time.AfterFunc(s.d.idleWorker(), s.endIdle)
	}
	return nil
}

// endIdle ends the worker of a stored sandbox that has nothing to do: what it has done is saved, and
// the next operation starts another.
func (s *sealedSandbox) endIdle() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	s.mu.Lock()
	w, rest := s.worker, s.d.idleWorker()-time.Since(s.used)
	s.mu.Unlock()
	if rest <= 0 && w != nil && !w.hasEnded() && !s.link.InUse() {
		var list []atoll.Terminal
		c, err := s.link.Client(ctx)
		if err == nil {
			err = c.Call(ctx, guest.OpTerminalList, nil, &list)
		}
		if err == nil && len(list) > 0 {
			rest = s.d.idleWorker()
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.destroyed || s.worker != w:
		s.idle = nil
	case rest > 0 || time.Since(s.used) < s.d.idleWorker() || s.link.InUse():
		s.idle.Reset(max(rest, s.d.idleWorker()/8))
	default:
		s.idle = nil
		s.link.Disconnect()
		if w != nil {
			go func() {
				w.kill()
				s.releaseAfter(w)
			}()
		}
	}
}

// endStuck ends a worker that does not end a command: it may have been taken over, and would use the
// processors for ever.
func (s *sealedSandbox) endStuck() {
	s.mu.Lock()
	w := s.worker
	s.mu.Unlock()
	if w != nil {
		w.setFailure(fmt.Errorf("%w: a command did not end, so the sandbox's process was ended", atoll.ErrTimeout))
		w.kill()
	}
}

// idleWorker returns the time without operations after which a worker ends; not positive: none.
func (d *Driver) idleWorker() time.Duration {
	if d.WorkerIdle == 0 {
		return DefaultWorkerIdle
	}
	return d.WorkerIdle
}

// explainEnd adds to the error of a worker that does not answer why it has ended.
func (s *sealedSandbox) explainEnd(ctx context.Context, err error) error {
	s.mu.Lock()
	w := s.worker
	s.mu.Unlock()
	if w == nil {
		return err
	}
	t := time.NewTimer(2 * time.Second) // its connections have ended: so will the process
	defer t.Stop()
	select {
	case <-w.ended:
	case <-t.C:
		return err
	case <-ctx.Done():
		return err
	}
	return w.reason()
}

// ID returns the sandbox's identifier.
func (s *sealedSandbox) ID() string { return s.id }

// Status returns the state of the sandbox now. It does not start a worker.
func (s *sealedSandbox) Status(ctx context.Context) (atoll.Status, error) {
	s.mu.Lock()
	w, destroyed, exists := s.worker, s.destroyed, s.exists
	s.mu.Unlock()
	var st atoll.Status
	switch {
	case destroyed:
		return st, s.wrapError("status", fmt.Errorf("%w: it was destroyed", atoll.ErrNotFound))
	case exists:
		r, err := s.dir.readRecord()
		if err != nil {
			return st, s.wrapError("status", err)
		}
		return sandboxStatus(r.ID, r.Spec, r.Created, r.Active, sandboxState(r.Stopped, r.Paused)), nil
	case w.hasEnded():
		st = sandboxStatus(s.id, s.spec, s.created, s.created, atoll.Failed)
		st.Conditions = []atoll.Condition{{Type: "ready", Reason: "lost", Message: w.reason().Error(), Since: w.endTime()}}
		return st, nil
	}
	if err := s.call(ctx, "status", opStatus, nil, &st); err != nil {
		return atoll.Status{}, err
	}
	if st.State != atoll.Stopped && st.State != atoll.Paused { // whatever else the worker says
		st.State = atoll.Running
	}
	return sandboxStatus(s.id, s.spec, s.created, s.limitActive(st.Active), st.State), nil
}

// limitActive returns the time of the last activity, which a worker may claim to be in the future.
func (s *sealedSandbox) limitActive(t time.Time) time.Time {
	if now := s.d.currentTime(); t.After(now) {
		return now
	}
	return t
}

func (s *sealedSandbox) isStored() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.exists
}

// call runs an operation of the worker.
func (s *sealedSandbox) call(ctx context.Context, verb string, op guest.Op, question, value any) error {
	if question == nil {
		question = nameQuestion{}
	}
	return s.link.Call(ctx, verb, op, question, value)
}

func (s *sealedSandbox) wrapError(op string, err error) error {
	var e *atoll.Error
	if err == nil || errors.As(err, &e) {
		return err
	}
	return &atoll.Error{Op: op, ID: s.id, Err: err}
}

// Destroy ends the worker and removes the sandbox. Destroying it twice is not an error.
func (s *sealedSandbox) Destroy(context.Context) error {
	s.mu.Lock()
	first := !s.destroyed
	s.destroyed = true
	w := s.worker
	s.mu.Unlock()
	s.link.Disconnect()
	if w != nil {
		w.kill()
	}
	if !first {
		return nil
	}
	s.d.mu.Lock()
	if s.d.sealed[s.id] == s {
		delete(s.d.sealed, s.id)
	}
	s.d.mu.Unlock()
	s.storing.Lock()
	defer s.storing.Unlock()
	var err error
	switch {
	case s.scratch != "":
		err = s.dir.discard()
	case s.dir != nil:
		err = s.dir.remove()
	}
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	return s.wrapError("destroy", err)
}

// flushTimeout bounds how long a worker may take to store its history before it is ended.
const flushTimeout = time.Second

// close ends the worker.
func (s *sealedSandbox) close() {
	s.mu.Lock()
	w, stored := s.worker, s.exists && !s.destroyed
	s.mu.Unlock()
	if stored && w != nil && !w.hasEnded() {
		ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
		_ = s.call(ctx, "flush", opFlush, nil, nil) // the history is not essential
		cancel()
	}
	s.link.Disconnect()
	if w != nil {
		w.kill()
		s.releaseAfter(w)
	}
}

// Fork creates a sandbox that starts as this one is now, or was at a snapshot, in a worker of its own.
func (s *sealedSandbox) Fork(ctx context.Context, key string, spec atoll.Spec) (atoll.Sandbox, error) {
	fork, err := s.forkSandbox(ctx, key, spec)
	if err != nil {
		return nil, s.wrapError("fork", err)
	}
	return fork, nil
}

func (s *sealedSandbox) forkSandbox(ctx context.Context, key string, spec atoll.Spec) (*sealedSandbox, error) {
	if len(spec.Mounts) > 0 && !slices.Equal(spec.Mounts, s.spec.Mounts) {
		return nil, fmt.Errorf("%w: mounts: a fork has the mounts of the sandbox that it is forked from", atoll.ErrInvalid)
	}
	spec = inheritSpec(spec, s.spec)
	if err := check(&spec); err != nil {
		return nil, err
	}
	spec.Progress = nil
	id, err := s.d.chooseID(spec)
	if err != nil {
		return nil, err
	}
	return s.d.createSealed(ctx, id, spec, func(storage *directory) (*savedState, error) {
		s.mu.Lock()
		if s.forks == nil {
			s.forks = make(map[string]*directory)
		}
		s.forks[id] = storage
		s.mu.Unlock()
		defer func() {
			s.mu.Lock()
			delete(s.forks, id)
			s.mu.Unlock()
		}()
		var saved savedState
		err := s.call(ctx, "fork", opFork, nameQuestion{Name: key, Fork: id}, &saved)
		return &saved, err
	})
}
