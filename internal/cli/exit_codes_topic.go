package cli

import (
	"github.com/atoll-sandbox/atoll/internal/cli/exitcode"
	"github.com/spf13/cobra"
)

// exitCodesTopic returns the help topic 'atoll help exit-codes'.
func exitCodesTopic() *cobra.Command {
	return &cobra.Command{
		Use:   "exit-codes",
		Short: "Exit statuses of atoll",
		Long:  exitcode.Help,
	}
}
