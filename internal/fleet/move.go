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

// endurance is how long the fleet works on what a caller no longer waits for.
const endurance = 2 * time.Minute

// Stop switches the sandbox off. Whoever asks while that is under way waits for
// the end of it.
func (s *Sandbox) Stop(ctx context.Context) error {
	return move(ctx, s, stopping, atoll.Stopper.Stop)
}

// Start switches a stopped sandbox on, or one in error on again.
func (s *Sandbox) Start(ctx context.Context) error {
	return move(ctx, s, starting, atoll.Stopper.Start)
}

// Pause freezes the processes of the sandbox. Commands under way stay so.
func (s *Sandbox) Pause(ctx context.Context) error {
	return move(ctx, s, pausing, atoll.Pauser.Pause)
}

// Resume lets the processes of a paused sandbox go on.
func (s *Sandbox) Resume(ctx context.Context) error {
	return move(ctx, s, resuming, atoll.Pauser.Resume)
}

// move does what a verb says, for a caller.
func move[T any](ctx context.Context, s *Sandbox, v verb, act func(T, context.Context) error) error {
	if err := s.need(v.name, atoll.ScopeRun); err != nil {
		return err
	}
	detail := ""
	if v.anew {
		detail = "fresh"
	}
	noted := s.audited(v.name, detail)
	err := s.f.move(ctx, s.b, v, func(ctx context.Context, sb atoll.Sandbox) error {
		t, ok := atoll.As[T](sb)
		if !ok {
			return unsupported
		}
		return act(t, ctx)
	})
	noted(err)
	return s.fail(v.name, err)
}

var unsupported = fmt.Errorf("%w by this driver", atoll.ErrUnsupported)

// move takes a sandbox from one settled state to another, as one of all who may
// try: each waits for its turn, then does what is still to be done.
func (f *Fleet) move(ctx context.Context, b *box, v verb, act func(context.Context, atoll.Sandbox) error) error {
	ctx, leave, err := f.operate(ctx)
	if err != nil {
		return err
	}
	defer leave()
	release, err := b.take(ctx)
	if err != nil {
		return err
	}
	defer release()
	if err := b.here(ctx); err != nil {
		return err
	}
	if err := b.can(v); err != nil {
		return err
	}
	if v.name == starting.name {
		f.doubtHeld(ctx, b)
	}
	if done, err := f.depart(ctx, b, v); done || err != nil {
		return err
	}
	sb, err := b.inner(ctx)
	if err != nil {
		return f.missing(ctx, b, err)
	}
	ctx, end := b.begin(ctx)
	defer end()
	if v.via == atoll.Stopping {
		defer b.calls.open()
		if err = b.clear(ctx, errStopped); err == nil {
			err = f.carryHome(ctx, b, away) // until it is stopped they are the sandbox's
		}
	}
	if err == nil {
		err = act(ctx, sb)
	}
	if err == nil && v.name == starting.name {
		if err = f.ready(ctx, b, sb); err == nil && v.anew {
			err = f.prepare(ctx, sb, b.known())
		}
		if err != nil {
			if s, ok := atoll.As[atoll.Stopper](sb); ok { // it must not run like that
				err = errors.Join(err, s.Stop(context.WithoutCancel(ctx)))
			}
		}
	}
	return f.arrive(ctx, b, v, err)
}

// ready gives a sandbox that was started the rules of its network, and its
// workspaces where they are carried.
func (f *Fleet) ready(ctx context.Context, b *box, sb atoll.Sandbox) error {
	if err := f.enforce(ctx, b, sb); err != nil {
		return fmt.Errorf("the rules of its network: %w", err)
	}
	if len(b.known().cfg.Workspaces) == 0 {
		return nil
	}
	return f.carryIn(ctx, sb, b.id)
}

// can refuses what the driver does not do, before anything is changed.
func (b *box) can(v verb) error {
	ability := any((*atoll.Stopper)(nil))
	if v.name == pausing.name || v.name == resuming.name {
		ability = (*atoll.Pauser)(nil)
	}
	ft, ok := b.bay.asked()
	ft.Stop = stops(b.known().cfg.Pod, ft.Stop)
	if ok && v.anew && !ft.Fresh {
		return fmt.Errorf("%w by driver %s: its sandboxes have no disks to discard; make a new one", atoll.ErrUnsupported, b.known().driver)
	}
	if ok && !ft.Has(ability) {
		return unsupported
	}
	return nil
}

// here refuses a sandbox that this process can't reach.
func (b *box) here(ctx context.Context) error {
	if _, err := b.inner(ctx); errors.Is(err, errNotHere) {
		return err
	}
	return nil
}

// missing settles a sandbox that its driver could not give us, and returns the
// error that a caller gets.
func (f *Fleet) missing(ctx context.Context, b *box, err error) error {
	r, serr := f.settle(ctx, b.id, err)
	if serr != nil || r.state == atoll.Destroyed || r.reason != reasonVanished {
		return errors.Join(err, serr)
	}
	return fmt.Errorf("%w: it is in error (%s: %s); destroy it", atoll.ErrState, r.reason, r.message)
}

// take waits for the turn to move a sandbox.
func (b *box) take(ctx context.Context) (func(), error) {
	select {
	case b.turn <- struct{}{}:
		return func() { <-b.turn }, nil
	case <-ctx.Done():
		return nil, late(context.Cause(ctx))
	}
}

// grace is how long calls have to end when their sandbox does. What goes on then,
// the driver ends.
const grace = 10 * time.Second

// clear lets no call in any more and waits for the end of those under way.
func (b *box) clear(ctx context.Context, why error) error {
	b.calls.close(why)
	b.calls.expel(why)
	brief, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	if err := b.calls.wait(brief); err != nil && ctx.Err() != nil {
		return late(context.Cause(ctx))
	}
	return nil
}

// begin makes the move under way one that a Destroy may end.
func (b *box) begin(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	b.mu.Lock()
	b.abandon = cancel
	b.mu.Unlock()
	return ctx, func() {
		b.mu.Lock()
		b.abandon = nil
		b.mu.Unlock()
		cancel(nil)
	}
}

// depart writes down that this process moves a sandbox, once no other does. It
// reports whether the sandbox is there already.
func (f *Fleet) depart(ctx context.Context, b *box, v verb) (done bool, err error) {
	err = f.seize(ctx, b.id, func(tx *sql.Tx, r *row) error {
		switch {
		case r.state == v.to && r.goal == "" && !v.anew:
			done = true
			return nil
		case r.state == atoll.Destroyed || r.goal == goalDestroy:
			return errDestroyed
		case v.anew && r.state == v.to:
			return fmt.Errorf("%w: it is %s; stop it first: a fresh start discards what is on its disks", atoll.ErrState, r.state)
		case !slices.Contains(v.from, r.state):
			return refusal(r.state, v.to, v.hint)
		}
		if v.name == starting.name {
			if err := errors.Join(f.readmit(ctx, tx, r), f.relock(ctx, tx, r)); err != nil {
				return err
			}
		}
		r.holder, r.goal = f.instance.id, v.name
		if v.via == "" {
			return f.save(ctx, tx, r)
		}
		return f.transition(ctx, tx, r, v.via)
	})
	return done, err
}

// errHeld says that another process is moving a sandbox.
var errHeld = fmt.Errorf("%w: another process is moving it", atoll.ErrUnavailable)

// seize changes a row that nobody is moving: it waits for another process that
// is, and settles what one that died has left. There is no call that waits for
// another process and for a context, so it asks again after a growing while.
func (f *Fleet) seize(ctx context.Context, id string, fn func(tx *sql.Tx, r *row) error) error {
	for wait := 5 * time.Millisecond; ; wait = min(2*wait, 100*time.Millisecond) {
		var holder string
		_, err := f.change(ctx, id, func(tx *sql.Tx, r *row) error {
			if holder = r.holder; holder != "" {
				return errHeld
			}
			return fn(tx, r)
		})
		if !errors.Is(err, errHeld) || holder == "" {
			return err
		}
		alive, err := f.instance.alive(holder)
		if err != nil {
			return err
		}
		if !alive || holder == f.instance.id { // this process holds it only while it has the turn
			if _, err := f.settle(ctx, id, errDied); err != nil {
				return err
			}
			continue
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", errHeld, late(context.Cause(ctx)))
		}
	}
}

// arrive writes down how a move ended: well, or with what the driver then says
// is true.
func (f *Fleet) arrive(ctx context.Context, b *box, v verb, failure error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endurance)
	defer cancel()
	if failure != nil {
		_, err := f.settle(ctx, b.id, failure)
		return errors.Join(late(failure), err)
	}
	_, err := f.change(ctx, b.id, func(tx *sql.Tx, r *row) error {
		r.holder, r.goal = "", ""
		if v.to == atoll.Running {
			r.started, r.active = f.now(), f.now()
			if err := f.loaded(ctx, tx, r); err != nil {
				return err
			}
		}
		if v.to == atoll.Stopped {
			if err := f.recarry(ctx, tx, r, away, atHome); err != nil {
				return err
			}
		}
		return f.transition(ctx, tx, r, v.to)
	})
	if err == nil {
		f.log.Info("sandbox moved", "id", b.id, "state", v.to)
	}
	return err
}

// Destroy removes the sandbox and all it holds. What is under way in it ends.
func (s *Sandbox) Destroy(ctx context.Context) error {
	if err := s.need("destroy", atoll.ScopeRun); err != nil {
		return err
	}
	noted := s.audited("destroy", "")
	err := s.f.destroy(ctx, s.b.id, "")
	noted(err)
	return s.fail("destroy", err)
}

// destroy removes a sandbox, whoever's it is. A reason that is not empty is
// remembered.
func (f *Fleet) destroy(ctx context.Context, id, why string) error {
	ctx, leave, err := f.operate(ctx)
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
	b := f.enter(r)
	b.mu.Lock()
	if b.abandon != nil {
		b.abandon(errDestroyed)
	}
	b.mu.Unlock()
	release, err := b.take(ctx)
	if err != nil {
		return err
	}
	defer release()
	return f.demolish(ctx, b, why)
}

// demolish destroys a sandbox; the caller has the turn.
func (f *Fleet) demolish(ctx context.Context, b *box, why string) error {
	return f.demolishAs(ctx, b, why, nil)
}

// demolishAs is demolish that also takes something down before it begins, such as
// what is to be kept; nil: nothing.
func (f *Fleet) demolishAs(ctx context.Context, b *box, why string, also func(tx *sql.Tx, r *row) error) error {
	err := b.here(ctx)
	if err != nil {
		return err
	}
	done := false
	err = f.seize(ctx, b.id, func(tx *sql.Tx, r *row) error {
		if done = r.state == atoll.Destroyed; done {
			return nil
		}
		r.holder, r.goal = f.instance.id, goalDestroy
		if why != "" {
			r.reason, r.message = "expired", why
		}
		if also != nil {
			if err := also(tx, r); err != nil {
				return err
			}
		}
		if slices.Contains(next[r.state], atoll.Stopping) {
			return f.transition(ctx, tx, r, atoll.Stopping)
		}
		return f.save(ctx, tx, r)
	})
	if errors.Is(err, atoll.ErrNotFound) || err == nil && done {
		return nil
	}
	if err != nil {
		return err
	}
	if err = b.clear(ctx, errDestroyed); err == nil {
		err = f.finish(ctx, b)
	}
	if also != nil && (errors.Is(err, atoll.ErrState) || errors.Is(err, atoll.ErrUnsupported) || errors.Is(err, atoll.ErrExists)) {
		return errors.Join(err, f.unkeep(ctx, b))
	}
	return f.buried(ctx, b, err)
}

// raze removes what the driver has of a sandbox, if anything.
func (b *box) raze(ctx context.Context) error {
	sb, err := b.inner(ctx)
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

// buried writes down how a destruction ended. One that failed is tried again
// later: the row keeps its goal.
func (f *Fleet) buried(ctx context.Context, b *box, failure error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endurance)
	defer cancel()
	_, err := f.change(ctx, b.id, func(tx *sql.Tx, r *row) error {
		r.holder = ""
		if failure != nil {
			return f.stuck(ctx, tx, r, failure)
		}
		r.goal, r.host = "", ""
		return f.gone(ctx, tx, r)
	})
	if err == nil && failure == nil {
		f.log.Info("sandbox destroyed", "id", b.id)
	}
	return errors.Join(late(failure), err)
}

// stuck notes that a row's goal could not be reached.
func (f *Fleet) stuck(ctx context.Context, tx *sql.Tx, r *row, failure error) error {
	r.reason, r.message = r.goal, r.explain(failure)
	if r.state == atoll.Failed || r.state == atoll.Stopped {
		r.changed = f.now()
		return f.save(ctx, tx, r)
	}
	return f.transition(ctx, tx, r, atoll.Failed)
}

// gone takes a row to its end, by the steps that the table has.
func (f *Fleet) gone(ctx context.Context, tx *sql.Tx, r *row) error {
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
		if err := f.unmount(ctx, tx, r.id); err != nil {
			return err
		}
	}
	if err := f.dropDisk(ctx, tx, r); err != nil {
		return err
	}
	for _, what := range []string{"snapshots", "detached"} {
		if _, err := tx.ExecContext(ctx, "delete from "+what+" where sandbox = ?", r.id); err != nil {
			return err
		}
	}
	return f.transition(ctx, tx, r, append(path, atoll.Destroyed)...)
}
