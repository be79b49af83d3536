package cli

import (
	"slices"

	"github.com/atoll-sandbox/atoll/internal/cli/app"
	"github.com/spf13/cobra"
)

// formatted are the names of commands that list or inspect, which have --format.
var formatted = []string{"ls", "list", "inspect", "ps", "stats", "status", "history", "show", "drivers", "agents", "quota", "events", "audit", "version"}

// aliases are other names that users type for commands of a name, on all levels.
var aliases = map[string][]string{
	"ls":      {"list"},
	"list":    {"ls"},
	"rm":      {"remove", "delete"},
	"remove":  {"rm", "delete"},
	"inspect": {"info"},
	"cp":      {"copy"},
}

// addCommon adds what commands of one name have in common, to cmd and all commands
// beneath it: aliases and --format.
func addCommon(a *app.App, cmd *cobra.Command) {
	for _, alias := range aliases[cmd.Name()] {
		if !slices.Contains(cmd.Aliases, alias) {
			cmd.Aliases = append(cmd.Aliases, alias)
		}
	}
	if slices.Contains(formatted, cmd.Name()) && !cmd.HasSubCommands() {
		cmd.Flags().StringVar(&a.Format, "format", "", "format each result with a Go `TEMPLATE`, like '{{.Name}}'; \"json\" prints one line of JSON each")
	}
	for _, sub := range cmd.Commands() {
		addCommon(a, sub)
	}
}
