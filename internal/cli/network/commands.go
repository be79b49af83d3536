// Package network has the commands for networks and ports of sandboxes: network,
// open, port and proxy.
package network

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
		c.portCommand(), c.namesCommand(), c.openCommand(), c.networkCommand(),
	}
}
