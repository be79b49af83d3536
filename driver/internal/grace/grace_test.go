package grace

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// TestContext checks that a call continues for a while when its caller has given up.
func TestContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		c, end := Context(ctx, time.Minute)
		defer end()
		cancel()
		time.Sleep(59 * time.Second)
		synctest.Wait()
		if c.Err() != nil {
			t.Error("it ended with its caller")
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if c.Err() == nil {
			t.Error("it never ends")
		}
	})
}
