// Package acp runs agents that speak the Agent Client Protocol, version 1, on
// their standard streams: whatever command a turn names, and, as a [Talk], the
// agents that have it as one of their ways to talk.
//
// The protocol knows no system prompt and no skills: both are said before the
// first prompt of a session. The agent may use its own tools in the sandbox;
// the client's files and terminals, which the protocol would let it ask for,
// are not offered, as those of the sandbox are at hand.
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

// Features says what the protocol can do; what the command can do of it is
// known when it runs.
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

// Plan runs the turn's command. Variables that most agents and SDKs know lead
// it to the model endpoint, in whichever dialect it asks.
func (a Agent) Plan(t *agent.Turn, at agent.Site) (*agent.Plan, error) {
	if len(t.Command) == 0 {
		return nil, fmt.Errorf("agent acp: %w: it runs the command of a turn, and there is none", atoll.ErrInvalid)
	}
	if _, err := options(t); err != nil {
		return nil, fmt.Errorf("agent acp: %w", err)
	}
	if t.Schema != nil {
		return nil, fmt.Errorf("agent acp: %w: a schema of the answer", atoll.ErrUnsupported)
	}
	files, err := agent.Place(t.Skills, path.Join(at.State, "skills"))
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

// Talk speaks the protocol.
func (a Agent) Talk(t *agent.Turn, at agent.Site) agent.Talk {
	o, _ := options(t) // Plan has told what is wrong
	o.Name, o.Model, o.System = "acp", t.Model, System(t, path.Join(at.State, "skills"))
	return NewTalk(t, at, o)
}

// Wanted reports that a turn goes by the protocol, of an agent that does so with
// Turn.Ask, or with the argument "acp".
func Wanted(t *agent.Turn) bool {
	var on bool
	return t.Argument("acp", &on) == nil && (on || t.Ask)
}

// options reads the turn's arguments.
func options(t *agent.Turn) (Options, error) {
	var o Options
	return o, errors.Join(t.Check(Agent{}.Features()), t.Argument("auth", &o.Auth), t.Argument("mode", &o.Mode))
}
