// Package agent has the commands for coding agents: agent, acp, assistant, chat,
// skill and turn.
package agent

import (
	"github.com/spf13/cobra"

	"github.com/atoll-sandbox/atoll/internal/cli/app"
)

// commands are the commands of this package, which share one app.
type commands struct{ *app.App }

// Commands returns the commands of this group.
func Commands(a *app.App) []*cobra.Command {
	c := commands{a}
	return []*cobra.Command{
		c.agentCommand(), c.acpCommand(), c.chatCommand(), c.assistantCommand(),
		c.turnCommand(), c.skillCommand(),
	}
}
