// Package about has the commands about atoll itself: config, demo, doctor, drivers
// and version.
package about

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
		c.driversCommand(), c.doctorCommand(), c.demoCommand(), c.configCommand(),
		c.versionCommand(),
	}
}
