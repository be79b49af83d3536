package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
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

// follow calls fn for each event of a stream whose number is higher than last,
// until ctx is done or fn returns an error, which it returns. When the
// connection breaks it goes on where it was; only the first connection must
// succeed, and later ones within patience (0: for ever).
func follow[E any](ctx context.Context, c *Client, k call, last int64, patience time.Duration, number func(E) int64, fn func(E) error) error {
	wait, broke := time.Duration(0), time.Now()
	for begun := false; ; {
		opened, own, err := followOnce(ctx, c, k, &last, number, fn)
		begun = begun || opened
		switch {
		case own != nil:
			return own
		case ctx.Err() != nil:
			return k.fail(ended(ctx))
		case !begun, !errors.Is(err, atoll.ErrUnavailable):
			return err
		case opened:
			wait, broke = 0, time.Now()
		case patience > 0 && time.Since(broke) > patience:
			return err
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

// followOnce reads one stream of events, and moves last along. opened says
// whether there was one, own is the error of fn.
func followOnce[E any](ctx context.Context, c *Client, k call, last *int64, number func(E) int64, fn func(E) error) (opened bool, own, err error) {
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
		var event E
		if err := json.Unmarshal(e.data, &event); err != nil {
			return k.fail(fmt.Errorf("%w: an event that is none: %w", atoll.ErrInvalid, err))
		}
		if number(event) <= *last {
			return nil // told before the connection broke
		}
		if own = fn(event); own == nil {
			*last = number(event)
		}
		return own
	})
	return true, own, c.streamError(ctx, k, err, own)
}
