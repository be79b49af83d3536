package acp

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/internal/jsonrpc"
	"github.com/atoll-sandbox/atoll/internal/lenient"
)

// maxAsked is how many requests may wait for their answers.
const maxAsked = 100

// request is one for permission that was not answered yet.
type request struct {
	id      json.RawMessage
	call    string
	options []option
}

type option struct {
	ID   string `json:"optionId"`
	Kind string `json:"kind"`
}

type outcome struct {
	Outcome chosen `json:"outcome"`
}

type chosen struct {
	Outcome string `json:"outcome"`
	Option  string `json:"optionId,omitempty"`
}

// cancelled answers a request for which there is nothing to choose: the agent
// then does not use the tool.
var cancelled = outcome{chosen{Outcome: "cancelled"}}

// asks takes a request for permission. Without Turn.Ask, the walls around the
// agent are the limit.
func (t *Talk) asks(x agent.Exchange, m jsonrpc.Message) {
	var p struct {
		Call    told     `json:"toolCall"`
		Options []option `json:"options"`
	}
	lenient.Decode(m.Params, &p)
	r := request{id: m.ID, call: p.Call.ID, options: p.Options}
	if t.calls[r.call] != nil || r.call != "" && len(t.calls) < maxCalls {
		t.called(x, p.Call)
	}
	id := strings.Trim(string(m.ID), `"`)
	_, twice := t.asked[id]
	switch {
	case t.settled || t.canceled || twice || len(t.asked) == maxAsked:
		x.Send(t.peer.Answer(m.ID, cancelled))
	case t.turn.Ask:
		t.asked[id] = r
		t.emit(x, agent.Event{Type: agent.PermissionRequested, Permission: &agent.Permission{ID: id, Tool: t.subject(r)}})
	default:
		x.Send(t.peer.Answer(m.ID, r.choose("allow_always", "allow_once")))
	}
}

// subject returns the call that a request is about.
func (t *Talk) subject(r request) agent.ToolCall {
	if c, ok := t.calls[r.call]; ok {
		return c.ToolCall
	}
	return agent.ToolCall{Kind: agent.Other}
}

// choose takes the first of the options, by kind, that the agent has.
func (r request) choose(kinds ...string) outcome {
	for _, kind := range kinds {
		for _, o := range r.options {
			if o.Kind == kind {
				return outcome{chosen{Outcome: "selected", Option: o.ID}}
			}
		}
	}
	return cancelled
}

// Decide answers a request for permission. The protocol has no way to change
// what a tool is called with.
func (t *Talk) Decide(x agent.Exchange, id string, d agent.Decision) error {
	r, ok := t.asked[id]
	if !ok {
		return fmt.Errorf("%s: permission %s: %w", t.Name, id, atoll.ErrNotFound)
	}
	if d.Allow && d.Input != nil {
		return fmt.Errorf("%s: permission %s: %w: another input of a tool", t.Name, id, atoll.ErrUnsupported)
	}
	var answer outcome
	switch {
	case d.Allow && d.Always:
		answer = r.choose("allow_always", "allow_once")
	case d.Allow:
		answer = r.choose("allow_once")
	case d.Always:
		answer = r.choose("reject_always", "reject_once")
	default:
		answer = r.choose("reject_once")
	}
	if d.Allow && answer == cancelled {
		return fmt.Errorf("%s: permission %s: %w: the agent can only be told to allow it always", t.Name, id, atoll.ErrUnsupported)
	}
	delete(t.asked, id)
	x.Send(t.peer.Answer(r.id, answer))
	if !d.Allow {
		t.deny(r, d)
	}
	return nil
}

// deny remembers that a call was not permitted.
func (t *Talk) deny(r request, d agent.Decision) {
	denied := t.subject(r)
	denied.Status, denied.Reason = agent.Denied, d.Message
	t.denials = append(t.denials, denied)
	if c, ok := t.calls[r.call]; ok {
		c.denied, c.Reason = true, d.Message
	}
}
