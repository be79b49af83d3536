package project

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// Mode says when work comes home.
type Mode string

// The modes.
const (
	Manual     Mode = "manual"      // when somebody asks; the default
	AutoCommit Mode = "auto-commit" // soon after a commit inside, too
	AutoIdle   Mode = "auto-idle"   // when the sandbox is idle, too
)

// CheckMode reports a mode that there is not; empty is Manual.
func CheckMode(m Mode) error {
	switch m {
	case "", Manual, AutoCommit, AutoIdle:
		return nil
	}
	return fmt.Errorf("%w: mode %q: it must be %s, %s or %s", atoll.ErrInvalid, m, Manual, AutoCommit, AutoIdle)
}

// Auto brings work home as it is done. The sandbox tells what happens in it and
// calls nobody; what it tells is only a reason to look.
type Auto struct {
	Mode  Mode
	Quiet time.Duration // how long nothing more happens before Sync; 0: 2 s

	// Sync is called, one call at a time. ErrNothing and what atoll.ErrState
	// matches are answers, which Report is told; another error ends Run.
	Sync   func(ctx context.Context) error
	Report func(error) // of such answers but ErrNothing; nil: nobody
}

const (
	defaultQuiet = 2 * time.Second
	mostQuiets   = 10 // of them pass before Sync, however busy it is inside
)

// Run follows a sandbox until ctx is done, whose error it returns, or until the
// sandbox can't be followed. With Manual there is nothing to do, and it returns
// nil. The driver must have notices; for AutoCommit it must have watches.
func (a *Auto) Run(ctx context.Context, sb atoll.Sandbox) error {
	if err := CheckMode(a.Mode); err != nil {
		return err
	}
	var follow func(context.Context, chan<- bool) error
	switch a.Mode {
	case AutoCommit:
		follow = func(ctx context.Context, happened chan<- bool) error { return followCommits(ctx, sb, happened) }
	case AutoIdle:
		follow = func(ctx context.Context, happened chan<- bool) error { return followIdle(ctx, sb, happened) }
	default:
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	happened := make(chan bool)
	ended := make(chan error, 1)
	var wg sync.WaitGroup
	wg.Go(func() { ended <- follow(ctx, happened) })
	err := a.loop(ctx, happened, ended)
	cancel()
	wg.Wait()
	return err
}

// loop waits for what happens: true is a reason to sync, false one not to.
func (a *Auto) loop(ctx context.Context, happened <-chan bool, ended <-chan error) error {
	quiet := a.Quiet
	if quiet <= 0 {
		quiet = defaultQuiet
	}
	timer := time.NewTimer(quiet)
	timer.Stop()
	defer timer.Stop()
	var since time.Time // when the first reason came; zero: there is none
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case err := <-ended:
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return fmt.Errorf("follow the sandbox: %w", err)
		case reason := <-happened:
			switch {
			case !reason:
				timer.Stop()
				since = time.Time{}
			case since.IsZero():
				since = time.Now()
				timer.Reset(quiet)
			case time.Since(since) < (mostQuiets-1)*quiet:
				timer.Reset(quiet)
			}
		case <-timer.C:
			since = time.Time{}
			if err := a.sync(ctx); err != nil {
				return err
			}
		}
	}
}

func (a *Auto) sync(ctx context.Context) error {
	err := a.Sync(ctx)
	switch {
	case err == nil, errors.Is(err, ErrNothing):
		return nil
	case errors.Is(err, atoll.ErrState):
		if a.Report != nil {
			a.Report(err)
		}
		return nil
	}
	return err
}

// tell hands one thing over, or returns when ctx is done.
func tell(ctx context.Context, happened chan<- bool, reason bool) error {
	select {
	case happened <- reason:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// followIdle tells when a sandbox becomes idle, and when it is not any more. At
// the beginning, and after a gap, nobody knows: it counts as idle.
func followIdle(ctx context.Context, sb atoll.Sandbox, happened chan<- bool) error {
	return atoll.Notices(ctx, sb, func(n atoll.Notice) error {
		switch n.Kind {
		case atoll.NoticeReady, atoll.NoticeIdle, atoll.NoticeLost:
			return tell(ctx, happened, true)
		case atoll.NoticeActive:
			return tell(ctx, happened, false)
		}
		return nil
	})
}

// commits is where git logs what happens to branches, a line for each commit of
// any working tree.
const commits = Workspace + "/.git/logs"

// followCommits tells when a branch of the workspace moves, as git's own log of
// them does, and when the sandbox is idle, for what was not logged.
func followCommits(ctx context.Context, sb atoll.Sandbox, happened chan<- bool) error {
	if err := atoll.Mkdir(ctx, sb, commits, 0o755); err != nil { // an empty repository has none yet
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	idle := make(chan error, 1)
	go func() {
		defer cancel()
		idle <- atoll.Notices(ctx, sb, func(n atoll.Notice) error {
			if n.Kind == atoll.NoticeIdle || n.Kind == atoll.NoticeLost {
				return tell(ctx, happened, true)
			}
			return nil
		})
	}()
	err := atoll.Watch(ctx, sb, commits, func(atoll.FileEvent) error { return tell(ctx, happened, true) })
	cancel()
	if ierr := <-idle; ierr != nil && !errors.Is(ierr, context.Canceled) {
		return ierr
	}
	return err
}
