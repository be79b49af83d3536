package microvm

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/guest"
	"github.com/atoll-sandbox/atoll/internal/state/statedir"
	"github.com/atoll-sandbox/atoll/internal/vm/hypervisor"
)

// Sandbox is a VM: a link to its guest, and a directory of the host.
type Sandbox struct {
	*guest.Link

	d  *Driver
	id string
}

var (
	_ atoll.Sandbox           = (*Sandbox)(nil)
	_ atoll.DirFS             = (*Sandbox)(nil)
	_ atoll.Stopper           = (*Sandbox)(nil)
	_ atoll.FreshStarter      = (*Sandbox)(nil)
	_ atoll.DiskKeeper        = (*Sandbox)(nil)
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
)

func (d *Driver) newHandle(r *record) *Sandbox {
	s := &Sandbox{d: d, id: r.ID}
	spec := r.Spec
	if spec.Dir == "" {
		spec.Dir = atoll.DefaultDir
	}
	s.Link = &guest.Link{
		ID: r.ID, Spec: spec, BeforeOp: s.checkOperation, CountedDirs: countedDirs(), Options: guest.Options{Greeting: greetingTimeout, Watch: func(ctx context.Context) error { return d.waitForHang(ctx, r.ID) }},
		Connect:      func(ctx context.Context) (net.Conn, error) { return d.connectShared(ctx, r.ID) },
		ExplainError: func(ctx context.Context, err error) error { return d.explainSilence(ctx, r.ID, err) },
	}
	return s
}

// greetingTimeout bounds how long a guest may take to greet: an emulated one of many took more than
// ten seconds on a busy host.
const greetingTimeout = time.Minute

// countedDirs returns the directories with a sandbox's own files.
func countedDirs() []string {
	return []string{"/tmp", "/var", "/home", "/root", "/srv", "/mnt", "/media", atoll.DefaultDir}
}

// checkOperation reports why a sandbox can't do an operation of the guest.
func (s *Sandbox) checkOperation(op string) error {
	if (op == "watch" || op == "notices") && s.d.stateHome().IsChanging(s.id) {
		return nil // they outlive a restore: connectShared waits for its end
	}
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
	return &atoll.Error{Op: op, ID: s.id, Err: wrapDiskFull(err)}
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

// isUnfinished reports whether a sandbox has never run.
func isUnfinished(r *record) bool { return r.State == atoll.Starting && r.Started.IsZero() }

// List returns the sandboxes, and removes the remains of those whose creation or removal was
// interrupted.
func (d *Driver) List(context.Context) ([]atoll.Status, error) {
	if err := d.userIDs().ReleaseAbandoned(d.stateHome().HasDir); err != nil {
		return nil, &atoll.Error{Op: "list", Err: err}
	}
	list, err := d.stateHome().Statuses(isUnfinished, d.sandboxStatus, atoll.Status{Driver: d.Name(), Isolation: emulated})
	if err != nil {
		return nil, &atoll.Error{Op: "list", Err: err}
	}
	_ = errors.Join(d.diskStore().RemoveUnfinished(), d.imageStore().RemoveUnfinished()) // the next List tries again
	return list, nil
}

// isolationName returns the name of a VM's isolation.
func isolationName(accel string) string {
	if accel == hypervisor.KVM {
		return isolation
	}
	return emulated
}

// sandboxStatus returns the status of a sandbox whose lock the caller does not hold, without asking its
// VM. Without a VM it may be in the middle of an act: the status is that after it.
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

// statusNow returns the status of a sandbox as its record and its VM are now.
func (d *Driver) statusNow(r *record) atoll.Status {
	s := atoll.Status{
		ID: r.ID, Name: r.Spec.Name, Driver: d.Name(), State: r.State, Labels: r.Spec.Labels, Isolation: isolationName(r.Accel), Created: r.Created, Active: r.Created,
	}
	ready := atoll.Condition{Type: "ready", True: r.State == atoll.Running, Reason: string(r.State), Since: r.Started}
	switch r.State {
	case atoll.Running, atoll.Paused:
		m, err := d.openVM(r.ID)
		ended := err != nil
		if !ended {
			ended = m.HypervisorExited()
			_ = m.Close() // it was only looked up
		}
		if ended {
			s.State, ready = d.endedStatus(r)
		}
	case atoll.Stopped:
		if r.Failure != "" {
			ready.Reason, ready.Message = "start failed", r.Failure
		}
	case atoll.Starting: // it has run before
		if boot, err := statedir.BootID(); err == nil && boot != r.Boot {
			s.State, ready.Reason, ready.Message = atoll.Stopped, "stopped", "the host was restarted"
		}
	}
	s.Conditions = append([]atoll.Condition{ready}, extraConditions(r)...)
	return s
}

// endedStatus returns why the VM of a sandbox that should run does not.
func (d *Driver) endedStatus(r *record) (atoll.State, atoll.Condition) {
	c := atoll.Condition{Type: "ready", Reason: "died", Message: "the VM has ended for an unknown reason"}
	if boot, err := statedir.BootID(); err == nil && boot != r.Boot {
		return atoll.Stopped, atoll.Condition{Type: "ready", Reason: "stopped", Message: "the host was restarted"}
	}
	end, err := hypervisor.LastEnd(d.sandboxDir(r.ID))
	if err != nil || end == nil {
		return atoll.Failed, c
	}
	c.Reason, c.Message, c.Since = string(end.Reason), end.Message, end.At
	if end.Reason == hypervisor.ByGuest { // a guest that powers off is stopped
		return atoll.Stopped, c
	}
	return atoll.Failed, c
}

// extraConditions returns the conditions of a VM besides ready.
func extraConditions(r *record) []atoll.Condition {
	a := atoll.Condition{Type: "accelerated", True: r.Accel == hypervisor.KVM, Reason: r.Accel, Since: r.Started}
	if !a.True {
		a.Message = "QEMU emulates the processors: slow, and a weaker isolation than hardware virtualization"
	}
	n := atoll.Condition{Type: "nested", True: r.Nested, Reason: "disabled", Message: r.NestedWhy, Since: r.Started}
	if r.Nested {
		n.Reason = "enabled"
	}
	return []atoll.Condition{a, n}
}

// Status returns the state of the sandbox now.
func (s *Sandbox) Status(ctx context.Context) (atoll.Status, error) {
	r, err := s.d.stateHome().LoadRecovered(s.id)
	if err != nil {
		return atoll.Status{}, s.wrapError("status", err)
	}
	st := s.d.sandboxStatus(r)
	if st.Active.Before(st.Created) {
		st.Active = time.Now()
	}
	if st.State != atoll.Running && st.State != atoll.Paused {
		return st, nil
	}
	m, err := s.d.openVM(s.id)
	if err != nil {
		return st, nil //nolint:nilerr // it has ended since: the next call reports that
	}
	defer m.Close()
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	now, err := m.Status(ctx)
	reason, why := "silent", ""
	if err != nil {
		why = "the VM's monitor does not answer: " + err.Error()
	} else if reason, why = diagnoseVM(m, now); now.Phase == hypervisor.Stuck {
		st.State = atoll.Failed
	}
	if why != "" {
		st.Conditions[0].True, st.Conditions[0].Reason, st.Conditions[0].Message = false, reason, why
	}
	for _, w := range now.Facts.MissingIsolation {
		st.Conditions = append(st.Conditions, atoll.Condition{Type: "jailed", Reason: "weak", Message: w})
	}
	return st, nil
}

// explainSilence adds to the error of a guest that does not answer the state of its VM, and the last
// lines of its boot log.
func (d *Driver) explainSilence(ctx context.Context, id string, err error) error {
	m, merr := d.openVM(id)
	if merr != nil {
		return err
	}
	defer m.Close()
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	now, merr := m.Status(ctx)
	if merr != nil {
		return err
	}
	reason, why := diagnoseVM(m, now)
	if why == "" {
		return err
	}
	err = fmt.Errorf("%w: %s", err, why)
	if tail := hypervisor.BootLogTail(d.sandboxDir(id)); tail != "" && reason != "stuck" {
		err = fmt.Errorf("%w; the end of boot.log:\n%s", err, tail)
	}
	return err
}

// Stats returns the resources that the sandbox uses; its memory is what the VM occupies on the host.
func (s *Sandbox) Stats(ctx context.Context) (atoll.Stats, error) {
	st, err := s.Link.Stats(ctx)
	if err != nil {
		return st, err
	}
	m, err := s.d.openVM(s.id)
	if err != nil {
		return st, nil //nolint:nilerr // it has ended since
	}
	defer m.Close()
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	if now, err := m.Status(ctx); err == nil && now.Facts.Resident > 0 {
		st.MemoryUsed = now.Facts.Resident
	}
	return st, nil
}

// askTimeout bounds how long a monitor may take to answer.
const askTimeout = 5 * time.Second

// withLock calls f with the current record while no other process changes the sandbox.
func (s *Sandbox) withLock(ctx context.Context, op string, f func(r *record) error) error {
	return s.wrapError(op, s.d.stateHome().Change(ctx, s.id, f))
}

// connectShared connects to the guest of a sandbox, once no process changes the sandbox.
func (d *Driver) connectShared(ctx context.Context, id string) (net.Conn, error) {
	if _, err := d.stateHome().LoadRecovered(id); err != nil { // a shared lock does not allow to recover
		return nil, err
	}
	held, err := d.stateHome().LockShared(ctx, id)
	if err != nil {
		return nil, err
	}
	defer held.Close()
	r, err := d.load(id)
	if err == nil && r.State != atoll.Running && r.State != atoll.Paused {
		err = guest.CheckState("", r.State)
	}
	if err != nil {
		return nil, err
	}
	return d.connectGuest(ctx, r)
}

// connectGuest connects to the guest of a sandbox. The caller holds its lock.
func (d *Driver) connectGuest(ctx context.Context, r *record) (net.Conn, error) {
	m, err := d.openVM(r.ID)
	if err == nil && m.HypervisorExited() {
		err = errors.Join(fmt.Errorf("%w: its VM has ended", atoll.ErrNotFound), m.Close())
	}
	if errors.Is(err, atoll.ErrNotFound) {
		if st, ready := d.endedStatus(r); st != r.State {
			return nil, fmt.Errorf("%w: %s; start it", atoll.ErrUnavailable, ready.Message)
		}
	}
	if err != nil {
		return nil, err
	}
	defer m.Close()
	c, err := m.Dial(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w: the VM does not answer: %w", atoll.ErrUnavailable, err)
	}
	if now, err := m.Phase(ctx); err == nil && (now.Phase == hypervisor.Stuck || now.Phase == hypervisor.Paused) {
		_ = c.Close() // the guest does not read from it
		_, why := diagnoseVM(m, now)
		return nil, fmt.Errorf("%w: %s", atoll.ErrUnavailable, why)
	}
	return c, nil
}
