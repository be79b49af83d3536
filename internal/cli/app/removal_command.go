package app

import (
	"context"
	"errors"

	"github.com/spf13/cobra"
)

// RemovalCommand makes cmd remove what its arguments name, all that it can, and offer
// what there is.
func (a *App) RemovalCommand(cmd *cobra.Command, known func(context.Context, *Connection) ([]string, error), remove func(context.Context, *Connection, string) error) *cobra.Command {
	cmd.ValidArgsFunction = a.CompleteFrom(-1, func(ctx context.Context) ([]string, error) {
		c, err := a.Client(ctx)
		if err != nil {
			return nil, err
		}
		return known(ctx, c)
	})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := a.Client(cmd.Context())
		if err != nil {
			return err
		}
		var errs []error
		for _, key := range args {
			err := remove(cmd.Context(), c, key)
			if err == nil {
				err = a.PrintChange(Change{Action: "removed", Kind: cmd.Parent().Name(), Name: key})
			}
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	}
	return cmd
}
