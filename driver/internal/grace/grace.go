// Package grace lets calls that create something outlast their caller for a while, so that what
// they have created is known and can be removed.
package grace

import (
	"context"
	"time"
)

// ForCreate is how long the answer to a request that creates something is awaited after its caller
// has given up.
const ForCreate = 10 * time.Second

// Context returns a context that is done a while after ctx is. The caller calls the function that
// it returns when the context is no longer needed.
func Context(ctx context.Context, grace time.Duration) (context.Context, context.CancelFunc) {
	c, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		t := time.NewTimer(grace)
		defer t.Stop()
		select {
		case <-t.C:
			cancel()
		case <-c.Done():
		}
	})
	return c, func() {
		stop()
		cancel()
	}
}
