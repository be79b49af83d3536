package fleet

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet/registry"
)

// handle is the state of a sandbox in this process, shared by all Sandbox values for it.
type handle struct {
	f      *Fleet
	id     string
	driver *driverState  // nil: the driver is not set up in this fleet
	turn   chan struct{} // holds a token while this process changes the state
	calls  callTracker

	commands atomic.Int64 // commands among the calls
	uses     atomic.Int64 // calls among them that count as use

	masks maskCache // hide its secrets

	viewerEvents *rate.Limiter // of events about viewers of its terminals

	detaching sync.RWMutex // held while a command is being detached, until it is recorded

	mu           sync.Mutex
	row          row                     // as this process last read or wrote it; guarded by mu, as all below
	sb           atoll.Sandbox           // nil until it is opened
	active       time.Time               // last use: end of the last call, or of what programs inside did
	called       time.Time               // end of the last call that counts as use
	unsaved      bool                    // active is later than the registry knows
	busyInside   bool                    // programs inside report activity
	cancelChange context.CancelCauseFunc // cancels the state change in progress; nil: it can't be canceled
}

// refreshInterval is how late this process may learn of changes by other processes, unless a call
// reads the registry itself. In between, the driver refuses what is impossible.
const refreshInterval = 250 * time.Millisecond

// ensureHandle returns the handle of a sandbox, created if it is missing and updated with the row.
func (f *Fleet) ensureHandle(r row) *handle {
	f.mu.Lock()
	b := f.live[r.id]
	if b == nil {
		b = f.newHandle(r)
		f.live[r.id] = b
	}
	f.mu.Unlock()
	f.updateHandle(r)
	return b
}

// newHandle creates the handle of a row. The caller holds mu.
func (f *Fleet) newHandle(r row) *handle {
	b := &handle{f: f, id: r.id, driver: f.findDriver(r.driver), turn: make(chan struct{}, 1), viewerEvents: rate.NewLimiter(rate.Every(viewerEventInterval), viewerEvents), row: r, active: r.active}
	b.calls.closedErr = f.closeReason
	return b
}

// findHandle returns the handle of a sandbox, or nil.
func (f *Fleet) findHandle(id string) *handle {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.live[id]
}

func (f *Fleet) handles() []*handle {
	f.mu.Lock()
	defer f.mu.Unlock()
	list := make([]*handle, 0, len(f.live))
	for _, b := range f.live {
		list = append(list, b)
	}
	return list
}

// updateHandle updates the handle of a sandbox, if there is one, with a row that is not older.
func (f *Fleet) updateHandle(r row) {
	if at := registry.Timestamp(r.due); at > 0 && at < f.nextReap.Load() {
		notify(f.dueChanged)
	}
	notify(f.sandboxesChanged)
	b := f.findHandle(r.id)
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if r.revision < b.row.revision {
		return
	}
	b.row = r
	if r.active.After(b.active) {
		b.active = r.active
	}
	switch {
	case r.state == atoll.Destroyed:
		f.mu.Lock()
		delete(f.live, r.id)
		f.mu.Unlock()
		b.calls.cancelAll(errDestroyed)
		f.processes.forgetSandbox(r.id)
	case r.goal == goalDestroy:
		b.calls.cancelAll(errDestroyed)
	case r.state == atoll.Failed:
		b.sb = nil // to be opened again
		b.calls.cancelAll(errStopped)
	case r.state == atoll.Archived:
		b.sb = nil
		b.calls.cancelAll(errStopped)
	case r.goal == goalArchive:
		b.calls.cancelAll(errArchiving)
	case r.state == atoll.Stopping:
		b.calls.cancelAll(errStopped) // also when another process stops it
	}
}

// errNotHere is the error of a sandbox that may be well but that this process can't reach.
var errNotHere = fmt.Errorf("%w here", atoll.ErrUnavailable)

// The causes of canceled calls.
var (
	errStopped   = fmt.Errorf("%w: the sandbox was stopped", atoll.ErrState)
	errDestroyed = fmt.Errorf("%w: the sandbox was destroyed", atoll.ErrNotFound)
)

// getOwner returns the owner of the sandbox.
func (b *handle) getOwner() atoll.Owner {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.row.owner
}

// cachedRow returns the row as this process knows it.
func (b *handle) cachedRow() row {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.row
}

// openInner returns the driver's sandbox and opens it if necessary.
func (b *handle) openInner(ctx context.Context) (atoll.Sandbox, error) {
	b.mu.Lock()
	sb := b.sb
	b.mu.Unlock()
	if sb != nil {
		return sb, nil
	}
	r := b.cachedRow()
	if b.driver == nil {
		return nil, fmt.Errorf("%w: its driver %q is not set up", errNotHere, r.driver)
	}
	sb, err := b.driver.open(ctx, b.id, r.owner)
	if errors.Is(err, atoll.ErrNotFound) && r.process != "" && r.process != b.f.member.ID() {
		if alive, aerr := b.f.member.IsAlive(r.process); alive || aerr != nil {
			return nil, errors.Join(fmt.Errorf("%w: it lives in the memory of another process", errNotHere), aerr)
		}
	}
	if err != nil {
		return nil, err
	}
	b.setInner(sb)
	return sb, nil
}

// open opens a sandbox of an owner.
func (b *driverState) open(ctx context.Context, id string, owner atoll.Owner) (atoll.Sandbox, error) {
	if o, ok := b.impl.(atoll.OwnerOpener); ok {
		return o.OpenOwned(ctx, id, owner)
	}
	return b.impl.Open(ctx, id)
}

// list returns the sandboxes of the driver. Not listed are only those of owners for whom isMissing
// returns true.
func (b *driverState) list(ctx context.Context) (there []atoll.Status, isMissing func(atoll.Owner) bool, err error) {
	there, err = b.impl.List(ctx)
	var partial *atoll.PartialListError
	if errors.As(err, &partial) {
		return there, partial.IsMissing, err
	}
	return there, func(atoll.Owner) bool { return err != nil }, err
}

// setInner stores the driver's sandbox. Nil makes the next openInner open it again.
func (b *handle) setInner(sb atoll.Sandbox) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sb = sb
}

// refreshIfStale reads the changes of other processes, unless that was done within
// refreshInterval.
func (f *Fleet) refreshIfStale(ctx context.Context) error {
	now := f.now().UnixNano()
	if now-f.refreshedAt.Load() < int64(refreshInterval) || !f.refreshing.TryLock() {
		return nil
	}
	defer f.refreshing.Unlock()
	yes, err := f.registry.Changed(ctx)
	if err == nil && yes {
		err = f.refreshHandles(ctx)
	}
	if err == nil {
		f.refreshedAt.Store(now)
	}
	return err
}

// refreshHandles reads the rows of all handles that other processes have changed.
func (f *Fleet) refreshHandles(ctx context.Context) error {
	turns := make(map[string]int64)
	for _, b := range f.handles() {
		turns[b.id] = b.cachedRow().revision
	}
	if len(turns) == 0 {
		return nil
	}
	var stale []string
	for ids := range slices.Chunk(keysOf(turns), registry.MaxListed) {
		some, err := f.findStaleRows(ctx, ids, turns)
		if err != nil {
			return err
		}
		stale = append(stale, some...)
	}
	for _, id := range stale {
		r, err := f.loadRow(ctx, id)
		if errors.Is(err, atoll.ErrNotFound) {
			continue // its row was deleted
		}
		if err != nil {
			return err
		}
		f.updateHandle(r)
	}
	return nil
}

// findStaleRows returns those ids whose rows have another revision in the registry than in
// revisions.
func (f *Fleet) findStaleRows(ctx context.Context, ids []string, turns map[string]int64) (stale []string, err error) {
	rows, err := f.registry.DB.QueryContext(ctx, "select id, turn from sandboxes where id in "+registry.Placeholders(len(ids)), registry.Args(ids)...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var id string
		var turn int64
		if err := rows.Scan(&id, &turn); err != nil {
			return nil, err
		}
		if turns[id] != turn {
			stale = append(stale, id)
		}
	}
	return stale, rows.Err()
}

func keysOf(m map[string]int64) []string {
	list := make([]string, 0, len(m))
	for k := range m {
		list = append(list, k)
	}
	return list
}

// runKeeper regularly records which sandboxes were in use, and, while calls are active, reads the
// changes of other processes: one may stop a sandbox in use. It returns when the fleet is closed.
func (f *Fleet) runKeeper() {
	defer close(f.keeperDone)
	ctx := context.Background() // it ends with keeperStop; none of its calls waits for a caller
	for {
		select {
		case <-f.callsChanged:
		case <-f.registryBack:
			f.logError("reconcile", f.reconcileOwn(ctx))
		case <-f.keeperStop:
			return
		}
		for pause := f.keeperPause(); pause > 0; pause = f.keeperPause() {
			t := time.NewTimer(pause)
			select {
			case <-t.C:
			case <-f.registryBack:
				f.logError("reconcile", f.reconcileOwn(ctx))
			case <-f.keeperStop:
				t.Stop()
				return
			}
			t.Stop()
			if err := errors.Join(f.refreshIfStale(ctx), f.saveUses(ctx, false)); err != nil {
				f.log.Error("registry", "err", err)
			}
		}
	}
}

// keeperPause returns the time until the keeper's next round; 0: when a call begins or ends.
func (f *Fleet) keeperPause() time.Duration {
	if f.activeCalls.Load() > 0 {
		return refreshInterval
	}
	for _, b := range f.handles() {
		b.mu.Lock()
		unsaved := b.unsaved
		b.mu.Unlock()
		if unsaved {
			return refreshInterval
		}
	}
	return 0
}

// pendingUse is the last use of a sandbox, to be recorded.
type pendingUse struct {
	b      *handle
	active time.Time
	due    time.Time
}

// useExactness is how far the recorded last use may lag behind.
const useExactness = 5 * time.Second

// saveUses records the last use of the sandboxes whose record lags too far behind, or of all.
func (f *Fleet) saveUses(ctx context.Context, all bool) error {
	now := f.now()
	var list []pendingUse
	for _, b := range f.handles() {
		active, busy := b.lastActive(now), b.uses.Load() > 0
		b.mu.Lock()
		switch {
		case !active.After(b.row.active):
			b.unsaved = false
		case (b.unsaved || busy) && (all || now.Sub(b.row.active) >= b.row.usePrecision()):
			b.row.active, b.unsaved = active, false
			b.row.due = b.row.nextDue()
			list = append(list, pendingUse{b, active, b.row.due})
		}
		b.mu.Unlock()
	}
	if len(list) == 0 {
		return nil
	}
	err := f.registry.Write(ctx, func(tx *sql.Tx) error {
		for _, u := range list {
			if _, err := tx.ExecContext(ctx, "update sandboxes set active = case when active < ?1 then ?1 else active end, due = case when goal = '' and due > 0 then ?2 else due end where id = ?3",
				registry.Timestamp(u.active), registry.Timestamp(u.due), u.b.id); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		for _, u := range list {
			u.b.mu.Lock()
			u.b.unsaved = true
			u.b.mu.Unlock()
		}
	}
	return err
}

// usePrecision returns how far the recorded last use of the sandbox may lag behind.
func (r *row) usePrecision() time.Duration {
	if idle := r.cfg.Lifecycle.Effective().Idle; idle > 0 {
		return min(useExactness, idle/4)
	}
	return useExactness
}
