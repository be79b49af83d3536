package microvm

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/guest"
	"github.com/atoll-sandbox/atoll/internal/state/journal"
)

// directLink returns a link to the guest of a sandbox whose lock is held.
func (d *Driver) directLink(r *record) *guest.Link {
	return &guest.Link{ID: r.ID, Spec: r.Spec, Connect: func(ctx context.Context) (net.Conn, error) { return d.connectGuest(ctx, r) }}
}

// Pause freezes every command. The VM's kernel and its guest continue: files can be read, and
// deadlines end frozen commands.
func (s *Sandbox) Pause(ctx context.Context) error {
	return s.withLock(ctx, "pause", func(r *record) error { return s.d.setPaused(ctx, r, atoll.Running, atoll.Paused) })
}

// Resume lets the commands of a paused sandbox continue, and a VM that waits for something of the
// host.
func (s *Sandbox) Resume(ctx context.Context) error {
	return s.withLock(ctx, "resume", func(r *record) error {
		if m, err := s.d.openVM(r.ID); err == nil {
			if err := errors.Join(resumeStuck(ctx, m), m.Close()); err != nil {
				return err
			}
		}
		return s.d.setPaused(ctx, r, atoll.Paused, atoll.Running)
	})
}

// setPaused changes the state of a sandbox's commands from one to another.
func (d *Driver) setPaused(ctx context.Context, r *record, from, to atoll.State) error {
	switch r.State {
	case to:
		return nil
	case from:
	default:
		return fmt.Errorf("%w: it is %s", atoll.ErrState, r.State)
	}
	act := actResume
	if to == atoll.Paused {
		act = actPause
	}
	return d.runAct(r, act, nil, func(*journal.Act) error {
		l := d.directLink(r)
		defer l.Disconnect()
		if err := l.Pause(ctx, to == atoll.Paused); err != nil {
			return err
		}
		r.State = to
		return d.save(r)
	})
}
