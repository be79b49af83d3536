package fleet

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// How pools are filled.
const (
	fillers    = 4                // sandboxes made at once, for all pools
	refillLook = 2 * time.Second  // between two looks at pools: other processes claim too
	firstRetry = time.Second      // after a sandbox could not be made, then twice as long
	lastRetry  = 5 * time.Minute  // but no longer
	poolsLook  = 15 * time.Second // between two looks while there is no pool
)

// filling keeps pools at their sizes. Its fields are its loop's, but for mu.
type filling struct {
	f     *Fleet
	slots chan struct{}
	wg    sync.WaitGroup

	mu      sync.Mutex
	making  map[string]int // under way, by pool; guarded by mu, as all below
	wait    map[string]time.Duration
	retryAt map[string]time.Time // when a pool whose sandbox could not be made is looked at again
}

// fillPools keeps every pool at its size until ctx is done.
func (f *Fleet) fillPools(ctx context.Context) error {
	p := &filling{
		f: f, slots: make(chan struct{}, fillers),
		making: make(map[string]int), wait: make(map[string]time.Duration), retryAt: make(map[string]time.Time),
	}
	defer p.wg.Wait()
	for {
		next, err := p.round(ctx)
		f.report("pools", err)
		t := time.NewTimer(next)
		select {
		case <-t.C:
		case <-f.refill:
		case <-ctx.Done():
			t.Stop()
			return nil
		}
		t.Stop()
	}
}

// round begins what is to be done now and returns when to look again.
func (p *filling) round(ctx context.Context) (time.Duration, error) {
	making := p.underWay() // before the rows are read: none is left out
	pools, err := poolRows(ctx, p.f.store.db, "true order by name")
	if err != nil {
		return refillLook, err
	}
	rows, err := allRows(ctx, p.f.store.db, "pool <> '' and state <> 'destroyed'")
	if err != nil {
		return refillLook, err
	}
	next := poolsLook
	if len(pools) > 0 {
		next = refillLook
	}
	known := make(map[string]*poolRow, len(pools))
	ready := make(map[string]int, len(pools))
	for i := range pools {
		known[pools[i].name] = &pools[i]
	}
	var errs []error
	for i := range rows {
		r := &rows[i]
		switch {
		case r.holder != "" || r.goal != "":
		case r.host != "" && r.host != p.f.instance.id: // of another process's memory
		case !p.fits(known[r.pool], r) || ready[r.pool] == known[r.pool].size:
			errs = append(errs, p.f.discardReady(ctx, r))
		default:
			ready[r.pool]++
		}
	}
	for i := range pools {
		next = min(next, p.fill(ctx, &pools[i], ready[pools[i].name]+making[pools[i].name]))
	}
	return next, errors.Join(errs...)
}

// fits reports whether a sandbox is what its pool says.
func (p *filling) fits(pool *poolRow, r *row) bool {
	if pool == nil || r.state != atoll.Running {
		return false
	}
	b, err := json.Marshal(&r.cfg)
	return err == nil && string(b) == pool.config
}

// underWay returns how many are being made, by pool.
func (p *filling) underWay() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.making)
}

// fill begins to make what a pool lacks, and returns when it is to be looked at
// again. Of those that there are, one that has just been made may be counted
// twice: its end makes the loop look again.
func (p *filling) fill(ctx context.Context, pool *poolRow, there int) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if wait := p.retryAt[pool.name].Sub(p.f.now()); wait > 0 {
		return wait
	}
	todo := pool.size - there
	if p.wait[pool.name] > 0 {
		todo = min(todo, 1-p.making[pool.name]) // the last failed: one tries
	}
	for range todo {
		select {
		case p.slots <- struct{}{}:
		default:
			return refillLook // the end of one that is being made wakes the loop
		}
		p.making[pool.name]++
		p.wg.Go(func() { p.make(ctx, pool) })
	}
	return refillLook
}

// make makes one sandbox of a pool, and notes what it could not be made for.
func (p *filling) make(ctx context.Context, pool *poolRow) {
	_, err := p.f.build(ctx, row{owner: poolOwner, cfg: pool.cfg, pool: pool.name})
	if ctx.Err() == nil {
		p.f.report("pool "+pool.name, p.note(ctx, pool, err))
	}
	p.mu.Lock()
	p.making[pool.name]--
	if err == nil {
		delete(p.wait, pool.name)
		delete(p.retryAt, pool.name)
	} else {
		p.wait[pool.name] = min(max(2*p.wait[pool.name], firstRetry), lastRetry)
		p.retryAt[pool.name] = p.f.now().Add(p.wait[pool.name])
	}
	p.mu.Unlock()
	<-p.slots
	poke(p.f.refill)
}

// note writes down why the last try failed, or that it did not.
func (p *filling) note(ctx context.Context, pool *poolRow, failure error) error {
	text := ""
	if failure != nil {
		text = newMask(&pool.cfg).text(oneLine(failure))
	}
	if text == pool.error {
		return nil
	}
	return p.f.store.write(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "update pools set error = ? where name = ? and config = ?", text, pool.name, pool.config)
		return err
	})
}
