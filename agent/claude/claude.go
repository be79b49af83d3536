// Package claude runs Claude Code without a terminal: JSON lines in both
// directions, with its control protocol for approvals and interrupts.
//
// Where Turn.Ask is set, a question of the agent to its user is a permission
// request for the tool AskUserQuestion. The Input of the Decision that answers it
// is the request's input with "answers" added, an object from each question to its
// answer.
package claude

import "github.com/atoll-sandbox/atoll/agent"

// Agent is Claude Code.
type Agent struct{}

var _ agent.Agent = Agent{}

// serverName is the name of the host's MCP server in the agent's configuration.
const serverName = "atoll"

// Name returns "claude".
func (Agent) Name() string { return "claude" }

// Features returns what Claude Code can do.
func (Agent) Features() agent.Features {
	return agent.Features{
		Approvals: true,
		Interrupt: true,
		Resume:    true,
		Turns:     true,
		Steer:     true,
		Deltas:    true,
		Usage:     true,
		System:    true,
		Skills:    true,
		Tools:     true,
		Images:    true,
		MaxTurns:  true,
		API:       "anthropic",
		Needs:     []string{"bash"}, // its Bash tool does not work with a plain sh
		Package:   &agent.Package{Name: "@anthropic-ai/claude-code-linux-{arch}", Version: "2.1.329", Program: "claude"},
		Arguments: describeArguments(),
	}
}

// NewConversation returns a conversation in its stream-json format.
func (Agent) NewConversation(t *agent.Turn, _ agent.Environment) agent.Conversation {
	o, err := readOptions(t)
	if err != nil {
		o = &options{} // Plan has returned the error
	}
	return newConversation(t, o)
}
