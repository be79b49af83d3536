package virtual

import (
	"context"
	"fmt"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
)

// Pause stops every process of the sandbox and refuses commands until Resume. Files can be read and
// written meanwhile. Deadlines go on: a command may pass its deadline while it is paused.
func (s *Sandbox) Pause(ctx context.Context) error {
	return s.wrapError("pause", s.pauseProcesses(ctx))
}

func (s *Sandbox) pauseProcesses(ctx context.Context) error {
	ctx, op, err := s.beginOperation(ctx, false)
	if err != nil {
		return err
	}
	defer op.close()
	k, err := s.setPaused(true)
	if k == nil || err != nil {
		return err
	}
	if err = k.Pause(ctx); err == nil {
		err = s.save(ctx)
	}
	if err != nil {
		_, _ = s.setPaused(false) // it was running before
		k.Resume()
	}
	return err
}

// Resume lets the processes continue.
func (s *Sandbox) Resume(ctx context.Context) error {
	return s.wrapError("resume", s.resumeProcesses(ctx))
}

func (s *Sandbox) resumeProcesses(ctx context.Context) error {
	ctx, op, err := s.beginOperation(ctx, false)
	if err != nil {
		return err
	}
	defer op.close()
	k, err := s.setPaused(false)
	if k == nil || err != nil {
		return err
	}
	k.Resume()
	return s.save(ctx)
}

// setPaused sets the state and returns the kernel that has to follow; nil if the sandbox is in that
// state already.
func (s *Sandbox) setPaused(paused bool) (*kernel.Kernel, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.stopped:
		return nil, fmt.Errorf("%w: it is stopped; start it first", atoll.ErrState)
	case s.paused == paused:
		return nil, nil
	}
	s.paused, s.active = paused, s.d.currentTime()
	return s.k, nil
}

func (s *Sandbox) isPaused() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.paused
}

// sandboxState returns the state that two flags stand for.
func sandboxState(stopped, paused bool) atoll.State {
	switch {
	case stopped:
		return atoll.Stopped
	case paused:
		return atoll.Paused
	}
	return atoll.Running
}
