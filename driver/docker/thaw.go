package docker

import (
	"context"
	"errors"
	"os"

	"github.com/moby/moby/client"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/state/journal"
)

// thaw is the act of a paused sandbox that is thawed until the guest has ended a command. If the process is killed, the
// next one pauses the sandbox again.
type thaw struct {
	held *os.File // the lock of acts
	act  *journal.Act
}

// end ends the act; the sandbox may stay as it is.
func (t *thaw) end() error {
	if t == nil {
		return nil
	}
	return errors.Join(t.act.End(), t.held.Close())
}

// thawForDeadline thaws a paused sandbox until freezeAgain was called as often. It reports whether
// the sandbox is thawed.
func (s *Sandbox) thawForDeadline(ctx context.Context) bool {
	s.changing.Lock()
	defer s.changing.Unlock()
	if s.askState(ctx) != atoll.Paused { // another process may have paused it
		return false
	}
	if s.thawedCommands() == 0 && s.beginThaw(ctx) != nil {
		return false // it was ended, or another process resumed it
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.thawed++
	return true
}

func (s *Sandbox) thawedCommands() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.thawed
}

// beginThaw thaws the sandbox. Without a directory on this host nothing is recorded. The caller holds changing.
func (s *Sandbox) beginThaw(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	held, err := s.d.lockActs(s.id, waitForLock(ctx))
	if err != nil {
		return err
	}
	if held != nil {
		t := &thaw{held: held}
		if err = s.d.recoverLocked(ctx, s.e, s.id); err == nil {
			t.act, err = journal.Begin(s.d.actsDir(s.id), actThaw, actArgs{Engine: s.e.host})
		}
		if err != nil {
			return errors.Join(err, held.Close())
		}
		s.thaw = t
	}
	if _, err = s.e.api.ContainerUnpause(ctx, s.mainContainer(), client.ContainerUnpauseOptions{}); err != nil {
		return errors.Join(err, s.endThaw())
	}
	return nil
}

// endThaw ends the act of a thaw, also because another act follows. The caller holds changing.
func (s *Sandbox) endThaw() error {
	err := s.thaw.end()
	s.thaw = nil
	return err
}

// freezeAgain undoes one thawForDeadline.
func (s *Sandbox) freezeAgain(ctx context.Context) {
	s.changing.Lock()
	defer s.changing.Unlock()
	s.mu.Lock()
	s.thawed--
	freeze := s.thawed == 0 && s.known == atoll.Paused
	last := s.thawed == 0
	s.mu.Unlock()
	if freeze {
		_, _ = s.e.api.ContainerPause(ctx, s.mainContainer(), client.ContainerPauseOptions{}) // a removed container needs none
	}
	if last {
		_ = s.endThaw() // a removed sandbox has no acts
	}
}
