package gemini

import (
	"encoding/json"
	"regexp"
	"strings"

	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/agent/internal/jsonlines"
	"github.com/atoll-sandbox/atoll/agent/oneshot"
)

// conversation decodes the lines of the CLI.
type conversation struct {
	oneshot.Conversation

	turn   *agent.Turn
	failed bool
	result agent.Result
}

// line is a line of the CLI; its members depend on its type.
type line struct {
	Type     string          `json:"type"`
	Session  string          `json:"session_id"`
	Model    string          `json:"model"`
	Role     string          `json:"role"`
	Content  string          `json:"content"`
	Delta    bool            `json:"delta"`
	Name     string          `json:"tool_name"`
	ID       string          `json:"tool_id"`
	Input    json.RawMessage `json:"parameters"`
	Status   string          `json:"status"`
	Output   string          `json:"output"`
	Severity string          `json:"severity"`
	Message  string          `json:"message"`
	Error    struct {
		Type    string `json:"type"`
		Message string `json:"message"`
	} `json:"error"`
	Stats *struct {
		Input  int64                      `json:"input"` // without those of the cache
		Cached int64                      `json:"cached"`
		Output int64                      `json:"output_tokens"`
		Models map[string]json.RawMessage `json:"models"`
	} `json:"stats"`
}

// HandleLine handles a line.
func (t *conversation) HandleLine(x agent.Exchange, text []byte) {
	var l line
	if !jsonlines.Decode(text, &l) {
		t.EmitRaw(x, text)
		return
	}
	switch {
	case l.Type == "init":
		t.Session = l.Session
		t.EmitStarted(x, l.Model)
	case l.Type == "message" && l.Role == "user":
	case l.Type == "message":
		t.handleMessage(x, l)
	case l.Type == "tool_use" && t.IsNewCall(l.ID):
		t.startToolCall(x, l)
	case l.Type == "tool_result" && t.IsRunning(l.ID):
		t.finishToolCall(x, l)
	case l.Type == "error" && l.Message != "":
		t.EndText(x)
		t.Emit(x, agent.Event{Type: agent.Warning, Text: l.Message})
	case l.Type == "result":
		t.finishTurn(x, l)
	default:
		t.EmitRaw(x, text)
	}
}

// handleMessage emits a part of the agent's text, or all of it.
func (t *conversation) handleMessage(x agent.Exchange, l line) {
	if l.Content == "" {
		return
	}
	if !l.Delta {
		t.EndText(x)
		t.EmitText(x, l.Content)
		return
	}
	t.EmitTextDelta(x, l.Content)
}

// startToolCall emits the start of a tool call.
func (t *conversation) startToolCall(x agent.Exchange, l line) {
	var in struct {
		Command string `json:"command"`
		File    string `json:"file_path"`
		Path    string `json:"path"`
		Dir     string `json:"dir_path"`
		Pattern string `json:"pattern"`
		Query   string `json:"query"`
		Prompt  string `json:"prompt"`
		Name    string `json:"name"`
	}
	jsonlines.Decode(l.Input, &in)
	c := &agent.ToolCall{ID: l.ID, Name: l.Name, Kind: toolKind(l.Name), Input: l.Input}
	for _, title := range []string{in.Command, in.File, in.Pattern, in.Path, in.Dir, in.Query, in.Prompt, in.Name, l.Name} {
		if c.Title == "" {
			c.Title = title
		}
	}
	if in.File != "" {
		c.Locations = []string{in.File}
	}
	t.StartCall(x, c)
}

// finishToolCall emits the end of a tool call.
func (t *conversation) finishToolCall(x agent.Exchange, l line) {
	t.FinishCall(x, l.ID, func(c *agent.ToolCall) {
		c.Output, c.Status = l.Output, agent.Completed
		if l.Status != "success" {
			c.Status, c.Reason = agent.ToolFailed, l.Error.Message
		}
	})
}

// finishTurn sets the result of the turn.
func (t *conversation) finishTurn(x agent.Exchange, l line) {
	t.EndAll(x)
	r := agent.Result{Outcome: agent.OK, Text: t.LastText}
	if l.Status != "success" {
		t.failed = true
		r.Outcome, r.Code, r.Message = agent.Failed, "agent", l.Error.Message
	}
	if s := l.Stats; s != nil && !t.Done {
		r.Usage = agent.Usage{Input: s.Input, Output: s.Output, CacheRead: s.Cached}
		if len(s.Models) == 1 {
			for name := range s.Models {
				r.Usage.Model = name
			}
		}
		u := r.Usage
		t.Emit(x, agent.Event{Type: agent.UsageReported, Usage: &u})
	}
	t.result, t.Done = r, true
}

// Exit statuses of the CLI.
const (
	exitAuth    = 41
	exitInput   = 42
	exitConfig  = 52
	exitTurns   = 53
	exitTrust   = 55
	exitStopped = 130
)

// statuses are HTTP statuses that the CLI exits with; only their low eight bits
// remain in the exit status.
var statuses = []int{400, 401, 402, 403, 404, 408, 413, 422, 429, 500, 502, 503, 504, 529}

// Result returns how the turn ended. The exit status shows the cause of a failure.
func (t *conversation) Result(exit *agent.Exit) agent.Result {
	r := t.result
	r.Session = t.Session
	if exit == nil || exit.Code == 0 || t.Done && !t.failed {
		return r
	}
	switch exit.Code {
	case exitAuth:
		r.Outcome, r.Code = agent.Failed, "authentication"
	case exitInput:
		r.Outcome, r.Code = agent.Failed, "invalid_request"
		if t.turn.Session != "" && t.Session == "" {
			r.Code, r.Message = "session_not_found", "there is no session "+t.turn.Session
		}
	case exitConfig:
		r.Outcome, r.Code = agent.Failed, "configuration"
	case exitTurns:
		r.Outcome, r.Code = agent.MaxTurns, ""
	case exitTrust:
		r.Outcome, r.Code = agent.Failed, "untrusted"
	case exitStopped:
		r.Outcome = agent.Aborted
	default:
		if !t.failed {
			return r
		}
		for _, status := range statuses {
			if status%256 == exit.Code {
				r.Code = agent.ErrorCode(status)
			}
		}
	}
	if r.Message == "" && r.Outcome == agent.Failed {
		r.Message = lastLine(exit.Stderr)
	}
	return r
}

var color = regexp.MustCompile(`\x1b\[[0-9;]*m`)

// lastLine returns the last non-empty line of a text, without colors.
func lastLine(b []byte) string {
	b = color.ReplaceAll(b, nil)
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	return strings.TrimSpace(lines[len(lines)-1])
}
