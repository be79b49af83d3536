package fleet

import (
	"context"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// EventFilter says which events are wanted. The zero EventFilter means all of
// the owner's.
type EventFilter struct {
	After     int64     // those with a higher ID; what is no longer kept is left out
	Since     time.Time // those not older
	Types     []string  // "sandbox.running", "sandbox.*"
	Object    string    // of one sandbox (id or name) or workspace
	AllOwners bool      // needs ScopeAdmin
}

// Events calls fn for each event, oldest first: first those that are kept, then,
// if follow is set, new ones as they happen, those of other processes too, until
// ctx is done or fn returns an error, which it returns.
func (a *Account) Events(ctx context.Context, filter EventFilter, follow Follow, fn func(atoll.Event) error) error {
	return atoll.ErrUnsupported
}

// Follow says whether to wait for what is still to happen.
type Follow bool

// AuditFilter says which calls are wanted, newest first.
type AuditFilter struct {
	Before    int64 // with a lower ID; 0: from the newest
	Limit     int   // 0: 100
	Action    string
	Object    string
	AllOwners bool // needs ScopeAdmin
}

// Audit returns who called what.
func (a *Account) Audit(ctx context.Context, filter AuditFilter) ([]atoll.Audit, error) {
	return nil, atoll.ErrUnsupported
}
