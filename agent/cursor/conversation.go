package cursor

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/agent/internal/jsonlines"
	"github.com/atoll-sandbox/atoll/agent/oneshot"
)

// conversation decodes the lines of the CLI.
type conversation struct {
	oneshot.Conversation

	result agent.Result
}

// line is a line of the CLI; its members depend on its type.
type line struct {
	Type    string `json:"type"`
	Subtype string `json:"subtype"`
	Session string `json:"session_id"`
	Model   string `json:"model"`
	Stamp   int64  `json:"timestamp_ms"`  // set for a part of a message
	ModelID string `json:"model_call_id"` // set for a whole message before a tool call
	Message struct {
		Content []struct {
			Type string `json:"type"`
			Text string `json:"text"`
		} `json:"content"`
	} `json:"message"`
	Text   string                     `json:"text"` // of thinking
	ID     string                     `json:"call_id"`
	Tool   map[string]json.RawMessage `json:"tool_call"` // by type: readToolCall…
	Failed bool                       `json:"is_error"`
	Result string                     `json:"result"`
}

// use is a tool call.
type use struct {
	Args   json.RawMessage `json:"args"`
	Name   string          `json:"name"` // of a function
	Result *struct {
		Success  *outcome `json:"success"`
		Error    *outcome `json:"error"`
		Rejected *outcome `json:"rejected"`
		Failure  *outcome `json:"failure"`
	} `json:"result"`
}

// outcome is the result of a tool.
type outcome struct {
	Content json.RawMessage `json:"content"`
	Stdout  string          `json:"stdout"`
	Stderr  string          `json:"stderr"`
	Exit    *int            `json:"exitCode"`
	Message string          `json:"errorMessage"`
	Error   string          `json:"error"`
	Reason  string          `json:"reason"`
}

// Begin emits the warning; the prompt is on the process's input.
func (t *conversation) Begin(x agent.Exchange) {
	emitWarning(x)
	t.Conversation.Begin(x)
}

// HandleLine handles a line.
func (t *conversation) HandleLine(x agent.Exchange, text []byte) {
	var l line
	if !jsonlines.Decode(text, &l) {
		t.EmitRaw(x, text)
		return
	}
	if l.Session != "" {
		t.Session = l.Session
	}
	switch {
	case l.Type == "system" && l.Subtype == "init":
		t.EmitStarted(x, l.Model)
	case l.Type == "user":
	case l.Type == "assistant":
		t.handleMessage(x, l)
	case l.Type == "thinking" && l.Subtype == "delta" && l.Text != "":
		t.Emit(x, agent.Event{Type: agent.ThoughtDelta, Text: l.Text})
	case l.Type == "thinking" && l.Subtype == "completed":
	case l.Type == "tool_call" && l.Subtype == "started" && t.IsNewCall(l.ID):
		t.startToolCall(x, l)
	case l.Type == "tool_call" && l.Subtype == "completed" && t.IsRunning(l.ID):
		t.finishToolCall(x, l)
	case l.Type == "result":
		t.finishTurn(x, l)
	default:
		t.EmitRaw(x, text)
	}
}

// handleMessage handles a message of the agent. With --stream-partial-output a
// message comes in parts and then once more as a whole; without it only as a whole.
func (t *conversation) handleMessage(x agent.Exchange, l line) {
	var b strings.Builder
	for _, c := range l.Message.Content {
		b.WriteString(c.Text)
	}
	text := b.String()
	switch {
	case text == "":
	case l.Stamp != 0 && l.ModelID == "":
		t.EmitTextDelta(x, text)
	case t.InText():
		t.EndText(x)
	case text != t.LastText:
		t.EmitText(x, text)
	}
}

// kinds are the kinds of tools, by the name of their member.
var kinds = map[string]agent.Kind{
	"read": agent.Read, "write": agent.Edit, "edit": agent.Edit, "delete": agent.Delete, "grep": agent.Search,
	"glob": agent.Search, "ls": agent.Search, "semSearch": agent.Search, "webSearch": agent.Search, "shell": agent.Execute,
	"fetch": agent.Fetch, "mcp": agent.MCP, "updateTodos": agent.Think, "todo": agent.Think,
}

// toolUse returns the tool call of a line, and the tool's name.
func (l *line) toolUse() (name string, u use) {
	members := make([]string, 0, len(l.Tool))
	for m := range l.Tool {
		members = append(members, m)
	}
	slices.Sort(members)
	for _, m := range members {
		short, ok := strings.CutSuffix(m, "ToolCall")
		if ok || m == "function" {
			jsonlines.Decode(l.Tool[m], &u)
			name = short
			break
		}
	}
	if name == "function" && u.Name != "" {
		name = u.Name
	}
	if name == "" {
		name = "tool"
	}
	return name, u
}

// startToolCall emits the start of a tool call.
func (t *conversation) startToolCall(x agent.Exchange, l line) {
	name, u := l.toolUse()
	var in struct {
		Path    string `json:"path"`
		Command string `json:"command"`
		Pattern string `json:"pattern"`
		Query   string `json:"query"`
		URL     string `json:"url"`
		Tool    string `json:"toolName"`
	}
	jsonlines.Decode(u.Args, &in)
	c := &agent.ToolCall{ID: l.ID, Name: name, Kind: kinds[name], Input: u.Args}
	if c.Kind == "" {
		c.Kind = agent.Other
	}
	for _, title := range []string{in.Command, in.Path, in.Pattern, in.Query, in.URL, in.Tool, name} {
		if c.Title == "" {
			c.Title = title
		}
	}
	if in.Path != "" {
		c.Locations = []string{in.Path}
	}
	t.StartCall(x, c)
}

// finishToolCall emits the end of a tool call.
func (t *conversation) finishToolCall(x agent.Exchange, l line) {
	_, u := l.toolUse()
	t.FinishCall(x, l.ID, func(c *agent.ToolCall) {
		c.Status = agent.Completed
		switch r := u.Result; {
		case r == nil:
		case r.Success != nil:
			r.Success.copyTo(c)
		case r.Rejected != nil:
			c.Status = agent.Denied
			r.Rejected.copyTo(c)
			t.result.Denials = append(t.result.Denials, *c)
		case r.Error != nil:
			c.Status = agent.ToolFailed
			r.Error.copyTo(c)
		case r.Failure != nil:
			c.Status = agent.ToolFailed
			r.Failure.copyTo(c)
		}
	})
}

// copyTo copies a tool's result into its call.
func (o *outcome) copyTo(c *agent.ToolCall) {
	c.Exit = o.Exit
	c.Output = o.Stdout + o.Stderr
	var text string
	if json.Unmarshal(o.Content, &text) == nil {
		c.Output += text
	}
	for _, reason := range []string{o.Message, o.Error, o.Reason} {
		if c.Reason == "" {
			c.Reason = reason
		}
	}
}

// finishTurn sets the result, which the CLI reports only on success.
func (t *conversation) finishTurn(x agent.Exchange, l line) {
	t.EndAll(x)
	r := agent.Result{Outcome: agent.OK, Text: t.LastText, Denials: t.result.Denials}
	if r.Text == "" {
		r.Text = l.Result
	}
	if l.Failed {
		r.Outcome, r.Code, r.Message = agent.Failed, "agent", l.Result
	}
	t.result, t.Done = r, true
}

// Result returns how the turn ended. On a failure the CLI exits without a result,
// with a message on its standard error.
func (t *conversation) Result(exit *agent.Exit) agent.Result {
	r := t.result
	r.Session = t.Session
	if exit != nil && !t.Done && exit.Code > 0 && exit.Code < 128 {
		lines := strings.Split(strings.TrimSpace(string(exit.Stderr)), "\n")
		r.Outcome, r.Code, r.Message = agent.Failed, "agent", lines[len(lines)-1]
	}
	return r
}
