// Package project has the commands for projects, which are git repositories in
// sandboxes: up, down, status, sync, merge and others.
package project

import (
	"github.com/atoll-sandbox/atoll/internal/cli/app"
)

// commands are the commands of this package, which share one app.
type commands struct{ *app.App }

// Commands returns the commands of this group.
func Commands(a *app.App) []app.Entry {
	c := commands{a}
	return []app.Entry{
		{Name: "up", New: c.upCommand},
		{Name: "down", New: c.downCommand},
		{Name: "status", New: c.statusCommand},
		{Name: "init", New: c.initCommand},
		{Name: "sync", New: c.syncCommand},
		{Name: "update", New: c.updateCommand},
		{Name: "diff", New: c.diffCommand},
		{Name: "log", New: c.logCommand},
		{Name: "merge", New: c.mergeCommand},
		{Name: "apply", New: c.applyCommand},
		{Name: "pr", New: c.pullRequestCommand},
		{Name: "restore", New: c.restoreCommand},
		{Name: "worktree", New: c.worktreeCommand},
		{Name: "agents", New: c.agentsCommand},
		{Name: "review", New: c.reviewCommand},
		{Name: "git-remote", New: c.gitRemoteCommand},
	}
}
