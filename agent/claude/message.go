package claude

import (
	"strings"

	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/internal/lenient"
)

// Bounds of what is remembered.
const (
	maxCalls   = 100_000 // of tools
	maxDenials = 1000
	maxInput   = 64 << 10 // bytes of what a tool is called with
)

// synthetic is the model of messages that no model wrote.
const synthetic = "<synthetic>"

// counts counts a request to the model, once for all that it tells of it.
func (t *talk) counts(parent, id string) {
	if id == "" || t.last[parent] == id {
		return
	}
	if len(t.last) >= maxSpeakers {
		clear(t.last)
	}
	t.last[parent] = id
	t.result.Usage.Requests++
}

// assistant takes a message of the model, or a part of one: there is a line for
// each block.
func (t *talk) assistant(x agent.Exchange, l line, b []byte) {
	var m message
	lenient.Decode(b, &m)
	t.running = t.running || l.Parent == ""
	if word(m.Error) != "" {
		t.fails(x, l.Parent, m)
		return
	}
	if m.Message.Model != synthetic {
		t.counts(l.Parent, m.Message.ID)
	}
	parts := blocks(m.Message.Content)
	for _, p := range parts {
		switch p.Type {
		case "text":
			t.says(x, l.Parent, utterance{agent.TextDone, p.Text})
		case "thinking":
			t.says(x, l.Parent, utterance{agent.ThoughtDone, p.Thinking})
		case "tool_use", "server_tool_use", "mcp_tool_use":
			t.begins(x, l.Parent, p, b)
		case "redacted_thinking", "fallback":
		default:
			t.raw(x, b)
		}
	}
	if len(parts) == 0 {
		t.raw(x, b)
	}
}

// fails notes what the model's API answered. The result of the agent itself
// will tell it; that of a subagent is told here.
func (t *talk) fails(x agent.Exchange, parent string, m message) {
	t.hush(x, parent)
	var text strings.Builder
	for _, p := range blocks(m.Message.Content) {
		text.WriteString(p.Text)
	}
	if parent != "" {
		t.emit(x, parent, agent.Event{Type: agent.Warning, Text: "a subagent's request to its model: " + text.String()})
		return
	}
	t.reason = word(m.Error)
}

// begins tells that a tool is called.
func (t *talk) begins(x agent.Exchange, parent string, p block, b []byte) {
	if t.known[p.ID] {
		return
	}
	if !named(p.ID) || len(t.known) >= maxCalls {
		t.raw(x, b)
		return
	}
	t.hush(x, parent)
	c := &agent.ToolCall{
		ID: p.ID, Name: p.Name, Kind: kind(p.Name), Title: title(p.Name, p.Input), Input: p.Input, Locations: locations(p.Input),
	}
	if len(c.Input) == 0 {
		c.Input = nil
	}
	begun := *c
	brief(c)
	t.calls[p.ID], t.known[p.ID] = c, true
	t.emit(x, parent, agent.Event{Type: agent.ToolStarted, Tool: &begun})
	if plan := steps(p.Name, p.Input); plan != nil {
		t.emit(x, parent, agent.Event{Type: agent.PlanChanged, Plan: plan})
	}
}

// user takes what goes to the model: results of tools. All else in it was said
// by this side, or is the program's own.
func (t *talk) user(x agent.Exchange, l line, b []byte) {
	var m message
	lenient.Decode(b, &m)
	for _, p := range blocks(m.Message.Content) {
		if !strings.HasSuffix(p.Type, "tool_result") {
			continue
		}
		c := t.calls[p.ToolID]
		if c == nil {
			t.raw(x, b)
			continue
		}
		delete(t.calls, p.ToolID)
		ended := *c
		ended.Input = nil
		t.finishes(&ended, p, m)
		t.emit(x, l.Parent, agent.Event{Type: agent.ToolFinished, Tool: &ended})
	}
}

// finishes fills in how a call ended.
func (t *talk) finishes(c *agent.ToolCall, p block, m message) {
	c.Output = output(p.Content)
	c.Status = agent.Completed
	if p.IsError {
		c.Status = agent.ToolFailed
	}
	for _, meta := range m.Meta {
		switch {
		case meta.ID != p.ToolID:
		case meta.Decision.Decision == "reject":
			t.denies(*c)
		case meta.Kept != "":
			c.Reason = "it was stopped"
		}
	}
	if t.denied[p.ToolID] && p.IsError {
		c.Status, c.Reason = agent.Denied, c.Output
	}
	detail(c, m.Result)
}

// denies notes a call that was not permitted.
func (t *talk) denies(c agent.ToolCall) {
	if !named(c.ID) || t.denied[c.ID] || len(t.denied) >= maxDenials {
		return
	}
	t.denied[c.ID] = true
	brief(&c)
	c.Output, c.Status = "", agent.Denied
	t.result.Denials = append(t.result.Denials, c)
}

// brief leaves out what is too long to be kept.
func brief(c *agent.ToolCall) {
	if len(c.Input) > maxInput {
		c.Input = nil
	}
}
