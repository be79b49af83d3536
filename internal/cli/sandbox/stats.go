package sandbox

import (
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/cli/app"
	"github.com/atoll-sandbox/atoll/internal/cli/output"
)

func (a commands) statsCommand() *cobra.Command {
	return &cobra.Command{
		Use: "stats SANDBOX",
		Example: `  atoll stats box
  atoll stats box --json`,
		Short:             "Display resource usage of a sandbox",
		Args:              app.CheckArgCount(1, 1, "one sandbox"),
		ValidArgsFunction: a.CompleteSandboxes(0),
		RunE: func(cmd *cobra.Command, args []string) error {
			sb, err := a.OpenSandbox(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			st, err := atoll.StatsOf(cmd.Context(), sb)
			if err != nil {
				return err
			}
			if a.JSON {
				return a.PrintJSON(st)
			}
			return a.PrintTable(statsRows(st))
		},
	}
}

func statsRows(s atoll.Stats) [][]string {
	disk := output.FormatBytes(s.DiskUsed)
	if s.DiskLimit > 0 {
		disk += fmt.Sprintf(" of %s (%d%%)", output.FormatBytes(s.DiskLimit), 100*s.DiskUsed/s.DiskLimit)
	}
	return [][]string{
		{"files", strconv.Itoa(s.Files)},
		{"disk", disk},
		{"memory", output.FormatBytes(s.MemoryUsed)},
		{"processes", strconv.Itoa(s.Processes)},
		{"commands", strconv.FormatInt(s.Commands, 10)},
		{"directory", s.Dir},
	}
}
