// Package agent has the commands for coding agents: agent, acp, assistant, chat,
// skill and turn.
package agent

import (
	"github.com/atoll-sandbox/atoll/internal/cli/app"
)

// commands are the commands of this package, which share one app.
type commands struct{ *app.App }

// Commands returns the commands of this group.
func Commands(a *app.App) []app.Entry {
	c := commands{a}
	return []app.Entry{
		{Name: "agent", New: c.agentCommand},
		{Name: "acp", New: c.acpCommand},
		{Name: "chat", New: c.chatCommand},
		{Name: "assistant", New: c.assistantCommand},
		{Name: "turn", New: c.turnCommand},
		{Name: "skill", New: c.skillCommand},
	}
}
