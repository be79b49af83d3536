package testenv

import (
	"context"
	"testing"
	"time"
)

const (
	// Patience is how long WaitFor waits: longer than anything takes on a busy machine.
	Patience = 2 * time.Minute

	minInterval = time.Millisecond      // between the first checks of Poll; doubles with each check
	maxInterval = 32 * time.Millisecond // the longest
)

// WaitFor waits until a condition holds, and fails the test if it does not hold within Patience. It
// is for conditions that no event announces, such as the exit of a process that is not a child; wait
// for a channel where there is one. what names the condition in the failure.
func WaitFor(t testing.TB, what string, holds func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), Patience) // cleanups wait, too
	defer cancel()
	if !Poll(ctx, holds) {
		t.Fatalf("not within %v: %s", Patience, what)
	}
}

// Poll checks a condition again and again until it holds or ctx is done, and reports whether it
// holds.
func Poll(ctx context.Context, holds func() bool) bool {
	for wait := minInterval; !holds(); wait = min(2*wait, maxInterval) {
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return holds()
		}
	}
	return true
}
