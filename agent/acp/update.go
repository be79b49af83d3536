package acp

import (
	"encoding/json"
	"strings"

	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/internal/jsonrpc"
	"github.com/atoll-sandbox/atoll/internal/lenient"
)

// update is what an agent tells of its work; which members it has depends on
// its kind.
type update struct {
	Kind    string          `json:"sessionUpdate"`
	Message string          `json:"messageId"`
	Content json.RawMessage `json:"content"` // of a chunk
	Entries []struct {
		Content string `json:"content"`
		Status  string `json:"status"`
	} `json:"entries"`
	Cost *struct {
		Amount   float64 `json:"amount"`
		Currency string  `json:"currency"`
	} `json:"cost"`
}

// noticed takes a notification.
func (t *Talk) noticed(x agent.Exchange, m jsonrpc.Message, line []byte) {
	var p struct {
		Session string          `json:"sessionId"`
		Update  json.RawMessage `json:"update"`
	}
	if m.Method != sessionUpdate || !lenient.Decode(m.Params, &p) || t.session != "" && p.Session != t.session {
		t.raw(x, line)
		return
	}
	if t.replay {
		return
	}
	var u update
	lenient.Decode(p.Update, &u)
	switch u.Kind {
	case "agent_message_chunk":
		t.hear(x, agent.TextDelta, u)
	case "agent_thought_chunk":
		t.hear(x, agent.ThoughtDelta, u)
	case "tool_call", "tool_call_update":
		var v told
		if lenient.Decode(p.Update, &v); v.ID == "" || t.calls[v.ID] == nil && len(t.calls) == maxCalls {
			t.raw(x, line)
			return
		}
		t.called(x, v)
	case "plan":
		t.hush(x)
		plan := make([]agent.PlanEntry, len(u.Entries))
		for i, e := range u.Entries {
			plan[i] = agent.PlanEntry{Text: e.Content, Status: e.Status}
		}
		t.emit(x, agent.Event{Type: agent.PlanChanged, Plan: plan})
	case "usage_update":
		t.costs(x, u)
	default:
		t.raw(x, line)
	}
}

// costs takes what the session has cost so far. That of a session which goes on
// includes turns of other processes: it is known only what comes after the
// first time it was told.
func (t *Talk) costs(x agent.Exchange, u update) {
	if u.Cost == nil || u.Cost.Currency != "USD" {
		return
	}
	known := t.turn.Session == "" || t.spent > 0
	more := u.Cost.Amount - t.spent
	t.spent = u.Cost.Amount
	if !known || more <= 0 || t.settled {
		return
	}
	t.result.Usage.Cost += more
	t.emit(x, agent.Event{Type: agent.UsageTold, Usage: &agent.Usage{Cost: more}})
}

// What is remembered is bounded: a longer text is told in several blocks, and
// what is told of more calls than this is passed on as it is.
const (
	maxBlock = 4 << 20
	maxCalls = 20_000
)

// speech is text as it comes, until the block that it is of is over.
type speech struct {
	kind    agent.Type
	message string
	text    strings.Builder
	last    string // block of text that was over
}

// hear takes a piece of a block of text or thought.
func (t *Talk) hear(x agent.Exchange, kind agent.Type, u update) {
	var c struct {
		Text string `json:"text"`
	}
	lenient.Decode(u.Content, &c)
	if c.Text == "" {
		return
	}
	if t.speech.kind != kind || t.speech.message != u.Message {
		t.hush(x)
		t.speech.kind, t.speech.message = kind, u.Message
	}
	t.speech.text.WriteString(c.Text)
	t.emit(x, agent.Event{Type: kind, Text: c.Text})
	if t.speech.text.Len() > maxBlock {
		t.hush(x)
	}
}

// hush ends the block that is being told.
func (t *Talk) hush(x agent.Exchange) {
	text := t.speech.text.String()
	t.speech.text.Reset()
	if text == "" {
		return
	}
	done := agent.ThoughtDone
	if t.speech.kind == agent.TextDelta {
		done, t.speech.last = agent.TextDone, text
	}
	t.emit(x, agent.Event{Type: done, Text: text})
}
