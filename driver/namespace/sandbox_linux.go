package namespace

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/guest"
	"github.com/atoll-sandbox/atoll/internal/isolation/cgroup"
	"github.com/atoll-sandbox/atoll/internal/isolation/jail"
	"github.com/atoll-sandbox/atoll/internal/state/journal"
)

// Sandbox is a sandbox of this driver: a link to its guest, and a directory of the host.
type Sandbox struct {
	*guest.Link

	d  *Driver
	id string
}

var (
	_ atoll.Sandbox           = (*Sandbox)(nil)
	_ atoll.DirFS             = (*Sandbox)(nil)
	_ atoll.Stopper           = (*Sandbox)(nil)
	_ atoll.Pauser            = (*Sandbox)(nil)
	_ atoll.Snapshotter       = (*Sandbox)(nil)
	_ atoll.SnapshotKeeper    = (*Sandbox)(nil)
	_ atoll.Forker            = (*Sandbox)(nil)
	_ atoll.NetworkController = (*Sandbox)(nil)
	_ atoll.Meter             = (*Sandbox)(nil)
	_ atoll.Watcher           = (*Sandbox)(nil)
	_ atoll.Detacher          = (*Sandbox)(nil)
	_ atoll.Terminals         = (*Sandbox)(nil)
	_ atoll.Notifier          = (*Sandbox)(nil)
	_ atoll.Dialer            = (*Sandbox)(nil)
	_ atoll.Listener          = (*Sandbox)(nil)
	_ atoll.AbilityReporter   = (*Sandbox)(nil)
)

// Has reports whether the sandbox has an ability on this host.
func (s *Sandbox) Has(ability any) bool {
	if _, ok := ability.(*atoll.Pauser); ok {
		t, err := s.d.cgroups()
		return err == nil && t.Has(cgroup.Nesting) && s.Spec.Runtime != runtimeRunsc
	}
	return true
}

func (d *Driver) newHandle(r *record) *Sandbox {
	s := &Sandbox{d: d, id: r.ID}
	spec := r.Spec
	if spec.Dir == "" {
		spec.Dir = atoll.DefaultDir
	}
	s.Link = &guest.Link{
		ID: r.ID, Spec: spec, BeforeOp: s.checkOperation, CountedDirs: countedDirs(),
		Connect: func(ctx context.Context) (net.Conn, error) { return d.connectShared(ctx, r.ID) },
	}
	if r.Spec.Runtime == runtimeRunsc {
		s.Link.Connect = func(ctx context.Context) (net.Conn, error) { return d.connectRunsc(ctx, r.ID) }
	}
	return s
}

// countedDirs returns the directories with a sandbox's own files.
func countedDirs() []string {
	return []string{"/tmp", "/var", "/home", "/root", "/run", "/srv", "/mnt", "/media", atoll.DefaultDir}
}

// checkOperation reports why a sandbox can't do an operation of the guest.
func (s *Sandbox) checkOperation(op string) error {
	r, err := s.d.stateHome().LoadRecovered(s.id)
	if err != nil {
		return err
	}
	return guest.CheckState(op, r.State)
}

// ID returns the sandbox's identifier.
func (s *Sandbox) ID() string { return s.id }

// wrapError adds the operation and the sandbox to an error.
func (s *Sandbox) wrapError(op string, err error) error {
	var e *atoll.Error
	if err == nil || errors.As(err, &e) {
		return err
	}
	return &atoll.Error{Op: op, ID: s.id, Err: err}
}

// Open returns a sandbox by its id.
func (d *Driver) Open(_ context.Context, id string) (atoll.Sandbox, error) {
	r, err := d.stateHome().LoadRecovered(id)
	if err == nil && isUnfinished(r) {
		err = atoll.ErrNotFound // it is not created yet, or never was
	}
	if err != nil {
		return nil, &atoll.Error{Op: "open", ID: id, Err: err}
	}
	return d.newHandle(r), nil
}

// List returns the sandboxes in the driver's directory, and removes the remains of those whose
// creation or removal was interrupted.
func (d *Driver) List(context.Context) ([]atoll.Status, error) {
	if err := d.userIDs().ReleaseAbandoned(d.stateHome().HasDir); err != nil {
		return nil, &atoll.Error{Op: "list", Err: err}
	}
	list, err := d.stateHome().Statuses(isUnfinished, d.sandboxStatus, atoll.Status{Driver: d.Name(), Isolation: isolation})
	if err != nil {
		return nil, &atoll.Error{Op: "list", Err: err}
	}
	_ = d.imageStore().RemoveUnfinished() // the next List tries again
	return list, nil
}

// isUnfinished reports whether a sandbox was never created completely.
func isUnfinished(r *record) bool { return r.State == atoll.Starting }

// sandboxStatus returns the status of a sandbox whose lock the caller does not hold. Without a
// process 1 it may be in the middle of an act: the status is that after it.
func (d *Driver) sandboxStatus(r *record) atoll.Status {
	s := d.statusNow(r)
	if s.State != atoll.Failed {
		return s
	}
	if settled, err := d.stateHome().LoadSettled(r.ID); err == nil {
		return d.statusNow(settled)
	}
	return s
}

// statusNow returns the status of a sandbox as its record and its process 1 are now.
func (d *Driver) statusNow(r *record) atoll.Status {
	s := atoll.Status{
		ID: r.ID, Name: r.Spec.Name, Driver: d.Name(), State: r.State, Labels: r.Spec.Labels, Isolation: d.NameIsolation(r.Spec.Runtime, r.Spec.Owner), Created: r.Created, Active: r.Created,
	}
	ready := atoll.Condition{Type: "ready", True: r.State == atoll.Running, Reason: string(r.State)}
	if r.State == atoll.Stopped && r.Failure != "" {
		ready.Reason, ready.Message = "start failed", r.Failure
	}
	if r.State == atoll.Running || r.State == atoll.Paused {
		f, err := d.openProcess(r)
		if err == nil {
			_ = f.Close() // it was only looked up
		}
		if err != nil || jail.IsEnding(r.PID) {
			s.State = atoll.Failed
			ready = atoll.Condition{Type: "ready", Reason: "died", Message: "process 1 of the sandbox has ended"}
			if boot, berr := d.bootID(); berr == nil && boot != r.Boot {
				s.State = atoll.Stopped
				ready = atoll.Condition{Type: "ready", Reason: "stopped", Message: "the host was restarted"}
			}
		}
	}
	s.Conditions = []atoll.Condition{ready}
	return s
}

// openProcess returns the pidfd of a sandbox's process 1, or an error that matches os.ErrNotExist.
func (d *Driver) openProcess(r *record) (*os.File, error) {
	boot, err := d.bootID()
	if err != nil {
		return nil, err
	}
	if r.PID == 0 || r.Boot != boot {
		return nil, os.ErrNotExist
	}
	return jail.FindProcess(r.PID, r.Start)
}

// Status returns the state of the sandbox now.
func (s *Sandbox) Status(context.Context) (atoll.Status, error) {
	r, err := s.d.stateHome().LoadRecovered(s.id)
	if err != nil {
		return atoll.Status{}, s.wrapError("status", err)
	}
	st := s.d.sandboxStatus(r)
	if st.Active.Before(st.Created) {
		st.Active = time.Now()
	}
	return st, nil
}

// withLock calls f with the current record while no other process changes the sandbox.
func (s *Sandbox) withLock(ctx context.Context, op string, f func(r *record) error) error {
	return s.wrapError(op, s.d.stateHome().Change(ctx, s.id, f))
}

// Destroy removes the sandbox and all its files. Destroying it twice is not an error.
func (s *Sandbox) Destroy(ctx context.Context) error {
	err := s.d.stateHome().Destroy(context.WithoutCancel(ctx), s.id)
	s.Disconnect()
	return s.wrapError("destroy", err)
}

// killProcesses kills process 1 and with it all others, and removes their control group.
func (d *Driver) killProcesses(r *record) error {
	f, err := d.openProcess(r)
	if err == nil {
		err = errors.Join(jail.KillProcess(f), f.Close())
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	g, err := d.openGroup(r)
	if err != nil || g == nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(context.Background(), endTimeout, fmt.Errorf("%w: processes of the sandbox don't end", atoll.ErrTimeout))
	defer cancel()
	return g.Remove(ctx)
}

// endTimeout bounds how long the processes of a sandbox may take to exit.
const endTimeout = time.Minute

// Stop ends all processes of the sandbox; its files remain.
func (s *Sandbox) Stop(ctx context.Context) error {
	err := s.withLock(ctx, "stop", func(r *record) error {
		r.Failure = ""
		return s.d.stateHome().RunAct(s.id, r, actStop, nil, func(*journal.Act) error { return s.d.stopSandbox(r) })
	})
	s.Disconnect()
	return err
}

// stopSandbox ends all processes of a sandbox and records that it is stopped.
func (d *Driver) stopSandbox(r *record) error {
	if err := d.killProcesses(r); err != nil {
		return err
	}
	r.PID, r.State = 0, atoll.Stopped
	return d.save(r)
}

// Start starts a stopped sandbox.
func (s *Sandbox) Start(ctx context.Context) error {
	return s.withLock(ctx, "start", func(r *record) error {
		if f, err := s.d.openProcess(r); err == nil {
			if err := f.Close(); err != nil || !jail.IsEnding(r.PID) {
				return err
			}
		}
		return s.d.stateHome().RunAct(s.id, r, actStart, nil, func(*journal.Act) error { return s.d.startSandbox(ctx, r) })
	})
}

// startSandbox starts a sandbox that does not run.
func (d *Driver) startSandbox(ctx context.Context, r *record) error {
	r.Failure = ""
	if err := d.killProcesses(r); err != nil { // waits for a process 1 that is ending; one that has ended may have left its control group
		return err
	}
	err := d.bootSandbox(ctx, r)
	if err != nil {
		r.Failure = err.Error()
	}
	return err
}
