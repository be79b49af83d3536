package fleet

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// backgroundTimeout bounds work that goes on after its caller has stopped waiting.
const backgroundTimeout = 2 * time.Minute

// Stop stops the sandbox. A call during another waits for its end.
func (s *Sandbox) Stop(ctx context.Context) error {
	return runStateChange(ctx, s, stopChange, atoll.Stopper.Stop)
}

// Start starts a stopped sandbox, or one in error.
func (s *Sandbox) Start(ctx context.Context) error {
	return runStateChange(ctx, s, startChange, atoll.Stopper.Start)
}

// Pause freezes the processes of the sandbox. Commands stay frozen until Resume.
func (s *Sandbox) Pause(ctx context.Context) error {
	return runStateChange(ctx, s, pauseChange, atoll.Pauser.Pause)
}

// Resume continues the processes of a paused sandbox.
func (s *Sandbox) Resume(ctx context.Context) error {
	return runStateChange(ctx, s, resumeChange, atoll.Pauser.Resume)
}

// runStateChange changes the state of a sandbox for a caller, with an audit entry.
func runStateChange[T any](ctx context.Context, s *Sandbox, v stateChange, act func(T, context.Context) error) error {
	if err := s.checkAccess(v.name, atoll.ScopeRun); err != nil {
		return err
	}
	detail := ""
	if v.fresh {
		detail = "fresh"
	}
	noted := s.startAudit(v.name, detail)
	err := s.f.changeState(ctx, s.b, v, nil, func(ctx context.Context, sb atoll.Sandbox) error {
		t, ok := atoll.As[T](sb)
		if !ok {
			return unsupported
		}
		return act(t, ctx)
	})
	noted(err)
	return s.wrapError(v.name, err)
}

var unsupported = fmt.Errorf("%w by this driver", atoll.ErrUnsupported)

// changeState changes the state of a sandbox. Concurrent calls take turns; each does what is still
// necessary. Once it has the turn, check may refuse; nil: nothing is checked.
func (f *Fleet) changeState(ctx context.Context, b *handle, v stateChange, check func(*row) error, act func(context.Context, atoll.Sandbox) error) error {
	ctx, leave, err := f.beginOperation(ctx)
	if err != nil {
		return err
	}
	defer leave()
	release, err := b.acquireTurn(ctx)
	if err != nil {
		return err
	}
	defer release()
	if err := b.checkReachable(ctx); err != nil {
		return err
	}
	if err := b.checkSupported(v); err != nil {
		return err
	}
	if v.name == startChange.name {
		f.recheckHeld(ctx, b)
	}
	done, err := f.beginChange(ctx, b, v, check)
	if errors.Is(err, errIsArchived) && v.name == startChange.name && !v.fresh {
		return f.unarchiveHeld(ctx, b)
	}
	if done || err != nil {
		return err
	}
	sb, err := b.openInner(ctx)
	if err != nil {
		return f.reconcileMissing(ctx, b, err)
	}
	ctx, end := b.beginCancelable(ctx)
	defer end()
	if v.via == atoll.Stopping {
		defer b.calls.open()
		if err = b.drainCalls(ctx, errStopped); err == nil {
			err = f.saveWorkspaces(ctx, b, inSandbox) // until it has stopped, its copies are the valid ones
		}
	}
	if err == nil {
		act := func() error { return act(ctx, sb) }
		if v.via == atoll.Stopping {
			err = f.reserve.UseHalf(act)
		} else {
			err = act()
		}
	}
	if err == nil && v.name == startChange.name {
		if err = f.prepareStarted(ctx, b, sb); err == nil && v.fresh {
			err = f.prepareSandbox(ctx, sb, b.cachedRow())
		}
		if err != nil {
			if s, ok := atoll.As[atoll.Stopper](sb); ok { // it must not run unprepared
				err = errors.Join(err, s.Stop(context.WithoutCancel(ctx)))
			}
		}
	}
	return f.endChange(ctx, b, v, err)
}

// prepareStarted applies the network rules to a sandbox that was started, and copies in its
// workspaces where the driver does not mount them.
func (f *Fleet) prepareStarted(ctx context.Context, b *handle, sb atoll.Sandbox) error {
	if err := f.enforceNetwork(ctx, b, sb); err != nil {
		return fmt.Errorf("network rules: %w", err)
	}
	if len(b.cachedRow().cfg.Workspaces) == 0 {
		return nil
	}
	return f.copyWorkspacesIn(ctx, sb, b.id)
}

// checkSupported refuses a state change that the driver does not support.
func (b *handle) checkSupported(v stateChange) error {
	ability := any((*atoll.Stopper)(nil))
	if v.name == pauseChange.name || v.name == resumeChange.name {
		ability = (*atoll.Pauser)(nil)
	}
	ft, ok := b.driver.cachedFeatures()
	ft.Stop = canStop(b.cachedRow().cfg.Pod, ft.Stop)
	if ok && v.fresh && !ft.Fresh {
		return fmt.Errorf("%w by driver %s: its sandboxes have no disks to discard; create a new one", atoll.ErrUnsupported, b.cachedRow().driver)
	}
	if ok && !ft.Has(ability) {
		return unsupported
	}
	return nil
}

// checkReachable returns an error if this process can't reach the sandbox.
func (b *handle) checkReachable(ctx context.Context) error {
	if _, err := b.openInner(ctx); errors.Is(err, errNotHere) {
		return err
	}
	return nil
}

// reconcileMissing reconciles a sandbox that the driver failed to open, and returns the caller's
// error.
func (f *Fleet) reconcileMissing(ctx context.Context, b *handle, err error) error {
	r, serr := f.reconcileHeld(ctx, b.id, err)
	if serr != nil || r.state == atoll.Destroyed || r.reason != reasonVanished {
		return errors.Join(err, serr)
	}
	return fmt.Errorf("%w: it is in error (%s: %s); destroy it", atoll.ErrState, r.reason, r.message)
}

// acquireTurn waits for the turn to change the state of the sandbox, and returns its release.
func (b *handle) acquireTurn(ctx context.Context) (func(), error) {
	select {
	case b.turn <- struct{}{}:
		return func() { <-b.turn }, nil
	case <-ctx.Done():
		return nil, timeoutError(context.Cause(ctx))
	}
}

// callGrace is how long active calls may take to end when their sandbox ends. Then the driver ends
// them.
const callGrace = 10 * time.Second

// drainCalls refuses new calls, cancels the active ones and waits for their end.
func (b *handle) drainCalls(ctx context.Context, why error) error {
	b.calls.close(why)
	b.calls.cancelAll(why)
	brief, cancel := context.WithTimeout(ctx, callGrace)
	defer cancel()
	if err := b.calls.wait(brief); err != nil && ctx.Err() != nil {
		return timeoutError(context.Cause(ctx))
	}
	return nil
}

// beginCancelable lets a Destroy cancel the state change in progress, until the returned function
// is called.
func (b *handle) beginCancelable(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	b.mu.Lock()
	b.cancelChange = cancel
	b.mu.Unlock()
	return ctx, func() {
		b.mu.Lock()
		b.cancelChange = nil
		b.mu.Unlock()
		cancel(nil)
	}
}

// beginChange records that this process changes the state of a sandbox, once no other process
// does. It reports whether the sandbox already is in the wanted state.
func (f *Fleet) beginChange(ctx context.Context, b *handle, v stateChange, check func(*row) error) (done bool, err error) {
	err = f.changeExclusive(ctx, b.id, func(tx *sql.Tx, r *row) error {
		if check != nil {
			if err := check(r); err != nil {
				return err
			}
		}
		switch {
		case r.state == v.to && r.goal == "" && !v.fresh:
			done = true
			return nil
		case r.state == atoll.Destroyed || r.goal == goalDestroy:
			return errDestroyed
		case r.state == atoll.Archived:
			return errIsArchived
		case v.fresh && r.state == v.to:
			return fmt.Errorf("%w: it is %s; stop it first: a fresh start discards its disks", atoll.ErrState, r.state)
		case !slices.Contains(v.from, r.state):
			return transitionError(r.state, v.to, v.hint)
		}
		if v.name == startChange.name {
			if err := errors.Join(f.checkRestart(ctx, tx, r), f.reserveCopies(ctx, tx, r)); err != nil {
				return err
			}
		}
		r.holder, r.goal = f.member.ID(), v.name
		if v.via == "" {
			return f.saveRow(ctx, tx, r)
		}
		return f.transitionTo(ctx, tx, r, v.via)
	})
	return done, err
}

// errHeld is the error of a sandbox that another process is changing.
var errHeld = fmt.Errorf("%w: another process is changing it", atoll.ErrUnavailable)

// changeExclusive changes the row of a sandbox that no process is changing: it waits for a process
// that is, and reconciles the sandbox if that process died. No call waits for both another process
// and a context, so it polls with growing intervals.
func (f *Fleet) changeExclusive(ctx context.Context, id string, fn func(tx *sql.Tx, r *row) error) error {
	for wait := 5 * time.Millisecond; ; wait = min(2*wait, 100*time.Millisecond) {
		var holder string
		_, err := f.changeRow(ctx, id, func(tx *sql.Tx, r *row) error {
			if holder = r.holder; holder != "" {
				return errHeld
			}
			return fn(tx, r)
		})
		if !errors.Is(err, errHeld) || holder == "" {
			return err
		}
		alive, err := f.member.IsAlive(holder)
		if err != nil {
			return err
		}
		if !alive || holder == f.member.ID() { // this process holds a row only while it has the turn
			_, err := f.reconcileHeld(ctx, id, errDied)
			if err == nil {
				continue
			}
			if !errors.Is(err, errHeld) { // another process was first
				return err
			}
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", errHeld, timeoutError(context.Cause(ctx)))
		}
	}
}

// endChange records the result of a state change: success, or the state that the driver reports
// after a failure.
func (f *Fleet) endChange(ctx context.Context, b *handle, v stateChange, failure error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), backgroundTimeout)
	defer cancel()
	if failure != nil {
		_, err := f.reconcileHeld(ctx, b.id, failure)
		return errors.Join(timeoutError(failure), err)
	}
	_, err := f.changeRow(ctx, b.id, func(tx *sql.Tx, r *row) error {
		r.holder, r.goal = "", ""
		if v.to == atoll.Running {
			r.started, r.active = f.now(), f.now()
			if err := f.recordCopiedIn(ctx, tx, r); err != nil {
				return err
			}
		}
		if v.to == atoll.Stopped {
			if err := f.changeCopyState(ctx, tx, r, inSandbox, inStore); err != nil {
				return err
			}
		}
		return f.transitionTo(ctx, tx, r, v.to)
	})
	if err == nil {
		f.log.Info("sandbox state changed", "id", b.id, "state", v.to)
	}
	return err
}

// Destroy removes the sandbox and everything in it. Active calls are canceled.
func (s *Sandbox) Destroy(ctx context.Context) error {
	if err := s.checkAccess("destroy", atoll.ScopeRun); err != nil {
		return err
	}
	noted := s.startAudit("destroy", "")
	err := s.f.destroySandbox(ctx, s.b.id, "")
	noted(err)
	return s.wrapError("destroy", err)
}

// destroySandbox destroys a sandbox of any owner. A why that is not empty is recorded as the
// reason.
func (f *Fleet) destroySandbox(ctx context.Context, id, why string) error {
	ctx, leave, err := f.beginOperation(ctx)
	if err != nil {
		return err
	}
	defer leave()
	r, err := f.loadRow(ctx, id)
	if errors.Is(err, atoll.ErrNotFound) || err == nil && r.state == atoll.Destroyed {
		return nil
	}
	if err != nil {
		return err
	}
	b := f.ensureHandle(r)
	b.mu.Lock()
	if b.cancelChange != nil {
		b.cancelChange(errDestroyed)
	}
	b.mu.Unlock()
	release, err := b.acquireTurn(ctx)
	if err != nil {
		return err
	}
	defer release()
	return f.destroyHeld(ctx, b, why)
}

// destroyHeld destroys a sandbox. The caller holds its turn.
func (f *Fleet) destroyHeld(ctx context.Context, b *handle, why string) error {
	return f.destroyHeldWith(ctx, b, why, nil, nil)
}

// destroyHeldWith is destroyHeld with two functions for the transaction that begins the destruction: check may
// refuse it, and also records something, such as a disk to be kept. Both can be nil.
func (f *Fleet) destroyHeldWith(ctx context.Context, b *handle, why string, check func(*row) error, also func(tx *sql.Tx, r *row) error) error {
	err := b.checkReachable(ctx)
	if err != nil {
		return err
	}
	done := false
	err = f.changeExclusive(ctx, b.id, func(tx *sql.Tx, r *row) error {
		if done = r.state == atoll.Destroyed; done {
			return nil
		}
		if check != nil {
			if err := check(r); err != nil {
				return err
			}
		}
		r.holder, r.goal = f.member.ID(), goalDestroy
		if why != "" {
			r.reason, r.message = "expired", why
		}
		if also != nil {
			if err := also(tx, r); err != nil {
				return err
			}
		}
		if slices.Contains(allowedNext[r.state], atoll.Stopping) {
			return f.transitionTo(ctx, tx, r, atoll.Stopping)
		}
		return f.saveRow(ctx, tx, r)
	})
	if errors.Is(err, atoll.ErrNotFound) || err == nil && done {
		return nil
	}
	if err != nil {
		return err
	}
	if err = b.drainCalls(ctx, errDestroyed); err == nil {
		err = f.saveAndDestroyInner(ctx, b)
	}
	if also != nil && (errors.Is(err, atoll.ErrState) || errors.Is(err, atoll.ErrUnsupported) || errors.Is(err, atoll.ErrExists)) {
		return errors.Join(err, f.cancelKeep(ctx, b))
	}
	return f.recordDestroyed(ctx, b, err)
}

// destroyInner destroys the driver's sandbox, if there is one.
func (b *handle) destroyInner(ctx context.Context) error {
	sb, err := b.openInner(ctx)
	if errors.Is(err, atoll.ErrNotFound) {
		return nil
	}
	if err == nil {
		err = sb.Destroy(ctx)
	}
	if errors.Is(err, atoll.ErrNotFound) {
		return nil
	}
	return err
}

// recordDestroyed records the result of a destruction. One that failed is retried later: the row
// keeps its goal.
func (f *Fleet) recordDestroyed(ctx context.Context, b *handle, failure error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), backgroundTimeout)
	defer cancel()
	_, err := f.changeRow(ctx, b.id, func(tx *sql.Tx, r *row) error {
		r.holder = ""
		if failure != nil {
			return f.recordFailure(ctx, tx, r, failure)
		}
		r.goal, r.process = "", ""
		return f.recordGone(ctx, tx, r)
	})
	if err == nil && failure == nil {
		f.log.Info("sandbox destroyed", "id", b.id)
		f.sweepNow(ctx, b.id)
	}
	return errors.Join(timeoutError(failure), err)
}

// recordFailure records that the goal of a row could not be reached.
func (f *Fleet) recordFailure(ctx context.Context, tx *sql.Tx, r *row, failure error) error {
	r.reason, r.message = r.goal, f.errorText(r, failure)
	if r.state == atoll.Failed || r.state == atoll.Stopped || r.state == atoll.Archived {
		r.changed = f.now()
		return f.saveRow(ctx, tx, r)
	}
	return f.transitionTo(ctx, tx, r, atoll.Failed)
}

// recordGone takes a row to the state destroyed, by the steps that the state table allows, and
// deletes what belongs to it.
func (f *Fleet) recordGone(ctx context.Context, tx *sql.Tx, r *row) error {
	var path []atoll.State
	switch r.state {
	case atoll.Destroyed:
		return nil
	case atoll.Created:
		path = []atoll.State{atoll.Starting, atoll.Failed}
	case atoll.Starting, atoll.Pausing:
		path = []atoll.State{atoll.Failed}
	case atoll.Running, atoll.Paused:
		path = []atoll.State{atoll.Stopping, atoll.Stopped}
	case atoll.Stopping:
		path = []atoll.State{atoll.Stopped}
	}
	if len(r.cfg.Workspaces) > 0 || len(r.cfg.Prepare) > 0 {
		if err := f.unmountAll(ctx, tx, r.id); err != nil {
			return err
		}
	}
	if err := f.releaseDisk(ctx, tx, r); err != nil {
		return err
	}
	if err := dropObjects(ctx, tx, r.id, ""); err != nil {
		return err
	}
	for _, what := range []string{"snapshots", "detached"} {
		if _, err := tx.ExecContext(ctx, "delete from "+what+" where sandbox = ?", r.id); err != nil {
			return err
		}
	}
	return f.transitionTo(ctx, tx, r, append(path, atoll.Destroyed)...)
}
