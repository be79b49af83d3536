package opencode

import (
	"encoding/json"

	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/agent/internal/jsonlines"
	"github.com/atoll-sandbox/atoll/agent/oneshot"
)

// conversation decodes the lines of opencode run. Each line reports finished
// work. There is no last line with the outcome.
type conversation struct {
	oneshot.Conversation

	turn    *agent.Turn
	reason  string // why the last step ended
	used    agent.Usage
	failure *agent.Result
}

// line is a line of opencode.
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

// part is the content of a line; its members depend on the line's type.
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

// state is the state of a tool call.
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

// HandleLine handles a line.
func (t *conversation) HandleLine(x agent.Exchange, text []byte) {
	var l line
	if !jsonlines.Decode(text, &l) || l.Type == "" {
		t.EmitRaw(x, text)
		return
	}
	if t.Session == "" && l.Session != "" {
		t.Session = l.Session
		t.EmitStarted(x, t.turn.Model)
	}
	switch {
	case l.Type == "step_start":
		t.Done = false
	case l.Type == "text" && l.Part.Text != "":
		t.EmitText(x, l.Part.Text)
	case l.Type == "reasoning" && l.Part.Text != "":
		t.Emit(x, agent.Event{Type: agent.ThoughtDone, Text: l.Part.Text})
	case l.Type == "tool_use" && t.IsNewCall(l.Part.Call):
		t.emitToolCall(x, l.Part)
	case l.Type == "step_finish":
		t.handleStepFinish(x, l.Part)
	case l.Type == "error":
		t.handleError(l)
	default:
		t.EmitRaw(x, text)
	}
}

// emitToolCall emits the start and end of a tool call, which has finished.
func (t *conversation) emitToolCall(x agent.Exchange, p part) {
	var in struct {
		File string `json:"filePath"`
	}
	jsonlines.Decode(p.State.Input, &in)
	c := &agent.ToolCall{ID: p.Call, Name: p.Tool, Kind: toolKind(p.Tool), Title: p.State.Title, Input: p.State.Input}
	if c.Title == "" {
		c.Title = p.Tool
	}
	if in.File != "" {
		c.Locations = []string{in.File}
	}
	t.StartCall(x, c)
	t.FinishCall(x, c.ID, func(c *agent.ToolCall) {
		c.Output, c.Exit, c.Status = p.State.Output, p.State.Metadata.Exit, agent.Completed
		if p.State.Status != "completed" {
			c.Status, c.Reason = agent.ToolFailed, p.State.Error
		}
	})
}

// handleStepFinish handles the end of a request to the model.
func (t *conversation) handleStepFinish(x agent.Exchange, p part) {
	u := agent.Usage{
		Model: t.turn.Model, Input: p.Tokens.Input, Output: p.Tokens.Output + p.Tokens.Reasoning,
		CacheRead: p.Tokens.Cache.Read, CacheWrite: p.Tokens.Cache.Write, Requests: 1,
	}
	t.used = t.used.Add(u)
	t.Emit(x, agent.Event{Type: agent.UsageReported, Usage: &u})
	t.reason = p.Reason
	t.Done = p.Reason != "tool-calls"
}

// handleError handles an error, which is the last line.
func (t *conversation) handleError(l line) {
	r := agent.Result{Outcome: agent.Failed, Message: l.Error.Data.Message, Code: agent.ErrorCode(l.Error.Data.Status)}
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
	t.failure, t.Done = &r, true
}

// Result returns how the turn ended. A missing session is reported only on the
// standard error, before any line.
func (t *conversation) Result(exit *agent.Exit) agent.Result {
	r := agent.Result{}
	switch {
	case t.failure != nil:
		r = *t.failure
	case t.Done && t.reason == "length":
		r.Outcome, r.Code, r.Message = agent.Failed, "max_output", "the model's answer reached its maximum length and was cut"
	case t.Done && t.reason == "content-filter":
		r.Outcome = agent.Refused
	case t.Done && t.reason == "error":
		r.Outcome, r.Code = agent.Failed, "agent"
	case t.Done:
		r.Outcome = agent.OK
	case exit != nil && exit.Code == 1 && t.Session == "" && t.turn.Session != "":
		r.Outcome, r.Code, r.Message = agent.Failed, "session_not_found", "there is no session "+t.turn.Session
	}
	r.Text, r.Usage, r.Turns, r.Session = t.LastText, t.used, int(t.used.Requests), t.Session
	return r
}
