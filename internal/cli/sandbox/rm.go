package sandbox

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/client"
	"github.com/atoll-sandbox/atoll/internal/cli/app"
	"github.com/atoll-sandbox/atoll/internal/cli/pairing"
)

func (a commands) rmCommand() *cobra.Command {
	var all, force, discard bool
	var keep string
	cmd := &cobra.Command{
		Use: "rm SANDBOX...", Aliases: []string{"remove", "delete", "destroy"},
		Example: "  atoll rm box experiment",
		Short:   "Remove sandboxes and their files",
		Long: `Remove sandboxes and their files. The work of a project's sandbox is saved in
the repository first; 'atoll restore' restores it. If it cannot be saved, the
sandbox is not removed, unless --discard is given.`,
		Args:              app.CheckArgCount(0, -1, "sandboxes, or --all"),
		ValidArgsFunction: a.CompleteSandboxes(-1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if all == (len(args) > 0) {
				return fmt.Errorf("%w: name the sandboxes to remove, or say --all", atoll.ErrInvalid)
			}
			list, err := a.findToRemove(cmd.Context(), args, force)
			if err != nil {
				return err
			}
			if keep != "" && keep != pairing.ExactName && len(list) > 1 {
				return fmt.Errorf("%w: --keep-disk=%s: %d disks can't have one name; without a name each gets its sandbox's", atoll.ErrInvalid, keep, len(list))
			}
			var errs []error
			for _, d := range list {
				err := pairing.RemoveSandbox(cmd.Context(), a.App, d, keep, discard)
				if err == nil {
					err = a.PrintChange(app.Change{Action: "removed", Kind: "sandbox", ID: d.ID, Name: d.Name})
				}
				errs = append(errs, err)
			}
			return errors.Join(errs...)
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "every sandbox (of --driver, where that is given)")
	cmd.Flags().BoolVarP(&force, "force", "f", false, "ignore sandboxes that do not exist")
	cmd.Flags().BoolVar(&discard, "discard", false, "do not save the work of a project first; it is lost")
	cmd.Flags().StringVar(&keep, "keep-disk", "", "keep the disk of a machine's working directory, under this `NAME` (default: the sandbox's); see 'atoll disk'")
	cmd.Flags().Lookup("keep-disk").NoOptDefVal = pairing.ExactName
	return cmd
}

// findToRemove finds all that is to be removed before anything is.
func (a commands) findToRemove(ctx context.Context, keys []string, force bool) ([]atoll.Info, error) {
	if len(keys) == 0 {
		all, err := a.ListSandboxes(ctx, client.Filter{})
		return a.ofDriver(all), err
	}
	var list []atoll.Info
	var errs []error
	for _, key := range keys {
		sb, err := a.OpenSandbox(ctx, key)
		if force && errors.Is(err, atoll.ErrNotFound) {
			continue
		}
		if err == nil {
			var info atoll.Info
			info, err = sb.Info(ctx)
			list = append(list, info)
		}
		errs = append(errs, err)
	}
	return list, errors.Join(errs...)
}
