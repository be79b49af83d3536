package sandbox

import (
	"github.com/spf13/cobra"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/cli/app"
	"github.com/atoll-sandbox/atoll/internal/cli/sandboxflag"
)

func (a commands) forkCommand() *cobra.Command {
	var f sandboxflag.Flags
	var from string
	cmd := &cobra.Command{
		Use:   "fork SANDBOX [flags]",
		Short: "Create a copy of a sandbox",
		Long: `Create a sandbox that is a copy of another one, as it is now or as it was at a
snapshot. Flags override settings of the copy. Its name is printed on stdout.`,
		Example:           "  atoll fork box --name experiment\n  atoll fork box --from before-upgrade",
		Args:              app.CheckArgCount(1, 1, "one sandbox"),
		ValidArgsFunction: a.CompleteSandboxes(0),
		RunE: func(cmd *cobra.Command, args []string) error {
			sb, err := a.OpenSandbox(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			spec, err := f.Spec(a.Config.FlagsOnly(), a.HasVMs(cmd.Context()))
			if err != nil {
				return err
			}
			var fork atoll.Sandbox
			err = app.TryNames(spec.Name, func(name string) error {
				spec.Name = name
				fork, err = atoll.Fork(cmd.Context(), sb, from, spec)
				return err
			})
			if err != nil {
				return err
			}
			second, err := a.OpenSandbox(cmd.Context(), fork.ID())
			if err != nil {
				return err
			}
			return a.printSandbox(cmd.Context(), second)
		},
	}
	f.AddResources(cmd)
	cmd.Flags().StringVar(&from, "from", "", "snapshot to start from, by name or id")
	return cmd
}
