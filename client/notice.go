package client

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/atoll-sandbox/atoll"
)

// Notices calls f for each thing that happens inside, one call at a time, until
// ctx is done or f returns an error, which it returns. A connection that breaks
// is an error, for notices may be missing.
func (s *Sandbox) Notices(ctx context.Context, f func(atoll.Notice) error) error {
	k := s.call("notices", "", "/notices")
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
		var n atoll.Notice
		if err := json.Unmarshal(e.data, &n); err != nil {
			return fmt.Errorf("%w: a notice that is none: %w", atoll.ErrUnavailable, err)
		}
		own = f(n)
		return own
	})
	return s.c.streamError(ctx, k, err, own)
}
