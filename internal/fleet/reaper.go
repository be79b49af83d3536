package fleet

import (
	"context"
	"database/sql"
	"errors"
	"maps"
	"math"
	"sync"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet/registry"
)

// runReaper stops and destroys expired sandboxes until ctx is done.
func (f *Fleet) runReaper(ctx context.Context) error {
	r := &reaper{f: f, slots: make(chan struct{}, maxReaping), archiving: make(chan struct{}, maxArchiving), busy: make(map[string]struct{})}
	defer r.wg.Wait()
	defer f.nextReap.Store(0)
	surveyed, trimmed := f.now(), time.Time{}
	for {
		now := f.now()
		if now.Sub(trimmed) >= reconcileInterval {
			trimmed = now
			f.logError("trim", f.trimRecords(ctx))
			f.logError("forget", f.trimDestroyed(ctx))
			f.logError("archive storage", f.sweepObjects(ctx, ""))
		}
		if now.Sub(surveyed) >= reconcileInterval {
			surveyed = now
			f.logError("reconcile", f.Reconcile(ctx))
		} else {
			f.logError("reconcile", f.reconcileDead(ctx))
		}
		f.logError("reap", r.reapDue(ctx))
		f.nextReap.Store(math.MaxInt64) // what becomes due from here on notifies dueChanged
		wait, err := f.untilDue(ctx)
		f.logError("registry", err)
		f.nextReap.Store(registry.Timestamp(f.now().Add(wait)))
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-f.dueChanged:
		case <-ctx.Done():
			t.Stop()
			return nil
		}
		t.Stop()
	}
}

// ExpireSandboxes handles the expired sandboxes once, if no process leads. It is for short-lived programs; it
// costs one query when nothing is due.
func (f *Fleet) ExpireSandboxes(ctx context.Context) error {
	due := 0
	err := f.registry.DB.QueryRowContext(ctx, "select count(*) from sandboxes where due > 0 and due <= ?", registry.Timestamp(f.now())).Scan(&due)
	if err != nil || due == 0 {
		return err
	}
	ctx, leave, err := f.beginOperation(ctx)
	if err != nil {
		return err
	}
	defer leave()
	resign, err := f.member.TryLead(ctx)
	if resign == nil {
		return err
	}
	r := &reaper{f: f, slots: make(chan struct{}, maxReaping), busy: make(map[string]struct{})}
	err = r.reapDue(ctx)
	r.wg.Wait()
	return errors.Join(err, resign())
}

// untilDue returns the time until the next row is due, at most leaderInterval.
func (f *Fleet) untilDue(ctx context.Context) (time.Duration, error) {
	var due int64
	err := f.registry.DB.QueryRowContext(ctx, "select coalesce(min(due), 0) from sandboxes where due > ?", registry.Timestamp(f.now())).Scan(&due)
	if err != nil || due == 0 {
		return leaderInterval, err
	}
	return max(min(registry.Time(due).Sub(f.now()), leaderInterval), time.Millisecond), nil
}

// reaper stops and destroys sandboxes concurrently.
type reaper struct {
	f     *Fleet
	slots chan struct{}

	archiving chan struct{} // slots of those that are archived, which takes long; nil: none is archived

	wg sync.WaitGroup

	mu   sync.Mutex
	busy map[string]struct{} // ids of sandboxes being handled; guarded by mu
}

// reapDue starts handling all rows that are due, without waiting for the end.
func (r *reaper) reapDue(ctx context.Context) error {
	r.mu.Lock()
	busy := maps.Clone(r.busy) // before the query: the row of one that ends from here on can be an old one
	r.mu.Unlock()
	due, err := r.f.queryRows(ctx, r.f.registry.DB, "due > 0 and due <= ? order by due", registry.Timestamp(r.f.now()))
	if err != nil {
		return err
	}
	for _, row := range due {
		if _, ok := busy[row.id]; ok {
			continue
		}
		slots, timeout := r.slots, backgroundTimeout
		if what, _ := row.nextExpiry(); what == expireArchive {
			slots, timeout = r.archiving, archiveTimeout
			if len(slots) == cap(slots) {
				continue // the next round
			}
		}
		r.mu.Lock()
		r.busy[row.id] = struct{}{}
		r.mu.Unlock()
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return nil
		}
		r.wg.Go(func() {
			defer func() {
				r.mu.Lock()
				delete(r.busy, row.id)
				r.mu.Unlock()
				<-slots
			}()
			ctx, cancel := context.WithTimeout(ctx, timeout)
			defer cancel()
			r.f.logError("sandbox "+row.id, r.f.applyExpiry(ctx, row))
		})
	}
	return nil
}

// applyExpiry takes the action that is due for a sandbox.
func (f *Fleet) applyExpiry(ctx context.Context, r row) error {
	if r.state == atoll.Destroyed {
		return f.forgetDestroyed(ctx, r)
	}
	r.active = f.latestUse(ctx, r)
	what, at := r.nextExpiry()
	if at.IsZero() || at.After(f.now()) {
		return f.postponeDue(ctx, r)
	}
	b := f.ensureHandle(r)
	due := f.checkDue(r, what)
	if what == expirePause && b.checkSupported(pauseChange) != nil {
		what = expireStop
	}
	if b.checkReachable(ctx) != nil || what == expireStop && b.checkSupported(stopChange) != nil {
		return f.retryLater(ctx, r, reconcileInterval) // it ends with its process, or can't be stopped
	}
	noted := func(action string, err error) error {
		if errors.Is(err, errNotDue) {
			return nil
		}
		f.recordAudit(atoll.Audit{Owner: fleetOwner, Action: action, Object: r.id, Detail: "it has expired", Outcome: outcomeName(err)})
		if err != nil {
			return errors.Join(err, f.retryLater(ctx, r, retryDelay))
		}
		return nil
	}
	switch what {
	case expireRetry:
		if r.goal == goalArchive || r.goal == goalRestore {
			return noted("archive", f.reconcileRow(ctx, r, nil))
		}
		return noted("destroy", f.expireSandbox(ctx, r, "", nil))
	case expireDestroy:
		if err := f.rescueWork(ctx, r); err != nil {
			return f.stopUnsaved(ctx, r, err, due)
		}
		return noted("destroy", f.expireSandbox(ctx, r, "it has expired", due))
	case expireStop:
		if err := f.rescueWork(ctx, r); err != nil { // its files stay
			f.log.Warn("work in a sandbox was not saved before its stop", "id", r.id, "err", err)
		}
		return noted("stop", f.stopExpired(ctx, r, due))
	case expireArchive:
		return f.archiveExpired(ctx, r)
	case expirePause:
		return noted("pause", f.pauseExpired(ctx, r, due))
	}
	return nil
}

// errNotDue is the error of an action for a sandbox whose life was extended, or that was used, meanwhile.
var errNotDue = errors.New("it is not due any more")

// checkDue returns a check that an action is still due for a sandbox when its turn has come. What the fleet's own
// programs did inside meanwhile, such as those of Options.Rescue, is no use.
func (f *Fleet) checkDue(r row, what expiryAction) func(*row) error {
	b := f.ensureHandle(r)
	return func(present *row) error {
		fresh := *present
		for _, t := range []time.Time{r.active, b.lastCall(f.now())} {
			if t.After(fresh.active) {
				fresh.active = t
			}
		}
		if now, at := fresh.nextExpiry(); now != what || at.After(f.now()) {
			return errNotDue
		}
		return nil
	}
}

// rescueWork has the work in a sandbox saved by Options.Rescue.
func (f *Fleet) rescueWork(ctx context.Context, r row) error {
	if f.opts.Rescue == nil || r.state == atoll.Archived { // it was saved when it was stopped
		return nil
	}
	sb, err := f.ensureHandle(r).openInner(ctx)
	if err != nil {
		return err
	}
	return f.opts.Rescue(ctx, f.describeSandbox(ctx, &r), sb)
}

// rescueRetry is the time until work that could not be saved is tried again.
const rescueRetry = time.Hour

// stopUnsaved stops an expired sandbox instead of destroying it, as the work in it could not be
// saved, unless check refuses.
func (f *Fleet) stopUnsaved(ctx context.Context, r row, why error, check func(*row) error) error {
	f.log.Warn("the work in a sandbox could not be saved", "id", r.id, "err", why)
	var err error
	if r.state == atoll.Running || r.state == atoll.Paused {
		err = f.stopExpired(ctx, r, check)
	}
	if errors.Is(err, errNotDue) {
		return nil
	}
	f.recordAudit(atoll.Audit{Owner: fleetOwner, Action: "stop", Object: r.id, Detail: "it has expired, but its work could not be saved", Outcome: outcomeName(why)})
	return errors.Join(err, f.retryLater(ctx, r, rescueRetry))
}

// postponeDue records that a sandbox was in use and is due later.
func (f *Fleet) postponeDue(ctx context.Context, r row) error {
	return f.registry.Write(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "update sandboxes set active = case when active < ?1 then ?1 else active end, due = ?2 where id = ?3 and turn = ?4",
			registry.Timestamp(r.active), registry.Timestamp(r.nextDue()), r.id, r.revision)
		return err
	})
}

// retryLater makes a failed action due again after a while.
func (f *Fleet) retryLater(ctx context.Context, r row, after time.Duration) error {
	return f.registry.Write(context.WithoutCancel(ctx), func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "update sandboxes set due = ? where id = ? and due > 0 and due <= ?", registry.Timestamp(f.now().Add(after)), r.id, registry.Timestamp(f.now()))
		return err
	})
}

// stopExpired stops a sandbox as the fleet, unless check refuses.
func (f *Fleet) stopExpired(ctx context.Context, r row, check func(*row) error) error {
	err := f.changeState(ctx, f.ensureHandle(r), stopChange, check, func(ctx context.Context, sb atoll.Sandbox) error {
		t, ok := atoll.As[atoll.Stopper](sb)
		if !ok {
			return unsupported
		}
		return t.Stop(ctx)
	})
	return err
}

// pauseExpired pauses an expired sandbox, unless check refuses.
func (f *Fleet) pauseExpired(ctx context.Context, r row, check func(*row) error) error {
	return f.changeState(ctx, f.ensureHandle(r), pauseChange, check, func(ctx context.Context, sb atoll.Sandbox) error {
		t, ok := atoll.As[atoll.Pauser](sb)
		if !ok {
			return unsupported
		}
		return t.Pause(ctx)
	})
}

// forgetDestroyed deletes the row of a destroyed sandbox.
func (f *Fleet) forgetDestroyed(ctx context.Context, r row) error {
	return f.registry.Write(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "delete from sandboxes where id = ? and state = 'destroyed'", r.id)
		return err
	})
}

// maxDestroyed is the number of destroyed sandboxes remembered per owner.
const maxDestroyed = 1000

// trimDestroyed deletes the oldest rows of destroyed sandboxes beyond maxDestroyed per owner.
func (f *Fleet) trimDestroyed(ctx context.Context) error {
	return f.registry.Write(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `delete from sandboxes where id in (select id from (
			select id, row_number() over (partition by app, user order by changed desc) n from sandboxes where state = 'destroyed') o where n > ?)`, maxDestroyed)
		return err
	})
}
