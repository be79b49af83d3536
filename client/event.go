package client

import (
	"context"
	"net/url"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// EventFilter selects events. The zero EventFilter selects all of the caller's
// events.
type EventFilter struct {
	After     int64     // only those with a higher ID; events no longer stored are missing
	Since     time.Time // only those not older
	Types     []string  // "sandbox.running", "sandbox.*"
	Object    string    // of one sandbox (id or name) or workspace
	AllOwners bool      // needs ScopeOperate
}

func (f EventFilter) values() url.Values {
	q := make(url.Values)
	setNumber(q, "after", f.After)
	setTime(q, "since", f.Since)
	for _, t := range f.Types {
		q.Add("type", t)
	}
	setText(q, "object", f.Object)
	setFlag(q, "all_owners", f.AllOwners)
	return q
}

// Events returns the stored events, oldest first.
func (c *Client) Events(ctx context.Context, f EventFilter) ([]atoll.Event, error) {
	q := f.values()
	q.Set("follow", "false")
	return getList[atoll.Event](ctx, c, call{op: "events", path: "/v1/events", query: q})
}

// FollowEvents calls fn for each stored event and then for each new
// one, oldest first, until ctx is done or fn returns an error, which it
// returns. After a lost connection or a restart of the server it continues with the
// next event; only the first connection must succeed.
func (c *Client) FollowEvents(ctx context.Context, f EventFilter, fn func(atoll.Event) error) error {
	k := call{op: "events", path: "/v1/events", query: f.values()}
	return followEvents(ctx, c, k, f.After, 0, func(e atoll.Event) int64 { return e.ID }, fn)
}
