package fleet

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// Run does the background work of a fleet until ctx is done: it stops and destroys expired
// sandboxes, removes unused workspaces and fills warm pools. Of the processes that share a home,
// one leads and works; Run of the others waits to lead. Each samples the resource usage of the sandboxes.
func (f *Fleet) Run(ctx context.Context) error {
	if ctx.Err() != nil {
		return nil
	}
	ctx, leave, err := f.beginOperation(ctx)
	if err != nil {
		return err
	}
	defer leave()
	var sampler sync.WaitGroup
	defer sampler.Wait()
	sampling, cancel := context.WithCancel(ctx)
	defer cancel()
	sampler.Go(func() { f.sampleUsage(sampling) })
	for ctx.Err() == nil {
		within, resign, err := f.member.Lead(ctx)
		if err == nil {
			err = errors.Join(f.runLeader(within), resign())
		}
		if err != nil && ctx.Err() == nil {
			return fmt.Errorf("fleet: lead: %w", err)
		}
	}
	return nil
}

// runLeader does the leader's work until ctx is done.
func (f *Fleet) runLeader(ctx context.Context) error {
	f.log.Info("this process leads the fleet", "instance", f.member.ID())
	if err := f.Reconcile(ctx); err != nil && ctx.Err() == nil {
		f.log.Error("reconciliation", "err", err)
	}
	var wg sync.WaitGroup
	for what, loop := range map[string]func(context.Context) error{"pools": f.fillPools, "retention": f.runRetention, "reaper": f.runReaper, "states": f.watchStates, "notices": f.runListeners, "webhooks": f.runWebhooks} {
		wg.Go(func() {
			if err := loop(ctx); err != nil && ctx.Err() == nil {
				f.log.Error("background loop ended", "loop", what, "err", err)
			}
		})
	}
	wg.Wait()
	return nil
}

const (
	leaderInterval    = 30 * time.Second // between two rounds of the reaper: other processes change rows too
	reconcileInterval = 10 * time.Minute // between two reconciliations
	maxReaping        = 8                // sandboxes that are stopped or destroyed at once
	maxArchiving      = 2                // sandboxes that are archived at once
)

// logError logs an error of background work, unless the work was canceled or the registry is
// unavailable.
func (f *Fleet) logError(what string, err error) {
	if err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, atoll.ErrUnavailable) {
		f.log.Error(what, "err", err)
	}
}
