package namespace

import (
	"context"
	"fmt"

	"github.com/atoll-sandbox/atoll"
)

// Pause stops every command where it is. The guest answers still: files can be
// read, and deadlines end what is frozen.
func (s *Sandbox) Pause(ctx context.Context) error {
	return s.change("pause", func(r *record) error {
		switch r.State {
		case atoll.Paused:
			return nil
		case atoll.Running:
		default:
			return fmt.Errorf("%w: it is %s", atoll.ErrState, r.State)
		}
		f, err := s.d.freezer(r)
		if err != nil {
			return err
		}
		if err := f.freeze(ctx); err != nil {
			return err
		}
		r.State = atoll.Paused
		return r.save(s.d.dir(s.id))
	})
}

// Resume lets the commands of a paused sandbox go on.
func (s *Sandbox) Resume(context.Context) error {
	return s.change("resume", func(r *record) error {
		switch r.State {
		case atoll.Running:
			return nil
		case atoll.Paused:
		default:
			return fmt.Errorf("%w: it is %s", atoll.ErrState, r.State)
		}
		f, err := s.d.freezer(r)
		if err == nil {
			err = f.thaw()
		}
		if err != nil {
			return err
		}
		r.State = atoll.Running
		return r.save(s.d.dir(s.id))
	})
}
