package client

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/atoll-sandbox/atoll"
)

// Notices calls f for each notice of the sandbox, one call at a time, until
// ctx is done or f returns an error, which it returns. A lost connection
// is an error, because notices may be missing.
func (s *Sandbox) Notices(ctx context.Context, f func(atoll.Notice) error) error {
	k := s.newCall("notices", "", "/notices")
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
		var n atoll.Notice
		if err := json.Unmarshal(e.data, &n); err != nil {
			return fmt.Errorf("%w: malformed notice: %w", atoll.ErrUnavailable, err)
		}
		own = f(n)
		return own
	})
	return s.c.streamError(ctx, k, err, own)
}
