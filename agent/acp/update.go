package acp

import (
	"encoding/json"
	"strings"

	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/agent/internal/jsonlines"
	"github.com/atoll-sandbox/atoll/agent/internal/jsonrpc"
)

// update is a session update of an agent; its members depend on its kind.
type update struct {
	Kind    string          `json:"sessionUpdate"`
	Message string          `json:"messageId"`
	Content json.RawMessage `json:"content"` // of a message chunk
	Entries []struct {
		Content string `json:"content"`
		Status  string `json:"status"`
	} `json:"entries"`
	Cost *struct {
		Amount   float64 `json:"amount"`
		Currency string  `json:"currency"`
	} `json:"cost"`
}

// handleNotification handles a notification.
func (t *Conversation) handleNotification(x agent.Exchange, m jsonrpc.Message, line []byte) {
	var p struct {
		Session string          `json:"sessionId"`
		Update  json.RawMessage `json:"update"`
	}
	if m.Method != sessionUpdate || !jsonlines.Decode(m.Params, &p) || t.session != "" && p.Session != t.session {
		t.emitRaw(x, line)
		return
	}
	if t.replaying {
		return
	}
	var u update
	jsonlines.Decode(p.Update, &u)
	switch u.Kind {
	case "agent_message_chunk":
		t.appendDelta(x, agent.TextDelta, u)
	case "agent_thought_chunk":
		t.appendDelta(x, agent.ThoughtDelta, u)
	case "tool_call", "tool_call_update":
		var v toolUpdate
		if jsonlines.Decode(p.Update, &v); v.ID == "" || t.calls[v.ID] == nil && len(t.calls) == maxCalls {
			t.emitRaw(x, line)
			return
		}
		t.handleToolUpdate(x, v)
	case "plan":
		t.endBlock(x)
		plan := make([]agent.PlanEntry, len(u.Entries))
		for i, e := range u.Entries {
			plan[i] = agent.PlanEntry{Text: e.Content, Status: e.Status}
		}
		t.emitEvent(x, agent.Event{Type: agent.PlanChanged, Plan: plan})
	case "usage_update":
		t.addCost(x, u)
	default:
		t.emitRaw(x, line)
	}
}

// addCost handles the reported cost of the session so far. For a resumed session
// that includes turns of earlier processes, so only increases after the first
// report are counted.
func (t *Conversation) addCost(x agent.Exchange, u update) {
	if u.Cost == nil || u.Cost.Currency != "USD" {
		return
	}
	known := t.turn.Session == "" || t.lastCost > 0
	more := u.Cost.Amount - t.lastCost
	t.lastCost = u.Cost.Amount
	if !known || more <= 0 || t.settled {
		return
	}
	t.result.Usage.Cost += more
	t.emitEvent(x, agent.Event{Type: agent.UsageReported, Usage: &agent.Usage{Cost: more}})
}

// Memory is bounded: a longer text is emitted in several blocks, and updates of
// more calls than this become Raw events.
const (
	maxTextBlock = 4 << 20
	maxCalls     = 20_000
)

// textBlock is the current block of streamed text.
type textBlock struct {
	kind    agent.Type
	message string
	text    strings.Builder
	last    string // text of the last finished text block
}

// appendDelta emits a part of a block of text or thought.
func (t *Conversation) appendDelta(x agent.Exchange, kind agent.Type, u update) {
	var c struct {
		Text string `json:"text"`
	}
	jsonlines.Decode(u.Content, &c)
	if c.Text == "" {
		return
	}
	if t.current.kind != kind || t.current.message != u.Message {
		t.endBlock(x)
		t.current.kind, t.current.message = kind, u.Message
	}
	t.current.text.WriteString(c.Text)
	t.emitEvent(x, agent.Event{Type: kind, Text: c.Text})
	if t.current.text.Len() > maxTextBlock {
		t.endBlock(x)
	}
}

// endBlock ends the current block and emits its whole text.
func (t *Conversation) endBlock(x agent.Exchange) {
	text := t.current.text.String()
	t.current.text.Reset()
	if text == "" {
		return
	}
	done := agent.ThoughtDone
	if t.current.kind == agent.TextDelta {
		done, t.current.last = agent.TextDone, text
	}
	t.emitEvent(x, agent.Event{Type: done, Text: text})
}
