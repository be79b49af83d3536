package codex

import (
	"encoding/json"
	"strings"

	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/internal/lenient"
)

// items are what the agent does, as both ways to talk with it tell.
type items struct {
	session string
	last    string // message of the agent
	calls   map[string]*call
	order   []string
}

// maxCalls is how many calls are remembered; what is told of more is passed on
// as it is.
const maxCalls = 20_000

// call is a use of a tool as it is known so far.
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
	Answer   answer          `json:"result"`
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

// answer is what a tool of an MCP server gave back.
type answer struct {
	Content []struct {
		Text string `json:"text"`
	} `json:"content"`
	Structured  json.RawMessage `json:"structured_content"`
	Structured2 json.RawMessage `json:"structuredContent"`
}

func (a *answer) text() string {
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

// item takes a step that has begun, changed or ended. It reports false for one
// that is not known.
func (t *items) item(x agent.Exchange, raw json.RawMessage, ended bool) bool {
	var v item
	if !lenient.Decode(raw, &v) {
		return false
	}
	switch strings.ToLower(strings.ReplaceAll(v.Type, "_", "")) {
	case "usermessage":
	case "agentmessage":
		if ended && v.Text != "" {
			t.last = v.Text
			t.emit(x, agent.Event{Type: agent.TextDone, Text: v.Text})
		}
	case "reasoning":
		if text := v.thought(); ended && text != "" {
			t.emit(x, agent.Event{Type: agent.ThoughtDone, Text: text})
		}
	case "error":
		if v.Message != "" {
			t.emit(x, agent.Event{Type: agent.Warning, Text: v.Message})
		}
	case "todolist":
		plan := make([]agent.PlanEntry, len(v.Entries))
		for i, e := range v.Entries {
			plan[i] = agent.PlanEntry{Text: e.Text, Status: "pending"}
			if e.Done {
				plan[i].Status = "completed"
			}
		}
		t.emit(x, agent.Event{Type: agent.PlanChanged, Plan: plan})
	default:
		c, ok := v.call()
		if !ok || v.ID == "" || t.calls[v.ID] == nil && len(t.calls) == maxCalls {
			return false
		}
		t.called(x, c, ended)
	}
	return true
}

// thought returns the text of a reasoning item.
func (v *item) thought() string {
	switch {
	case v.Text != "":
		return v.Text
	case len(v.Summary) > 0:
		return strings.Join(v.Summary, "\n")
	}
	return strings.Join(v.Thoughts, "\n")
}

// call makes a use of a tool of an item; false if it is none that is known.
func (v *item) call() (agent.ToolCall, bool) {
	c := agent.ToolCall{ID: v.ID, Reason: v.Error.Message}
	switch strings.ToLower(strings.ReplaceAll(v.Type, "_", "")) {
	case "commandexecution":
		c.Name, c.Kind, c.Title = "shell", agent.Execute, command(v.Command)
		c.Input = object("command", v.Command)
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
		c.Input = object("changes", v.Changes)
	case "mcptoolcall":
		c.Name, c.Kind, c.Title = "mcp__"+v.Server+"__"+v.Tool, agent.MCP, v.Tool
		c.Input, c.Output = v.Input, v.Answer.text()
	case "websearch":
		c.Name, c.Kind, c.Title = "web_search", agent.Search, v.Query
		c.Input = object("query", v.Query)
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

func object(key string, v any) json.RawMessage {
	b, _ := json.Marshal(map[string]any{key: v}) // strings, and what was JSON before
	return b
}

// called tells what is new in a use of a tool.
func (t *items) called(x agent.Exchange, now agent.ToolCall, ended bool) {
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
		t.emit(x, agent.Event{Type: agent.ToolStarted, Tool: &begun})
	}
	before := c.Output
	if now.Output == "" {
		now.Output = before // that came in pieces
	}
	c.ToolCall = now
	switch {
	case ended:
		c.ended = true
		t.emit(x, agent.Event{Type: agent.ToolFinished, Tool: &now})
		c.ToolCall = agent.ToolCall{ID: now.ID}
	case len(now.Output) > len(before) && strings.HasPrefix(now.Output, before):
		t.emit(x, agent.Event{Type: agent.ToolUpdated, Tool: &agent.ToolCall{ID: now.ID, Output: now.Output[len(before):]}})
	}
}

// finish ends the calls that have not ended.
func (t *items) finish(x agent.Exchange) {
	for _, id := range t.order {
		c := t.calls[id]
		if c.ended {
			continue
		}
		c.ended = true
		over := c.ToolCall
		over.Status, over.Reason = agent.ToolFailed, "the turn ended before it did"
		t.emit(x, agent.Event{Type: agent.ToolFinished, Tool: &over})
	}
	t.order = nil
}

func (t *items) emit(x agent.Exchange, e agent.Event) {
	e.Session = t.session
	x.Emit(e)
}

// raw passes on what was not understood.
func (t *items) raw(x agent.Exchange, text []byte) {
	if len(text) == 0 {
		return
	}
	t.emit(x, agent.Event{Type: agent.Raw, Raw: lenient.Raw(text)})
}
