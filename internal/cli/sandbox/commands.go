// Package sandbox has the commands for sandboxes: create, run, exec, cp, attach and
// others.
package sandbox

import (
	"github.com/atoll-sandbox/atoll/internal/cli/app"
)

// commands are the commands of this package, which share one app.
type commands struct{ *app.App }

// Commands returns the commands of this group.
func Commands(a *app.App) []app.Entry {
	c := commands{a}
	return []app.Entry{
		{Name: "run", New: c.runCommand},
		{Name: "create", New: c.createCommand},
		{Name: "ls", New: c.lsCommand},
		{Name: "inspect", New: c.inspectCommand},
		{Name: "start", New: c.startCommand},
		{Name: "stop", New: c.stopCommand},
		{Name: "archive", New: c.archiveCommand},
		{Name: "pause", New: c.pauseCommand},
		{Name: "resume", New: c.resumeCommand},
		{Name: "rm", New: c.rmCommand},
		{Name: "top", New: c.topCommand},
		{Name: "exec", New: c.execCommand},
		{Name: "shell", New: c.shellCommand},
		{Name: "cp", New: c.cpCommand},
		{Name: "stats", New: c.statsCommand},
		{Name: "history", New: c.historyCommand},
		{Name: "logs", New: c.logsCommand},
		{Name: "ps", New: c.psCommand},
		{Name: "attach", New: c.attachCommand},
		{Name: "kill", New: c.killCommand},
		{Name: "terminal", New: c.terminalCommand},
		{Name: "fork", New: c.forkCommand},
		{Name: "identity-token", New: c.identityTokenCommand},
		{Name: "export-sandbox", New: c.exportSandboxCommand},
		{Name: "import-sandbox", New: c.importSandboxCommand},
		{Name: "ssh", New: c.sshCommand},
		{Name: "config-ssh", New: c.configSSHCommand},
		{Name: "code", New: c.codeCommand},
	}
}
