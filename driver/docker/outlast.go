package docker

import (
	"context"
	"time"
)

// createGrace is how long the engine's answer is awaited when nobody wants the
// container any more.
const createGrace = 10 * time.Second

// outlast returns a context that ends a while after ctx has.
func outlast(ctx context.Context, grace time.Duration) (context.Context, context.CancelFunc) {
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
