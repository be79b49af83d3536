package agent

import (
	"encoding/json"
	"io/fs"
	"time"
)

// Turn is one request to an agent.
type Turn struct {
	ID string `json:"id,omitempty"` // empty: one is made

	Prompt []Content `json:"prompt"`
	System string    `json:"system,omitempty"` // added to the agent's own
	Model  string    `json:"model,omitempty"`  // empty: the agent's default

	// Session is the agent's own session to go on with, as Result.Session of an
	// earlier turn named it. One that is not there (any more) makes the Result
	// Failed, with the Code "session_not_found". Empty: a new one.
	Session string `json:"session,omitempty"`

	Ask      bool `json:"ask,omitempty"`       // ask before tools are used; else the walls are the limit
	MaxTurns int  `json:"max_turns,omitempty"` // requests to the model; 0: no limit

	// Schema, when not nil, is a JSON schema that Result.Structured follows,
	// with agents that can.
	Schema json.RawMessage `json:"schema,omitempty"`

	// Trust lets the agent follow what the workspace says of it: settings,
	// hooks, skills, MCP servers of the project. Without it the project is
	// material, not configuration.
	Trust bool `json:"trust,omitempty"`

	// Arguments are the agent's own, of an allow-list that Features.Arguments
	// has. Values are as JSON has them.
	Arguments map[string]any `json:"arguments,omitempty"`

	Command []string `json:"command,omitempty"` // in place of the agent's own program and, for ACP and command, its arguments
	Env     []string `json:"env,omitempty"`     // "K=V", besides the sandbox's

	Skills []Skill `json:"-"`
}

// Content is a part of a prompt: one of Text and Data is set.
type Content struct {
	Text string `json:"text,omitempty"`

	Name string `json:"name,omitempty"` // of a file
	Type string `json:"type,omitempty"` // its media type
	Data []byte `json:"data,omitempty"`

	Path string `json:"path,omitempty"` // where it was placed inside; set by Run
}

// Text returns a prompt that is only text.
func Text(s string) []Content { return []Content{{Text: s}} }

// Skill is a directory in the Agent Skills format.
type Skill struct {
	Name  string
	Files fs.FS // with SKILL.md in its root
}

// Outcome says how a turn ended.
type Outcome string

// The outcomes.
const (
	OK       Outcome = "ok"
	Failed   Outcome = "error"     // the agent says so: its model can't be had, it went wrong
	MaxTurns Outcome = "max_turns" // Turn.MaxTurns or the agent's own
	Spent    Outcome = "budget"    // a Budget is used up
	Refused  Outcome = "refused"   // the model would not
	Aborted  Outcome = "aborted"   // interrupted, or its context ended
	Timeout  Outcome = "timeout"   // of the turn, or nothing came for too long
	Crashed  Outcome = "crashed"   // the process ended without a result
)

// Result is how a turn ended.
type Result struct {
	Outcome    Outcome         `json:"outcome"`
	Text       string          `json:"text,omitempty"`       // the agent's last word
	Structured json.RawMessage `json:"structured,omitempty"` // that follows Turn.Schema
	Code       string          `json:"code,omitempty"`       // of the failure, a word: "authentication", "rate_limit", "overloaded", "invalid_request", "not_found", "max_output"…
	Message    string          `json:"message,omitempty"`    // of the failure, a line for people
	Session    string          `json:"session,omitempty"`    // to go on with
	Denials    []ToolCall      `json:"denials,omitempty"`    // tools that were not permitted
	Usage      Usage           `json:"usage,omitzero"`
	Turns      int             `json:"turns,omitempty"` // requests to the model
	Exit       *int            `json:"exit,omitempty"`  // status of the process, once it has ended
	Stderr     string          `json:"stderr,omitempty"`
	Duration   time.Duration   `json:"duration"` // nanoseconds
}

// Usage is what a turn used, as the agent tells it, or as it was counted.
type Usage struct {
	Model      string  `json:"model,omitempty"`
	Input      int64   `json:"input"`                 // tokens, those of the cache not among them
	Output     int64   `json:"output"`                // tokens
	CacheRead  int64   `json:"cache_read,omitempty"`  // tokens
	CacheWrite int64   `json:"cache_write,omitempty"` // tokens
	Requests   int64   `json:"requests,omitempty"`    // to the model
	Cost       float64 `json:"cost,omitempty"`        // US dollars
	Counted    bool    `json:"counted,omitempty"`     // by the model endpoint, not told by the agent
}

// Add returns the sum.
func (u Usage) Add(v Usage) Usage {
	if u.Model == "" {
		u.Model = v.Model
	}
	u.Input += v.Input
	u.Output += v.Output
	u.CacheRead += v.CacheRead
	u.CacheWrite += v.CacheWrite
	u.Requests += v.Requests
	u.Cost += v.Cost
	u.Counted = u.Counted || v.Counted
	return u
}
