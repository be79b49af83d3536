package proxy

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// maxPorts is how many ports of a sandbox are kept in mind.
const maxPorts = 1024

// Follow calls f with the open ports of a target, first opened first, now and
// whenever they change, until ctx is done or f returns an error, which it
// returns. Of those that are open already, the smallest counts as the first.
// A target that is no [atoll.Notifier] is ErrUnsupported, after the first call.
func Follow(ctx context.Context, t Target, f func(ports []int) error) error {
	n, ok := t.(atoll.Notifier)
	if !ok {
		list, err := t.Ports(ctx)
		if err == nil {
			err = f(newListeners(list).order)
		}
		return errors.Join(err, atoll.ErrUnsupported)
	}
	var l *listeners
	return n.Notices(ctx, func(note atoll.Notice) error {
		switch note.Kind {
		case atoll.NoticeReady, atoll.NoticeLost:
			list, err := t.Ports(ctx)
			if err != nil {
				return err
			}
			l = l.now(list)
			return f(slices.Clone(l.order))
		case atoll.NoticePortOpened, atoll.NoticePortClosed:
			if l == nil || !l.note(note) {
				return nil
			}
			return f(slices.Clone(l.order))
		}
		return nil
	})
}

// listeners are who listens in a sandbox. A port is open as long as somebody
// listens on it, on whichever address.
type listeners struct {
	order     []int // first opened first
	addresses map[int]map[string]bool
}

func newListeners(list []atoll.Port) *listeners {
	var none *listeners
	return none.now(list)
}

// now returns what is open now, in the order of what was before.
func (l *listeners) now(list []atoll.Port) *listeners {
	next := &listeners{addresses: make(map[int]map[string]bool)}
	slices.SortStableFunc(list, func(a, b atoll.Port) int { return a.Port - b.Port })
	if l != nil {
		for _, port := range l.order {
			for _, p := range list {
				if p.Port == port {
					next.open(p.Port, p.Address)
				}
			}
		}
	}
	for _, p := range list {
		next.open(p.Port, p.Address)
	}
	return next
}

// note takes up a notice, and reports whether the ports are others now.
func (l *listeners) note(n atoll.Notice) bool {
	if n.Kind == atoll.NoticePortOpened {
		return l.open(n.Port, n.Address)
	}
	at := l.addresses[n.Port]
	if delete(at, n.Address); at == nil || len(at) > 0 {
		return false
	}
	delete(l.addresses, n.Port)
	l.order = slices.DeleteFunc(l.order, func(p int) bool { return p == n.Port })
	return true
}

func (l *listeners) open(port int, address string) bool {
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

// forget is how long a sandbox is followed that nobody asks for.
const forget = 10 * time.Minute

// board knows the open ports of the sandboxes whose main port was asked for.
type board struct {
	life context.Context //nolint:containedctx // of the proxy, whose goroutines these are
	wg   sync.WaitGroup

	mu   sync.Mutex
	rows map[string]*row // by id; guarded by mu
}

// row is one sandbox on the board.
type row struct {
	ready chan struct{} // closed when ports is known, or can't be

	mu    sync.Mutex
	known bool  // ports are what is open
	ports []int // first opened first
	timer *time.Timer
}

// main returns the first opened port of a target, or 0 if none is open.
func (b *board) main(ctx context.Context, t Target) (int, error) {
	r := b.row(t)
	if r != nil {
		select {
		case <-r.ready:
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
		if ports, ok := r.now(); ok && len(ports) > 0 {
			return ports[0], nil
		} // what has only just opened, nobody has told yet
	}
	list, err := t.Ports(ctx)
	if err != nil {
		return 0, err
	}
	if ports := newListeners(list).order; len(ports) > 0 {
		return ports[0], nil
	}
	return 0, nil
}

// row finds a sandbox's row, or begins one. It is nil where a target tells
// nothing of its ports.
func (b *board) row(t Target) *row {
	if _, ok := t.(atoll.Notifier); !ok {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if r := b.rows[t.ID()]; r != nil {
		r.timer.Reset(forget)
		return r
	}
	if b.life.Err() != nil {
		return nil
	}
	ctx, cancel := context.WithCancel(b.life)
	r := &row{ready: make(chan struct{}), timer: time.AfterFunc(forget, cancel)}
	b.rows[t.ID()] = r
	b.wg.Go(func() {
		defer cancel()
		b.follow(ctx, t, r)
	})
	return r
}

// follow keeps a row until the sandbox has no more to say.
func (b *board) follow(ctx context.Context, t Target, r *row) {
	ready := sync.OnceFunc(func() { close(r.ready) })
	_ = Follow(ctx, t, func(ports []int) error { // why it ended, whoever asks next finds out
		r.set(ports, true)
		ready()
		return nil
	})
	b.mu.Lock()
	delete(b.rows, t.ID())
	r.timer.Stop()
	b.mu.Unlock()
	r.set(nil, false)
	ready()
}

func (r *row) set(ports []int, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ports, r.known = ports, known
}

func (r *row) now() ([]int, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ports, r.known
}
