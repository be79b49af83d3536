package about

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/atoll-sandbox/atoll/internal/cli/app"
	"github.com/atoll-sandbox/atoll/internal/cli/version"
)

func (a commands) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version",
		Example: `  atoll version
  atoll version --json`,
		Short:       "Show the version",
		Annotations: app.AnyConfig,
		Args:        app.CheckArgCount(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			v := version.Build()
			if cmd.Flags().Changed("json") || a.Format != "" { // the small program, which reads no configuration, prints the same
				return a.PrintJSON(v)
			}
			_, err := fmt.Fprintln(a.Out, v)
			return err
		},
	}
}
