package api

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

// errTokenInvalid is the cause of the end of a call whose token was revoked or has expired.
var errTokenInvalid = fmt.Errorf("%w: the token was revoked, or has expired", atoll.ErrDenied)

// recheckInterval is the time between two checks of the tokens of calls in progress: other
// processes revoke tokens too.
const recheckInterval = 3 * time.Second

// tokenCalls are the calls in progress of token bearers. A call is ended when its token becomes
// invalid.
type tokenCalls struct {
	fleet  *fleet.Fleet
	log    *slog.Logger
	life   context.Context //nolint:containedctx // the server's
	active *inFlight       // counts checks in progress

	mu          sync.Mutex
	calls       map[*call]func() // ends each call; guarded by mu
	revocations uint64           // number of revocations; guarded by mu
	timer       *time.Timer      // until the next check; guarded by mu
	timerSet    bool             // the timer is set; guarded by mu
	checking    sync.Mutex       // held while tokens are checked
}

// newTokenCalls returns the tokenCalls of the server. They are checked until the server ends.
func (s *Server) newTokenCalls() *tokenCalls {
	b := &tokenCalls{fleet: s.fleet, log: s.log, life: s.lifetime, active: &s.active, calls: make(map[*call]func())}
	if s.fleet == nil { // without a fleet there are only documents, and no tokens
		return b
	}
	forget := s.fleet.OnRevoked(func(ctx context.Context) {
		b.mu.Lock()
		b.revocations++
		b.mu.Unlock()
		b.checkTokens(ctx)
	})
	context.AfterFunc(s.lifetime, forget)
	return b
}

// generation returns a number that changes when tokens are revoked.
func (b *tokenCalls) generation() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.revocations
}

// addCall adds a call whose token was valid after [tokenCalls.generation] had returned before.
// Stop ends the call.
func (b *tokenCalls) addCall(ctx context.Context, c *call, before uint64, stop func()) (leave func()) {
	b.mu.Lock()
	b.calls[c] = stop
	late := b.revocations != before
	if !b.timerSet {
		b.timerSet = true
		b.setTimer(recheckInterval)
	}
	b.mu.Unlock()
	if late { // checks since then did not include this call
		b.checkTokens(ctx)
	}
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.calls, c)
	}
}

// setTimer sets the timer. The caller holds mu.
func (b *tokenCalls) setTimer(d time.Duration) {
	if b.timer == nil {
		b.timer = time.AfterFunc(d, b.checkAll)
		return
	}
	b.timer.Reset(d)
}

// checkAll checks all tokens, and sets the timer again while there are calls.
func (b *tokenCalls) checkAll() {
	b.active.beginRequest()
	defer b.active.endRequest()
	next := recheckInterval
	if left := b.checkTokens(b.life); left > 0 {
		next = min(next, left)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.timerSet = len(b.calls) > 0 && b.life.Err() == nil
	if b.timerSet {
		b.setTimer(next)
	}
}

// checkTokens ends all calls whose tokens are invalid, and returns the time until the next token
// expires; 0: none does.
func (b *tokenCalls) checkTokens(ctx context.Context) (next time.Duration) {
	b.checking.Lock()
	defer b.checking.Unlock()
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
	good, err := b.fleet.ValidTokens(ctx, ids)
	if err != nil {
		if b.life.Err() == nil {
			b.log.WarnContext(ctx, "check tokens of calls in progress", "err", err)
		}
		return 0
	}
	for c, stop := range calls {
		left, ok := good[c.caller.Token]
		if !ok {
			b.stopCall(c, stop)
		}
		if left > 0 && (next == 0 || left < next) {
			next = left
		}
	}
	return next
}

// stopCall ends a call if it is still in progress: its connection may belong to another call by
// now.
func (b *tokenCalls) stopCall(c *call, stop func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, ok := b.calls[c]; ok {
		stop()
	}
}
