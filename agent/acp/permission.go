package acp

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/agent/internal/jsonlines"
	"github.com/atoll-sandbox/atoll/agent/internal/jsonrpc"
)

// maxPending limits how many permission requests wait at once.
const maxPending = 100

// permissionRequest is an unanswered permission request.
type permissionRequest struct {
	id      json.RawMessage
	call    string
	options []option
}

type option struct {
	ID   string `json:"optionId"`
	Kind string `json:"kind"`
}

type outcome struct {
	Outcome outcomeChoice `json:"outcome"`
}

type outcomeChoice struct {
	Outcome string `json:"outcome"`
	Option  string `json:"optionId,omitempty"`
}

// cancelled answers a request without a suitable option: the agent then does not
// use the tool.
var cancelled = outcome{outcomeChoice{Outcome: "cancelled"}}

// requestPermission handles a permission request. Without Turn.Ask it allows the
// call: the sandbox is the limit.
func (t *Conversation) requestPermission(x agent.Exchange, m jsonrpc.Message) {
	var p struct {
		Call    toolUpdate `json:"toolCall"`
		Options []option   `json:"options"`
	}
	jsonlines.Decode(m.Params, &p)
	r := permissionRequest{id: m.ID, call: p.Call.ID, options: p.Options}
	if t.calls[r.call] != nil || r.call != "" && len(t.calls) < maxCalls {
		t.handleToolUpdate(x, p.Call)
	}
	id := strings.Trim(string(m.ID), `"`)
	_, twice := t.pending[id]
	switch {
	case t.settled || t.canceled || twice || len(t.pending) == maxPending:
		x.Send(t.peer.Reply(m.ID, cancelled))
	case t.turn.Ask:
		t.pending[id] = r
		t.emitEvent(x, agent.Event{Type: agent.PermissionRequested, Permission: &agent.Permission{ID: id, Tool: t.toolCallOf(r)}})
	default:
		x.Send(t.peer.Reply(m.ID, r.chooseOption("allow_always", "allow_once")))
	}
}

// toolCallOf returns the tool call that a request is about.
func (t *Conversation) toolCallOf(r permissionRequest) agent.ToolCall {
	if c, ok := t.calls[r.call]; ok {
		return c.ToolCall
	}
	return agent.ToolCall{Kind: agent.Other}
}

// chooseOption selects the agent's option of the first of the kinds that it has.
func (r permissionRequest) chooseOption(kinds ...string) outcome {
	for _, kind := range kinds {
		for _, o := range r.options {
			if o.Kind == kind {
				return outcome{outcomeChoice{Outcome: "selected", Option: o.ID}}
			}
		}
	}
	return cancelled
}

// Decide answers a permission request. The protocol can't change the input of a
// tool.
func (t *Conversation) Decide(x agent.Exchange, id string, d agent.Decision) error {
	r, ok := t.pending[id]
	if !ok {
		return fmt.Errorf("%s: permission %s: %w", t.Name, id, atoll.ErrNotFound)
	}
	if d.Allow && d.Input != nil {
		return fmt.Errorf("%s: permission %s: %w: changing the input of a tool", t.Name, id, atoll.ErrUnsupported)
	}
	var answer outcome
	switch {
	case d.Allow && d.Always:
		answer = r.chooseOption("allow_always", "allow_once")
	case d.Allow:
		answer = r.chooseOption("allow_once")
	case d.Always:
		answer = r.chooseOption("reject_always", "reject_once")
	default:
		answer = r.chooseOption("reject_once")
	}
	if d.Allow && answer == cancelled {
		return fmt.Errorf("%s: permission %s: %w: the agent offers no option to allow it once", t.Name, id, atoll.ErrUnsupported)
	}
	delete(t.pending, id)
	x.Send(t.peer.Reply(r.id, answer))
	if !d.Allow {
		t.recordDenial(r, d)
	}
	return nil
}

// recordDenial records a call that was not permitted.
func (t *Conversation) recordDenial(r permissionRequest, d agent.Decision) {
	denied := t.toolCallOf(r)
	denied.Status, denied.Reason = agent.Denied, d.Message
	t.denials = append(t.denials, denied)
	if c, ok := t.calls[r.call]; ok {
		c.denied, c.Reason = true, d.Message
	}
}
