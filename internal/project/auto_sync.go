package project

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// SyncMode sets when work is synced to the host.
type SyncMode string

// The modes.
const (
	Manual     SyncMode = "manual"      // only on request; the default
	AutoCommit SyncMode = "auto-commit" // also soon after each commit inside
	AutoIdle   SyncMode = "auto-idle"   // also when the sandbox becomes idle
)

// CheckMode reports an unknown mode. Empty means Manual.
func CheckMode(m SyncMode) error {
	switch m {
	case "", Manual, AutoCommit, AutoIdle:
		return nil
	}
	return fmt.Errorf("%w: mode %q: it must be %s, %s or %s", atoll.ErrInvalid, m, Manual, AutoCommit, AutoIdle)
}

// AutoSync syncs work automatically. It follows events of the sandbox, which are untrusted: they only trigger
// a sync.
type AutoSync struct {
	Mode  SyncMode
	Delay time.Duration // time without further events before Sync; 0: 2 s

	// Sync is called, one call at a time. ErrNoNewWork and errors that match atoll.ErrState are
	// normal results, which are passed to Report. Another error ends Run.
	Sync   func(ctx context.Context) error
	Report func(error) // gets such results except ErrNoNewWork; may be nil
}

const (
	defaultQuiet = 2 * time.Second
	maxQuiets    = 10 // Sync is called after so many periods at the latest
)

// Run follows a sandbox until ctx is done, whose cause it returns, or until the sandbox can't be followed
// any more. With Manual it returns nil at once. The driver must support notices, and for AutoCommit also
// watches.
func (a *AutoSync) Run(ctx context.Context, sb atoll.Sandbox) error {
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
	return a.followAndSync(ctx, follow)
}

// RunOnFiles is Run for every change of a file of the sandbox's project, whatever the Mode, and once at the beginning. The
// driver must support watches.
func (a *AutoSync) RunOnFiles(ctx context.Context, sb atoll.Sandbox) error {
	return a.followAndSync(ctx, func(ctx context.Context, happened chan<- bool) error { return followFiles(ctx, sb, happened) })
}

// followAndSync follows a sandbox with a function that sends its events, see waitAndSync.
func (a *AutoSync) followAndSync(ctx context.Context, follow func(context.Context, chan<- bool) error) error {
	ctx, cancel := context.WithCancel(ctx)
	happened := make(chan bool)
	ended := make(chan error, 1)
	var wg sync.WaitGroup
	wg.Go(func() { ended <- follow(ctx, happened) })
	err := a.waitAndSync(ctx, happened, ended)
	cancel()
	wg.Wait()
	return err
}

// waitAndSync handles events: true triggers a sync, false cancels it.
func (a *AutoSync) waitAndSync(ctx context.Context, happened <-chan bool, ended <-chan error) error {
	quiet := a.Delay
	if quiet <= 0 {
		quiet = defaultQuiet
	}
	timer := time.NewTimer(quiet)
	timer.Stop()
	defer timer.Stop()
	var since time.Time // time of the first trigger; zero: none
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
			case time.Since(since) < (maxQuiets-1)*quiet:
				timer.Reset(quiet)
			}
		case <-timer.C:
			since = time.Time{}
			if err := a.syncOnce(ctx); err != nil {
				return err
			}
		}
	}
}

func (a *AutoSync) syncOnce(ctx context.Context) error {
	err := a.Sync(ctx)
	switch {
	case err == nil, errors.Is(err, ErrNoNewWork):
		return nil
	case errors.Is(err, atoll.ErrState):
		if a.Report != nil {
			a.Report(err)
		}
		return nil
	}
	return err
}

// sendReason sends one event, or returns when ctx is done.
func sendReason(ctx context.Context, happened chan<- bool, reason bool) error {
	select {
	case happened <- reason:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// followIdle sends an event when a sandbox becomes idle or active. At the beginning and after missed
// notices it counts as idle.
func followIdle(ctx context.Context, sb atoll.Sandbox, happened chan<- bool) error {
	return atoll.Notices(ctx, sb, func(n atoll.Notice) error {
		switch n.Kind {
		case atoll.NoticeReady, atoll.NoticeIdle, atoll.NoticeLost:
			return sendReason(ctx, happened, true)
		case atoll.NoticeActive:
			return sendReason(ctx, happened, false)
		}
		return nil
	})
}

// refLogDir is the directory in which git logs changes of branches, with a line for each commit in any
// working tree.
const refLogDir = Workspace + "/.git/logs"

// followCommits sends an event when git logs a change of a branch, and when the sandbox is idle, for
// changes that were not logged.
func followCommits(ctx context.Context, sb atoll.Sandbox, happened chan<- bool) error {
	if err := atoll.Mkdir(ctx, sb, refLogDir, 0o755); err != nil { // missing in an empty repository
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	idle := make(chan error, 1)
	go func() {
		defer cancel()
		idle <- atoll.Notices(ctx, sb, func(n atoll.Notice) error {
			if n.Kind == atoll.NoticeIdle || n.Kind == atoll.NoticeLost {
				return sendReason(ctx, happened, true)
			}
			return nil
		})
	}()
	err := atoll.Watch(ctx, sb, refLogDir, func(atoll.FileEvent) error { return sendReason(ctx, happened, true) })
	cancel()
	if ierr := <-idle; ierr != nil && !errors.Is(ierr, context.Canceled) {
		return ierr
	}
	return err
}

// followFiles sends an event when the watch has begun, and for each change of a file outside of git's own directories, which
// a fetch changes, too.
func followFiles(ctx context.Context, sb atoll.Sandbox, happened chan<- bool) error {
	return atoll.Watch(ctx, sb, Workspace, func(e atoll.FileEvent) error {
		if strings.Contains(e.Path+"/", "/.git/") {
			return nil
		}
		return sendReason(ctx, happened, true)
	})
}
