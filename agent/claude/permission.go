package claude

import (
	"encoding/json"
	"fmt"
	"maps"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/agent/internal/jsonlines"
)

// maxPending limits how many permission requests wait at once.
const maxPending = 1000

// requestPermission handles a control request: it emits a permission request, and
// refuses all other requests.
func (t *conversation) requestPermission(x agent.Exchange, l line, b []byte) {
	var q permissionRequest
	jsonlines.Decode(b, &q)
	switch {
	case !isUsableID(l.Request):
		t.emitRaw(x, b)
		return
	case q.Request.Subtype != "can_use_tool":
		t.emitRaw(x, b)
		t.replyError(x, l.Request, "this host does not support "+q.Request.Subtype)
		return
	case t.pending[l.Request] != nil:
		return
	case len(t.pending) >= maxPending:
		t.replyError(x, l.Request, "too many requests are waiting")
		return
	}
	r := q.Request
	if !isUsableID(r.ToolID) {
		r.ToolID = l.Request
		q.Request = r
	}
	t.pending[l.Request] = &q
	t.emitEvent(x, l.Parent, agent.Event{Type: agent.PermissionRequested, Permission: &agent.Permission{ID: l.Request, Tool: q.toolCall()}})
}

// toolCall returns the tool call that the request is about.
func (q *permissionRequest) toolCall() agent.ToolCall {
	r := q.Request
	c := agent.ToolCall{ID: r.ToolID, Name: r.Tool, Kind: toolKind(r.Tool), Title: toolTitle(r.Tool, r.Input), Input: r.Input, Locations: inputLocations(r.Input)}
	if len(c.Input) == 0 {
		c.Input = nil
	}
	return c
}

// replyError answers a control request with an error.
func (t *conversation) replyError(x agent.Exchange, id, why string) {
	send(x, map[string]any{"type": "control_response", "response": map[string]any{"subtype": "error", "request_id": id, "error": why}})
}

// withdrawRequest drops a permission request that the agent withdraws.
func (t *conversation) withdrawRequest(x agent.Exchange, l line) {
	if t.pending[l.Request] == nil {
		return
	}
	delete(t.pending, l.Request)
	t.emitEvent(x, "", agent.Event{Type: agent.PermissionResolved, Permission: &agent.Permission{
		ID: l.Request, Decision: &agent.Decision{Message: "withdrawn by the agent"}, By: "agent",
	}})
}

// Decide answers a permission request.
func (t *conversation) Decide(x agent.Exchange, id string, d agent.Decision) error {
	q := t.pending[id]
	if q == nil {
		return fmt.Errorf("permission %q: %w", id, atoll.ErrNotFound)
	}
	delete(t.pending, id)
	answer := map[string]any{"behavior": "deny", "message": d.Message}
	if d.Allow {
		answer = map[string]any{"behavior": "allow", "updatedInput": q.toolInput(d)}
		if d.Always {
			answer["updatedPermissions"] = q.permissionRules()
		}
	} else {
		if d.Message == "" {
			answer["message"] = "This was not permitted."
		}
		t.recordDenial(q.toolCall())
	}
	send(x, map[string]any{"type": "control_response", "response": map[string]any{"subtype": "success", "request_id": id, "response": answer}})
	return nil
}

// toolInput returns the input to run the tool with.
func (q *permissionRequest) toolInput(d agent.Decision) any {
	if d.Input != nil {
		return d.Input
	}
	if len(q.Request.Input) > 0 {
		return q.Request.Input
	}
	return map[string]any{}
}

// permissionRules returns rules that permit the call for the rest of the session:
// the narrow rules that the agent suggests, or else the whole tool. They are not
// written to any settings file.
func (q *permissionRequest) permissionRules() []map[string]any {
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
