package cursor

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/agent/once"
	"github.com/atoll-sandbox/atoll/internal/lenient"
)

// talk reads the lines of the CLI.
type talk struct {
	once.Talk

	result agent.Result
}

// line is one of the CLI; its members depend on its type.
type line struct {
	Type    string `json:"type"`
	Subtype string `json:"subtype"`
	Session string `json:"session_id"`
	Model   string `json:"model"`
	Stamp   int64  `json:"timestamp_ms"`  // of a piece of a message
	ModelID string `json:"model_call_id"` // of a message in whole, before a tool is used
	Message struct {
		Content []struct {
			Type string `json:"type"`
			Text string `json:"text"`
		} `json:"content"`
	} `json:"message"`
	Text   string                     `json:"text"` // of thinking
	ID     string                     `json:"call_id"`
	Tool   map[string]json.RawMessage `json:"tool_call"` // by what it is: readToolCall…
	Failed bool                       `json:"is_error"`
	Result string                     `json:"result"`
}

// use is a use of a tool.
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

// outcome is what a tool gave back.
type outcome struct {
	Content json.RawMessage `json:"content"`
	Stdout  string          `json:"stdout"`
	Stderr  string          `json:"stderr"`
	Exit    *int            `json:"exitCode"`
	Message string          `json:"errorMessage"`
	Error   string          `json:"error"`
	Reason  string          `json:"reason"`
}

// Begin warns; the prompt is on the process's input.
func (t *talk) Begin(x agent.Exchange) {
	warn(x)
	t.Talk.Begin(x)
}

// Line takes a line.
func (t *talk) Line(x agent.Exchange, text []byte) {
	var l line
	if !lenient.Decode(text, &l) {
		t.Raw(x, text)
		return
	}
	if l.Session != "" {
		t.Session = l.Session
	}
	switch {
	case l.Type == "system" && l.Subtype == "init":
		t.Start(x, l.Model)
	case l.Type == "user":
	case l.Type == "assistant":
		t.hear(x, l)
	case l.Type == "thinking" && l.Subtype == "delta" && l.Text != "":
		t.Emit(x, agent.Event{Type: agent.ThoughtDelta, Text: l.Text})
	case l.Type == "thinking" && l.Subtype == "completed":
	case l.Type == "tool_call" && l.Subtype == "started" && t.Fresh(l.ID):
		t.begin(x, l)
	case l.Type == "tool_call" && l.Subtype == "completed" && t.Under(l.ID):
		t.end(x, l)
	case l.Type == "result":
		t.finish(x, l)
	default:
		t.Raw(x, text)
	}
}

// hear takes a message of the agent. With --stream-partial-output messages come
// in pieces, and then once more in whole; without it only in whole.
func (t *talk) hear(x agent.Exchange, l line) {
	var b strings.Builder
	for _, c := range l.Message.Content {
		b.WriteString(c.Text)
	}
	text := b.String()
	switch {
	case text == "":
	case l.Stamp != 0 && l.ModelID == "":
		t.Piece(x, text)
	case t.Telling():
		t.Hush(x)
	case text != t.Last:
		t.Block(x, text)
	}
}

// kinds are what tools do, by the name of their member.
var kinds = map[string]agent.Kind{
	"read": agent.Read, "write": agent.Edit, "edit": agent.Edit, "delete": agent.Delete, "grep": agent.Search,
	"glob": agent.Search, "ls": agent.Search, "semSearch": agent.Search, "webSearch": agent.Search, "shell": agent.Execute,
	"fetch": agent.Fetch, "mcp": agent.MCP, "updateTodos": agent.Think, "todo": agent.Think,
}

// used returns the use of a tool that a line has, and what the tool is called.
func (l *line) used() (name string, u use) {
	members := make([]string, 0, len(l.Tool))
	for m := range l.Tool {
		members = append(members, m)
	}
	slices.Sort(members)
	for _, m := range members {
		short, ok := strings.CutSuffix(m, "ToolCall")
		if ok || m == "function" {
			lenient.Decode(l.Tool[m], &u)
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

// begin tells of a use of a tool.
func (t *talk) begin(x agent.Exchange, l line) {
	name, u := l.used()
	var in struct {
		Path    string `json:"path"`
		Command string `json:"command"`
		Pattern string `json:"pattern"`
		Query   string `json:"query"`
		URL     string `json:"url"`
		Tool    string `json:"toolName"`
	}
	lenient.Decode(u.Args, &in)
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
	t.Call(x, c)
}

// end tells what came of a use of a tool.
func (t *talk) end(x agent.Exchange, l line) {
	_, u := l.used()
	t.Ended(x, l.ID, func(c *agent.ToolCall) {
		c.Status = agent.Completed
		switch r := u.Result; {
		case r == nil:
		case r.Success != nil:
			r.Success.into(c)
		case r.Rejected != nil:
			c.Status = agent.Denied
			r.Rejected.into(c)
			t.result.Denials = append(t.result.Denials, *c)
		case r.Error != nil:
			c.Status = agent.ToolFailed
			r.Error.into(c)
		case r.Failure != nil:
			c.Status = agent.ToolFailed
			r.Failure.into(c)
		}
	})
}

// into writes what a tool gave back into its call.
func (o *outcome) into(c *agent.ToolCall) {
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

// finish takes the result, which comes only if all went well.
func (t *talk) finish(x agent.Exchange, l line) {
	t.Close(x)
	r := agent.Result{Outcome: agent.OK, Text: t.Last, Denials: t.result.Denials}
	if r.Text == "" {
		r.Text = l.Result
	}
	if l.Failed {
		r.Outcome, r.Code, r.Message = agent.Failed, "agent", l.Result
	}
	t.result, t.Over = r, true
}

// Result returns how the turn ended. What failed ends the CLI without a result,
// and with a word about it on its standard error.
func (t *talk) Result(exit *agent.Exit) agent.Result {
	r := t.result
	r.Session = t.Session
	if exit != nil && !t.Over && exit.Code > 0 && exit.Code < 128 {
		lines := strings.Split(strings.TrimSpace(string(exit.Stderr)), "\n")
		r.Outcome, r.Code, r.Message = agent.Failed, "agent", lines[len(lines)-1]
	}
	return r
}
