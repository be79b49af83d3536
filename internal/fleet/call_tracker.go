package fleet

import (
	"context"
	"sync"
)

// callTracker admits calls until it is closed, counts those that are active and cancels them. The
// zero value is open. Its methods may be called concurrently.
type callTracker struct {
	mu        sync.Mutex
	closedErr error                      // why no call is admitted; nil: open; guarded by mu, as all below
	active    map[*admittedCall]struct{} // those that are under way
	drained   chan struct{}              // closed when no call is active any more; nil while nothing waits
}

// admittedCall is a call that was admitted and not released yet.
type admittedCall struct{ cancel context.CancelCauseFunc }

// admit admits a call, whose context ends with release or with the cause of cancelAll.
func (t *callTracker) admit(ctx context.Context) (context.Context, *admittedCall, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	v := &admittedCall{cancel}
	t.mu.Lock()
	err := t.closedErr
	if err == nil {
		if t.active == nil {
			t.active = make(map[*admittedCall]struct{})
		}
		t.active[v] = struct{}{}
	}
	t.mu.Unlock()
	if err != nil {
		cancel(err)
		return nil, nil, err
	}
	return ctx, v, nil
}

// release ends a call and reports whether it was active: a second release changes nothing.
func (t *callTracker) release(v *admittedCall) bool {
	v.cancel(nil)
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, ok := t.active[v]; !ok {
		return false
	}
	delete(t.active, v)
	if len(t.active) == 0 && t.drained != nil {
		close(t.drained)
		t.drained = nil
	}
	return true
}

// cancelAll cancels the contexts of all active calls.
func (t *callTracker) cancelAll(cause error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for v := range t.active {
		v.cancel(cause)
	}
}

// close refuses all later calls with reason.
func (t *callTracker) close(reason error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closedErr = reason
}

// open admits calls again.
func (t *callTracker) open() { t.close(nil) }

// wait waits until no call is active or ctx is done.
func (t *callTracker) wait(ctx context.Context) error {
	t.mu.Lock()
	if len(t.active) == 0 {
		t.mu.Unlock()
		return nil
	}
	if t.drained == nil {
		t.drained = make(chan struct{})
	}
	empty := t.drained
	t.mu.Unlock()
	select {
	case <-empty:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// notify wakes the receiver of a channel with room for one token. It never blocks.
func notify(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
