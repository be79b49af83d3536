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

// minRetryWait and maxRetryWait limit the wait before a lost event stream is opened
// again. It doubles after each failure.
const (
	minRetryWait = 100 * time.Millisecond
	maxRetryWait = 10 * time.Second
)

// followEvents calls fn for each event of a stream whose number is higher than last,
// until ctx is done or fn returns an error, which it returns. It reconnects after a
// lost connection and continues with the next event; only the first connection must
// succeed, and later ones within patience (0: no limit).
func followEvents[E any](ctx context.Context, c *Client, k call, last int64, patience time.Duration, number func(E) int64, fn func(E) error) error {
	wait, broke := time.Duration(0), time.Now()
	for begun := false; ; {
		opened, own, err := followOnce(ctx, c, k, &last, number, fn)
		begun = begun || opened
		switch {
		case own != nil:
			return own
		case ctx.Err() != nil:
			return k.wrapError(contextError(ctx))
		case !begun, !errors.Is(err, atoll.ErrUnavailable):
			return err
		case opened:
			wait, broke = 0, time.Now()
		case patience > 0 && time.Since(broke) > patience:
			return err
		}
		wait = min(max(2*wait, minRetryWait), maxRetryWait)
		t := time.NewTimer(wait/2 + rand.N(wait/2))
		select {
		case <-ctx.Done():
			t.Stop()
			return k.wrapError(contextError(ctx))
		case <-t.C:
		}
	}
}

// followOnce reads one stream of events and advances last. opened reports
// whether the stream was opened, own is the error of fn.
func followOnce[E any](ctx context.Context, c *Client, k call, last *int64, number func(E) int64, fn func(E) error) (opened bool, own, err error) {
	k.header = http.Header{"Accept": {"text/event-stream"}}
	if *last > 0 {
		k.header.Set("Last-Event-Id", strconv.FormatInt(*last, 10))
	}
	resp, err := c.sendCall(ctx, k)
	if err != nil {
		return false, nil, err
	}
	defer resp.Body.Close()
	err = readEvents(resp.Body, func(e serverEvent) error {
		if e.kind == "problem" {
			return k.problemEvent(e)
		}
		var event E
		if err := json.Unmarshal(e.data, &event); err != nil {
			return k.wrapError(fmt.Errorf("%w: malformed event: %w", atoll.ErrInvalid, err))
		}
		if number(event) <= *last {
			return nil // delivered before the connection was lost
		}
		if own = fn(event); own == nil {
			*last = number(event)
		}
		return own
	})
	return true, own, c.streamError(ctx, k, err, own)
}
