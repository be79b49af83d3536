package guest

import (
	"context"
	"fmt"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// WithCreateTimeout bounds how long a sandbox may take until its guest answers. A limit of 0 is
// atoll.DefaultCreateTimeout; a negative one is none.
func WithCreateTimeout(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	if limit == 0 {
		limit = atoll.DefaultCreateTimeout
	}
	if limit < 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, limit, fmt.Errorf("%w: it did not answer within %v", atoll.ErrTimeout, limit))
}
