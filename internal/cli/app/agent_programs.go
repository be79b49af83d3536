package app

import (
	"path/filepath"

	"github.com/atoll-sandbox/atoll/internal/agents/assistant"
)

// AgentPrograms are the agents' programs on this host.
func (a *App) AgentPrograms() *assistant.Programs {
	return &assistant.Programs{Dir: filepath.Join(a.Home, "agents")}
}
