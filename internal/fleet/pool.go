package fleet

import (
	"context"

	"github.com/atoll-sandbox/atoll"
)

// SetPool makes or changes a warm pool; of p, the name, configuration and size
// count. It needs ScopeAdmin.
func (a *Account) SetPool(ctx context.Context, p atoll.Pool) (atoll.Pool, error) {
	return atoll.Pool{}, atoll.ErrUnsupported
}

// Pools returns the warm pools in the order of names.
func (a *Account) Pools(ctx context.Context) ([]atoll.Pool, error) { return nil, atoll.ErrUnsupported }

// RemovePool removes a pool and the sandboxes of it that nobody has claimed. It
// needs ScopeAdmin.
func (a *Account) RemovePool(ctx context.Context, name string) error { return atoll.ErrUnsupported }

// fillPools keeps every pool at its size until ctx is done.
func (f *Fleet) fillPools(ctx context.Context) error { return atoll.ErrUnsupported }
