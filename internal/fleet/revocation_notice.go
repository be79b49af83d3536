package fleet

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet/registry"
)

// revocations calls listeners when tokens or links are revoked.
type revocations struct {
	mu        sync.Mutex
	next      int                           // guarded by mu
	listeners map[int]func(context.Context) // guarded by mu
}

// OnRevoked calls fn each time this process has revoked tokens or links, before the revoking call
// returns, until forget is called. Revocations by other processes are seen by [Fleet.ValidTokens]
// only.
func (f *Fleet) OnRevoked(fn func(ctx context.Context)) (forget func()) {
	r := &f.revocations
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.listeners == nil {
		r.listeners = make(map[int]func(context.Context))
	}
	r.next++
	n := r.next
	r.listeners[n] = fn
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.listeners, n)
	}
}

// notifyAll calls all listeners, with a context that does not end with the caller's.
func (r *revocations) notifyAll(ctx context.Context) {
	r.mu.Lock()
	fns := make([]func(context.Context), 0, len(r.listeners))
	for _, fn := range r.listeners {
		fns = append(fns, fn)
	}
	r.mu.Unlock()
	for _, fn := range fns {
		fn(context.WithoutCancel(ctx))
	}
}

// ValidTokens returns the given tokens that are still valid, with the time until they expire; 0:
// never.
func (f *Fleet) ValidTokens(ctx context.Context, ids []string) (map[string]time.Duration, error) {
	good, err := f.queryGoodTokens(ctx, ids)
	if err != nil {
		return nil, &atoll.Error{Op: "look up tokens", Err: err}
	}
	return good, nil
}

func (f *Fleet) queryGoodTokens(ctx context.Context, ids []string) (map[string]time.Duration, error) {
	good := make(map[string]time.Duration, len(ids))
	for some := range slices.Chunk(ids, registry.MaxListed) {
		if err := f.queryGoodChunk(ctx, some, good); err != nil {
			return nil, err
		}
	}
	return good, nil
}

func (f *Fleet) queryGoodChunk(ctx context.Context, ids []string, good map[string]time.Duration) error {
	now := registry.Timestamp(f.now())
	rows, err := f.registry.DB.QueryContext(ctx, "select id, expires from tokens where id in "+registry.Placeholders(len(ids))+" and"+liveToken, append(registry.Args(ids), now)...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var id string
		var expires int64
		if err := rows.Scan(&id, &expires); err != nil {
			return err
		}
		good[id] = 0
		if expires != 0 {
			good[id] = time.Duration(expires - now)
		}
	}
	return rows.Err()
}
