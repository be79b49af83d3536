package main

import (
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/atoll-sandbox/atoll"
)

func (a *app) quotaCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "quota",
		Short:   "Show what you may have, and what of it you use",
		Example: "  atoll quota\n  atoll quota set team/ci --sandboxes 20 --memory 8g",
		Args:    noSuchCommand,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client(cmd.Context())
			if err != nil {
				return err
			}
			q, err := c.Quota(cmd.Context())
			if err != nil {
				return err
			}
			if a.json {
				return a.print(q)
			}
			count := func(n int) string { return strconv.Itoa(n) }
			amount := func(n float64) string { return strconv.FormatFloat(n, 'g', -1, 64) }
			return a.table([][]string{
				{"", "USED", "LIMIT"},
				{"sandboxes", count(q.Used.Sandboxes), limit(q.Limit.Sandboxes, count)},
				{"cpu", amount(q.Used.CPU), limit(q.Limit.CPU, amount)},
				{"memory", bytesText(q.Used.Memory), limit(q.Limit.Memory, bytesText)},
				{"disk", bytesText(q.Used.Disk), limit(q.Limit.Disk, bytesText)},
				{"workspaces", count(q.Used.Workspaces), limit(q.Limit.Workspaces, count)},
				{"processes", count(q.Used.Processes), limit(q.Limit.Processes, count)},
				{"tokens a month", strconv.FormatInt(q.Used.Tokens, 10), limit(q.Limit.Tokens, func(n int64) string { return strconv.FormatInt(n, 10) })},
				{"US dollars a month", strconv.FormatFloat(q.Used.Cost, 'f', 2, 64), limit(q.Limit.Cost, amount)},
			})
		},
	}
	cmd.AddCommand(a.quotaSet())
	return cmd
}

// limit writes a limit; none is "-".
func limit[T int | int64 | float64](n T, text func(T) string) string {
	if n <= 0 {
		return "-"
	}
	return text(n)
}

func (a *app) quotaSet() *cobra.Command {
	var q atoll.Quota
	var memory, disk string
	cmd := &cobra.Command{
		Use:   "set APP/USER",
		Short: "Give an owner a quota of his own (needs the scope admin)",
		Long: `Give an owner a quota of his own. What no flag names is as the server's
configuration has it; -1 means no limit.`,
		Args: needArgs(1, 1, "one owner"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o, err := atoll.ParseOwner(args[0])
			if err != nil {
				return err
			}
			for _, s := range []struct {
				flag, text string
				to         *int64
			}{{"memory", memory, &q.Memory}, {"disk", disk, &q.Disk}} {
				switch s.text {
				case "":
				case "-1":
					*s.to = -1
				default:
					if *s.to, err = parseSize(s.text); err != nil {
						return fmt.Errorf("%w: --%s %q: %w", atoll.ErrInvalid, s.flag, s.text, err)
					}
				}
			}
			c, err := a.client(cmd.Context())
			if err != nil {
				return err
			}
			return c.SetQuota(cmd.Context(), o, q)
		},
	}
	fl := cmd.Flags()
	fl.IntVar(&q.Sandboxes, "sandboxes", 0, "sandboxes at once")
	fl.Float64Var(&q.CPU, "cpu", 0, "processors of the limits of running sandboxes")
	fl.StringVar(&memory, "memory", "", "memory likewise, a `SIZE` like 8g")
	fl.StringVar(&disk, "disk", "", "disk of all sandboxes and workspaces, a `SIZE`")
	fl.IntVar(&q.Workspaces, "workspaces", 0, "workspaces")
	fl.IntVar(&q.Processes, "processes", 0, "commands under way")
	fl.Int64Var(&q.Tokens, "tokens", 0, "tokens that models read and write in a month")
	fl.Float64Var(&q.Cost, "cost", 0, "US dollars for models in a month")
	own(cmd, "memory", "disk")
	return cmd
}
