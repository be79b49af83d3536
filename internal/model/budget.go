package model

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"slices"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/model/dialect"
)

// call is one request to a model, from its admission until it is charged.
type call struct {
	a          *Access
	hold       hold
	price      *Price
	line       LogEntry
	ended      bool
	clientGone bool  // the client disconnected
	checked    int64 // tokens at the last check of the budgets
	number     int64 // of the request, for Access.Progress
	limits     []Limit
}

// checkStep is the number of tokens between two checks of the budgets.
const checkStep = 128

// maxRefused limits the refusals of an Access that are stored, since a caller may repeat
// its requests without end.
const maxRefused = 100

// requestSize is the size of a request, in tokens.
type requestSize struct {
	input, output int64 // output 0: it has no limit
	stream        bool
}

// defaultOutput is the reserved output of a request without a limit.
const defaultOutput = 32_000

// newCall returns a call that is not admitted yet.
func (a *Access) newCall(ctx context.Context, model string) (*call, *dialect.Error) {
	a.prepareOnce()
	now := a.currentTime()
	c := &call{a: a, price: a.Connector.priceOf(model), line: LogEntry{Time: now, Caller: a.Caller, Connector: a.Connector.Name, Model: model}}
	limits, err := a.allLimits(ctx)
	if err != nil {
		return nil, a.toError(fmt.Errorf("limits: %w", err))
	}
	c.limits = limits
	return c, nil
}

// checkBudgets returns an error if a budget is used up already.
func (a *Access) checkBudgets(ctx context.Context) *dialect.Error {
	c, e := a.newCall(ctx, "")
	if e != nil {
		return e
	}
	h := a.state.holds
	h.mu.Lock()
	defer h.mu.Unlock()
	if e := c.exceededBudget(ctx, true); e != nil {
		c.recordRefusal(ctx, e)
		return e
	}
	return nil
}

// admitCall admits a request, or returns why not. The caller of an admitted call calls
// finishCall.
//
// The output of a stream is counted as it comes. Other calls reserve their maximum
// output until it is known, so that concurrent calls do not exceed a budget together.
func (a *Access) admitCall(ctx context.Context, model string, q requestSize) (*call, *dialect.Error) {
	c, e := a.newCall(ctx, model)
	if e != nil {
		return nil, e
	}
	now := c.line.Time
	c.hold = hold{who: a.Caller, stream: q.stream, price: c.price, usage: Usage{Requests: 1, First: now, Last: now}}
	c.hold.usage.Input = q.input
	c.hold.usage.Cost = c.price.costOf(c.hold.usage.Usage)
	if c.hold.maxOutput = q.output; c.hold.maxOutput <= 0 {
		c.hold.maxOutput = defaultOutput
	}
	h := a.state.holds
	h.mu.Lock()
	defer h.mu.Unlock()
	e = c.exceededBudget(ctx, true)
	if e == nil && !c.hold.stream {
		e = c.reserveOutput(ctx)
	}
	if e != nil {
		c.recordRefusal(ctx, e)
		return nil, e
	}
	if h.holds == nil {
		h.holds = map[*hold]bool{}
	}
	h.holds[&c.hold] = true
	c.number = a.state.numbers.Add(1)
	return c, nil
}

// reportProgress reports the usage so far.
func (c *call) reportProgress(u Usage, charged bool) {
	if c.a.Progress != nil && c.number != 0 {
		c.a.Progress(c.number, u, charged)
	}
}

// allLimits returns the limits of the Access and of the ledger.
func (a *Access) allLimits(ctx context.Context) ([]Limit, error) {
	b, ok := a.state.ledger.(LimitedLedger)
	if !ok || a.Caller.Owner == (atoll.Owner{}) {
		return a.Limits, nil
	}
	more, err := b.Limits(ctx, a.Caller.Owner)
	return append(slices.Clip(a.Limits), more...), err
}

// exceededBudget returns the error of an exceeded budget, or nil. The caller holds Reservations.mu.
func (c *call) exceededBudget(ctx context.Context, begin bool) *dialect.Error {
	for _, l := range c.limits {
		if l.Budget == (Budget{}) {
			continue
		}
		if l.Budget.Cost > 0 && c.price == nil && c.line.Model != "" {
			return &dialect.Error{Status: http.StatusForbidden, Code: "budget", Message: fmt.Sprintf("atoll: budget of %s: it is in US dollars, and connector %s has no price for the model %s", l.Caller.displayName(), c.a.Connector.Name, c.line.Model)}
		}
		sum, e := c.currentUsage(ctx, l)
		if e != nil {
			return e
		}
		if e := checkLimit(l, sum, c.a.currentTime(), begin); e != nil {
			return e
		}
	}
	return nil
}

// currentUsage returns the usage of a limit, including calls in flight.
func (c *call) currentUsage(ctx context.Context, l Limit) (Usage, *dialect.Error) {
	sum, err := c.a.sum(ctx, l)
	if err != nil {
		return sum, &dialect.Error{Status: http.StatusServiceUnavailable, Code: "overloaded", Message: "atoll: what was spent can't be read: " + c.a.Connector.redactText(err.Error())}
	}
	for h := range c.a.state.holds.holds {
		if h.who.isWithin(l.Caller) {
			sum.Add(h.usage)
		}
	}
	return sum, nil
}

// reserveOutput lowers the call's maximum output to the rest of the budgets. If other
// calls in flight have reserved all of it, the error asks for a retry. The caller holds
// Reservations.mu.
func (c *call) reserveOutput(ctx context.Context) *dialect.Error {
	for _, l := range c.limits {
		if l.Budget.Output <= 0 && l.Budget.Tokens <= 0 && l.Budget.Cost <= 0 {
			continue
		}
		sum, e := c.currentUsage(ctx, l)
		if e != nil {
			return e
		}
		held := false
		for h := range c.a.state.holds.holds {
			if h.who.isWithin(l.Caller) && h.maxOutput > 0 && !h.stream {
				held = true
				sum.Output += h.maxOutput
				sum.Cost += h.price.costOf(dialect.Usage{Output: h.maxOutput})
			}
		}
		sum.Add(Usage{Usage: c.hold.usage.Usage, Cost: c.hold.usage.Cost})
		c.hold.maxOutput = min(c.hold.maxOutput, remainingOutput(l.Budget, sum, c.price))
		if c.hold.maxOutput <= 0 && held {
			return &dialect.Error{Status: http.StatusTooManyRequests, Code: "rate_limit", RetryAfter: 2, Message: "atoll: budget of " + l.Caller.displayName() + ": requests under way hold what is left of it"}
		}
		c.hold.maxOutput = max(c.hold.maxOutput, 1) // the estimated input alone uses the rest: it may be too high
	}
	return nil
}

// remainingOutput returns the output tokens that remain in a budget.
func remainingOutput(b Budget, s Usage, p *Price) int64 {
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

// sum returns the stored usage of a limit.
func (a *Access) sum(ctx context.Context, l Limit) (Usage, error) {
	if d, ok := a.state.ledger.(DailyLedger); ok && !l.Since.IsZero() {
		return d.UsageSince(ctx, l.Caller, l.Since)
	}
	return a.state.ledger.Usage(ctx, l.Caller)
}

// recordRefusal stores and logs a refused request.
func (c *call) recordRefusal(ctx context.Context, e *dialect.Error) {
	a := c.a
	now := a.currentTime()
	a.state.mu.Lock()
	a.state.spent.Add(Usage{Refused: 1, Last: now})
	n := a.state.spent.Refused
	a.state.mu.Unlock()
	if n <= maxRefused {
		_ = a.state.ledger.Charge(context.WithoutCancel(ctx), a.Caller, Usage{Refused: 1, Last: now}) // the request is refused anyway
	}
	c.line.Refused, c.line.Duration = e.Message, now.Sub(c.line.Time)
	c.noteFailure(ctx, e)
	c.logLine()
}

// noteFailure records the error of the call, unless its client has left: then it is no error of the API.
func (c *call) noteFailure(ctx context.Context, e *dialect.Error) {
	if ctx.Err() == nil {
		c.line.Status, c.line.Failed = e.Status, e
	}
}

func (c *call) logLine() {
	if c.a.Log != nil {
		c.a.Log(c.line)
	}
}

// timeDeadline returns the earliest end of a budget of time, and its limit; nil: none.
func (c *call) timeDeadline(ctx context.Context) (time.Time, *Limit) {
	a := c.a
	var at time.Time
	var of *Limit
	for i, l := range c.limits {
		if l.Budget.Time <= 0 {
			continue
		}
		first := a.currentTime()
		if sum, err := a.sum(ctx, l); err == nil && !sum.First.IsZero() {
			first = sum.First
		}
		if end := first.Add(l.Budget.Time); of == nil || end.Before(at) {
			at, of = end, &c.limits[i]
		}
	}
	return at, of
}

// countUsage updates the call's usage from what the API reported, and at least from the
// text. It returns the error of an exceeded budget, or nil.
func (c *call) countUsage(ctx context.Context, u dialect.Usage, text int) *dialect.Error {
	if c.ended || !c.updateUsage(u, text) {
		return nil
	}
	c.reportProgress(c.hold.usage, false)
	h := c.a.state.holds
	h.mu.Lock()
	defer h.mu.Unlock()
	return c.exceededBudget(ctx, false)
}

// updateUsage sets the usage so far, and reports whether it has grown by checkStep.
func (c *call) updateUsage(u dialect.Usage, text int) bool {
	h := c.a.state.holds
	h.mu.Lock()
	defer h.mu.Unlock()
	uses := &c.hold.usage
	if u.Input+u.CacheRead+u.CacheWrite > 0 {
		uses.Input, uses.CacheRead, uses.CacheWrite = u.Input, u.CacheRead, u.CacheWrite
	}
	uses.Output = max(u.Output, dialect.EstimateTokens(text))
	uses.Cost = c.price.costOf(uses.Usage)
	all := uses.Input + uses.CacheRead + uses.CacheWrite + uses.Output
	if c.checked > 0 && all-c.checked < checkStep {
		return false
	}
	c.checked = all
	return true
}

// chargeOnce charges the call's usage, once. With told, u replaces the estimate, and may
// be less.
func (c *call) chargeOnce(ctx context.Context, u dialect.Usage, told bool) error {
	if c.ended {
		return nil
	}
	c.ended = true
	uses := c.finalUsage(u, told)
	c.reportProgress(uses, false) // a process that dies while it charges has reported all that it knows
	err := c.charge(ctx, uses)
	c.reportProgress(uses, true)
	return err
}

// finalUsage returns the usage of an ended call.
func (c *call) finalUsage(u dialect.Usage, told bool) Usage {
	h := c.a.state.holds
	h.mu.Lock()
	defer h.mu.Unlock()
	uses := c.hold.usage
	if told {
		uses.Usage = u
	}
	uses.Cost = c.price.costOf(uses.Usage)
	uses.Last = c.a.currentTime()
	c.line.Usage, c.line.Cost = uses.Usage, uses.Cost
	return uses
}

// charge charges the call's usage.
func (c *call) charge(ctx context.Context, uses Usage) error {
	h := c.a.state.holds
	h.mu.Lock()
	defer h.mu.Unlock()
	c.a.state.mu.Lock()
	c.a.state.spent.Add(uses)
	c.a.state.mu.Unlock()
	if err := c.a.state.ledger.Charge(context.WithoutCancel(ctx), c.a.Caller, uses); err != nil {
		return fmt.Errorf("charge: %w", err) // it counts as used while this process lives
	}
	delete(h.holds, &c.hold)
	return nil
}

// finishCall ends the call with any result, and logs it. The status is the API's.
func (c *call) finishCall(ctx context.Context, status int) {
	if c.line.Status == 0 {
		c.line.Status = status
	}
	left := c.clientGone || ctx.Err() != nil // the API may have used tokens
	if !c.ended && left && (status == 0 || status/100 == 2) {
		c.countAbandoned()
	}
	if !c.ended && status/100 != 2 && (status != 0 || !left) {
		_ = c.chargeOnce(ctx, dialect.Usage{}, true) // on an error it remains reserved
	}
	_ = c.chargeOnce(ctx, dialect.Usage{}, false)
	c.line.Duration = c.a.currentTime().Sub(c.line.Time)
	c.logLine()
}

// unseenRate is the highest assumed rate of unseen output, in tokens per second.
const unseenRate = 200

// countAbandoned counts the output of the API for a client that disconnected: the maximum
// output of a call without a stream; else the received output, or what could have been
// generated unseen in that time, such as thoughts.
func (c *call) countAbandoned() {
	h := c.a.state.holds
	h.mu.Lock()
	defer h.mu.Unlock()
	made := c.hold.maxOutput
	if c.hold.stream {
		made = min(made, int64(unseenRate*c.a.currentTime().Sub(c.line.Time).Seconds()))
	}
	c.hold.usage.Output = max(c.hold.usage.Output, made)
}

// noteFirstByte records the time of the first byte of an answer.
func (c *call) noteFirstByte() {
	if c.line.FirstByte == 0 {
		c.line.FirstByte = c.a.currentTime().Sub(c.line.Time)
	}
}

// priceOf returns the price of a model; nil: it is unknown.
func (c *Connector) priceOf(model string) *Price {
	for _, name := range []string{model, "*"} {
		if p, ok := c.Prices[name]; ok {
			return &p
		}
	}
	return nil
}

// costOf returns the cost of tokens. Cache tokens without a price of their own have the
// price of input.
func (p *Price) costOf(u dialect.Usage) float64 {
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
