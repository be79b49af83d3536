package fleet

import (
	"context"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet/event"
)

// NewestEvent returns the id of the newest event of any owner, for [event.Filter.After]; 0: there is none.
func (a *Account) NewestEvent(ctx context.Context) (int64, error) {
	if err := a.checkScope("events", atoll.ScopeRead); err != nil {
		return 0, err
	}
	return a.f.events.NewestID(ctx)
}

// Events calls fn for each event that a filter selects, oldest first: first the stored ones, then,
// if follow is set, new ones as they happen, including those of other processes, until ctx is done
// or fn returns an error, which Events returns. A slow fn delays nothing else: events are read
// from the registry page by page.
func (a *Account) Events(ctx context.Context, filter event.Filter, follow bool, fn func(atoll.Event) error) error {
	scope := atoll.ScopeRead
	if filter.AllOwners {
		scope = atoll.ScopeOperate
	}
	if err := a.checkScope("events", scope); err != nil {
		return err
	}
	if err := event.CheckTypes(filter.Types); err != nil {
		return &atoll.Error{Op: "events", Err: err}
	}
	if !follow {
		return a.f.events.Read(ctx, a.caller.Owner, filter, fn)
	}
	return a.f.events.Follow(ctx, a.caller.Owner, filter, fn)
}
