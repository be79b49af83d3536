package about

import (
	"github.com/spf13/cobra"

	"github.com/atoll-sandbox/atoll/internal/cli/app"
	"github.com/atoll-sandbox/atoll/internal/cli/demo"
)

func (a commands) demoCommand() *cobra.Command {
	var from string
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Demonstrate a sandbox on the files of a directory",
		Long: `Demonstrate a sandbox: copy the files of a directory into a new sandbox, work
on them, break them, restore a snapshot, fork the sandbox, and remove
everything. The directory itself is only read. Steps that the driver does not
support are skipped.`,
		Example: "  atoll demo\n  atoll demo --driver kubernetes --from docs",
		Args:    app.CheckArgCount(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			d, err := a.Driver()
			if err != nil {
				return err
			}
			if m, ok := a.InMemory(d); ok {
				d = m
			}
			choose := ""
			if name := d.Name(); name != a.FirstDriver() {
				choose = " --driver " + name
			}
			return demo.Demo{Driver: d, From: from, Out: a.Out, JSON: a.JSON, Flag: choose}.Run(cmd.Context())
		},
	}
	cmd.Flags().StringVar(&from, "from", ".", "directory to take the files from")
	return cmd
}
