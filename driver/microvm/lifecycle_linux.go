package microvm

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/guest"
	"github.com/atoll-sandbox/atoll/internal/state/journal"
	"github.com/atoll-sandbox/atoll/internal/vm/hypervisor"
)

// endTimeout bounds how long the end of a sandbox may take.
const endTimeout = time.Minute

// quitTimeout bounds how long a guest may take to write its files and power off.
const quitTimeout = 15 * time.Second

// newEndContext returns a context for ends that callers must not cancel.
func newEndContext() (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(context.Background(), endTimeout, fmt.Errorf("%w: the VM does not end", atoll.ErrTimeout))
}

// killVMIn kills the VM that runs in a directory, and removes its control group.
func (d *Driver) killVMIn(ctx context.Context, dir string, r *record) error {
	m, err := hypervisor.Open(dir)
	if err == nil {
		err = errors.Join(m.Kill(ctx), m.Close())
	}
	if err != nil && !errors.Is(err, atoll.ErrNotFound) {
		return err
	}
	if err := d.removeGroup(ctx, r); err != nil {
		return err
	}
	return hypervisor.WaitForMonitor(ctx, dir)
}

// killVM kills the VM of a sandbox.
func (d *Driver) killVM(r *record) error {
	ctx, cancel := newEndContext()
	defer cancel()
	return d.killVMIn(ctx, d.sandboxDir(r.ID), r)
}

// Destroy removes the sandbox and all its files. A persistent disk is released and remains. Destroying it
// twice is not an error.
func (s *Sandbox) Destroy(ctx context.Context) error {
	err := s.d.stateHome().Destroy(context.WithoutCancel(ctx), s.id)
	s.Disconnect()
	return s.wrapError("destroy", err)
}

// Stop powers the VM off. Its files remain, unless its spec has persist off.
func (s *Sandbox) Stop(ctx context.Context) error {
	err := s.withLock(ctx, "stop", func(r *record) error {
		r.Failure = ""
		return s.d.runAct(r, actStop, nil, func(*journal.Act) error { return s.d.stopSandbox(ctx, r) })
	})
	s.Disconnect()
	return err
}

// stopSandbox powers the VM of a sandbox off and records that it is stopped.
func (d *Driver) stopSandbox(ctx context.Context, r *record) error {
	if err := d.powerOff(ctx, r); err != nil {
		return err
	}
	r.State = atoll.Stopped
	return d.save(r)
}

// powerOff asks the guest to write its files and to power off; a VM that does not is killed.
func (d *Driver) powerOff(ctx context.Context, r *record) error {
	m, err := d.openVM(r.ID)
	if errors.Is(err, atoll.ErrNotFound) {
		return d.killVM(r)
	}
	if err != nil {
		return err
	}
	defer m.Close()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), quitTimeout)
	defer cancel()
	if d.quitGuest(ctx, r) {
		err = m.PowerOff(ctx)
	} else {
		err = m.Kill(ctx)
	}
	return errors.Join(err, d.killVM(r))
}

// quitGuest asks a guest to end, over a connection of its own, so that it need not wait for requests
// on others. It reports whether the guest has agreed.
func (d *Driver) quitGuest(ctx context.Context, r *record) bool {
	if discardsDisks(r) {
		return false // its files are not needed again
	}
	l := d.directLink(r)
	defer l.Disconnect()
	if _, err := l.Client(ctx); err != nil {
		return false
	}
	return l.Quit(ctx)
}

// Start starts a stopped sandbox.
func (s *Sandbox) Start(ctx context.Context) error {
	err := s.withLock(ctx, "start", func(r *record) error { return s.d.start(ctx, r, discardsDisks(r)) })
	s.Disconnect()
	return err
}

// start starts a sandbox that does not run. A running one is resumed if it is stuck.
func (d *Driver) start(ctx context.Context, r *record, fresh bool) error {
	if m, err := d.openVM(r.ID); err == nil && isActive(r) && !m.HypervisorExited() {
		return errors.Join(resumeStuck(ctx, m), m.Close())
	} else if err == nil {
		_ = m.Close() // the remains of a VM: they are ended
	}
	name := actStart
	if fresh {
		if err := checkResettable(r); err != nil {
			return err
		}
		name = actFreshStart
	}
	return d.runAct(r, name, nil, func(*journal.Act) error { return d.startSandbox(ctx, r, fresh) })
}

// startSandbox starts a sandbox that does not run.
func (d *Driver) startSandbox(ctx context.Context, r *record, fresh bool) error {
	ctx, cancel := guest.WithCreateTimeout(ctx, d.createTimeout(ctx, &r.Spec))
	defer cancel()
	r.Failure = ""
	err := d.killVM(r) // it may have died and left its control group
	if err == nil && fresh {
		err = d.resetDisks(ctx, r)
	}
	if err == nil {
		err = d.bootSandbox(ctx, r)
	}
	if err != nil {
		r.Failure = err.Error()
	}
	return err
}

// settledTime is how long a resumed VM must continue: it tries at once what it was waiting for, but
// on a busy host its guest may answer before that fails again.
const settledTime = time.Second

// resumeStuck resumes a VM that waits for something of the host, such as disk space. It returns when
// the guest has answered for a while, or when the VM waits again.
func resumeStuck(ctx context.Context, m *hypervisor.VM) error {
	now, err := m.Status(ctx)
	if err != nil || now.Phase != hypervisor.Stuck {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, quitTimeout, fmt.Errorf("%w after %v", atoll.ErrTimeout, quitTimeout))
	defer cancel()
	if err := m.Resume(ctx); err != nil {
		return err
	}
	resumed := time.Now()
	for {
		switch now, err = m.Status(ctx); { // it waits for the guest
		case err != nil:
			return err
		case now.Phase == hypervisor.Stuck:
			_, why := diagnoseVM(m, now)
			return fmt.Errorf("%w: %s", atoll.ErrUnavailable, why)
		case now.Answers && time.Since(resumed) >= settledTime:
			return nil
		case now.Answers:
			select {
			case <-time.After(settledTime / 10):
			case <-ctx.Done():
			}
		case ctx.Err() != nil:
			return fmt.Errorf("%w: the VM continues, but its guest does not answer: %w", atoll.ErrUnavailable, context.Cause(ctx))
		}
	}
}

// StartFresh starts a stopped sandbox with new disks, as it was after its creation.
func (s *Sandbox) StartFresh(ctx context.Context) error {
	err := s.withLock(ctx, "fresh start", func(r *record) error {
		if m, err := s.d.openVM(r.ID); err == nil {
			return errors.Join(m.Close(), fmt.Errorf("%w: it runs; stop it first", atoll.ErrState))
		}
		return s.d.start(ctx, r, true)
	})
	s.Disconnect()
	return err
}

// discardsDisks reports whether each start of a sandbox has new disks.
func discardsDisks(r *record) bool {
	m := r.Spec.VM
	return m != nil && m.Persist != nil && !*m.Persist
}
