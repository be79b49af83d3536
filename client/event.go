package client

import (
	"context"
	"net/url"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// EventFilter says which events are wanted. The zero EventFilter means all of
// the caller's.
type EventFilter struct {
	After     int64     // those with a higher ID; what is no longer kept is left out
	Since     time.Time // those not older
	Types     []string  // "sandbox.running", "sandbox.*"
	Object    string    // of one sandbox (id or name) or workspace
	AllOwners bool      // needs ScopeAdmin
}

func (f EventFilter) query() url.Values {
	q := make(url.Values)
	number(q, "after", f.After)
	if !f.Since.IsZero() {
		q.Set("since", f.Since.Format(time.RFC3339Nano))
	}
	for _, t := range f.Types {
		q.Add("type", t)
	}
	text(q, "object", f.Object)
	flag(q, "all_owners", f.AllOwners)
	return q
}

// Events returns the events that are kept, oldest first.
func (c *Client) Events(ctx context.Context, f EventFilter) ([]atoll.Event, error) {
	q := f.query()
	q.Set("follow", "false")
	return list[atoll.Event](ctx, c, call{op: "events", path: "/v1/events", query: q})
}

// FollowEvents calls fn for each event that is kept and then for each that
// happens, oldest first, until ctx is done or fn returns an error, which it
// returns. When the connection breaks, or the server starts anew, it goes on
// where it was; only the first connection must succeed.
func (c *Client) FollowEvents(ctx context.Context, f EventFilter, fn func(atoll.Event) error) error {
	k := call{op: "events", path: "/v1/events", query: f.query()}
	return follow(ctx, c, k, f.After, 0, func(e atoll.Event) int64 { return e.ID }, fn)
}
