package opencode

import (
	"encoding/json"

	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/agent/once"
	"github.com/atoll-sandbox/atoll/internal/lenient"
)

// talk reads the lines of opencode run, each of which tells of something that
// is over. There is no last line that says how it ended.
type talk struct {
	once.Talk

	turn   *agent.Turn
	reason string // of the last step's end
	used   agent.Usage
	fault  *agent.Result
}

// line is one of opencode.
type line struct {
	Type    string `json:"type"`
	Session string `json:"sessionID"`
	Part    part   `json:"part"`
	Error   struct {
		Name string `json:"name"`
		Data struct {
			Message string `json:"message"`
			Status  int    `json:"statusCode"`
		} `json:"data"`
	} `json:"error"`
}

// part is what a line is about; its members depend on the line's type.
type part struct {
	Text   string  `json:"text"`
	Tool   string  `json:"tool"`
	Call   string  `json:"callID"`
	State  state   `json:"state"`
	Reason string  `json:"reason"`
	Cost   float64 `json:"cost"`
	Tokens struct {
		Input     int64 `json:"input"`
		Output    int64 `json:"output"`
		Reasoning int64 `json:"reasoning"`
		Cache     struct {
			Read  int64 `json:"read"`
			Write int64 `json:"write"`
		} `json:"cache"`
	} `json:"tokens"`
}

// state is that of a use of a tool.
type state struct {
	Status   string          `json:"status"`
	Input    json.RawMessage `json:"input"`
	Output   string          `json:"output"`
	Title    string          `json:"title"`
	Error    string          `json:"error"`
	Metadata struct {
		Exit *int `json:"exit"`
	} `json:"metadata"`
}

// Line takes a line.
func (t *talk) Line(x agent.Exchange, text []byte) {
	var l line
	if !lenient.Decode(text, &l) || l.Type == "" {
		t.Raw(x, text)
		return
	}
	if t.Session == "" && l.Session != "" {
		t.Session = l.Session
		t.Start(x, t.turn.Model)
	}
	switch {
	case l.Type == "step_start":
		t.Over = false
	case l.Type == "text" && l.Part.Text != "":
		t.Block(x, l.Part.Text)
	case l.Type == "reasoning" && l.Part.Text != "":
		t.Emit(x, agent.Event{Type: agent.ThoughtDone, Text: l.Part.Text})
	case l.Type == "tool_use" && t.Fresh(l.Part.Call):
		t.called(x, l.Part)
	case l.Type == "step_finish":
		t.step(x, l.Part)
	case l.Type == "error":
		t.fail(l)
	default:
		t.Raw(x, text)
	}
}

// called tells of a use of a tool, which is over.
func (t *talk) called(x agent.Exchange, p part) {
	var in struct {
		File string `json:"filePath"`
	}
	lenient.Decode(p.State.Input, &in)
	c := &agent.ToolCall{ID: p.Call, Name: p.Tool, Kind: kindOf(p.Tool), Title: p.State.Title, Input: p.State.Input}
	if c.Title == "" {
		c.Title = p.Tool
	}
	if in.File != "" {
		c.Locations = []string{in.File}
	}
	t.Call(x, c)
	t.Ended(x, c.ID, func(c *agent.ToolCall) {
		c.Output, c.Exit, c.Status = p.State.Output, p.State.Metadata.Exit, agent.Completed
		if p.State.Status != "completed" {
			c.Status, c.Reason = agent.ToolFailed, p.State.Error
		}
	})
}

// step takes the end of a request to the model.
func (t *talk) step(x agent.Exchange, p part) {
	u := agent.Usage{
		Model: t.turn.Model, Input: p.Tokens.Input, Output: p.Tokens.Output + p.Tokens.Reasoning,
		CacheRead: p.Tokens.Cache.Read, CacheWrite: p.Tokens.Cache.Write, Requests: 1,
	}
	t.used = t.used.Add(u)
	t.Emit(x, agent.Event{Type: agent.UsageTold, Usage: &u})
	t.reason = p.Reason
	t.Over = p.Reason != "tool-calls"
}

// fail takes an error, which is the last that is told.
func (t *talk) fail(l line) {
	r := agent.Result{Outcome: agent.Failed, Message: l.Error.Data.Message, Code: agent.Code(l.Error.Data.Status)}
	if r.Message == "" {
		r.Message = l.Error.Name
	}
	switch {
	case l.Error.Name == "MessageAbortedError":
		r.Outcome, r.Code = agent.Aborted, ""
	case l.Error.Name == "MessageOutputLengthError":
		r.Code = "max_output"
	case l.Error.Name == "ProviderAuthError":
		r.Code = "authentication"
	case r.Code == "":
		r.Code = "agent"
	}
	t.fault, t.Over = &r, true
}

// Result returns how the turn ended. That a session is not there is only told
// on the standard error, before anything else.
func (t *talk) Result(exit *agent.Exit) agent.Result {
	r := agent.Result{}
	switch {
	case t.fault != nil:
		r = *t.fault
	case t.Over && t.reason == "length":
		r.Outcome, r.Code, r.Message = agent.Failed, "max_output", "the model's answer was cut at its longest"
	case t.Over && t.reason == "content-filter":
		r.Outcome = agent.Refused
	case t.Over && t.reason == "error":
		r.Outcome, r.Code = agent.Failed, "agent"
	case t.Over:
		r.Outcome = agent.OK
	case exit != nil && exit.Code == 1 && t.Session == "" && t.turn.Session != "":
		r.Outcome, r.Code, r.Message = agent.Failed, "session_not_found", "there is no session "+t.turn.Session
	}
	r.Text, r.Usage, r.Turns, r.Session = t.Last, t.used, int(t.used.Requests), t.Session
	return r
}
