package agent

import (
	"encoding/json"
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

	// Queue has the turn wait for the end of those before it in its chat, which must be set. Without it, a chat with a turn is
	// ErrState.
	Queue bool `json:"queue,omitempty"`

	// Retries is how often the turn is repeated if the model's API has refused it for a while (429, 500, 503, 529), after the time that
	// the API named. At most 10; 0: it is not.
	Retries int `json:"retries,omitempty"`

	Turn

	// Sandbox is an existing sandbox to work in; it remains. Empty: a new one is
	// created from Config, and removed when the turn has ended.
	Sandbox   string        `json:"sandbox,omitempty"`
	Dir       string        `json:"dir,omitempty"` // of the existing sandbox, absolute, to work in; empty: its own
	Config    *atoll.Config `json:"config,omitempty"`
	Workspace string        `json:"workspace,omitempty"` // empty: the chat's own

	// ClientTools are tools that the client of the server runs: it follows the events, and answers each of type ClientToolCalled with
	// a ToolAnswer.
	ClientTools []ClientTool `json:"client_tools,omitempty"`

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
	RetryOf     string       `json:"retry_of,omitempty"` // the failed turn that this one repeats
	State       string       `json:"state"`              // "queued", "running", "waiting" for a permission or a client's tool, "finished"
	Queued      time.Time    `json:"queued,omitzero"`    // when it began to wait for the turns before it
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

// Delivery is what became of a message to a turn.
type Delivery struct {
	ID     string  `json:"id"`               // of the message
	State  string  `json:"state"`            // "sent": the agent reads it in this turn; "queued": it is the prompt of the next one
	Turn   *Record `json:"turn,omitempty"`   // the queued turn
	Reason string  `json:"reason,omitempty"` // why the agent does not read it in this turn
}

// Answer is the decision about a request for permission.
type Answer struct {
	Permission string `json:"permission"` // id of the request
	Decision
}

// ClientTool is a tool that a client of the server runs itself.
type ClientTool struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Schema      json.RawMessage `json:"schema,omitempty"` // of its input; nil: any object
}

// ToolAnswer is the result of a tool of a client.
type ToolAnswer struct {
	Call   string `json:"call"` // ToolCall.ID of the event
	Text   string `json:"text"`
	Failed bool   `json:"failed,omitempty"` // the tool failed, and Text explains it
}
