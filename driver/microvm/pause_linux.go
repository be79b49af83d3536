package microvm

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/guest"
)

// direct is a link to the guest of a sandbox whose lock is held.
func (d *Driver) direct(r *record) *guest.Link {
	return &guest.Link{ID: r.ID, Spec: r.Spec, Reach: func(ctx context.Context) (net.Conn, error) { return d.connect(ctx, r) }}
}

// Pause stops every command where it is. The machine's own kernel and its guest
// go on, so that files can be read, and deadlines end what is frozen.
func (s *Sandbox) Pause(ctx context.Context) error {
	return s.change(ctx, "pause", func(r *record) error { return s.d.pause(ctx, r, atoll.Running, atoll.Paused) })
}

// Resume lets the commands of a paused sandbox go on, and a machine that waits for
// something of the host.
func (s *Sandbox) Resume(ctx context.Context) error {
	return s.change(ctx, "resume", func(r *record) error {
		if m, err := s.d.machine(r.ID); err == nil {
			if err := errors.Join(goOn(ctx, m), m.Close()); err != nil {
				return err
			}
		}
		return s.d.pause(ctx, r, atoll.Paused, atoll.Running)
	})
}

// pause brings the commands of a sandbox from one state to another.
func (d *Driver) pause(ctx context.Context, r *record, from, to atoll.State) error {
	switch r.State {
	case to:
		return nil
	case from:
	default:
		return fmt.Errorf("%w: it is %s", atoll.ErrState, r.State)
	}
	l := d.direct(r)
	defer l.HangUp()
	if err := l.Pause(ctx, to == atoll.Paused); err != nil {
		return err
	}
	r.State = to
	return d.save(r)
}
