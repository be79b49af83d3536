package browser_test

import (
	"context"
	_ "embed"
	"path"
	"path/filepath"

	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/agent/acp"
	"github.com/atoll-sandbox/atoll/internal/agents/assistant"
	"github.com/atoll-sandbox/atoll/internal/agents/turn"
	"github.com/atoll-sandbox/atoll/internal/api"
)

// agentScript is a program that speaks the Agent Client Protocol, and does what the prompt says.
//
//go:embed agent.mjs
var agentScript []byte

// scriptedAgent runs agentScript with the sandbox's node.
type scriptedAgent struct{ acp.Agent }

// Name returns "scripted".
func (scriptedAgent) Name() string { return "scripted" }

// Plan runs the script in the directory of the turn.
func (a scriptedAgent) Plan(t *agent.Turn, at agent.Environment) (*agent.Plan, error) {
	program := path.Join(at.State, "agent.mjs")
	t.Command = []string{"node", program}
	p, err := a.Agent.Plan(t, at)
	if err == nil {
		p.Files = append(p.Files, agent.File{Path: program, Data: agentScript})
	}
	return p, err
}

// newAgents returns the agents of a server: the scripted one.
func (s *testServer) newAgents() (*api.Agents, error) {
	p, err := assistant.New(assistant.Options{
		Agents: map[string]agent.Agent{"scripted": scriptedAgent{}}, App: func(context.Context) (*assistant.App, error) { return &assistant.App{}, nil },
		Dir: filepath.Join(s.home, "chats"), Ledger: s.fleet.Usage(),
	})
	if err != nil {
		return nil, err
	}
	r, err := turn.Open(turn.Options{Dir: filepath.Join(s.home, "turns"), Settle: p.SettleTurn, Notify: s.fleet.EmitTurn})
	if err != nil {
		return nil, err
	}
	s.turns = r
	return &api.Agents{Pipeline: p, Turns: r}, nil
}
