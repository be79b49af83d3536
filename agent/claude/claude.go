// Package claude runs Claude Code without a terminal: JSON lines in both
// directions, with its control protocol for approvals and interrupts.
//
// Where Turn.Ask is set, a question of the agent to its user is a request for
// the tool AskUserQuestion. The Input of a Decision that answers it is what was
// asked for with "answers" added, an object from each question to its answer.
package claude

import "github.com/atoll-sandbox/atoll/agent"

// Agent is Claude Code.
type Agent struct{}

var _ agent.Agent = Agent{}

// server is the name that the agent knows the host's tools by.
const server = "atoll"

// Name returns "claude".
func (Agent) Name() string { return "claude" }

// Features says what it can do.
func (Agent) Features() agent.Features {
	return agent.Features{
		Approvals: true,
		Interrupt: true,
		Resume:    true,
		Turns:     true,
		Deltas:    true,
		Usage:     true,
		System:    true,
		Skills:    true,
		Tools:     true,
		Images:    true,
		MaxTurns:  true,
		API:       "anthropic",
		Needs:     []string{"bash"}, // its tool that runs commands takes no plain sh
		Package:   &agent.Package{Name: "@anthropic-ai/claude-code-linux-{arch}", Version: "2.1.329", Program: "claude"},
		Arguments: arguments(),
	}
}

// Talk speaks its JSON lines.
func (Agent) Talk(t *agent.Turn, _ agent.Site) agent.Talk {
	o, err := read(t)
	if err != nil {
		o = &options{} // Plan has told what is wrong
	}
	return newTalk(t, o)
}
