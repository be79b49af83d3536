// Package about has the commands about atoll itself: config, demo, doctor, drivers,
// setup and version.
package about

import (
	"github.com/atoll-sandbox/atoll/internal/cli/app"
)

// commands are the commands of this package, which share one app.
type commands struct{ *app.App }

// Commands returns the commands of this group.
func Commands(a *app.App) []app.Entry {
	c := commands{a}
	return []app.Entry{
		{Name: "drivers", New: c.driversCommand},
		{Name: "doctor", New: c.doctorCommand},
		{Name: "setup", New: c.setupCommand},
		{Name: "demo", New: c.demoCommand},
		{Name: "config", New: c.configCommand},
		{Name: "version", New: c.versionCommand},
	}
}
