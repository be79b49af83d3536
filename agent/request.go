package agent

import (
	"time"

	"github.com/atoll-sandbox/atoll"
)

// Request asks a server for a turn. One of Agent and Assistant is set.
type Request struct {
	Agent     string `json:"agent,omitempty"`     // "claude"
	Assistant string `json:"assistant,omitempty"` // one that the server has
	Connector string `json:"connector,omitempty"` // to the model; empty: the assistant's, or the server's default

	// Chat is the conversation that the turn belongs to: its workspace and the
	// agent's session are those of the turns before. Empty: a new one.
	Chat string `json:"chat,omitempty"`

	Turn

	// Sandbox is one to work in, which stays. Empty: one is made, as Config
	// says, and removed when the turn has ended.
	Sandbox   string        `json:"sandbox,omitempty"`
	Config    *atoll.Config `json:"config,omitempty"`
	Workspace string        `json:"workspace,omitempty"` // empty: the chat's own

	Budget  Budget        `json:"budget,omitzero"`
	Timeout time.Duration `json:"timeout,omitempty"` // nanoseconds; 0: the server's
}

// Budget bounds what may be asked of models. 0 means no bound.
type Budget struct {
	Requests int64         `json:"requests,omitempty"`
	Input    int64         `json:"input,omitempty"`  // tokens, those of the cache too
	Output   int64         `json:"output,omitempty"` // tokens
	Tokens   int64         `json:"tokens,omitempty"` // both
	Cost     float64       `json:"cost,omitempty"`   // US dollars; models without a price are then refused
	Time     time.Duration `json:"time,omitempty"`   // nanoseconds since the first request
}

// Record is a turn as a server knows it.
type Record struct {
	ID          string       `json:"id"`
	Owner       atoll.Owner  `json:"owner"`
	Agent       string       `json:"agent,omitempty"`
	Assistant   string       `json:"assistant,omitempty"`
	Chat        string       `json:"chat,omitempty"`
	Sandbox     string       `json:"sandbox,omitempty"`
	Workspace   string       `json:"workspace,omitempty"`
	State       string       `json:"state"` // "running", "waiting" for a permission or a client's tool, "finished"
	Started     time.Time    `json:"started"`
	Ended       time.Time    `json:"ended,omitzero"`
	Events      int64        `json:"events"`                // Seq of the last
	Permissions []Permission `json:"permissions,omitempty"` // that nobody has decided yet
	Result      *Result      `json:"result,omitempty"`
}

// Info is an agent as a server has it.
type Info struct {
	Name     string   `json:"name"`
	Features Features `json:"features"`
	Version  string   `json:"version,omitempty"` // of its program, if it is installed for sandboxes; else the sandbox must have one
}

// AssistantInfo is an assistant as a server has it.
type AssistantInfo struct {
	ID          string   `json:"id"`
	Name        string   `json:"name,omitempty"`
	Description string   `json:"description,omitempty"`
	Agent       string   `json:"agent,omitempty"` // empty: its model is asked directly
	Connector   string   `json:"connector,omitempty"`
	Model       string   `json:"model,omitempty"`
	Skills      []string `json:"skills,omitempty"`
	Tools       []string `json:"tools,omitempty"` // servers, or SERVER.TOOL
	Hooks       []string `json:"hooks,omitempty"`
	Created     int64    `json:"created,omitempty"` // seconds since 1970: when its directory was last changed
}

// Answer decides about a request for permission.
type Answer struct {
	Permission string `json:"permission"` // its id
	Decision
}
