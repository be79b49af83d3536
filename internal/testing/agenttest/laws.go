package agenttest

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/atoll-sandbox/atoll/agent"
)

// Laws checks the laws for the events of every conversation with so many prompts.
func Laws(t testing.TB, events []agent.Event, prompts int) {
	t.Helper()
	for _, err := range Broken(events, prompts) {
		t.Error(err)
	}
}

// Broken returns the laws that events break.
func Broken(events []agent.Event, prompts int) []error {
	c := &checker{started: make(map[string]bool), finished: make(map[string]bool), pending: make(map[string]bool), deltas: make(map[string]string)}
	for i, e := range events {
		c.i, c.e = i, e
		if e.Seq != int64(i+1) {
			c.addError("its number is %d, want %d: numbers have no gaps", e.Seq, i+1)
		}
		c.checkFields()
		c.checkCalls()
		c.checkPermissions()
		c.checkTexts()
		if e.Type == agent.Finished {
			c.results++
		}
	}
	if n := len(events); n == 0 || events[n-1].Type != agent.Finished {
		c.errs = append(c.errs, fmt.Errorf("the last of %d events is not %s", n, agent.Finished))
	}
	if c.results != prompts {
		c.errs = append(c.errs, fmt.Errorf("%d prompts have %d results", prompts, c.results))
	}
	return c.errs
}

// checker checks events one by one.
type checker struct {
	i    int
	e    agent.Event
	errs []error

	started, finished, pending map[string]bool
	deltas                     map[string]string // texts that came in pieces, by whose they are
	results                    int
}

func (c *checker) addError(format string, args ...any) {
	c.errs = append(c.errs, fmt.Errorf("event %d (%s): %s", c.i+1, c.e.Type, fmt.Sprintf(format, args...)))
}

// checkFields checks that an event has the fields of its type, and is JSON.
func (c *checker) checkFields() {
	e := &c.e
	has := map[agent.Type]bool{
		agent.Started: e.Started != nil, agent.TextDelta: e.Text != "", agent.TextDone: true,
		agent.ThoughtDelta: e.Text != "", agent.ThoughtDone: true,
		agent.ToolStarted: e.Tool != nil, agent.ToolUpdated: e.Tool != nil, agent.ToolFinished: e.Tool != nil, agent.ClientToolCalled: e.Tool != nil,
		agent.PermissionRequested: e.Permission != nil, agent.PermissionResolved: e.Permission != nil && e.Permission.Decision != nil,
		agent.PermissionDenied: e.Tool != nil, agent.PlanChanged: true, agent.UsageReported: e.Usage != nil,
		agent.Retrying: e.Retry != nil, agent.Warning: e.Text != "", agent.Raw: len(e.Raw) > 0, agent.Finished: e.Result != nil,
	}
	switch ok, known := has[e.Type]; {
	case !known:
		c.addError("there is no such type")
	case !ok:
		c.addError("the field of its type is missing")
	}
	if len(e.Raw) > 0 && !json.Valid(e.Raw) {
		c.addError("Raw is not JSON: %.100q", e.Raw)
	}
	if e.Tool != nil && len(e.Tool.Input) > 0 && !json.Valid(e.Tool.Input) {
		c.addError("the tool's input is not JSON: %.100q", e.Tool.Input)
	}
	if _, err := json.Marshal(e); err != nil {
		c.addError("%v", err)
	}
	if e.Result != nil {
		switch e.Result.Outcome {
		case agent.OK, agent.Failed, agent.MaxTurns, agent.BudgetExceeded, agent.Refused, agent.Aborted, agent.Timeout, agent.Crashed:
		default:
			c.addError("there is no outcome %q", e.Result.Outcome)
		}
	}
}

// checkCalls checks that calls start before their updates, and end once.
func (c *checker) checkCalls() {
	if c.e.Tool == nil {
		return
	}
	id := c.e.Tool.ID
	switch c.e.Type {
	case agent.ToolStarted:
		if c.started[id] {
			c.addError("call %q has started before", id)
		}
		c.started[id] = true
	case agent.ToolUpdated, agent.ToolFinished:
		if !c.started[id] {
			c.addError("call %q has not started", id)
		}
		if c.finished[id] {
			c.addError("call %q has ended before", id)
		}
	}
	if c.e.Type == agent.ToolFinished {
		c.finished[id] = true
		switch c.e.Tool.Status {
		case agent.Completed, agent.ToolFailed, agent.Denied:
		default:
			c.addError("call %q ended with the status %q", id, c.e.Tool.Status)
		}
	}
}

// checkPermissions checks that requests are answered before the result.
func (c *checker) checkPermissions() {
	switch c.e.Type {
	case agent.PermissionRequested:
		if c.e.Permission != nil {
			c.pending[c.e.Permission.ID] = true
		}
	case agent.PermissionResolved:
		if c.e.Permission == nil {
			return
		}
		if !c.pending[c.e.Permission.ID] {
			c.addError("%q was not asked for", c.e.Permission.ID)
		}
		delete(c.pending, c.e.Permission.ID)
	case agent.Finished:
		for id := range c.pending {
			c.addError("the permission %q has no answer", id)
		}
	}
}

// checkTexts checks that deltas add up to the whole text.
func (c *checker) checkTexts() {
	key := func(kind string) string { return kind + "/" + c.e.Parent }
	switch c.e.Type {
	case agent.TextDelta:
		c.deltas[key("text")] += c.e.Text
	case agent.ThoughtDelta:
		c.deltas[key("thought")] += c.e.Text
	case agent.TextDone:
		c.checkWhole(key("text"))
	case agent.ThoughtDone:
		c.checkWhole(key("thought"))
	}
}

func (c *checker) checkWhole(key string) {
	if d, ok := c.deltas[key]; ok && d != c.e.Text {
		c.addError("the pieces were %.300q, the whole is %.300q", d, c.e.Text)
	}
	delete(c.deltas, key)
}
