package agent

import (
	"encoding/json"
	"time"
)

// Type is the type of an event.
type Type string

// The types of events. The words are those of the Agent Client Protocol where
// it has them.
const (
	Started             Type = "started"              // Event.Started; the first event, repeated only if the agent restarts
	TextDelta           Type = "text.delta"           // Event.Text
	TextDone            Type = "text"                 // Event.Text: a whole block; its deltas may have come before
	ThoughtDelta        Type = "thought.delta"        // Event.Text
	ThoughtDone         Type = "thought"              // Event.Text
	ToolStarted         Type = "tool.started"         // Event.Tool
	ToolUpdated         Type = "tool.updated"         // Event.Tool with the changed fields
	ToolFinished        Type = "tool.finished"        // Event.Tool, with Status
	PermissionRequested Type = "permission.requested" // Event.Permission
	PermissionResolved  Type = "permission.resolved"  // Event.Permission
	PermissionDenied    Type = "permission.denied"    // Event.Tool: the agent itself denied it
	ClientToolCalled    Type = "tool.wanted"          // Event.Tool: a tool of the client that requested the turn; the client runs it and sends the result
	PlanChanged         Type = "plan"                 // Event.Plan
	UsageReported       Type = "usage"                // Event.Usage since the last such event
	Retrying            Type = "retry"                // Event.Retry
	MessageChanged      Type = "message"              // Event.Message, and with its State sent Event.Text
	Warning             Type = "warning"              // Event.Text
	Raw                 Type = "raw"                  // Event.Raw: output that was not understood
	Dropped             Type = "dropped"              // Event.Text: events that the log of a server does not have; those who follow the turn live get them
	Finished            Type = "finished"             // Event.Result; exactly one, the last
)

// Event is something that happened in a turn. Fields that do not belong to its
// Type are zero.
type Event struct {
	Seq        int64           `json:"seq"` // from 1, without gaps but those that a Dropped event explains
	Time       time.Time       `json:"time"`
	Turn       string          `json:"turn"`
	Session    string          `json:"session,omitempty"`
	Parent     string          `json:"parent,omitempty"` // the tool call that started the subagent; empty: the agent itself
	Type       Type            `json:"type"`
	Text       string          `json:"text,omitempty"`
	Started    *Start          `json:"started,omitempty"`
	Tool       *ToolCall       `json:"tool,omitempty"`
	Permission *Permission     `json:"permission,omitempty"`
	Plan       []PlanEntry     `json:"plan,omitempty"`
	Usage      *Usage          `json:"usage,omitempty"`
	Retry      *Retry          `json:"retry,omitempty"`
	Message    *Message        `json:"message,omitempty"`
	Result     *Result         `json:"result,omitempty"`
	Raw        json.RawMessage `json:"raw,omitempty"` // a JSON string where the line was not JSON
}

// Start is an agent's description of itself when it starts.
type Start struct {
	Agent   string      `json:"agent"`
	Version string      `json:"version,omitempty"`
	Model   string      `json:"model,omitempty"`
	Tools   []string    `json:"tools,omitempty"`
	Skills  []string    `json:"skills,omitempty"`
	MCP     []MCPServer `json:"mcp,omitempty"`
}

// MCPServer is an MCP server that an agent has connected to, or tried to.
type MCPServer struct {
	Name   string `json:"name"`
	Status string `json:"status"` // "connected", "failed"…
}

// Kind is the category of a tool.
type Kind string

// The kinds.
const (
	Read    Kind = "read"
	Edit    Kind = "edit"
	Delete  Kind = "delete"
	Move    Kind = "move"
	Search  Kind = "search"
	Execute Kind = "execute"
	Think   Kind = "think"
	Fetch   Kind = "fetch"
	MCP     Kind = "mcp"
	Other   Kind = "other"
)

// ToolCall is a use of a tool.
type ToolCall struct {
	ID        string          `json:"id"`
	Name      string          `json:"name,omitempty"` // in the agent's naming
	Kind      Kind            `json:"kind,omitempty"`
	Title     string          `json:"title,omitempty"` // one line for display: "npm test", "main.go"
	Input     json.RawMessage `json:"input,omitempty"`
	Locations []string        `json:"locations,omitempty"` // files, as the agent names them
	Status    Status          `json:"status,omitempty"`
	Output    string          `json:"output,omitempty"`
	Diffs     []Diff          `json:"diffs,omitempty"`
	Exit      *int            `json:"exit,omitempty"` // exit status of a command
	Reason    string          `json:"reason,omitempty"`
}

// Status is how a tool call ended.
type Status string

// The statuses.
const (
	Completed  Status = "completed"
	ToolFailed Status = "failed"
	Denied     Status = "denied"
)

// Diff is a change to a file. A nil Old means that the file is new.
type Diff struct {
	Path string  `json:"path"`
	Old  *string `json:"old,omitempty"`
	New  string  `json:"new"`
}

// Permission is a request to use a tool, or the answer to it.
type Permission struct {
	ID       string    `json:"id"`
	Tool     ToolCall  `json:"tool"`
	Deadline time.Time `json:"deadline,omitzero"` // time at which it is denied without an answer
	Decision *Decision `json:"decision,omitempty"`
	By       string    `json:"by,omitempty"` // what decided: "policy", "deadline", "caller", "agent"…
}

// PlanEntry is a step of the agent's own plan.
type PlanEntry struct {
	Text   string `json:"text"`
	Status string `json:"status"` // "pending", "in_progress", "completed"
}

// Retry is a request to the model that is repeated.
type Retry struct {
	Attempt int           `json:"attempt"`
	Status  int           `json:"status,omitempty"` // HTTP status of the failed request
	Delay   time.Duration `json:"delay,omitempty"`  // nanoseconds
	Message string        `json:"message,omitempty"`
}
