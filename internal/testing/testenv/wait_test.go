package testenv

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// TestPoll checks that Poll returns once its condition holds, and no later than its context.
func TestPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if !Poll(ctx, func() bool { return !time.Now().Before(start.Add(time.Minute)) }) || time.Now().After(start.Add(time.Minute+maxInterval)) {
			t.Errorf("a condition that holds after a minute: returned after %v", time.Since(start))
		}
		if Poll(ctx, func() bool { return false }) || time.Since(start) != time.Hour {
			t.Errorf("a condition that never holds: returned after %v", time.Since(start))
		}
		if !Poll(ctx, func() bool { return true }) {
			t.Error("a condition that holds is not seen once the context is done")
		}
	})
}
