package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// How long to wait before an event stream that broke is opened again: twice as
// long each time, until one works.
const (
	firstRetry = 100 * time.Millisecond
	lastRetry  = 10 * time.Second
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
	last := f.After
	wait := time.Duration(0)
	for begun := false; ; {
		opened, own, err := c.follow(ctx, k, &last, fn)
		begun = begun || opened
		switch {
		case own != nil:
			return own
		case ctx.Err() != nil:
			return k.fail(ended(ctx))
		case !begun, !errors.Is(err, atoll.ErrUnavailable):
			return err
		case opened:
			wait = 0
		}
		wait = min(max(2*wait, firstRetry), lastRetry)
		t := time.NewTimer(wait/2 + rand.N(wait/2))
		select {
		case <-ctx.Done():
			t.Stop()
			return k.fail(ended(ctx))
		case <-t.C:
		}
	}
}

// follow reads one stream of events, and moves last along. opened says whether
// there was one, own is the error of fn.
func (c *Client) follow(ctx context.Context, k call, last *int64, fn func(atoll.Event) error) (opened bool, own, err error) {
	k.header = http.Header{"Accept": {"text/event-stream"}}
	if *last > 0 {
		k.header.Set("Last-Event-Id", strconv.FormatInt(*last, 10))
	}
	resp, err := c.send(ctx, k)
	if err != nil {
		return false, nil, err
	}
	defer resp.Body.Close()
	err = readEvents(resp.Body, func(e sent) error {
		if e.kind == "problem" {
			return k.problemEvent(e)
		}
		var event atoll.Event
		if err := json.Unmarshal(e.data, &event); err != nil {
			return k.fail(fmt.Errorf("%w: an event that is none: %w", atoll.ErrInvalid, err))
		}
		if event.ID <= *last {
			return nil // told before the connection broke
		}
		if own = fn(event); own == nil {
			*last = event.ID
		}
		return own
	})
	return true, own, c.streamError(ctx, k, err, own)
}
