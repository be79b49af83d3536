package fleet

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// Limits of filling pools.
const (
	maxFilling       = 4                // sandboxes made at once, for all pools
	fillInterval     = 2 * time.Second  // between two rounds: other processes claim too
	minFillRetry     = time.Second      // after a creation has failed; doubles with each failure
	maxFillRetry     = 5 * time.Minute  // the longest
	idleFillInterval = 15 * time.Second // between two rounds while there is no pool
)

// poolFiller keeps pools at their sizes. All fields but those guarded by mu belong to its loop.
type poolFiller struct {
	f     *Fleet
	slots chan struct{}
	wg    sync.WaitGroup

	mu      sync.Mutex
	making  map[string]int // being created, by pool; guarded by mu, as all below
	wait    map[string]time.Duration
	retryAt map[string]time.Time // when a pool whose last creation failed is tried again
}

// fillPools keeps every pool at its size until ctx is done.
func (f *Fleet) fillPools(ctx context.Context) error {
	p := &poolFiller{
		f: f, slots: make(chan struct{}, maxFilling),
		making: make(map[string]int), wait: make(map[string]time.Duration), retryAt: make(map[string]time.Time),
	}
	defer p.wg.Wait()
	for {
		next, err := p.fillOnce(ctx)
		f.logError("pools", err)
		t := time.NewTimer(next)
		select {
		case <-t.C:
		case <-f.poolsChanged:
		case <-ctx.Done():
			t.Stop()
			return nil
		}
		t.Stop()
	}
}

// fillOnce starts the work that is necessary now and returns the time until the next round.
func (p *poolFiller) fillOnce(ctx context.Context) (time.Duration, error) {
	making := p.countMaking() // before the rows are read, so that none is missed
	pools, err := p.f.queryPools(ctx, p.f.registry.DB, "true order by name")
	if err != nil {
		return fillInterval, err
	}
	rows, err := p.f.queryRows(ctx, p.f.registry.DB, "pool <> '' and state <> 'destroyed'")
	if err != nil {
		return fillInterval, err
	}
	next := idleFillInterval
	if len(pools) > 0 {
		next = fillInterval
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
		case r.process != "" && r.process != p.f.member.ID(): // it lives in the memory of another process
		case !p.matchesPool(known[r.pool], r) || ready[r.pool] == known[r.pool].size:
			errs = append(errs, p.f.discardReady(ctx, r))
		default:
			ready[r.pool]++
		}
	}
	for i := range pools {
		next = min(next, p.fillPool(ctx, &pools[i], ready[pools[i].name]+making[pools[i].name]))
	}
	return next, errors.Join(errs...)
}

// matchesPool reports whether a sandbox has its pool's configuration and runs.
func (p *poolFiller) matchesPool(pool *poolRow, r *row) bool {
	if pool == nil || r.state != atoll.Running {
		return false
	}
	has, err := json.Marshal(&r.cfg)
	wants, werr := json.Marshal(&pool.cfg)
	return err == nil && werr == nil && bytes.Equal(has, wants)
}

// countMaking returns the number of sandboxes being created, by pool.
func (p *poolFiller) countMaking() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.making)
}

// fillPool starts creating the missing sandboxes of a pool, and returns the time until the next
// look at it. A sandbox just created may be counted twice; its end triggers another round.
func (p *poolFiller) fillPool(ctx context.Context, pool *poolRow, there int) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if wait := p.retryAt[pool.name].Sub(p.f.now()); wait > 0 {
		return wait
	}
	todo := pool.size - there
	if p.wait[pool.name] > 0 {
		todo = min(todo, 1-p.making[pool.name]) // after a failure, one at a time
	}
	for range todo {
		select {
		case p.slots <- struct{}{}:
		default:
			return fillInterval // the end of a creation triggers the next round
		}
		p.making[pool.name]++
		p.wg.Go(func() { p.makeReady(ctx, pool) })
	}
	return fillInterval
}

// makeReady creates one sandbox of a pool, and records an error.
func (p *poolFiller) makeReady(ctx context.Context, pool *poolRow) {
	_, err := p.f.buildSandbox(ctx, row{owner: poolOwner, cfg: pool.cfg, pool: pool.name})
	if ctx.Err() == nil {
		p.f.logError("pool "+pool.name, p.saveError(ctx, pool, err))
	}
	p.mu.Lock()
	p.making[pool.name]--
	if err == nil {
		delete(p.wait, pool.name)
		delete(p.retryAt, pool.name)
	} else {
		p.wait[pool.name] = min(max(2*p.wait[pool.name], minFillRetry), maxFillRetry)
		p.retryAt[pool.name] = p.f.now().Add(p.wait[pool.name])
	}
	p.mu.Unlock()
	<-p.slots
	notify(p.f.poolsChanged)
}

// saveError records why the last creation failed, or clears the error.
func (p *poolFiller) saveError(ctx context.Context, pool *poolRow, failure error) error {
	text := ""
	if failure != nil {
		text = newMask(&pool.cfg).redact(oneLine(failure))
	}
	if text == pool.error {
		return nil
	}
	return p.f.registry.Write(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "update pools set error = ? where name = ? and config = ?", text, pool.name, pool.config)
		return err
	})
}
