// Package storage has the commands for what outlives sandboxes or restores them:
// snapshot, workspace, disk, image and pool.
package storage

import (
	"github.com/atoll-sandbox/atoll/internal/cli/app"
)

// commands are the commands of this package, which share one app.
type commands struct{ *app.App }

// Commands returns the commands of this group.
func Commands(a *app.App) []app.Entry {
	c := commands{a}
	return []app.Entry{
		{Name: "snapshot", New: c.snapshotCommand},
		{Name: "workspace", New: c.workspaceCommand},
		{Name: "disk", New: c.diskCommand},
		{Name: "image", New: c.imageCommand},
		{Name: "pool", New: c.poolCommand},
	}
}
