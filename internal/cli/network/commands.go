// Package network has the commands for networks and ports of sandboxes: network,
// open, port and proxy.
package network

import (
	"github.com/atoll-sandbox/atoll/internal/cli/app"
)

// commands are the commands of this package, which share one app.
type commands struct{ *app.App }

// Commands returns the commands of this group.
func Commands(a *app.App) []app.Entry {
	c := commands{a}
	return []app.Entry{
		{Name: "port", New: c.portCommand},
		{Name: "proxy", New: c.namesCommand},
		{Name: "open", New: c.openCommand},
		{Name: "network", New: c.networkCommand},
	}
}
