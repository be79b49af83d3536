package model

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/model/dialect"
)

// Reservations has the usage of calls in flight until it is charged, so that concurrent calls do
// not exceed a budget together. A Ledger that embeds one shares it with all its users.
// The zero value is ready to use.
type Reservations struct {
	mu    sync.Mutex
	holds map[*hold]bool // guarded by mu, as what they hold
}

// sharedReservations returns the Reservations that a Ledger embeds.
func (h *Reservations) sharedReservations() *Reservations { return h }

// hold is the reservation of a call in flight.
type hold struct {
	who   Caller
	usage Usage // so far

	maxOutput int64 // tokens
	stream    bool  // output is counted as it comes
	price     *Price
}

// isWithin reports whether w matches the non-empty fields of o.
func (w Caller) isWithin(o Caller) bool {
	return (o.Owner == atoll.Owner{} || o.Owner == w.Owner) && (o.Chat == "" || o.Chat == w.Chat) &&
		(o.Assistant == "" || o.Assistant == w.Assistant) && (o.Turn == "" || o.Turn == w.Turn)
}

// Add adds o.
func (s *Usage) Add(o Usage) {
	s.Input += o.Input
	s.Output += o.Output
	s.CacheRead += o.CacheRead
	s.CacheWrite += o.CacheWrite
	s.Requests += o.Requests
	s.Refused += o.Refused
	s.Cost += o.Cost
	if !o.First.IsZero() && (s.First.IsZero() || o.First.Before(s.First)) {
		s.First = o.First
	}
	if o.Last.After(s.Last) {
		s.Last = o.Last
	}
}

// memoryLedger is a Ledger in memory.
type memoryLedger struct {
	Reservations

	mu   sync.Mutex
	sums map[Caller]Usage // guarded by mu
}

// NewLedger returns a Ledger in memory.
func NewLedger() Ledger { return &memoryLedger{sums: map[Caller]Usage{}} }

func (m *memoryLedger) Charge(_ context.Context, w Caller, s Usage) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	sum := m.sums[w]
	sum.Add(s)
	m.sums[w] = sum
	return nil
}

func (m *memoryLedger) Usage(_ context.Context, w Caller) (Usage, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var sum Usage
	for who, s := range m.sums {
		if who.isWithin(w) {
			sum.Add(s)
		}
	}
	return sum, nil
}

// checkLimit returns the error of a limit that is exceeded with the usage s, or nil. With
// begin set, a further request must fit.
func checkLimit(l Limit, s Usage, now time.Time, begin bool) *dialect.Error {
	b := l.Budget
	in := s.Input + s.CacheRead + s.CacheWrite
	more := int64(0)
	if begin {
		more = 1
	}
	var what string
	switch {
	case b.Requests > 0 && s.Requests+more > b.Requests:
		what = fmt.Sprintf("%d requests", b.Requests)
	case b.Input > 0 && in+more > b.Input:
		what = fmt.Sprintf("%d tokens of input", b.Input)
	case b.Output > 0 && s.Output+more > b.Output:
		what = fmt.Sprintf("%d tokens of output", b.Output)
	case b.Tokens > 0 && in+s.Output+more > b.Tokens:
		what = fmt.Sprintf("%d tokens", b.Tokens)
	case b.Cost > 0 && (s.Cost > b.Cost || begin && s.Cost >= b.Cost):
		what = fmt.Sprintf("%g US dollars", b.Cost)
	case b.Time > 0 && !s.First.IsZero() && now.Sub(s.First) >= b.Time:
		what = fmt.Sprintf("%v", b.Time)
	default:
		return nil
	}
	return budgetError(l.Caller, what)
}

// budgetError returns the error of a used up budget.
func budgetError(w Caller, what string) *dialect.Error {
	return &dialect.Error{Status: 403, Code: "budget", Message: fmt.Sprintf("atoll: budget of %s used up: %s", w.displayName(), what)}
}

// displayName returns the holder of a budget for messages.
func (w Caller) displayName() string {
	switch {
	case w.Turn != "":
		return "the turn"
	case w.Chat != "":
		return "the chat"
	case w.Assistant != "":
		return "the assistant " + w.Assistant
	case w.Owner != atoll.Owner{}:
		return "the owner"
	}
	return "all"
}
