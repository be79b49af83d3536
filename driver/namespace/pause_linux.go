package namespace

import (
	"context"
	"fmt"

	"github.com/atoll-sandbox/atoll"
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
		if err := f.freezeCommands(ctx); err != nil {
			return err
		}
		r.State = atoll.Paused
		return s.d.save(r)
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
		f, err := s.d.openFreezer(r)
		if err == nil {
			err = f.thawCommands()
		}
		if err != nil {
			return err
		}
		r.State = atoll.Running
		return s.d.save(r)
	})
}
