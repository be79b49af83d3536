package main

import (
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/atoll-sandbox/atoll"
)

func (a *app) historyCommand() *cobra.Command {
	var last int
	cmd := &cobra.Command{
		Use:               "history SANDBOX",
		Short:             "Show the commands that ran in a sandbox",
		Args:              needArgs(1, 1, "one sandbox"),
		ValidArgsFunction: a.complete(0),
		RunE: func(cmd *cobra.Command, args []string) error {
			sb, err := a.open(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			list, err := atoll.History(cmd.Context(), sb)
			if err != nil {
				return err
			}
			if last > 0 && len(list) > last {
				list = list[len(list)-last:]
			}
			if a.json {
				if list == nil {
					list = []atoll.Result{}
				}
				return a.print(list)
			}
			rows := [][]string{{"TIME", "TOOK", "STATUS", "COMMAND"}}
			for _, r := range list {
				st := strconv.Itoa(r.ExitCode)
				if r.Error != "" {
					st = r.Error
				}
				rows = append(rows, []string{r.Time.Local().Format("15:04:05"), r.Duration.Round(10 * time.Microsecond).String(), st, oneLine(r.Command)})
			}
			return a.table(rows)
		},
	}
	cmd.Flags().IntVar(&last, "last", 0, "only the newest N")
	return cmd
}

// oneLine is the beginning of a text, on one line.
func oneLine(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > 100 {
		s = string(r[:99]) + "…"
	}
	return s
}
