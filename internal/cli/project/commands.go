// Package project has the commands for projects, which are git repositories in
// sandboxes: up, down, status, sync, merge and others.
package project

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
		c.upCommand(), c.downCommand(), c.statusCommand(), c.initCommand(),
		c.syncCommand(), c.diffCommand(), c.logCommand(), c.mergeCommand(),
		c.applyCommand(), c.restoreCommand(), c.worktreeCommand(), c.gitRemoteCommand(),
	}
}
