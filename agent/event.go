package agent

import (
	"encoding/json"
	"time"
)

// Type is what an event tells of.
type Type string

// The types of events. The words are those of the Agent Client Protocol where
// it has them.
const (
	Started             Type = "started"              // Event.Started; first, again only if the agent begins anew
	TextDelta           Type = "text.delta"           // Event.Text
	TextDone            Type = "text"                 // Event.Text: all of a block whose deltas may have come before
	ThoughtDelta        Type = "thought.delta"        // Event.Text
	ThoughtDone         Type = "thought"              // Event.Text
	ToolStarted         Type = "tool.started"         // Event.Tool
	ToolUpdated         Type = "tool.updated"         // Event.Tool, what is new in it
	ToolFinished        Type = "tool.finished"        // Event.Tool, with Status
	PermissionRequested Type = "permission.requested" // Event.Permission
	PermissionResolved  Type = "permission.resolved"  // Event.Permission
	PermissionDenied    Type = "permission.denied"    // Event.Tool: the agent itself did not let it pass
	ToolWanted          Type = "tool.wanted"          // Event.Tool: of the client that asked for the turn, who does it and says what came of it
	PlanChanged         Type = "plan"                 // Event.Plan
	UsageTold           Type = "usage"                // Event.Usage: what came since the last
	Retrying            Type = "retry"                // Event.Retry
	Warning             Type = "warning"              // Event.Text
	Raw                 Type = "raw"                  // Event.Raw: not understood, passed on
	Finished            Type = "finished"             // Event.Result; exactly one, the last
)

// Event is something that happened in a turn. What does not belong to its Type
// is zero.
type Event struct {
	Seq     int64     `json:"seq"` // from 1, without gaps
	Time    time.Time `json:"time"`
	Turn    string    `json:"turn"`
	Session string    `json:"session,omitempty"`
	Parent  string    `json:"parent,omitempty"` // the tool call whose subagent it is of
	Type    Type      `json:"type"`

	Text       string          `json:"text,omitempty"`
	Started    *Start          `json:"started,omitempty"`
	Tool       *ToolCall       `json:"tool,omitempty"`
	Permission *Permission     `json:"permission,omitempty"`
	Plan       []PlanEntry     `json:"plan,omitempty"`
	Usage      *Usage          `json:"usage,omitempty"`
	Retry      *Retry          `json:"retry,omitempty"`
	Result     *Result         `json:"result,omitempty"`
	Raw        json.RawMessage `json:"raw,omitempty"` // a JSON string where the line was not JSON
}

// Start is what an agent says of itself when it begins.
type Start struct {
	Agent   string      `json:"agent"`
	Version string      `json:"version,omitempty"`
	Model   string      `json:"model,omitempty"`
	Tools   []string    `json:"tools,omitempty"`
	Skills  []string    `json:"skills,omitempty"`
	MCP     []MCPServer `json:"mcp,omitempty"`
}

// MCPServer is one that an agent has connected to, or tried.
type MCPServer struct {
	Name   string `json:"name"`
	Status string `json:"status"` // "connected", "failed"…
}

// Kind is what a tool does, in a word.
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
	Name      string          `json:"name,omitempty"` // as the agent calls it
	Kind      Kind            `json:"kind,omitempty"`
	Title     string          `json:"title,omitempty"` // a line for people: "npm test", "main.go"
	Input     json.RawMessage `json:"input,omitempty"`
	Locations []string        `json:"locations,omitempty"` // files, as the agent names them
	Status    Status          `json:"status,omitempty"`
	Output    string          `json:"output,omitempty"`
	Diffs     []Diff          `json:"diffs,omitempty"`
	Exit      *int            `json:"exit,omitempty"` // status of a command
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

// Diff is a change to a file. An Old that is nil: the file is new.
type Diff struct {
	Path string  `json:"path"`
	Old  *string `json:"old,omitempty"`
	New  string  `json:"new"`
}

// Permission is a request to use a tool, or the answer to it.
type Permission struct {
	ID       string    `json:"id"`
	Tool     ToolCall  `json:"tool"`
	Deadline time.Time `json:"deadline,omitzero"` // when it is denied if nobody answers
	Decision *Decision `json:"decision,omitempty"`
	By       string    `json:"by,omitempty"` // who decided: "policy", "deadline", a caller
}

// PlanEntry is a step of the agent's own plan.
type PlanEntry struct {
	Text   string `json:"text"`
	Status string `json:"status"` // "pending", "in_progress", "completed"
}

// Retry is a request to the model that is tried again.
type Retry struct {
	Attempt int           `json:"attempt"`
	Status  int           `json:"status,omitempty"` // of HTTP
	Delay   time.Duration `json:"delay,omitempty"`  // nanoseconds
	Message string        `json:"message,omitempty"`
}
