package server

import (
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/cli/app"
	"github.com/atoll-sandbox/atoll/internal/cli/config"
	"github.com/atoll-sandbox/atoll/internal/cli/output"
)

func (a commands) quotaCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "quota",
		Short:   "Show your quota and usage",
		Example: "  atoll quota\n  atoll quota ls\n  atoll quota set team/ci --sandboxes 20 --memory 8g",
		Args:    app.UnknownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.Client(cmd.Context())
			if err != nil {
				return err
			}
			q, err := c.Quota(cmd.Context())
			if err != nil {
				return err
			}
			if a.JSON {
				return a.PrintJSON(q)
			}
			rows := [][]string{{"", "USED", "LIMIT"}}
			for _, r := range describeAllowance(q) {
				rows = append(rows, r[:])
			}
			return a.PrintTable(rows)
		},
	}
	cmd.AddCommand(a.quotaList(), a.quotaSet())
	return cmd
}

// describeAllowance returns a quota as rows of a name, usage and limit.
func describeAllowance(q atoll.Allowance) [][3]string {
	count := func(n int) string { return strconv.Itoa(n) }
	amount := func(n float64) string { return strconv.FormatFloat(n, 'g', -1, 64) }
	return [][3]string{
		{"sandboxes", count(q.Used.Sandboxes), formatLimit(q.Limit.Sandboxes, count)},
		{"cpu", amount(q.Used.CPU), formatLimit(q.Limit.CPU, amount)},
		{"memory", output.FormatBytes(q.Used.Memory), formatLimit(q.Limit.Memory, output.FormatBytes)},
		{"disk", output.FormatBytes(q.Used.Disk), formatLimit(q.Limit.Disk, output.FormatBytes)},
		{"workspaces", count(q.Used.Workspaces), formatLimit(q.Limit.Workspaces, count)},
		{"processes", count(q.Used.Processes), formatLimit(q.Limit.Processes, count)},
		{"tokens a month", strconv.FormatInt(q.Used.Tokens, 10), formatLimit(q.Limit.Tokens, func(n int64) string { return strconv.FormatInt(n, 10) })},
		{"US dollars a month", strconv.FormatFloat(q.Used.Cost, 'f', 2, 64), formatLimit(q.Limit.Cost, amount)},
	}
}

func (a commands) quotaList() *cobra.Command {
	return &cobra.Command{
		Use:     "ls",
		Short:   "List quotas and usage of all owners (needs the scope operate)",
		Long:    "List the quotas and usage of all owners, as USED/LIMIT.",
		Example: "  atoll quota ls",
		Args:    app.CheckArgCount(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.Client(cmd.Context())
			if err != nil {
				return err
			}
			list, err := c.Quotas(cmd.Context())
			if err != nil {
				return err
			}
			if a.JSON {
				return a.PrintJSON(list)
			}
			rows := [][]string{{"OWNER", "SANDBOXES", "CPU", "MEMORY", "DISK", "WORKSPACES", "PROCESSES", "TOKENS", "DOLLARS"}}
			for _, q := range list {
				row := []string{q.Owner.String()}
				for _, r := range describeAllowance(q) {
					row = append(row, r[1]+"/"+r[2])
				}
				rows = append(rows, row)
			}
			return a.PrintTable(rows)
		},
	}
}

// formatLimit writes a limit; none is "-".
func formatLimit[T int | int64 | float64](n T, text func(T) string) string {
	if n <= 0 {
		return "-"
	}
	return text(n)
}

func (a commands) quotaSet() *cobra.Command {
	var q atoll.Quota
	var memory, disk string
	cmd := &cobra.Command{
		Use:   "set APP/USER",
		Short: "Set the quota of an owner (needs the scope operate)",
		Long: `Set the quota of an owner. Limits without a flag are those of the
configuration; -1 means no limit.`,
		Example: "  atoll quota set team/alice --sandboxes 10 --disk 50g\n  atoll quota set team/alice --cost -1",
		Args:    app.CheckArgCount(1, 1, "one owner"),
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
					if *s.to, err = config.ParseSize(s.text); err != nil {
						return fmt.Errorf("%w: --%s %q: %w", atoll.ErrInvalid, s.flag, s.text, err)
					}
				}
			}
			c, err := a.Client(cmd.Context())
			if err != nil {
				return err
			}
			if err := c.SetQuota(cmd.Context(), o, q); err != nil {
				return err
			}
			return a.PrintChange(app.Change{Action: "set", Kind: "quota", Name: o.String()})
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
	config.MarkOwnFlag(cmd, "memory", "disk")
	return cmd
}
