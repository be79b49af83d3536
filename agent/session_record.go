package agent

import (
	"time"

	"github.com/atoll-sandbox/atoll"
)

// The states of a session on a server.
const (
	SessionStarting        = "starting"         // a turn prepares its sandbox
	SessionWorking         = "working"          // the agent, or the model, works
	SessionWaitingApproval = "waiting_approval" // a request for permission is open
	SessionWaitingInput    = "waiting_input"    // the agent waits for the result of a client's tool
	SessionIdle            = "idle"             // the next turn of the chat resumes the conversation
	SessionEnded           = "ended"            // the agent can't resume it: the next turn begins another
)

// SessionStates are the states of a session, for checks of filters.
var SessionStates = []string{SessionStarting, SessionWorking, SessionWaitingApproval, SessionWaitingInput, SessionIdle, SessionEnded} //nolint:gochecknoglobals // it does not change

// SessionRecord is the state of the conversation of a chat on a server. It is written before its changes are
// told to clients, and outlives the server.
type SessionRecord struct {
	ID        string      `json:"id"` // of the chat
	Owner     atoll.Owner `json:"owner"`
	Agent     string      `json:"agent,omitempty"` // empty: a model is called directly
	Assistant string      `json:"assistant,omitempty"`
	Connector string      `json:"connector,omitempty"`
	Model     string      `json:"model,omitempty"`
	Sandbox   string      `json:"sandbox,omitempty"` // of the running turn
	Workspace string      `json:"workspace,omitempty"`

	Labels map[string]string `json:"labels,omitempty"` // of the last request

	// Session is the agent's own id of the conversation, as soon as the agent has reported it.
	Session string `json:"session,omitempty"`

	State       string       `json:"state"` // SessionStarting…
	Turn        string       `json:"turn"`  // the running turn, or the last one
	Turns       int          `json:"turns"` // that have started
	TurnUsage   Usage        `json:"turn_usage,omitzero"`
	Usage       Usage        `json:"usage,omitzero"`        // of all turns, as the model endpoint counted it
	Answer      ModelAnswer  `json:"answer,omitzero"`       // of the model's API, the last one in the turn
	Permissions []Permission `json:"permissions,omitempty"` // open requests

	Outcome Outcome `json:"outcome,omitempty"` // of the last turn; empty: it runs
	Code    string  `json:"code,omitempty"`    // cause of its failure
	Message string  `json:"message,omitempty"`

	Text string `json:"text,omitempty"` // the agent's last message, its first 2,000 bytes

	Started time.Time `json:"started"` // of the first turn
	Updated time.Time `json:"updated"`
}

// ChatMessage is a message of a stored conversation.
type ChatMessage struct {
	Role string `json:"role"` // "user" or "assistant"
	Text string `json:"text"`
}
