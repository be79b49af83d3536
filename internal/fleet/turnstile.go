package fleet

import (
	"context"
	"sync"
)

// turnstile counts who is inside, and can be shut with a reason.
type turnstile struct {
	mu     sync.Mutex
	shut   error               // why nobody comes in; guarded by mu, as all below
	inside map[*visit]struct{} // those that are under way
	empty  chan struct{}       // closed when the last has left; nil while nobody waits
}

// visit is one who is inside.
type visit struct{ cancel context.CancelCauseFunc }

// enter lets a call in, whose context ends when it is thrown out.
func (t *turnstile) enter(ctx context.Context) (context.Context, *visit, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	v := &visit{cancel}
	t.mu.Lock()
	err := t.shut
	if err == nil {
		if t.inside == nil {
			t.inside = make(map[*visit]struct{})
		}
		t.inside[v] = struct{}{}
	}
	t.mu.Unlock()
	if err != nil {
		cancel(err)
		return nil, nil, err
	}
	return ctx, v, nil
}

// leave lets it out, and reports whether it was inside: a second time changes
// nothing.
func (t *turnstile) leave(v *visit) bool {
	v.cancel(nil)
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, ok := t.inside[v]; !ok {
		return false
	}
	delete(t.inside, v)
	if len(t.inside) == 0 && t.empty != nil {
		close(t.empty)
		t.empty = nil
	}
	return true
}

// count returns how many are inside.
func (t *turnstile) count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.inside)
}

// expel throws out all who are inside.
func (t *turnstile) expel(cause error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for v := range t.inside {
		v.cancel(cause)
	}
}

// close lets nobody in any more.
func (t *turnstile) close(reason error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.shut = reason
}

// open lets them in again.
func (t *turnstile) open() { t.close(nil) }

// wait waits until nobody is inside.
func (t *turnstile) wait(ctx context.Context) error {
	t.mu.Lock()
	if len(t.inside) == 0 {
		t.mu.Unlock()
		return nil
	}
	if t.empty == nil {
		t.empty = make(chan struct{})
	}
	empty := t.empty
	t.mu.Unlock()
	select {
	case <-empty:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// poke leaves a token in a channel with room for one.
func poke(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
