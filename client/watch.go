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
// or f returns an error, which it returns. A connection that breaks is an error,
// for changes may be missing.
func (s *Sandbox) Watch(ctx context.Context, dir string, f func(atoll.FileEvent) error) error {
	k, err := s.at("watch", "", "/files/watch", dir)
	if err != nil {
		return err
	}
	resp, err := s.c.send(ctx, k)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	var own error
	err = readEvents(resp.Body, func(e sent) error {
		if e.kind == "problem" {
			return k.problemEvent(e)
		}
		var event atoll.FileEvent
		if err := json.Unmarshal(e.data, &event); err != nil {
			return fmt.Errorf("%w: a change that is none: %w", atoll.ErrUnavailable, err)
		}
		own = f(event)
		return own
	})
	return s.c.streamError(ctx, k, err, own)
}

// problemEvent reads the error that a stream of events ends with.
func (k call) problemEvent(e sent) error {
	var p wire.Problem
	if err := json.Unmarshal(e.data, &p); err != nil {
		return fmt.Errorf("%w: the server ended the stream: %w", atoll.ErrUnavailable, err)
	}
	return k.named(p.Err())
}

// streamError is the error of a stream of events that ended with err; own is
// that of the caller's function.
func (c *Client) streamError(ctx context.Context, k call, err, own error) error {
	var known *atoll.Error
	switch {
	case own != nil:
		return own
	case ctx.Err() != nil:
		return k.fail(ended(ctx))
	case errors.As(err, &known), errors.Is(err, atoll.ErrUnavailable):
		return k.fail(err)
	case errors.Is(err, io.EOF):
		return k.fail(fmt.Errorf("%w: server %s ended the stream", atoll.ErrUnavailable, c.host))
	}
	return k.fail(c.broken(ctx, err))
}
