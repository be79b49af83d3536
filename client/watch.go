package client

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/atoll-sandbox/atoll"
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
