// Package server has the commands for servers: serve, mcp, context, login, token,
// quota, events, webhook, audit, backup and restore-backup.
package server

import (
	"github.com/atoll-sandbox/atoll/internal/cli/app"
)

// commands are the commands of this package, which share one app.
type commands struct{ *app.App }

// Commands returns the commands of this group.
func Commands(a *app.App) []app.Entry {
	c := commands{a}
	return []app.Entry{
		{Name: "serve", New: c.serveCommand},
		{Name: "ui", New: c.uiCommand},
		{Name: "mcp", New: c.mcpCommand},
		{Name: "context", New: c.contextCommand},
		{Name: "login", New: c.loginCommand},
		{Name: "logout", New: c.logoutCommand},
		{Name: "token", New: c.tokenCommand},
		{Name: "quota", New: c.quotaCommand},
		{Name: "events", New: c.eventsCommand},
		{Name: "webhook", New: c.webhookCommand},
		{Name: "audit", New: c.auditCommand},
		{Name: "backup", New: c.backupCommand},
		{Name: "restore-backup", New: c.restoreBackupCommand},
	}
}
