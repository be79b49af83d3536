// Package sandbox has the commands for sandboxes: create, run, exec, cp, attach and
// others.
package sandbox

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
		c.runCommand(), c.createCommand(), c.lsCommand(), c.inspectCommand(),
		c.startCommand(), c.stopCommand(), c.pauseCommand(), c.resumeCommand(),
		c.rmCommand(), c.topCommand(), c.execCommand(), c.shellCommand(),
		c.cpCommand(), c.statsCommand(), c.historyCommand(), c.logsCommand(),
		c.psCommand(), c.attachCommand(), c.killCommand(), c.terminalCommand(),
		c.forkCommand(), c.sshCommand(), c.configSSHCommand(),
	}
}
