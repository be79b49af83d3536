package fleet

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// revocations tells those who let callers in that tokens were revoked.
type revocations struct {
	mu   sync.Mutex
	next int                           // guarded by mu
	told map[int]func(context.Context) // guarded by mu
}

// OnRevoked calls fn each time this process has revoked tokens, before
// RevokeToken returns, until forget is called. What other processes revoke only
// [Fleet.GoodTokens] tells.
func (f *Fleet) OnRevoked(fn func(ctx context.Context)) (forget func()) {
	r := &f.revocations
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.told == nil {
		r.told = make(map[int]func(context.Context))
	}
	r.next++
	n := r.next
	r.told[n] = fn
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.told, n)
	}
}

// tell calls all who want to know, also when the caller who revoked is gone.
func (r *revocations) tell(ctx context.Context) {
	r.mu.Lock()
	fns := make([]func(context.Context), 0, len(r.told))
	for _, fn := range r.told {
		fns = append(fns, fn)
	}
	r.mu.Unlock()
	for _, fn := range fns {
		fn(context.WithoutCancel(ctx))
	}
}

// GoodTokens returns those of some tokens that can still be used, each with the
// time that it has left; 0 means for ever.
func (f *Fleet) GoodTokens(ctx context.Context, ids []string) (map[string]time.Duration, error) {
	good, err := f.goodTokens(ctx, ids)
	if err != nil {
		return nil, &atoll.Error{Op: "look up tokens", Err: err}
	}
	return good, nil
}

func (f *Fleet) goodTokens(ctx context.Context, ids []string) (map[string]time.Duration, error) {
	good := make(map[string]time.Duration, len(ids))
	for some := range slices.Chunk(ids, listed) {
		if err := f.findGood(ctx, some, good); err != nil {
			return nil, err
		}
	}
	return good, nil
}

func (f *Fleet) findGood(ctx context.Context, ids []string, good map[string]time.Duration) error {
	now := stamp(f.now())
	rows, err := f.store.db.QueryContext(ctx, "select id, expires from tokens where id in "+places(len(ids))+" and"+liveToken, append(values(ids), now)...)
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
