// Package storage has the commands for what outlives sandboxes or restores them:
// snapshot, workspace, disk, image and pool.
package storage

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
		c.snapshotCommand(), c.workspaceCommand(), c.diskCommand(), c.imageCommand(),
		c.poolCommand(),
	}
}
