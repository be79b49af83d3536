package about

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/atoll-sandbox/atoll/internal/cli/app"
)

func (a commands) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:         "version",
		Short:       "Show the version",
		Annotations: app.AnyConfig,
		Args:        app.CheckArgCount(0, 0, "no arguments"),
		RunE: func(*cobra.Command, []string) error {
			v := app.BuildVersion()
			if a.JSON {
				return a.PrintJSON(v)
			}
			_, err := fmt.Fprintln(a.Out, v)
			return err
		},
	}
}
