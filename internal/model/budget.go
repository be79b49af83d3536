package model

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"slices"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/dialect"
)

// call is one request to a model, from its admission until it is charged.
type call struct {
	a       *Access
	h       hold
	price   *Price
	line    Line
	ended   bool
	left    bool  // the client did
	checked int64 // tokens when the budgets were looked at last
	limits  []Limit
}

// step is after how many tokens the budgets are looked at again.
const step = 128

// mostRefused is how many refusals of an access the ledger gets: a caller who
// does not stop should not keep it busy.
const mostRefused = 100

// wish is what a request asks for, in tokens.
type wish struct {
	input, output int64 // output 0: it does not say
	stream        bool
}

// unsaid is how much output a request that does not say is taken to ask for.
const unsaid = 32_000

// newCall makes a call that has not begun.
func (a *Access) newCall(ctx context.Context, model string) (*call, *dialect.Error) {
	a.ready()
	now := a.now()
	c := &call{a: a, price: a.Connector.price(model), line: Line{Time: now, Who: a.Who, Connector: a.Connector.Name, Model: model}}
	limits, err := a.limits(ctx)
	if err != nil {
		return nil, a.failure(fmt.Errorf("limits: %w", err))
	}
	c.limits = limits
	return c, nil
}

// open says whether a budget is used up already; nil: not.
func (a *Access) open(ctx context.Context) *dialect.Error {
	c, e := a.newCall(ctx, "")
	if e != nil {
		return e
	}
	h := a.state.holds
	h.mu.Lock()
	defer h.mu.Unlock()
	if e := c.over(ctx, true); e != nil {
		c.refused(ctx, e)
		return e
	}
	return nil
}

// admit lets a request begin, or says why not. Who is let in calls end.
//
// What a stream gives is counted as it comes. All others hold what they may
// give until it is known, so that those beside them don't pass a budget
// together.
func (a *Access) admit(ctx context.Context, model string, q wish) (*call, *dialect.Error) {
	c, e := a.newCall(ctx, model)
	if e != nil {
		return nil, e
	}
	now := c.line.Time
	c.h = hold{who: a.Who, stream: q.stream, price: c.price, uses: Spend{Requests: 1, First: now, Last: now}}
	c.h.uses.Input = q.input
	c.h.uses.Cost = c.price.of(c.h.uses.Usage)
	if c.h.ahead = q.output; c.h.ahead <= 0 {
		c.h.ahead = unsaid
	}
	h := a.state.holds
	h.mu.Lock()
	defer h.mu.Unlock()
	e = c.over(ctx, true)
	if e == nil && !c.h.stream {
		e = c.reserve(ctx)
	}
	if e != nil {
		c.refused(ctx, e)
		return nil, e
	}
	if h.holds == nil {
		h.holds = map[*hold]bool{}
	}
	h.holds[&c.h] = true
	return c, nil
}

// limits are those of the access, and those that the ledger knows.
func (a *Access) limits(ctx context.Context) ([]Limit, error) {
	b, ok := a.state.ledger.(Bounds)
	if !ok || a.Who.Owner == (atoll.Owner{}) {
		return a.Limits, nil
	}
	more, err := b.Limits(ctx, a.Who.Owner)
	return append(slices.Clip(a.Limits), more...), err
}

// over returns the budget that is passed; nil: none. Holds.mu is held.
func (c *call) over(ctx context.Context, begin bool) *dialect.Error {
	for _, l := range c.limits {
		if l.Budget == (Budget{}) {
			continue
		}
		if l.Budget.Cost > 0 && c.price == nil && c.line.Model != "" {
			return &dialect.Error{Status: http.StatusForbidden, Code: "budget", Message: fmt.Sprintf("atoll: budget of %s: it is in US dollars, and connector %s has no price for the model %s", l.Who.noun(), c.a.Connector.Name, c.line.Model)}
		}
		sum, e := c.used(ctx, l)
		if e != nil {
			return e
		}
		if e := room(l, sum, c.a.now(), begin); e != nil {
			return e
		}
	}
	return nil
}

// used is what was spent of a limit and what requests under way use so far.
func (c *call) used(ctx context.Context, l Limit) (Spend, *dialect.Error) {
	sum, err := c.a.sum(ctx, l)
	if err != nil {
		return sum, &dialect.Error{Status: http.StatusServiceUnavailable, Code: "overloaded", Message: "atoll: what was spent can't be read: " + c.a.Connector.redact(err.Error())}
	}
	for h := range c.a.state.holds.holds {
		if h.who.within(l.Who) {
			sum.Add(h.uses)
		}
	}
	return sum, nil
}

// reserve lowers what a request may give to what the budgets have left. Where
// others under way hold all of it, it may come again. Holds.mu is held.
func (c *call) reserve(ctx context.Context) *dialect.Error {
	for _, l := range c.limits {
		if l.Budget.Output <= 0 && l.Budget.Tokens <= 0 && l.Budget.Cost <= 0 {
			continue
		}
		sum, e := c.used(ctx, l)
		if e != nil {
			return e
		}
		held := false
		for h := range c.a.state.holds.holds {
			if h.who.within(l.Who) && h.ahead > 0 && !h.stream {
				held = true
				sum.Output += h.ahead
				sum.Cost += h.price.of(dialect.Usage{Output: h.ahead})
			}
		}
		sum.Add(Spend{Usage: c.h.uses.Usage, Cost: c.h.uses.Cost})
		c.h.ahead = min(c.h.ahead, leftOf(l.Budget, sum, c.price))
		if c.h.ahead <= 0 && held {
			return &dialect.Error{Status: http.StatusTooManyRequests, Code: "rate_limit", Retry: 2, Message: "atoll: budget of " + l.Who.noun() + ": requests under way hold what is left of it"}
		}
		c.h.ahead = max(c.h.ahead, 1) // the input alone takes the rest: it may be less than was guessed
	}
	return nil
}

// leftOf is how many tokens of output a budget has left.
func leftOf(b Budget, s Spend, p *Price) int64 {
	left := int64(math.MaxInt64)
	if b.Output > 0 {
		left = min(left, b.Output-s.Output)
	}
	if b.Tokens > 0 {
		left = min(left, b.Tokens-s.Input-s.CacheRead-s.CacheWrite-s.Output)
	}
	if b.Cost > 0 && p != nil && p.Output > 0 {
		left = min(left, int64(min((b.Cost-s.Cost)/p.Output*1e6, 1e12)))
	}
	return left
}

// sum is what was spent of what a limit bounds.
func (a *Access) sum(ctx context.Context, l Limit) (Spend, error) {
	if d, ok := a.state.ledger.(Diary); ok && !l.Since.IsZero() {
		return d.SpentSince(ctx, l.Who, l.Since)
	}
	return a.state.ledger.Spent(ctx, l.Who)
}

// refused writes down that a request was refused.
func (c *call) refused(ctx context.Context, e *dialect.Error) {
	a := c.a
	now := a.now()
	a.state.mu.Lock()
	a.state.spent.Add(Spend{Refused: 1, Last: now})
	n := a.state.spent.Refused
	a.state.mu.Unlock()
	if n <= mostRefused {
		_ = a.state.ledger.Charge(context.WithoutCancel(ctx), a.Who, Spend{Refused: 1, Last: now}) // it is refused anyhow
	}
	c.line.Status, c.line.Refused, c.line.Duration = e.Status, e.Message, now.Sub(c.line.Time)
	c.log()
}

func (c *call) log() {
	if c.a.Log != nil {
		c.a.Log(c.line)
	}
}

// deadline is when a budget of time ends, of those that have one.
func (c *call) deadline(ctx context.Context) (time.Time, *Limit) {
	a := c.a
	var at time.Time
	var of *Limit
	for i, l := range c.limits {
		if l.Budget.Time <= 0 {
			continue
		}
		first := a.now()
		if sum, err := a.sum(ctx, l); err == nil && !sum.First.IsZero() {
			first = sum.First
		}
		if end := first.Add(l.Budget.Time); of == nil || end.Before(at) {
			at, of = end, &c.limits[i]
		}
	}
	return at, of
}

// count takes over what the answer used so far: what is told, and at least
// what its text is. It returns the budget that is passed, if one is.
func (c *call) count(ctx context.Context, u dialect.Usage, text int) *dialect.Error {
	if c.ended {
		return nil
	}
	h := c.a.state.holds
	h.mu.Lock()
	defer h.mu.Unlock()
	uses := &c.h.uses
	if u.Input+u.CacheRead+u.CacheWrite > 0 {
		uses.Input, uses.CacheRead, uses.CacheWrite = u.Input, u.CacheRead, u.CacheWrite
	}
	uses.Output = max(u.Output, dialect.Tokens(text))
	uses.Cost = c.price.of(uses.Usage)
	all := uses.Input + uses.CacheRead + uses.CacheWrite + uses.Output
	if c.checked > 0 && all-c.checked < step {
		return nil
	}
	c.checked = all
	return c.over(ctx, false)
}

// settle charges what was used, once. It takes u where told, which may be less
// than was guessed.
func (c *call) settle(ctx context.Context, u dialect.Usage, told bool) error {
	if c.ended {
		return nil
	}
	c.ended = true
	h := c.a.state.holds
	h.mu.Lock()
	defer h.mu.Unlock()
	uses := c.h.uses
	if told {
		uses.Usage = u
	}
	uses.Cost = c.price.of(uses.Usage)
	uses.Last = c.a.now()
	c.line.Usage, c.line.Cost = uses.Usage, uses.Cost
	c.a.state.mu.Lock()
	c.a.state.spent.Add(uses)
	c.a.state.mu.Unlock()
	err := c.a.state.ledger.Charge(context.WithoutCancel(ctx), c.a.Who, uses)
	if err == nil {
		delete(h.holds, &c.h) // else it is held as used for as long as this process lives
	} else {
		err = fmt.Errorf("charge: %w", err)
	}
	return err
}

// end ends the call, whatever it came to, and logs it. The status is the API's.
func (c *call) end(ctx context.Context, status int) {
	if c.line.Status == 0 {
		c.line.Status = status
	}
	left := c.left || ctx.Err() != nil // the API may have been at work
	if !c.ended && left && (status == 0 || status/100 == 2) {
		c.abandoned()
	}
	if !c.ended && status/100 != 2 && (status != 0 || !left) {
		_ = c.settle(ctx, dialect.Usage{}, true) // what can't be charged stays held
	}
	_ = c.settle(ctx, dialect.Usage{}, false)
	c.line.Duration = c.a.now().Sub(c.line.Time)
	c.log()
}

// pace is how many tokens a second a model gives at most that nobody sees.
const pace = 200

// abandoned counts what the API has made for a client that did not wait: all
// that it may give, of what is not a stream; else what came, or could have
// come unseen, thoughts for one.
func (c *call) abandoned() {
	h := c.a.state.holds
	h.mu.Lock()
	defer h.mu.Unlock()
	made := c.h.ahead
	if c.h.stream {
		made = min(made, int64(pace*c.a.now().Sub(c.line.Time).Seconds()))
	}
	c.h.uses.Output = max(c.h.uses.Output, made)
}

// first notes the first byte of an answer.
func (c *call) first() {
	if c.line.First == 0 {
		c.line.First = c.a.now().Sub(c.line.Time)
	}
}

// price is what a model costs; nil: nobody knows.
func (c *Connector) price(model string) *Price {
	for _, name := range []string{model, "*"} {
		if p, ok := c.Prices[name]; ok {
			return &p
		}
	}
	return nil
}

// of is what so many tokens cost. Tokens of the cache that have no price of
// their own cost what others do.
func (p *Price) of(u dialect.Usage) float64 {
	if p == nil {
		return 0
	}
	read, write := p.CacheRead, p.CacheWrite
	if read == 0 {
		read = p.Input
	}
	if write == 0 {
		write = p.Input
	}
	return (float64(u.Input)*p.Input + float64(u.Output)*p.Output + float64(u.CacheRead)*read + float64(u.CacheWrite)*write) / 1e6
}
