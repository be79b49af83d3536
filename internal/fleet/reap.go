package fleet

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// fate is what becomes of a sandbox when its time has come.
type fate int

// The fates.
const (
	stays  fate = iota
	ends        // is destroyed
	rests       // is stopped
	vanish      // its row is removed: it was destroyed long ago
	goesOn      // what was begun and failed is tried again
)

const (
	memory = 7 * 24 * time.Hour // that a destroyed sandbox is remembered
	recent = 5 * time.Minute    // since the last use, in which a lifetime does not end
	again  = time.Minute        // until what failed is tried again
)

// fate returns what becomes of a sandbox next if nobody uses it from now on, and
// when. A zero time means never.
func (r *row) fate() (fate, time.Time) {
	switch {
	case r.state == atoll.Destroyed:
		return vanish, r.changed.Add(memory)
	case r.goal != "" && r.holder == "":
		return goesOn, r.changed.Add(again)
	case r.goal != "" || r.pool != "":
		return stays, time.Time{} // it is being moved, or nobody's
	}
	l := r.cfg.Lifecycle.Effective()
	what, at := stays, time.Time{}
	sooner := func(w fate, t time.Time) {
		if at.IsZero() || t.Before(at) {
			what, at = w, t
		}
	}
	if l.TTL > 0 {
		sooner(ends, r.created.Add(l.TTL))
	}
	if l.Lifetime > 0 {
		t := r.created.Add(l.Lifetime)
		if quiet := r.active.Add(recent); quiet.After(t) && r.active.After(r.created) {
			t = quiet
		}
		sooner(ends, t)
	}
	if l.Idle > 0 {
		stop := l.Policy == atoll.PolicyLongrunning || l.Policy == atoll.PolicyPersistent
		switch {
		case !stop:
			sooner(ends, r.active.Add(l.Idle))
		case r.state == atoll.Running || r.state == atoll.Paused:
			sooner(rests, r.active.Add(l.Idle))
		}
	}
	return what, at
}

// nextLook is when the fleet has to look at a row again.
func (r *row) nextLook() time.Time {
	_, at := r.fate()
	return at
}

// Run does what nobody calls for, until ctx is done: it ends sandboxes whose
// time has come, removes workspaces that nobody uses, fills warm pools. One
// process of those that share a home does it; Run of the others waits.
func (f *Fleet) Run(ctx context.Context) error {
	if ctx.Err() != nil {
		return nil
	}
	ctx, leave, err := f.operate(ctx)
	if err != nil {
		return err
	}
	defer leave()
	for ctx.Err() == nil {
		within, resign, err := f.instance.lead(ctx)
		if err == nil {
			err = errors.Join(f.leadOn(within), resign())
		}
		if err != nil && ctx.Err() == nil {
			return fmt.Errorf("fleet: lead: %w", err)
		}
	}
	return nil
}

// leadOn is what a leader does until it is not one any more.
func (f *Fleet) leadOn(ctx context.Context) error {
	f.log.Info("this process leads the fleet", "instance", f.instance.id)
	if err := f.Reconcile(ctx); err != nil && ctx.Err() == nil {
		f.log.Error("reconciliation", "err", err)
	}
	var wg sync.WaitGroup
	for what, loop := range map[string]func(context.Context) error{"pools": f.fillPools, "retention": f.retain, "reaper": f.reap, "notices": f.listen} {
		wg.Go(func() {
			if err := loop(ctx); err != nil && ctx.Err() == nil {
				f.log.Error("it has ended", "loop", what, "err", err)
			}
		})
	}
	wg.Wait()
	return nil
}

const (
	beat    = 30 * time.Second // between two looks, as other processes change rows too
	survey  = 10 * time.Minute // between two reconciliations
	reapers = 8                // sandboxes that are ended at once
)

// reap ends sandboxes whose time has come, until ctx is done.
func (f *Fleet) reap(ctx context.Context) error {
	r := &reaper{f: f, slots: make(chan struct{}, reapers), busy: make(map[string]struct{})}
	defer r.wg.Wait()
	defer f.alarm.Store(0)
	surveyed, trimmed := f.now(), time.Time{}
	for {
		now := f.now()
		if now.Sub(trimmed) >= survey {
			trimmed = now
			f.report("trim", f.trim(ctx))
			f.report("forget", f.forgetOld(ctx))
		}
		if now.Sub(surveyed) >= survey {
			surveyed = now
			f.report("reconcile", f.Reconcile(ctx))
		} else {
			f.report("settle", f.settleDead(ctx))
		}
		f.report("reap", r.round(ctx))
		f.alarm.Store(math.MaxInt64) // what becomes due from here on is told
		wait, err := f.untilDue(ctx)
		f.report("registry", err)
		f.alarm.Store(stamp(f.now().Add(wait)))
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-f.wake:
		case <-ctx.Done():
			t.Stop()
			return nil
		}
		t.Stop()
	}
}

// Tidy ends, once, the sandboxes whose time has come, if no process leads those
// that share this home. It is for programs that come and go; it costs one query
// where nothing is due.
func (f *Fleet) Tidy(ctx context.Context) error {
	due := 0
	err := f.store.db.QueryRowContext(ctx, "select count(*) from sandboxes where due > 0 and due <= ?", stamp(f.now())).Scan(&due)
	if err != nil || due == 0 {
		return err
	}
	ctx, leave, err := f.operate(ctx)
	if err != nil {
		return err
	}
	defer leave()
	resign, err := f.instance.tryLead(ctx)
	if resign == nil {
		return err
	}
	r := &reaper{f: f, slots: make(chan struct{}, reapers), busy: make(map[string]struct{})}
	err = r.round(ctx)
	r.wg.Wait()
	return errors.Join(err, resign())
}

// report logs what went wrong in what nobody called for.
func (f *Fleet) report(what string, err error) {
	if err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, atoll.ErrUnavailable) {
		f.log.Error(what, "err", err)
	}
}

// untilDue is how long nothing is due: at most a beat.
func (f *Fleet) untilDue(ctx context.Context) (time.Duration, error) {
	var due int64
	err := f.store.db.QueryRowContext(ctx, "select coalesce(min(due), 0) from sandboxes where due > ?", stamp(f.now())).Scan(&due)
	if err != nil || due == 0 {
		return beat, err
	}
	return max(min(when(due).Sub(f.now()), beat), time.Millisecond), nil
}

// reaper ends sandboxes, some at once.
type reaper struct {
	f     *Fleet
	slots chan struct{}
	wg    sync.WaitGroup

	mu   sync.Mutex
	busy map[string]struct{} // ids of those that are being ended; guarded by mu
}

// round begins with all that is due and does not wait for the end of it.
func (r *reaper) round(ctx context.Context) error {
	due, err := allRows(ctx, r.f.store.db, "due > 0 and due <= ? order by due", stamp(r.f.now()))
	if err != nil {
		return err
	}
	for _, row := range due {
		r.mu.Lock()
		_, busy := r.busy[row.id]
		r.busy[row.id] = struct{}{}
		r.mu.Unlock()
		if busy {
			continue
		}
		select {
		case r.slots <- struct{}{}:
		case <-ctx.Done():
			return nil
		}
		r.wg.Go(func() {
			defer func() {
				r.mu.Lock()
				delete(r.busy, row.id)
				r.mu.Unlock()
				<-r.slots
			}()
			ctx, cancel := context.WithTimeout(ctx, endurance)
			defer cancel()
			r.f.report("sandbox "+row.id, r.f.meet(ctx, row))
		})
	}
	return nil
}

// meet does to a sandbox what is due.
func (f *Fleet) meet(ctx context.Context, r row) error {
	if r.state == atoll.Destroyed {
		return f.forget(ctx, r)
	}
	r.active = f.latest(ctx, r)
	what, at := r.fate()
	if at.IsZero() || at.After(f.now()) {
		return f.postpone(ctx, r)
	}
	b := f.enter(r)
	if b.here(ctx) != nil || what == rests && b.can(stopping) != nil {
		return f.later(ctx, r, survey) // it ends with the process that it lives in; it can't rest
	}
	noted := func(action string, err error) error {
		f.note(atoll.Audit{Owner: fleetOwner, Action: action, Object: r.id, Detail: "its time has come", Outcome: outcomeOf(err)})
		if err != nil {
			return errors.Join(err, f.later(ctx, r, again))
		}
		return nil
	}
	switch what {
	case goesOn:
		return noted("destroy", f.expire(ctx, r, ""))
	case ends:
		if err := f.rescue(ctx, r); err != nil {
			return f.spare(ctx, r, err)
		}
		return noted("destroy", f.expire(ctx, r, "its time was over"))
	case rests:
		if err := f.rescue(ctx, r); err != nil { // it keeps its files
			f.log.Warn("work in a sandbox was not saved before it stops", "id", r.id, "err", err)
		}
		return noted("stop", f.rest(ctx, r))
	}
	return nil
}

// rescue has the work in a sandbox saved before it ends.
func (f *Fleet) rescue(ctx context.Context, r row) error {
	if f.opts.Rescue == nil {
		return nil
	}
	sb, err := f.enter(r).inner(ctx)
	if err != nil {
		return err
	}
	return f.opts.Rescue(ctx, f.info(ctx, &r), sb)
}

// unsaved is how long a sandbox stays whose work could not be saved, until that
// is tried again.
const unsaved = time.Hour

// spare stops a sandbox whose time has come, in place of removing it, since what
// is in it could not be saved.
func (f *Fleet) spare(ctx context.Context, r row, why error) error {
	f.log.Warn("sandbox stays: its work could not be saved", "id", r.id, "err", why)
	f.note(atoll.Audit{Owner: fleetOwner, Action: "stop", Object: r.id, Detail: "its time has come, but its work could not be saved", Outcome: outcomeOf(why)})
	var err error
	if r.state == atoll.Running || r.state == atoll.Paused {
		err = f.rest(ctx, r)
	}
	return errors.Join(err, f.later(ctx, r, unsaved))
}

// latest is when a sandbox was last in use, by a call or by what runs inside.
func (f *Fleet) latest(ctx context.Context, r row) time.Time {
	active := r.active
	b := f.enter(r)
	if t := b.lastActive(f.now()); t.After(active) {
		active = t
	}
	if r.state != atoll.Running {
		return active
	}
	sb, err := b.inner(ctx)
	if err != nil {
		return active
	}
	if st, err := sb.Status(ctx); err == nil && st.Active.After(active) {
		active = st.Active.UTC()
	}
	return active
}

// postpone notes that a sandbox was in use, and is due later.
func (f *Fleet) postpone(ctx context.Context, r row) error {
	return f.store.write(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "update sandboxes set active = case when active < ?1 then ?1 else active end, due = ?2 where id = ?3 and turn = ?4",
			stamp(r.active), stamp(r.nextLook()), r.id, r.turn)
		return err
	})
}

// later makes what could not be done due again after a while.
func (f *Fleet) later(ctx context.Context, r row, after time.Duration) error {
	return f.store.write(context.WithoutCancel(ctx), func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "update sandboxes set due = ? where id = ? and due > 0 and due <= ?", stamp(f.now().Add(after)), r.id, stamp(f.now()))
		return err
	})
}

// rest stops a sandbox in the fleet's own name; one that can't be stopped stays
// as it is.
func (f *Fleet) rest(ctx context.Context, r row) error {
	err := f.move(ctx, f.enter(r), stopping, func(ctx context.Context, sb atoll.Sandbox) error {
		t, ok := atoll.As[atoll.Stopper](sb)
		if !ok {
			return unsupported
		}
		return t.Stop(ctx)
	})
	return err
}

// forget removes the row of a sandbox that was destroyed.
func (f *Fleet) forget(ctx context.Context, r row) error {
	return f.store.write(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "delete from sandboxes where id = ? and state = 'destroyed'", r.id)
		return err
	})
}

// remembered is how many destroyed sandboxes of one owner are remembered.
const remembered = 1000

// forgetOld removes the rows of those that are more.
func (f *Fleet) forgetOld(ctx context.Context) error {
	return f.store.write(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `delete from sandboxes where id in (select id from (
			select id, row_number() over (partition by app, user order by changed desc) n from sandboxes where state = 'destroyed') o where n > ?)`, remembered)
		return err
	})
}
