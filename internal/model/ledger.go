package model

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/dialect"
)

// Holds knows what requests under way use before it is charged, so that those
// beside them don't pass a budget together. A Ledger that embeds one is shared
// by all that use it. The zero Holds is ready.
type Holds struct {
	mu    sync.Mutex
	holds map[*hold]bool // guarded by mu, as what they hold
}

// holds is how an Access finds what its Ledger embeds.
func (h *Holds) shared() *Holds { return h }

// hold is one request under way.
type hold struct {
	who  Who
	uses Spend // so far

	ahead  int64 // tokens of output that it may give at most
	stream bool  // that are counted as they come
	price  *Price
}

// within reports whether w is one of those that o means.
func (w Who) within(o Who) bool {
	return (o.Owner == atoll.Owner{} || o.Owner == w.Owner) && (o.Chat == "" || o.Chat == w.Chat) &&
		(o.Assistant == "" || o.Assistant == w.Assistant) && (o.Turn == "" || o.Turn == w.Turn)
}

// Add adds what another spent.
func (s *Spend) Add(o Spend) {
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

// memory is a Ledger that ends with the process.
type memory struct {
	Holds

	mu   sync.Mutex
	sums map[Who]Spend // guarded by mu
}

// NewLedger returns a Ledger in memory.
func NewLedger() Ledger { return &memory{sums: map[Who]Spend{}} }

func (m *memory) Charge(_ context.Context, w Who, s Spend) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	sum := m.sums[w]
	sum.Add(s)
	m.sums[w] = sum
	return nil
}

func (m *memory) Spent(_ context.Context, w Who) (Spend, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var sum Spend
	for who, s := range m.sums {
		if who.within(w) {
			sum.Add(s)
		}
	}
	return sum, nil
}

// room returns what is wrong with a limit when s was spent; nil: nothing. With
// begin set another request is to begin, else one goes on.
func room(l Limit, s Spend, now time.Time, begin bool) *dialect.Error {
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
	return refusal(l.Who, what)
}

// refusal is the error of a budget that is used up.
func refusal(w Who, what string) *dialect.Error {
	return &dialect.Error{Status: 403, Code: "budget", Message: fmt.Sprintf("atoll: budget of %s used up: %s", w.noun(), what)}
}

// noun says whose a budget is.
func (w Who) noun() string {
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
