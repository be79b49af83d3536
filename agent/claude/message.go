package claude

import (
	"strings"

	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/agent/internal/jsonlines"
)

// Limits of the conversation's memory.
const (
	maxCalls   = 100_000 // tool calls
	maxDenials = 1000
	maxInput   = 64 << 10 // bytes of a tool's input
)

// synthetic is the model name in messages that no model wrote.
const synthetic = "<synthetic>"

// countRequest counts a request to the model, once for all lines with its id.
func (t *conversation) countRequest(parent, id string) {
	if id == "" || t.lastMessage[parent] == id {
		return
	}
	if len(t.lastMessage) >= maxStreams {
		clear(t.lastMessage)
	}
	t.lastMessage[parent] = id
	t.result.Usage.Requests++
}

// handleAssistant handles a message of the model, or a part of one: the agent
// writes a line for each block.
func (t *conversation) handleAssistant(x agent.Exchange, l line, b []byte) {
	var m message
	jsonlines.Decode(b, &m)
	t.running = t.running || l.Parent == ""
	if stringValue(m.Error) != "" {
		t.recordAPIError(x, l.Parent, m)
		return
	}
	if m.Message.Model != synthetic {
		t.countRequest(l.Parent, m.Message.ID)
	}
	parts := parseBlocks(m.Message.Content)
	for _, p := range parts {
		switch p.Type {
		case "text":
			t.emitBlock(x, l.Parent, textBlock{agent.TextDone, p.Text})
		case "thinking":
			t.emitBlock(x, l.Parent, textBlock{agent.ThoughtDone, p.Thinking})
		case "tool_use", "server_tool_use", "mcp_tool_use":
			t.startToolCall(x, l.Parent, p, b)
		case "redacted_thinking", "fallback":
		default:
			t.emitRaw(x, b)
		}
	}
	if len(parts) == 0 {
		t.emitRaw(x, b)
	}
}

// recordAPIError records an error of the model's API. The agent's result will
// report its own errors; an error of a subagent is emitted here.
func (t *conversation) recordAPIError(x agent.Exchange, parent string, m message) {
	t.endBlock(x, parent)
	var text strings.Builder
	for _, p := range parseBlocks(m.Message.Content) {
		text.WriteString(p.Text)
	}
	if parent != "" {
		t.emitEvent(x, parent, agent.Event{Type: agent.Warning, Text: "a subagent's request to its model failed: " + text.String()})
		return
	}
	t.apiError = stringValue(m.Error)
}

// startToolCall emits the start of a tool call.
func (t *conversation) startToolCall(x agent.Exchange, parent string, p block, b []byte) {
	if t.known[p.ID] {
		return
	}
	if !isUsableID(p.ID) || len(t.known) >= maxCalls {
		t.emitRaw(x, b)
		return
	}
	t.endBlock(x, parent)
	c := &agent.ToolCall{
		ID: p.ID, Name: p.Name, Kind: toolKind(p.Name), Title: toolTitle(p.Name, p.Input), Input: p.Input, Locations: inputLocations(p.Input),
	}
	if len(c.Input) == 0 {
		c.Input = nil
	}
	begun := *c
	dropLongInput(c)
	t.calls[p.ID], t.known[p.ID] = c, true
	t.emitEvent(x, parent, agent.Event{Type: agent.ToolStarted, Tool: &begun})
	if plan := planEntries(p.Name, p.Input); plan != nil {
		t.emitEvent(x, parent, agent.Event{Type: agent.PlanChanged, Plan: plan})
	}
}

// handleUser handles input of the model: it emits tool results and ignores the
// rest, which is the prompt or text of the program itself.
func (t *conversation) handleUser(x agent.Exchange, l line, b []byte) {
	var m message
	jsonlines.Decode(b, &m)
	for _, p := range parseBlocks(m.Message.Content) {
		if !strings.HasSuffix(p.Type, "tool_result") {
			continue
		}
		c := t.calls[p.ToolID]
		if c == nil {
			t.emitRaw(x, b)
			continue
		}
		delete(t.calls, p.ToolID)
		ended := *c
		ended.Input = nil
		t.fillResult(&ended, p, m)
		t.emitEvent(x, l.Parent, agent.Event{Type: agent.ToolFinished, Tool: &ended})
	}
}

// fillResult fills in the result of a call.
func (t *conversation) fillResult(c *agent.ToolCall, p block, m message) {
	c.Output = outputText(p.Content)
	c.Status = agent.Completed
	if p.IsError {
		c.Status = agent.ToolFailed
	}
	for _, meta := range m.Meta {
		switch {
		case meta.ID != p.ToolID:
		case meta.Decision.Decision == "reject":
			t.recordDenial(*c)
		case meta.Kept != "":
			c.Reason = "it was stopped"
		}
	}
	if t.denied[p.ToolID] && p.IsError {
		c.Status, c.Reason = agent.Denied, c.Output
	}
	addDetails(c, m.Result)
}

// recordDenial records a call that was not permitted.
func (t *conversation) recordDenial(c agent.ToolCall) {
	if !isUsableID(c.ID) || t.denied[c.ID] || len(t.denied) >= maxDenials {
		return
	}
	t.denied[c.ID] = true
	dropLongInput(&c)
	c.Output, c.Status = "", agent.Denied
	t.result.Denials = append(t.result.Denials, c)
}

// dropLongInput removes an input that is too long to be kept.
func dropLongInput(c *agent.ToolCall) {
	if len(c.Input) > maxInput {
		c.Input = nil
	}
}
