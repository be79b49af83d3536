// Package server has the commands for servers: serve, mcp, context, login, token,
// quota, events, audit, backup and restore-backup.
package server

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
		c.serveCommand(), c.mcpCommand(), c.contextCommand(), c.loginCommand(),
		c.logoutCommand(), c.tokenCommand(), c.quotaCommand(), c.eventsCommand(),
		c.auditCommand(), c.backupCommand(), c.restoreBackupCommand(),
	}
}
