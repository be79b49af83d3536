package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// Turn is one request to an agent.
type Turn struct {
	ID string `json:"id,omitempty"` // empty: a new one is made

	Prompt []Content `json:"prompt"`
	System string    `json:"system,omitempty"` // added to the agent's own system prompt
	Model  string    `json:"model,omitempty"`  // empty: the agent's default

	// Session is the agent's own session to resume: the Result.Session of an
	// earlier turn. If it does not exist, the Result is Failed with the Code
	// "session_not_found". Empty: a new session.
	Session string `json:"session,omitempty"`

	Ask      bool `json:"ask,omitempty"`       // request permission before tools are used; else only the sandbox limits the agent
	MaxTurns int  `json:"max_turns,omitempty"` // requests to the model; 0: no limit

	// Schema, when not nil, is a JSON schema that Result.Structured follows,
	// with agents that support it.
	Schema json.RawMessage `json:"schema,omitempty"`

	// Trust lets the agent follow the workspace's configuration: settings, hooks,
	// skills and MCP servers of the project. Without it the project's files are
	// data, not configuration.
	Trust bool `json:"trust,omitempty"`

	// Arguments are options of the agent, from the allow-list in
	// Features.Arguments. Values are decoded JSON.
	Arguments map[string]any `json:"arguments,omitempty"`

	Command []string `json:"command,omitempty"` // replaces the agent's program and, for ACP and command, its arguments
	Env     []string `json:"env,omitempty"`     // "K=V", added to the sandbox's

	Skills []Skill `json:"-"`
}

// Content is a part of a prompt: one of Text and Data is set.
type Content struct {
	Text string `json:"text,omitempty"`

	Name string `json:"name,omitempty"` // name of the file
	Type string `json:"type,omitempty"` // media type of the file
	Data []byte `json:"data,omitempty"`

	Path string `json:"path,omitempty"` // where the file was placed inside; set by Run
}

// Text returns a prompt that is only text.
func Text(s string) []Content { return []Content{{Text: s}} }

// Skill is a directory in the Agent Skills format.
type Skill struct {
	Name  string
	Files fs.FS // with SKILL.md in its root
}

// Outcome is the kind of a turn's end.
type Outcome string

// The outcomes.
const (
	OK             Outcome = "ok"
	Failed         Outcome = "error"     // reported by the agent: its model is not available, or an error occurred
	MaxTurns       Outcome = "max_turns" // limit of Turn.MaxTurns, or the agent's own
	BudgetExceeded Outcome = "budget"    // a Budget is used up
	Refused        Outcome = "refused"   // the model refused
	Aborted        Outcome = "aborted"   // interrupted, or its context ended
	Timeout        Outcome = "timeout"   // the turn took too long, or the agent was idle for too long
	Crashed        Outcome = "crashed"   // the process ended without a result
)

// Result is how a turn ended.
type Result struct {
	Outcome    Outcome         `json:"outcome"`
	Text       string          `json:"text,omitempty"`        // the agent's last message
	Structured json.RawMessage `json:"structured,omitempty"`  // the answer that follows Turn.Schema
	Code       string          `json:"code,omitempty"`        // machine-readable cause of a failure: "authentication", "rate_limit", "overloaded", "invalid_request", "not_found", "max_output"…
	Message    string          `json:"message,omitempty"`     // one line for display about a failure
	Status     int             `json:"status,omitempty"`      // HTTP status of the model's API that caused a failure; 0: another cause
	RetryAfter int             `json:"retry_after,omitempty"` // seconds after which the API may be asked again; 0: unknown
	Session    string          `json:"session,omitempty"`     // id with which the next turn resumes the session
	Denials    []ToolCall      `json:"denials,omitempty"`     // tool calls that were not permitted
	Usage      Usage           `json:"usage,omitzero"`
	Turns      int             `json:"turns,omitempty"` // requests to the model
	Exit       *int            `json:"exit,omitempty"`  // exit status of the process, once it has ended
	Stderr     string          `json:"stderr,omitempty"`
	Duration   time.Duration   `json:"duration"` // nanoseconds
}

// Usage is what a turn used, as the agent reports it or the model endpoint counts it.
type Usage struct {
	Model      string  `json:"model,omitempty"`
	Input      int64   `json:"input"`                 // tokens, without those read from and written to the cache
	Output     int64   `json:"output"`                // tokens
	CacheRead  int64   `json:"cache_read,omitempty"`  // tokens
	CacheWrite int64   `json:"cache_write,omitempty"` // tokens
	Requests   int64   `json:"requests,omitempty"`    // to the model
	Cost       float64 `json:"cost,omitempty"`        // US dollars
	Counted    bool    `json:"counted,omitempty"`     // by the model endpoint, not reported by the agent
}

// Add returns the sum of u and v. The model is u's, or v's if u has none.
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

// PlainText returns a prompt as text: its texts, and for each file a line with the
// path where it was placed.
func PlainText(prompt []Content) string {
	var parts []string
	for _, p := range prompt {
		switch {
		case p.Path != "":
			parts = append(parts, p.attachmentNote())
		case len(p.Data) > 0:
			parts = append(parts, fmt.Sprintf("[File that could not be attached: %s]", p.Name))
		case p.Text != "":
			parts = append(parts, p.Text)
		}
	}
	return strings.Join(parts, "\n\n")
}

// attachmentNote returns a line with the path, type and size of a file.
func (c Content) attachmentNote() string {
	about := fmt.Sprintf("%d bytes", len(c.Data))
	if c.Type != "" {
		about = c.Type + ", " + about
	}
	return fmt.Sprintf("[Attached file: %s (%s)]", c.Path, about)
}

// CheckFeatures returns an error that names everything in the turn that an agent
// with the features f can't do.
func (t *Turn) CheckFeatures(f Features) error {
	var errs []error
	if len(t.Prompt) == 0 {
		errs = append(errs, fmt.Errorf("%w: no prompt", atoll.ErrInvalid))
	}
	for _, name := range slices.Sorted(maps.Keys(t.Arguments)) {
		if _, ok := f.Arguments[name]; !ok {
			errs = append(errs, fmt.Errorf("%w: unknown argument %q; known are: %s", atoll.ErrInvalid, name, listArguments(f.Arguments)))
		}
	}
	if t.Ask && !f.Approvals {
		errs = append(errs, fmt.Errorf("%w: it can't request permission before it uses tools", atoll.ErrUnsupported))
	}
	if t.Session != "" && !f.Resume {
		errs = append(errs, fmt.Errorf("%w: it can't resume sessions", atoll.ErrUnsupported))
	}
	if t.System != "" && !f.System {
		errs = append(errs, fmt.Errorf("%w: it has no system prompt", atoll.ErrUnsupported))
	}
	if t.MaxTurns > 0 && !f.MaxTurns {
		errs = append(errs, fmt.Errorf("%w: it can't limit its turns: limit the requests of its budget", atoll.ErrUnsupported))
	}
	if len(t.Skills) > 0 && !f.Skills {
		errs = append(errs, fmt.Errorf("%w: it does not support skills", atoll.ErrUnsupported))
	}
	return errors.Join(errs...)
}

// listArguments returns the names of the arguments for an error message.
func listArguments(all map[string]string) string {
	if len(all) == 0 {
		return "none"
	}
	return strings.Join(slices.Sorted(maps.Keys(all)), ", ")
}

// DecodeArgument decodes an argument of the turn into v, a pointer. Without the
// argument, v is unchanged.
func (t *Turn) DecodeArgument(name string, v any) error {
	value, ok := t.Arguments[name]
	if !ok {
		return nil
	}
	b, err := json.Marshal(value)
	if err == nil {
		err = json.Unmarshal(b, v)
	}
	if err != nil {
		return fmt.Errorf("%w: argument %s: %w", atoll.ErrInvalid, name, err)
	}
	return nil
}
