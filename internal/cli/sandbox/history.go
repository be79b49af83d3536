package sandbox

import (
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/cli/app"
	"github.com/atoll-sandbox/atoll/internal/cli/output"
)

func (a commands) historyCommand() *cobra.Command {
	var last int
	var internal bool
	cmd := &cobra.Command{
		Use:               "history SANDBOX",
		Example:           "  atoll history box",
		Short:             "Show the commands that ran in a sandbox",
		Args:              app.CheckArgCount(1, 1, "one sandbox"),
		ValidArgsFunction: a.CompleteSandboxes(0),
		RunE: func(cmd *cobra.Command, args []string) error {
			sb, err := a.OpenSandbox(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			read := sb.History
			if internal {
				read = sb.FullHistory
			}
			list, err := read(cmd.Context())
			if err != nil {
				return err
			}
			if last > 0 && len(list) > last {
				list = list[len(list)-last:]
			}
			if a.JSON {
				if list == nil {
					list = []atoll.Result{}
				}
				return a.PrintJSON(list)
			}
			rows := [][]string{{"TIME", "TOOK", "STATUS", "COMMAND"}}
			for _, r := range list {
				st := strconv.Itoa(r.ExitCode)
				if r.Error != "" {
					st = r.Error
				}
				rows = append(rows, []string{r.Time.Local().Format("15:04:05"), r.Duration.Round(10 * time.Microsecond).String(), st, output.OneLine(r.Command)})
			}
			return a.PrintTable(rows)
		},
	}
	cmd.Flags().IntVar(&last, "last", 0, "only the newest N")
	cmd.Flags().BoolVar(&internal, "internal", false, "those of atoll itself, too, such as git of a sync")
	return cmd
}
