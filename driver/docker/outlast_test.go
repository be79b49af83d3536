package docker

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// TestOutlast: what is under way goes on for a while when its caller is gone.
func TestOutlast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		c, end := outlast(ctx, time.Minute)
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
