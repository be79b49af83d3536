package server

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/client"
	"github.com/atoll-sandbox/atoll/internal/cli/app"
	"github.com/atoll-sandbox/atoll/internal/cli/output"
)

func (a commands) auditExport() *cobra.Command {
	f := client.AuditFilter{Limit: 1000}
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Print the whole audit log as JSON lines, oldest first",
		Long: `Print the whole audit log as JSON lines, oldest first. With --after it goes on
after the last entry of the export before. Entries are kept for 90 days, and
the newest 100,000 of an owner.`,
		Example: `  atoll audit export --all-owners > audit.jsonl
  atoll audit export --all-owners --after 41234 >> audit.jsonl`,
		Args: app.CheckArgCount(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.Client(cmd.Context())
			if err != nil {
				return err
			}
			return c.ExportAudit(cmd.Context(), f, func(e atoll.Audit) error { return a.PrintJSONLine(e) })
		},
	}
	fl := cmd.Flags()
	fl.Int64Var(&f.After, "after", 0, "only those after this `ID`")
	fl.BoolVar(&f.AllOwners, "all-owners", false, "those of all owners (needs the scope operate)")
	return cmd
}

func (a commands) auditCommand() *cobra.Command {
	f := client.AuditFilter{Limit: 50}
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Show the audit log, newest first",
		Example: `  atoll audit --action exec --limit 10
  atoll audit --json --all-owners`,
		Args: app.CheckArgCount(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.Client(cmd.Context())
			if err != nil {
				return err
			}
			list, err := c.Audit(cmd.Context(), f)
			if err != nil {
				return err
			}
			if a.JSON {
				return a.PrintJSON(output.NonNil(list))
			}
			rows := [][]string{{"TIME", "OWNER", "TOKEN", "ACTION", "OBJECT", "OUTCOME", "TOOK", "DETAIL"}}
			for _, e := range list {
				rows = append(rows, []string{e.Time.Local().Format(time.DateTime), e.Owner.String(), e.Token, e.Action, e.Object, e.Outcome, output.RoundDuration(e.Duration).String(), output.OneLine(e.Detail)})
			}
			return a.PrintTable(rows)
		},
	}
	fl := cmd.Flags()
	fl.IntVar(&f.Limit, "limit", f.Limit, "how many")
	fl.Int64Var(&f.Before, "before", 0, "only those before this id, for the next page")
	fl.StringVar(&f.Action, "action", "", "only this `ACTION`: create, exec, …")
	fl.StringVar(&f.Object, "object", "", "only those about this `OBJECT`")
	fl.BoolVar(&f.AllOwners, "all-owners", false, "those of all owners (needs the scope operate)")
	cmd.AddCommand(a.auditExport())
	return cmd
}
