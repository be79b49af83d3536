package codex

import (
	"encoding/json"
	"strings"

	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/agent/internal/jsonlines"
)

// items are the steps of the agent's work, which codex exec and the app server
// both report.
type items struct {
	session  string
	lastText string // last message of the agent
	calls    map[string]*call
	order    []string
}

// maxCalls limits the remembered calls; lines about more calls become Raw events.
const maxCalls = 20_000

// call is the known state of a tool call.
type call struct {
	agent.ToolCall
	ended bool
}

// item is a step of a turn. codex exec writes its types and members with
// underscores, the app server in camel case.
type item struct {
	ID      string `json:"id"`
	Type    string `json:"type"`
	Text    string `json:"text"`
	Message string `json:"message"`

	Command  string          `json:"command"`
	Output   string          `json:"aggregated_output"`
	Output2  string          `json:"aggregatedOutput"`
	Exit     *int            `json:"exit_code"`
	Exit2    *int            `json:"exitCode"`
	Status   string          `json:"status"`
	Changes  []change        `json:"changes"`
	Server   string          `json:"server"`
	Tool     string          `json:"tool"`
	Input    json.RawMessage `json:"arguments"`
	Answer   toolAnswer      `json:"result"`
	Query    string          `json:"query"`
	Summary  []string        `json:"summary"`
	Thoughts []string        `json:"content"`
	Error    struct {
		Message string `json:"message"`
	} `json:"error"`
	Entries []struct {
		Text string `json:"text"`
		Done bool   `json:"completed"`
	} `json:"items"`
}

type change struct {
	Path string          `json:"path"`
	Kind json.RawMessage `json:"kind"`
	Diff string          `json:"diff"`
}

// toolAnswer is the result of a tool of an MCP server.
type toolAnswer struct {
	Content []struct {
		Text string `json:"text"`
	} `json:"content"`
	Structured  json.RawMessage `json:"structured_content"`
	Structured2 json.RawMessage `json:"structuredContent"`
}

func (a *toolAnswer) outputText() string {
	var b strings.Builder
	for _, c := range a.Content {
		b.WriteString(c.Text)
	}
	for _, s := range []json.RawMessage{a.Structured, a.Structured2} {
		if b.Len() == 0 && len(s) > 0 && string(s) != "null" {
			b.Write(s)
		}
	}
	return b.String()
}

// handleItem handles a step that has started, changed or ended. It returns false
// for a step of an unknown type.
func (t *items) handleItem(x agent.Exchange, raw json.RawMessage, ended bool) bool {
	var v item
	if !jsonlines.Decode(raw, &v) {
		return false
	}
	switch strings.ToLower(strings.ReplaceAll(v.Type, "_", "")) {
	case "usermessage":
	case "agentmessage":
		if ended && v.Text != "" {
			t.lastText = v.Text
			t.emitEvent(x, agent.Event{Type: agent.TextDone, Text: v.Text})
		}
	case "reasoning":
		if text := v.reasoningText(); ended && text != "" {
			t.emitEvent(x, agent.Event{Type: agent.ThoughtDone, Text: text})
		}
	case "error":
		if v.Message != "" {
			t.emitEvent(x, agent.Event{Type: agent.Warning, Text: v.Message})
		}
	case "todolist":
		plan := make([]agent.PlanEntry, len(v.Entries))
		for i, e := range v.Entries {
			plan[i] = agent.PlanEntry{Text: e.Text, Status: "pending"}
			if e.Done {
				plan[i].Status = "completed"
			}
		}
		t.emitEvent(x, agent.Event{Type: agent.PlanChanged, Plan: plan})
	default:
		c, ok := v.toolCall()
		if !ok || v.ID == "" || t.calls[v.ID] == nil && len(t.calls) == maxCalls {
			return false
		}
		t.handleCall(x, c, ended)
	}
	return true
}

// reasoningText returns the text of a reasoning item.
func (v *item) reasoningText() string {
	switch {
	case v.Text != "":
		return v.Text
	case len(v.Summary) > 0:
		return strings.Join(v.Summary, "\n")
	}
	return strings.Join(v.Thoughts, "\n")
}

// toolCall returns the tool call of an item; false if the item is no known call.
func (v *item) toolCall() (agent.ToolCall, bool) {
	c := agent.ToolCall{ID: v.ID, Reason: v.Error.Message}
	switch strings.ToLower(strings.ReplaceAll(v.Type, "_", "")) {
	case "commandexecution":
		c.Name, c.Kind, c.Title = "shell", agent.Execute, stripShell(v.Command)
		c.Input = encodeField("command", v.Command)
		c.Output = v.Output + v.Output2
		c.Exit = v.Exit
		if v.Exit2 != nil {
			c.Exit = v.Exit2
		}
	case "filechange":
		c.Name, c.Kind = "apply_patch", agent.Edit
		for _, f := range v.Changes {
			c.Locations = append(c.Locations, f.Path)
		}
		c.Title = strings.Join(c.Locations, ", ")
		c.Input = encodeField("changes", v.Changes)
	case "mcptoolcall":
		c.Name, c.Kind, c.Title = "mcp__"+v.Server+"__"+v.Tool, agent.MCP, v.Tool
		c.Input, c.Output = v.Input, v.Answer.outputText()
	case "websearch":
		c.Name, c.Kind, c.Title = "web_search", agent.Search, v.Query
		c.Input = encodeField("query", v.Query)
	default:
		return c, false
	}
	switch v.Status {
	case "failed":
		c.Status = agent.ToolFailed
	case "declined":
		c.Status = agent.Denied
	default:
		c.Status = agent.Completed
	}
	return c, true
}

func encodeField(key string, v any) json.RawMessage {
	b, _ := json.Marshal(map[string]any{key: v}) // strings, and what was JSON before
	return b
}

// handleCall emits the start, progress or end of a tool call.
func (t *items) handleCall(x agent.Exchange, now agent.ToolCall, ended bool) {
	if t.calls == nil {
		t.calls = map[string]*call{}
	}
	c, known := t.calls[now.ID]
	if known && c.ended {
		return
	}
	if !known {
		c = &call{}
		t.calls[now.ID] = c
		t.order = append(t.order, now.ID)
		begun := now
		begun.Status, begun.Output, begun.Exit, begun.Reason = "", "", nil, ""
		t.emitEvent(x, agent.Event{Type: agent.ToolStarted, Tool: &begun})
	}
	before := c.Output
	if now.Output == "" {
		now.Output = before // it came in deltas
	}
	c.ToolCall = now
	switch {
	case ended:
		c.ended = true
		t.emitEvent(x, agent.Event{Type: agent.ToolFinished, Tool: &now})
		c.ToolCall = agent.ToolCall{ID: now.ID}
	case len(now.Output) > len(before) && strings.HasPrefix(now.Output, before):
		t.emitEvent(x, agent.Event{Type: agent.ToolUpdated, Tool: &agent.ToolCall{ID: now.ID, Output: now.Output[len(before):]}})
	}
}

// endCalls ends the running calls.
func (t *items) endCalls(x agent.Exchange) {
	for _, id := range t.order {
		c := t.calls[id]
		if c.ended {
			continue
		}
		c.ended = true
		over := c.ToolCall
		over.Status, over.Reason = agent.ToolFailed, "the turn ended before the call"
		t.emitEvent(x, agent.Event{Type: agent.ToolFinished, Tool: &over})
	}
	t.order = nil
}

func (t *items) emitEvent(x agent.Exchange, e agent.Event) {
	e.Session = t.session
	x.Emit(e)
}

// emitRaw emits a line that was not understood; an empty line is dropped.
func (t *items) emitRaw(x agent.Exchange, text []byte) {
	if len(text) == 0 {
		return
	}
	t.emitEvent(x, agent.Event{Type: agent.Raw, Raw: jsonlines.Raw(text)})
}
