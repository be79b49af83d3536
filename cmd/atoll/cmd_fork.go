package main

import (
	"github.com/spf13/cobra"

	"github.com/atoll-sandbox/atoll"
)

func (a *app) forkCommand() *cobra.Command {
	var f specFlags
	var from string
	cmd := &cobra.Command{
		Use:   "fork SANDBOX [flags]",
		Short: "Make a second sandbox that starts as one is now",
		Long: `Make a second sandbox that starts as one is now, or was at a snapshot. The
flags change what the second one has of its own. Its name is printed on stdout.`,
		Example:           "  atoll fork box --name experiment\n  atoll fork box --from before-upgrade",
		Args:              needArgs(1, 1, "one sandbox"),
		ValidArgsFunction: a.complete(0),
		RunE: func(cmd *cobra.Command, args []string) error {
			sb, err := a.open(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			spec, err := f.spec(a.config.flagsOnly())
			if err != nil {
				return err
			}
			var fork atoll.Sandbox
			err = named(spec.Name, func(name string) error {
				spec.Name = name
				fork, err = atoll.Fork(cmd.Context(), sb, from, spec)
				return err
			})
			if err != nil {
				return err
			}
			second, err := a.open(cmd.Context(), fork.ID())
			if err != nil {
				return err
			}
			return a.show(cmd.Context(), second)
		},
	}
	f.addOwn(cmd)
	cmd.Flags().StringVar(&from, "from", "", "snapshot to start from, by name or id")
	return cmd
}
