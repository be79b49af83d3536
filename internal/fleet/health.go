package fleet

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// Cost limits of a health check: the time between two checks of a driver, and the time that one
// may take.
const (
	healthInterval = time.Second
	healthTimeout  = 2 * time.Second
)

// shouldRun reports whether a row records a running or paused sandbox that no process is changing,
// and that may have died without the fleet.
func (r *row) shouldRun() bool {
	return (r.state == atoll.Running || r.state == atoll.Paused) && r.goal == "" && r.holder == "" && r.process == ""
}

// isUnsettled reports whether a row records a sandbox for which the driver reported something
// temporary, such as that it is being stopped without the fleet.
func (r *row) isUnsettled() bool {
	return r.state == atoll.Failed && r.reason == reasonUnclear && r.goal == "" && r.holder == "" && r.process == ""
}

// checkHealth asks the drivers of those sandboxes among rows that are running, paused or unsettled for their
// states: process 1 may have been killed, or the host restarted. It reports whether a row may be outdated. A
// driver that fails to answer changes nothing.
func (f *Fleet) checkHealth(ctx context.Context, rows []row) (outdated bool) {
	should := make(map[*driverState]map[string]row)
	for _, r := range rows {
		b := f.findDriver(r.driver)
		if b == nil || !r.shouldRun() && !r.isUnsettled() {
			continue
		}
		if should[b] == nil {
			should[b] = make(map[string]row)
		}
		should[b][r.id] = r
	}
	for b, rows := range should {
		if f.checkDriver(ctx, b, rows) {
			outdated = true
		}
	}
	return outdated
}

// checkDriver reconciles the rows of one driver that differ from its list, and reports whether there are
// any. A driver that can only list all its sandboxes is asked once in healthInterval, about all of them.
func (f *Fleet) checkDriver(ctx context.Context, b *driverState, rows map[string]row) (outdated bool) {
	reader, fast := b.impl.(atoll.StatusReader)
	if !fast && !b.claimCheck(f.now()) {
		return false
	}
	asking, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	if _, err := b.probe(asking); err != nil {
		return false // it can't say
	}
	var there []atoll.Status
	var isMissing func(atoll.Owner) bool
	if fast {
		var err error
		there, err = reader.ReadStatuses(asking, slices.Collect(maps.Keys(rows)))
		isMissing = func(atoll.Owner) bool { return err != nil }
	} else {
		all, err := f.queryDriverRows(ctx, b)
		if err != nil {
			return false
		}
		rows = all
		there, isMissing, _ = b.list(asking) // after an error, rows of owners that are missing stay as they are
	}
	states := make(map[string]atoll.State, len(there))
	for _, st := range there {
		states[st.ID], _, _ = stateFromStatus(st)
	}
	for id, r := range rows {
		to, listed := states[id]
		if asking.Err() != nil {
			return outdated // the next check continues
		}
		if listed && to != r.state || !listed && !isMissing(r.owner) {
			f.recheckSandbox(ctx, id)
			outdated = true
		}
	}
	return outdated
}

// queryDriverRows returns the rows of a driver's sandboxes that are running, paused or unsettled.
func (f *Fleet) queryDriverRows(ctx context.Context, b *driverState) (map[string]row, error) {
	rows, err := f.queryRows(ctx, f.registry.DB, "driver = ? and (state in ('running', 'paused') or state = 'error' and reason = ?) and goal = '' and holder = '' and host = ''", b.impl.Name(), reasonUnclear)
	if err != nil {
		return nil, err
	}
	all := make(map[string]row, len(rows))
	for _, r := range rows {
		all[r.id] = r
	}
	return all, nil
}

// watchStatesRetry is the time until a driver that fails to watch its sandboxes is tried again.
const watchStatesRetry = time.Minute

// watchStates reconciles sandboxes that end or are removed without the fleet, as their drivers notice it,
// until ctx is done.
func (f *Fleet) watchStates(ctx context.Context) error {
	var wg sync.WaitGroup
	for _, b := range f.drivers {
		w, ok := b.impl.(atoll.StateWatcher)
		if !ok {
			continue
		}
		wg.Go(func() {
			for ctx.Err() == nil {
				f.logError("watch states", w.WatchStates(ctx, func(id string) { f.recheckSandbox(ctx, id) }))
				retry := time.NewTimer(watchStatesRetry)
				select {
				case <-retry.C:
				case <-ctx.Done():
					retry.Stop()
				}
			}
		})
	}
	wg.Wait()
	return nil
}

// recheckSandbox reconciles a sandbox that should run and may not, or is unsettled.
func (f *Fleet) recheckSandbox(ctx context.Context, id string) {
	r, err := f.loadRow(ctx, id)
	if err != nil || !r.shouldRun() && !r.isUnsettled() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, backgroundTimeout)
	defer cancel()
	b := f.ensureHandle(r)
	release, err := b.acquireTurn(ctx)
	if err != nil {
		return
	}
	defer release()
	f.recheckHeld(ctx, b)
}

// claimCheck reports whether a driver is due for a check, and records that it is checked now.
func (b *driverState) claimCheck(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if since := now.Sub(b.checkedAt); since >= 0 && since < healthInterval {
		return false
	}
	b.checkedAt = now
	return true
}

// recheckHeld reconciles a sandbox that should run and does not, or is unsettled. A driver that fails to answer changes
// nothing. The caller holds its turn.
func (f *Fleet) recheckHeld(ctx context.Context, b *handle) {
	r, err := f.loadRow(ctx, b.id)
	if err != nil || !r.shouldRun() && !r.isUnsettled() {
		return
	}
	if to, reason, _, err := f.observeState(ctx, b); err != nil || to == r.state && reason == r.reason {
		return
	}
	_, err = f.reconcileHeld(ctx, b.id, nil)
	f.logError("reconcile", err)
}
