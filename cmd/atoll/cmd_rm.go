package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/atoll-sandbox/atoll"
)

func (a *app) rmCommand() *cobra.Command {
	var all, force bool
	cmd := &cobra.Command{
		Use: "rm SANDBOX...", Aliases: []string{"remove", "destroy"},
		Short:             "Remove sandboxes and all they hold",
		Args:              needArgs(0, -1, "sandboxes, or --all"),
		ValidArgsFunction: a.complete(0),
		RunE: func(cmd *cobra.Command, args []string) error {
			if all == (len(args) > 0) {
				return fmt.Errorf("%w: name the sandboxes to remove, or say --all", atoll.ErrInvalid)
			}
			list, err := a.doomed(cmd.Context(), args, force)
			if err != nil {
				return err
			}
			var errs []error
			for _, p := range list {
				errs = append(errs, a.remove(cmd.Context(), p))
			}
			return errors.Join(errs...)
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "every sandbox (of --driver, where that is given)")
	cmd.Flags().BoolVarP(&force, "force", "f", false, "one that is not there is no error")
	return cmd
}

// doomed finds all that is to be removed before anything is.
func (a *app) doomed(ctx context.Context, keys []string, force bool) ([]place, error) {
	if len(keys) == 0 {
		return a.every(ctx)
	}
	var list []place
	var errs []error
	for _, key := range keys {
		p, err := a.find(ctx, key)
		if force && errors.Is(err, atoll.ErrNotFound) {
			continue
		}
		errs = append(errs, err)
		list = append(list, p)
	}
	return list, errors.Join(errs...)
}

func (a *app) remove(ctx context.Context, p place) error {
	sb, err := p.driver.Open(ctx, p.status.ID)
	if errors.Is(err, atoll.ErrNotFound) {
		return nil // somebody was faster
	}
	if err != nil {
		return err
	}
	if err := sb.Destroy(ctx); err != nil {
		return err
	}
	if !a.json {
		_, err = fmt.Fprintln(a.out, label(p.status))
	}
	return err
}
