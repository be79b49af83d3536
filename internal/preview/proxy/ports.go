package proxy

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// maxPorts limits the ports of a sandbox that are tracked.
const maxPorts = 1024

// FollowPorts calls f with the open ports of a target in the order they were opened, at once and
// after each change, until ctx is done or f returns an error, which it
// returns. Ports that are already open at the start are in ascending order.
// A target that is not an [atoll.Notifier] is ErrUnsupported, after the first call.
func FollowPorts(ctx context.Context, t Target, f func(ports []int) error) error {
	n, ok := t.(atoll.Notifier)
	if !ok {
		list, err := t.Ports(ctx)
		if err == nil {
			err = f(newOpenPorts(list).order)
		}
		return errors.Join(err, atoll.ErrUnsupported)
	}
	var l *openPorts
	return n.Notices(ctx, func(note atoll.Notice) error {
		switch note.Kind {
		case atoll.NoticeReady, atoll.NoticeLost:
			list, err := t.Ports(ctx)
			if err != nil {
				return err
			}
			l = l.update(list)
			return f(slices.Clone(l.order))
		case atoll.NoticePortOpened, atoll.NoticePortClosed:
			if l == nil || !l.applyNotice(note) {
				return nil
			}
			return f(slices.Clone(l.order))
		}
		return nil
	})
}

// openPorts is the set of open ports of a sandbox. A port is open while a program
// listens on it, on any address.
type openPorts struct {
	order     []int // first opened first
	addresses map[int]map[string]bool
}

func newOpenPorts(list []atoll.Port) *openPorts {
	var none *openPorts
	return none.update(list)
}

// update returns the open ports of list and keeps the order of those known before; l may be nil.
func (l *openPorts) update(list []atoll.Port) *openPorts {
	next := &openPorts{addresses: make(map[int]map[string]bool)}
	slices.SortStableFunc(list, func(a, b atoll.Port) int { return a.Port - b.Port })
	if l != nil {
		for _, port := range l.order {
			for _, p := range list {
				if p.Port == port {
					next.openPort(p.Port, p.Address)
				}
			}
		}
	}
	for _, p := range list {
		next.openPort(p.Port, p.Address)
	}
	return next
}

// applyNotice applies a notice and reports whether the set of ports changed.
func (l *openPorts) applyNotice(n atoll.Notice) bool {
	if n.Kind == atoll.NoticePortOpened {
		return l.openPort(n.Port, n.Address)
	}
	at := l.addresses[n.Port]
	if delete(at, n.Address); at == nil || len(at) > 0 {
		return false
	}
	delete(l.addresses, n.Port)
	l.order = slices.DeleteFunc(l.order, func(p int) bool { return p == n.Port })
	return true
}

func (l *openPorts) openPort(port int, address string) bool {
	if port <= 0 || port > 65535 {
		return false
	}
	if at := l.addresses[port]; at != nil {
		if len(at) < maxPorts {
			at[address] = true
		}
		return false
	}
	if len(l.order) >= maxPorts {
		return false
	}
	l.addresses[port] = map[string]bool{address: true}
	l.order = append(l.order, port)
	return true
}

// trackTimeout is how long a sandbox is tracked after the last request.
const trackTimeout = 10 * time.Minute

// portTracker tracks the open ports of the sandboxes whose main port was requested.
type portTracker struct {
	ctx context.Context //nolint:containedctx // of the proxy, whose goroutines these are
	wg  sync.WaitGroup

	mu      sync.Mutex
	tracked map[string]*trackedPorts // by id; guarded by mu
}

// trackedPorts holds the open ports of one sandbox.
type trackedPorts struct {
	ready chan struct{} // closed when the ports are known or tracking has ended

	mu    sync.Mutex
	known bool  // ports are what is open
	ports []int // first opened first
	timer *time.Timer
}

// mainPort returns the first opened port of a target, or 0 if no port is open.
func (b *portTracker) mainPort(ctx context.Context, t Target) (int, error) {
	r := b.trackPorts(t)
	if r != nil {
		select {
		case <-r.ready:
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
		if ports, ok := r.get(); ok && len(ports) > 0 {
			return ports[0], nil
		} // a port opened just now may not have been reported yet
	}
	list, err := t.Ports(ctx)
	if err != nil {
		return 0, err
	}
	if ports := newOpenPorts(list).order; len(ports) > 0 {
		return ports[0], nil
	}
	return 0, nil
}

// trackPorts returns the tracked ports of a target and starts tracking if needed. It
// returns nil for a target that sends no notices.
func (b *portTracker) trackPorts(t Target) *trackedPorts {
	if _, ok := t.(atoll.Notifier); !ok {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if r := b.tracked[t.ID()]; r != nil {
		r.timer.Reset(trackTimeout)
		return r
	}
	if b.ctx.Err() != nil {
		return nil
	}
	ctx, cancel := context.WithCancel(b.ctx)
	r := &trackedPorts{ready: make(chan struct{}), timer: time.AfterFunc(trackTimeout, cancel)}
	b.tracked[t.ID()] = r
	b.wg.Go(func() {
		defer cancel()
		b.followPorts(ctx, t, r)
	})
	return r
}

// followPorts updates the tracked ports until the target sends no more notices.
func (b *portTracker) followPorts(ctx context.Context, t Target, r *trackedPorts) {
	ready := sync.OnceFunc(func() { close(r.ready) })
	_ = FollowPorts(ctx, t, func(ports []int) error { // the next request finds out why it ended
		r.set(ports, true)
		ready()
		return nil
	})
	b.mu.Lock()
	delete(b.tracked, t.ID())
	r.timer.Stop()
	b.mu.Unlock()
	r.set(nil, false)
	ready()
}

func (r *trackedPorts) set(ports []int, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ports, r.known = ports, known
}

func (r *trackedPorts) get() ([]int, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ports, r.known
}
