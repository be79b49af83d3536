package claude

import (
	"encoding/json"
	"fmt"
	"maps"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/internal/lenient"
)

// maxAsked bounds how many permissions wait for an answer at once.
const maxAsked = 1000

// asks takes a request of the program: for permission, or for what this side
// does not offer.
func (t *talk) asks(x agent.Exchange, l line, b []byte) {
	var q question
	lenient.Decode(b, &q)
	switch {
	case !named(l.Request):
		t.raw(x, b)
		return
	case q.Request.Subtype != "can_use_tool":
		t.raw(x, b)
		t.refuses(x, l.Request, "this host does not answer "+q.Request.Subtype)
		return
	case t.asked[l.Request] != nil:
		return
	case len(t.asked) >= maxAsked:
		t.refuses(x, l.Request, "too many requests are waiting")
		return
	}
	r := q.Request
	if !named(r.ToolID) {
		r.ToolID = l.Request
		q.Request = r
	}
	t.asked[l.Request] = &q
	t.emit(x, l.Parent, agent.Event{Type: agent.PermissionRequested, Permission: &agent.Permission{ID: l.Request, Tool: q.call()}})
}

// call is the use of a tool that is asked for.
func (q *question) call() agent.ToolCall {
	r := q.Request
	c := agent.ToolCall{ID: r.ToolID, Name: r.Tool, Kind: kind(r.Tool), Title: title(r.Tool, r.Input), Input: r.Input, Locations: locations(r.Input)}
	if len(c.Input) == 0 {
		c.Input = nil
	}
	return c
}

// refuses answers a request with an error.
func (t *talk) refuses(x agent.Exchange, id, why string) {
	send(x, map[string]any{"type": "control_response", "response": map[string]any{"subtype": "error", "request_id": id, "error": why}})
}

// withdraws takes a request back.
func (t *talk) withdraws(x agent.Exchange, l line) {
	if t.asked[l.Request] == nil {
		return
	}
	delete(t.asked, l.Request)
	t.emit(x, "", agent.Event{Type: agent.PermissionResolved, Permission: &agent.Permission{
		ID: l.Request, Decision: &agent.Decision{Message: "the agent has taken it back"}, By: "agent",
	}})
}

// Decide answers a request for permission.
func (t *talk) Decide(x agent.Exchange, id string, d agent.Decision) error {
	q := t.asked[id]
	if q == nil {
		return fmt.Errorf("permission %q: %w", id, atoll.ErrNotFound)
	}
	delete(t.asked, id)
	answer := map[string]any{"behavior": "deny", "message": d.Message}
	if d.Allow {
		answer = map[string]any{"behavior": "allow", "updatedInput": q.input(d)}
		if d.Always {
			answer["updatedPermissions"] = q.rules()
		}
	} else {
		if d.Message == "" {
			answer["message"] = "This was not permitted."
		}
		t.denies(q.call())
	}
	send(x, map[string]any{"type": "control_response", "response": map[string]any{"subtype": "success", "request_id": id, "response": answer}})
	return nil
}

// input is what the tool is called with.
func (q *question) input(d agent.Decision) any {
	if d.Input != nil {
		return d.Input
	}
	if len(q.Request.Input) > 0 {
		return q.Request.Input
	}
	return map[string]any{}
}

// rules permit what was asked for, for the rest of the session: as narrowly as
// the program itself suggests it, else the tool. They are written nowhere.
func (q *question) rules() []map[string]any {
	rule := map[string]any{"type": "addRules", "behavior": "allow", "destination": "session"}
	for _, s := range q.Request.Suggestions {
		var rules []any
		if s.Type == "addRules" && s.Behavior == "allow" && json.Unmarshal(s.Rules, &rules) == nil && len(rules) > 0 {
			suggested := maps.Clone(rule)
			suggested["rules"] = rules
			return []map[string]any{suggested}
		}
	}
	rule["rules"] = []any{map[string]any{"toolName": q.Request.Tool}}
	return []map[string]any{rule}
}
