package virtual

import (
	"context"
	"fmt"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/kernel"
)

// Pause makes every process of the sandbox stand still, and refuses commands
// until Resume. Files can be read and written meanwhile. Time goes on: a
// command may pass its deadline while it stands still.
func (s *Sandbox) Pause(ctx context.Context) error { return s.fail("pause", s.pause(ctx)) }

func (s *Sandbox) pause(ctx context.Context) error {
	ctx, op, err := s.begin(ctx, false)
	if err != nil {
		return err
	}
	defer op.end()
	k, err := s.setPaused(true)
	if k == nil || err != nil {
		return err
	}
	if err = k.Pause(ctx); err == nil {
		err = s.save(ctx)
	}
	if err != nil {
		_, _ = s.setPaused(false) // it was running a moment ago
		k.Resume()
	}
	return err
}

// Resume lets the processes go on.
func (s *Sandbox) Resume(ctx context.Context) error { return s.fail("resume", s.resume(ctx)) }

func (s *Sandbox) resume(ctx context.Context) error {
	ctx, op, err := s.begin(ctx, false)
	if err != nil {
		return err
	}
	defer op.end()
	k, err := s.setPaused(false)
	if k == nil || err != nil {
		return err
	}
	k.Resume()
	return s.save(ctx)
}

// setPaused notes what the sandbox is, and returns the kernel that has to
// follow; nil where it is that already.
func (s *Sandbox) setPaused(paused bool) (*kernel.Kernel, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.stopped:
		return nil, fmt.Errorf("%w: it is stopped; start it first", atoll.ErrState)
	case s.paused == paused:
		return nil, nil
	}
	s.paused, s.active = paused, s.d.now()
	return s.k, nil
}

func (s *Sandbox) isPaused() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.paused
}

// stateOf names what a sandbox is.
func stateOf(stopped, paused bool) atoll.State {
	switch {
	case stopped:
		return atoll.Stopped
	case paused:
		return atoll.Paused
	}
	return atoll.Running
}
