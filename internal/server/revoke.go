package server

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet"
)

// errSpent is why a call ends that a token had let in.
var errSpent = fmt.Errorf("%w: the token was revoked, or has expired", atoll.ErrDenied)

// recheck is how often the tokens of calls under way are looked at: other
// processes revoke too.
const recheck = 3 * time.Second

// bearers are the calls under way that a token let in. They end with it.
type bearers struct {
	fleet *fleet.Fleet
	log   *slog.Logger
	life  context.Context //nolint:containedctx // the server's
	crowd *crowd          // waits for looks under way

	mu     sync.Mutex
	calls  map[*call]func() // what ends each; guarded by mu
	told   uint64           // how often tokens were revoked; guarded by mu
	timer  *time.Timer      // until the next look; guarded by mu
	waits  bool             // the timer runs; guarded by mu
	looked sync.Mutex       // held while tokens are looked at
}

// watchTokens ends what revoked tokens let in, until the server ends.
func (s *Server) watchTokens() *bearers {
	b := &bearers{fleet: s.fleet, log: s.log, life: s.life, crowd: &s.active, calls: make(map[*call]func())}
	if s.fleet == nil { // there are documents only, and no tokens
		return b
	}
	forget := s.fleet.OnRevoked(func(ctx context.Context) {
		b.mu.Lock()
		b.told++
		b.mu.Unlock()
		b.look(ctx)
	})
	context.AfterFunc(s.life, forget)
	return b
}

// now returns a number that changes when tokens are revoked.
func (b *bearers) now() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.told
}

// enter counts a call in, whose token was good at a moment that [bearers.now]
// was before. The call ends by stop.
func (b *bearers) enter(ctx context.Context, c *call, before uint64, stop func()) (leave func()) {
	b.mu.Lock()
	b.calls[c] = stop
	late := b.told != before
	if !b.waits {
		b.waits = true
		b.wait(recheck)
	}
	b.mu.Unlock()
	if late { // who was asked about revoked tokens since did not know of this one
		b.look(ctx)
	}
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.calls, c)
	}
}

// wait sets the timer. It is called with mu held.
func (b *bearers) wait(d time.Duration) {
	if b.timer == nil {
		b.timer = time.AfterFunc(d, b.tick)
		return
	}
	b.timer.Reset(d)
}

// tick looks at all tokens, and goes on while there are any.
func (b *bearers) tick() {
	b.crowd.enter()
	defer b.crowd.leave()
	next := recheck
	if left := b.look(b.life); left > 0 {
		next = min(next, left)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waits = len(b.calls) > 0 && b.life.Err() == nil
	if b.waits {
		b.wait(next)
	}
}

// look ends all calls whose tokens are not good any more, and returns how long
// it is until the first of the others expires; 0: none does.
func (b *bearers) look(ctx context.Context) (next time.Duration) {
	b.looked.Lock()
	defer b.looked.Unlock()
	b.mu.Lock()
	calls := maps.Clone(b.calls)
	b.mu.Unlock()
	if len(calls) == 0 {
		return 0
	}
	var ids []string
	seen := make(map[string]bool)
	for c := range calls {
		if id := c.caller.Token; !seen[id] {
			seen[id] = true
			ids = append(ids, id)
		}
	}
	good, err := b.fleet.GoodTokens(ctx, ids)
	if err != nil {
		if b.life.Err() == nil {
			b.log.WarnContext(ctx, "tokens under way could not be looked up", "err", err)
		}
		return 0
	}
	for c, stop := range calls {
		left, ok := good[c.caller.Token]
		if !ok {
			b.stop(c, stop)
		}
		if left > 0 && (next == 0 || left < next) {
			next = left
		}
	}
	return next
}

// stop ends a call if it is still under way: its connection may be another's by
// now.
func (b *bearers) stop(c *call, stop func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, ok := b.calls[c]; ok {
		stop()
	}
}
