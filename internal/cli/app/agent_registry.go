package app

import (
	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/agent/acp"
	"github.com/atoll-sandbox/atoll/agent/claude"
	"github.com/atoll-sandbox/atoll/agent/codex"
	"github.com/atoll-sandbox/atoll/agent/command"
	"github.com/atoll-sandbox/atoll/agent/cursor"
	"github.com/atoll-sandbox/atoll/agent/gemini"
	"github.com/atoll-sandbox/atoll/agent/opencode"
)

// ListAgents is the whole registry of agents, by name.
func ListAgents() map[string]agent.Agent {
	all := make(map[string]agent.Agent)
	for _, a := range []agent.Agent{acp.Agent{}, claude.Agent{}, codex.Agent{}, command.Agent{}, cursor.Agent{}, gemini.Agent{}, opencode.Agent{}} {
		all[a.Name()] = a
	}
	return all
}
