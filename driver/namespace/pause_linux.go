package namespace

import (
	"context"
	"fmt"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/state/journal"
)

// Pause freezes every command. The guest still answers: files can be read, and deadlines end frozen
// commands.
func (s *Sandbox) Pause(ctx context.Context) error {
	return s.withLock(ctx, "pause", func(r *record) error {
		switch r.State {
		case atoll.Paused:
			return nil
		case atoll.Running:
		default:
			return fmt.Errorf("%w: it is %s", atoll.ErrState, r.State)
		}
		f, err := s.d.openFreezer(r)
		if err != nil {
			return err
		}
		return s.d.stateHome().RunAct(s.id, r, actPause, nil, func(*journal.Act) error {
			if err := f.freezeCommands(ctx); err != nil {
				return err
			}
			r.State = atoll.Paused
			return s.d.save(r)
		})
	})
}

// Resume lets the commands of a paused sandbox continue.
func (s *Sandbox) Resume(ctx context.Context) error {
	return s.withLock(ctx, "resume", func(r *record) error {
		switch r.State {
		case atoll.Running:
			return nil
		case atoll.Paused:
		default:
			return fmt.Errorf("%w: it is %s", atoll.ErrState, r.State)
		}
		return s.d.stateHome().RunAct(s.id, r, actResume, nil, func(*journal.Act) error { return s.d.resumeSandbox(r) })
	})
}

// resumeSandbox lets the commands of a paused sandbox continue.
func (d *Driver) resumeSandbox(r *record) error {
	f, err := d.openFreezer(r)
	if err == nil {
		err = f.thawCommands()
	}
	if err != nil {
		return err
	}
	r.State = atoll.Running
	return d.save(r)
}
