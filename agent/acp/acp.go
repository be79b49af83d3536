// Package acp runs agents that speak the Agent Client Protocol, version 1, on
// their standard streams: the command that a turn names, and, through a
// [Conversation], agents that have it as one of their protocols.
//
// The protocol has no system prompt and no skills: both are sent before the first
// prompt of a session. The agent may use its own tools in the sandbox; the
// protocol's client files and terminals are not offered, since those of the
// sandbox are available.
package acp

import (
	"errors"
	"fmt"
	"path"
	"slices"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
)

// Agent is any command that speaks the protocol: Turn.Command.
type Agent struct{}

var _ agent.Agent = Agent{}

// Name returns "acp".
func (Agent) Name() string { return "acp" }

// Features returns what the protocol can do; the command's own abilities are
// known only when it runs.
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
		API:       "openai",
		Arguments: map[string]string{
			"auth": "the agent's method of authentication to choose, if it asks for one",
			"mode": "the agent's session mode to choose",
		},
	}
}

// Plan runs the turn's command. It sets the variables that most agents and SDKs
// read to the model endpoint, for each dialect.
func (a Agent) Plan(t *agent.Turn, at agent.Environment) (*agent.Plan, error) {
	if len(t.Command) == 0 {
		return nil, fmt.Errorf("agent acp: %w: the turn has no command", atoll.ErrInvalid)
	}
	if _, err := readOptions(t); err != nil {
		return nil, fmt.Errorf("agent acp: %w", err)
	}
	if t.Schema != nil {
		return nil, fmt.Errorf("agent acp: %w: a JSON schema for the answer", atoll.ErrUnsupported)
	}
	files, err := agent.SkillFiles(t.Skills, path.Join(at.State, "skills"))
	if err != nil {
		return nil, fmt.Errorf("agent acp: %w", err)
	}
	env := []string{"HOME=" + at.State}
	if at.Model != "" {
		env = append(env,
			"ANTHROPIC_BASE_URL="+at.Model, "ANTHROPIC_API_KEY=none",
			"OPENAI_BASE_URL="+at.Model+"/v1", "OPENAI_API_KEY=none",
			"GOOGLE_GEMINI_BASE_URL="+at.Model, "GEMINI_API_KEY=none",
		)
	}
	return &agent.Plan{Files: files, Args: slices.Clone(t.Command), Env: append(env, t.Env...)}, nil
}

// NewConversation returns a conversation in the protocol.
func (a Agent) NewConversation(t *agent.Turn, at agent.Environment) agent.Conversation {
	o, _ := readOptions(t) // Plan has returned the error
	o.Name, o.Model, o.System = "acp", t.Model, SystemPrompt(t, path.Join(at.State, "skills"))
	return NewConversation(t, at, o)
}

// IsRequested reports whether a turn uses the protocol, for agents that use it with
// Turn.Ask or with the argument "acp".
func IsRequested(t *agent.Turn) bool {
	var on bool
	return t.DecodeArgument("acp", &on) == nil && (on || t.Ask)
}

// readOptions decodes the turn's arguments.
func readOptions(t *agent.Turn) (Options, error) {
	var o Options
	return o, errors.Join(t.CheckFeatures(Agent{}.Features()), t.DecodeArgument("auth", &o.Auth), t.DecodeArgument("mode", &o.Mode))
}
