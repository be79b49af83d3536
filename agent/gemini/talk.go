package gemini

import (
	"encoding/json"
	"regexp"
	"strings"

	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/agent/once"
	"github.com/atoll-sandbox/atoll/internal/lenient"
)

// talk reads the lines of the CLI.
type talk struct {
	once.Talk

	turn   *agent.Turn
	failed bool
	result agent.Result
}

// line is one of the CLI; its members depend on its type.
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
		Input  int64                      `json:"input"` // not of the cache
		Cached int64                      `json:"cached"`
		Output int64                      `json:"output_tokens"`
		Models map[string]json.RawMessage `json:"models"`
	} `json:"stats"`
}

// Line takes a line.
func (t *talk) Line(x agent.Exchange, text []byte) {
	var l line
	if !lenient.Decode(text, &l) {
		t.Raw(x, text)
		return
	}
	switch {
	case l.Type == "init":
		t.Session = l.Session
		t.Start(x, l.Model)
	case l.Type == "message" && l.Role == "user":
	case l.Type == "message":
		t.hear(x, l)
	case l.Type == "tool_use" && t.Fresh(l.ID):
		t.begin(x, l)
	case l.Type == "tool_result" && t.Under(l.ID):
		t.end(x, l)
	case l.Type == "error" && l.Message != "":
		t.Hush(x)
		t.Emit(x, agent.Event{Type: agent.Warning, Text: l.Message})
	case l.Type == "result":
		t.finish(x, l)
	default:
		t.Raw(x, text)
	}
}

// hear takes a piece of the agent's text, or all of it.
func (t *talk) hear(x agent.Exchange, l line) {
	if l.Content == "" {
		return
	}
	if !l.Delta {
		t.Hush(x)
		t.Block(x, l.Content)
		return
	}
	t.Piece(x, l.Content)
}

// begin tells of a use of a tool.
func (t *talk) begin(x agent.Exchange, l line) {
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
	lenient.Decode(l.Input, &in)
	c := &agent.ToolCall{ID: l.ID, Name: l.Name, Kind: kindOf(l.Name), Input: l.Input}
	for _, title := range []string{in.Command, in.File, in.Pattern, in.Path, in.Dir, in.Query, in.Prompt, in.Name, l.Name} {
		if c.Title == "" {
			c.Title = title
		}
	}
	if in.File != "" {
		c.Locations = []string{in.File}
	}
	t.Call(x, c)
}

// end tells what came of a use of a tool.
func (t *talk) end(x agent.Exchange, l line) {
	t.Ended(x, l.ID, func(c *agent.ToolCall) {
		c.Output, c.Status = l.Output, agent.Completed
		if l.Status != "success" {
			c.Status, c.Reason = agent.ToolFailed, l.Error.Message
		}
	})
}

// finish takes the result.
func (t *talk) finish(x agent.Exchange, l line) {
	t.Close(x)
	r := agent.Result{Outcome: agent.OK, Text: t.Last}
	if l.Status != "success" {
		t.failed = true
		r.Outcome, r.Code, r.Message = agent.Failed, "agent", l.Error.Message
	}
	if s := l.Stats; s != nil && !t.Over {
		r.Usage = agent.Usage{Input: s.Input, Output: s.Output, CacheRead: s.Cached}
		if len(s.Models) == 1 {
			for name := range s.Models {
				r.Usage.Model = name
			}
		}
		u := r.Usage
		t.Emit(x, agent.Event{Type: agent.UsageTold, Usage: &u})
	}
	t.result, t.Over = r, true
}

// The statuses that the CLI gives a meaning of its own.
const (
	exitAuth    = 41
	exitInput   = 42
	exitConfig  = 52
	exitTurns   = 53
	exitTrust   = 55
	exitStopped = 130
)

// statuses of HTTP that the CLI exits with, of which only the last eight bits
// are left.
var statuses = []int{400, 401, 402, 403, 404, 408, 413, 422, 429, 500, 502, 503, 504, 529}

// Result returns how the turn ended. Why it failed is told by the exit status.
func (t *talk) Result(exit *agent.Exit) agent.Result {
	r := t.result
	r.Session = t.Session
	if exit == nil || exit.Code == 0 || t.Over && !t.failed {
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
				r.Code = agent.Code(status)
			}
		}
	}
	if r.Message == "" && r.Outcome == agent.Failed {
		r.Message = lastLine(exit.Stderr)
	}
	return r
}

var color = regexp.MustCompile(`\x1b\[[0-9;]*m`)

// lastLine returns the last line of a text that says something.
func lastLine(b []byte) string {
	b = color.ReplaceAll(b, nil)
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	return strings.TrimSpace(lines[len(lines)-1])
}
