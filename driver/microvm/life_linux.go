package microvm

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/machine"
)

// endTime is how long it may take until all of a sandbox is gone.
const endTime = time.Minute

// quitTime is how long a guest may take to write its files and switch itself off.
const quitTime = 15 * time.Second

// endContext is for ends that nobody may break off.
func endContext() (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(context.Background(), endTime, fmt.Errorf("%w: the machine does not end", atoll.ErrTimeout))
}

// endMachine kills the machine that runs in a directory, and removes its group.
func (d *Driver) endMachine(ctx context.Context, dir string, r *record) error {
	m, err := machine.Open(dir)
	if err == nil {
		err = errors.Join(m.Kill(ctx), m.Close())
	}
	if err != nil && !errors.Is(err, atoll.ErrNotFound) {
		return err
	}
	return d.removeGroup(ctx, r)
}

// end ends the machine of a sandbox at once.
func (d *Driver) end(r *record) error {
	ctx, cancel := endContext()
	defer cancel()
	return d.endMachine(ctx, d.dir(r.ID), r)
}

// Destroy removes the sandbox and all it holds. A kept disk that it came with is
// given back.
func (s *Sandbox) Destroy(ctx context.Context) error {
	err := s.change(context.WithoutCancel(ctx), "destroy", func(r *record) error { return s.d.home().Erase(s.id, r) })
	s.HangUp()
	if errors.Is(err, atoll.ErrNotFound) {
		return nil
	}
	return err
}

// Stop switches the machine off; its files stay, unless they are not to persist.
func (s *Sandbox) Stop(ctx context.Context) error {
	err := s.change(ctx, "stop", func(r *record) error {
		if err := s.switchOff(ctx, r); err != nil {
			return err
		}
		r.State = atoll.Stopped
		return s.d.save(r)
	})
	s.HangUp()
	return err
}

// switchOff asks the guest to write its files and end; one that does not is
// ended.
func (s *Sandbox) switchOff(ctx context.Context, r *record) error {
	m, err := s.d.machine(r.ID)
	if errors.Is(err, atoll.ErrNotFound) {
		return s.d.end(r)
	}
	if err != nil {
		return err
	}
	defer m.Close()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), quitTime)
	defer cancel()
	if s.d.quit(ctx, r) {
		err = m.PowerOff(ctx)
	} else {
		err = m.Kill(ctx)
	}
	return errors.Join(err, s.d.end(r))
}

// quit asks a guest to end, over a connection of its own: what others say on
// theirs is not waited for.
func (d *Driver) quit(ctx context.Context, r *record) bool {
	if wantsFresh(r) {
		return false // nobody will see its files again
	}
	l := d.direct(r)
	defer l.HangUp()
	if _, err := l.Client(ctx); err != nil {
		return false
	}
	return l.Quit(ctx)
}

// Start starts a stopped sandbox.
func (s *Sandbox) Start(ctx context.Context) error {
	err := s.change(ctx, "start", func(r *record) error { return s.d.start(ctx, r, wantsFresh(r)) })
	s.HangUp()
	return err
}

// start starts a sandbox that does not run; one that does is left alone.
func (d *Driver) start(ctx context.Context, r *record, fresh bool) error {
	if m, err := d.machine(r.ID); err == nil && r.State != atoll.Starting {
		return errors.Join(goOn(ctx, m), m.Close())
	} else if err == nil {
		_ = m.Close() // a start that broke off; what it left is ended
	}
	ctx, cancel := createContext(ctx, &r.Spec)
	defer cancel()
	if err := d.end(r); err != nil { // it may have died, and left its group
		return err
	}
	if fresh {
		r.Restoring = ""
		if err := d.freshDisks(ctx, r); err != nil {
			return err
		}
	}
	if err := d.finishRestore(ctx, r); err != nil {
		return err
	}
	if err := d.boot(ctx, r); err != nil {
		r.State = atoll.Stopped
		return errors.Join(err, d.save(r))
	}
	return nil
}

// settled is how long a machine that goes on must do so: what it waited for is tried
// again at once, but on a busy host its guest may answer before that fails again.
const settled = time.Second

// goOn lets a machine go on that waits for something of the host. It returns when
// the guest answers, and has for a while, or when the machine waits again.
func goOn(ctx context.Context, m *machine.Machine) error {
	now, err := m.Status(ctx)
	if err != nil || now.Phase != machine.Stuck {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, quitTime, fmt.Errorf("%w after %v", atoll.ErrTimeout, quitTime))
	defer cancel()
	if err := m.Resume(ctx); err != nil {
		return err
	}
	resumed := time.Now()
	for {
		switch now, err = m.Status(ctx); { // which waits for the guest
		case err != nil:
			return err
		case now.Phase == machine.Stuck:
			_, why := unwell(m, now)
			return fmt.Errorf("%w: %s", atoll.ErrUnavailable, why)
		case now.Answers && time.Since(resumed) >= settled:
			return nil
		case now.Answers:
			select {
			case <-time.After(settled / 10):
			case <-ctx.Done():
			}
		case ctx.Err() != nil:
			return fmt.Errorf("%w: the machine goes on, but its guest does not answer: %w", atoll.ErrUnavailable, context.Cause(ctx))
		}
	}
}

// Fresh starts a stopped sandbox as it was when it was made.
func (s *Sandbox) Fresh(ctx context.Context) error {
	err := s.change(ctx, "fresh start", func(r *record) error {
		if m, err := s.d.machine(r.ID); err == nil {
			return errors.Join(m.Close(), fmt.Errorf("%w: it runs; stop it first", atoll.ErrState))
		}
		return s.d.start(ctx, r, true)
	})
	s.HangUp()
	return err
}

// wantsFresh tells whether each start of a sandbox is a fresh one.
func wantsFresh(r *record) bool {
	m := r.Spec.Machine
	return m != nil && m.Persist != nil && !*m.Persist
}

// createContext bounds how long a sandbox may take until it answers.
func createContext(ctx context.Context, spec *atoll.Spec) (context.Context, context.CancelFunc) {
	limit := spec.Timeouts.Create
	if limit == 0 {
		limit = atoll.DefaultCreateTimeout
	}
	if limit < 0 {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, limit, fmt.Errorf("%w after %v", atoll.ErrTimeout, limit))
}
