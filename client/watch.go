package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// Watch calls f for each change below dir, one call at a time, until ctx is done
// or f returns an error, which it returns. A lost connection is an error,
// because changes may be missing.
func (s *Sandbox) Watch(ctx context.Context, dir string, f func(atoll.FileEvent) error) error {
	k, err := s.fileCall("watch", "", "/files/watch", dir)
	if err != nil {
		return err
	}
	resp, err := s.c.sendCall(ctx, k)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	var own error
	err = readEvents(resp.Body, func(e serverEvent) error {
		if e.kind == "problem" {
			return k.problemEvent(e)
		}
		var event atoll.FileEvent
		if err := json.Unmarshal(e.data, &event); err != nil {
			return fmt.Errorf("%w: malformed file event: %w", atoll.ErrUnavailable, err)
		}
		own = f(event)
		return own
	})
	return s.c.streamError(ctx, k, err, own)
}

// problemEvent returns the error in the last event of a stream.
func (k call) problemEvent(e serverEvent) error {
	var p wire.Problem
	if err := json.Unmarshal(e.data, &p); err != nil {
		return fmt.Errorf("%w: the server ended the stream: %w", atoll.ErrUnavailable, err)
	}
	return k.wrapServerError(p.Err())
}

// streamError returns the error of an event stream that ended with err; own is
// the error of the caller's function.
func (c *Client) streamError(ctx context.Context, k call, err, own error) error {
	var known *atoll.Error
	switch {
	case own != nil:
		return own
	case ctx.Err() != nil:
		return k.wrapError(contextError(ctx))
	case errors.As(err, &known), errors.Is(err, atoll.ErrUnavailable):
		return k.wrapError(err)
	case errors.Is(err, io.EOF):
		return k.wrapError(fmt.Errorf("%w: server %s ended the stream", atoll.ErrUnavailable, c.host))
	}
	return k.wrapError(c.transportError(ctx, err))
}
