package agent

import (
	"time"

	"github.com/atoll-sandbox/atoll"
)

// Request is a request to a server for a turn. One of Agent and Assistant is set.
type Request struct {
	Agent     string `json:"agent,omitempty"`     // "claude"
	Assistant string `json:"assistant,omitempty"` // an assistant of the server
	Connector string `json:"connector,omitempty"` // connector to the model; empty: the assistant's, or the server's default

	// Chat is the conversation that the turn belongs to. It has the workspace and
	// the agent's session of the earlier turns. Empty: a new one.
	Chat string `json:"chat,omitempty"`

	Turn

	// Sandbox is an existing sandbox to work in; it remains. Empty: a new one is
	// created from Config, and removed when the turn has ended.
	Sandbox   string        `json:"sandbox,omitempty"`
	Dir       string        `json:"dir,omitempty"` // of the existing sandbox, absolute, to work in; empty: its own
	Config    *atoll.Config `json:"config,omitempty"`
	Workspace string        `json:"workspace,omitempty"` // empty: the chat's own

	// Labels are stored with the session of the chat, for those who list sessions.
	Labels map[string]string `json:"labels,omitempty"`

	Budget  Budget        `json:"budget,omitzero"`
	Timeout time.Duration `json:"timeout,omitempty"` // nanoseconds; 0: the server's
}

// Budget limits the requests to models. 0 means no limit.
type Budget struct {
	Requests int64         `json:"requests,omitempty"`
	Input    int64         `json:"input,omitempty"`  // tokens, including those of the cache
	Output   int64         `json:"output,omitempty"` // tokens
	Tokens   int64         `json:"tokens,omitempty"` // input and output
	Cost     float64       `json:"cost,omitempty"`   // US dollars; models without a price are then refused
	Time     time.Duration `json:"time,omitempty"`   // nanoseconds since the first request
}

// Record is the state of a turn on a server.
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
	Events      int64        `json:"events"`                // Seq of the last event
	Permissions []Permission `json:"permissions,omitempty"` // undecided requests
	Result      *Result      `json:"result,omitempty"`
}

// Info describes an agent of a server.
type Info struct {
	Name     string   `json:"name"`
	Features Features `json:"features"`
	Version  string   `json:"version,omitempty"` // version of the program that is installed for sandboxes; empty: the sandbox must have one
}

// AssistantInfo describes an assistant of a server.
type AssistantInfo struct {
	ID          string   `json:"id"`
	Name        string   `json:"name,omitempty"`
	Description string   `json:"description,omitempty"`
	Agent       string   `json:"agent,omitempty"` // empty: its model is called directly
	Connector   string   `json:"connector,omitempty"`
	Model       string   `json:"model,omitempty"`
	Skills      []string `json:"skills,omitempty"`
	Tools       []string `json:"tools,omitempty"` // SERVER or SERVER.TOOL
	Hooks       []string `json:"hooks,omitempty"`
	Problem     string   `json:"problem,omitempty"` // why it is not what its files describe: a former version serves, or skills are missing
	Created     int64    `json:"created,omitempty"` // time of the last change of its directory, in seconds since 1970
}

// Answer is the decision about a request for permission.
type Answer struct {
	Permission string `json:"permission"` // id of the request
	Decision
}
