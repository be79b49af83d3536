package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/client"
)

func (a *app) rmCommand() *cobra.Command {
	var all, force, discard bool
	var keep string
	cmd := &cobra.Command{
		Use: "rm SANDBOX...", Aliases: []string{"remove", "destroy"},
		Short: "Remove sandboxes and all they hold",
		Long: `Remove sandboxes and all they hold. The work of a project's sandbox is saved in the
repository first, and 'atoll restore' brings it back; where that fails it is not removed,
unless you say --discard.`,
		Args:              needArgs(0, -1, "sandboxes, or --all"),
		ValidArgsFunction: a.complete(-1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if all == (len(args) > 0) {
				return fmt.Errorf("%w: name the sandboxes to remove, or say --all", atoll.ErrInvalid)
			}
			list, err := a.doomed(cmd.Context(), args, force)
			if err != nil {
				return err
			}
			if keep != "" && keep != ownName && len(list) > 1 {
				return fmt.Errorf("%w: --keep-disk=%s: %d disks can't have one name; without a name each gets its sandbox's", atoll.ErrInvalid, keep, len(list))
			}
			var errs []error
			for _, d := range list {
				errs = append(errs, a.remove(cmd.Context(), d, keep, discard))
			}
			return errors.Join(errs...)
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "every sandbox (of --driver, where that is given)")
	cmd.Flags().BoolVarP(&force, "force", "f", false, "one that is not there is no error")
	cmd.Flags().BoolVar(&discard, "discard", false, "do not save the work of a project first: it is lost")
	cmd.Flags().StringVar(&keep, "keep-disk", "", "keep the disk of a machine's working directory, under this `NAME` (default: the sandbox's); see 'atoll disk'")
	cmd.Flags().Lookup("keep-disk").NoOptDefVal = ownName
	return cmd
}

// doomed finds all that is to be removed before anything is.
func (a *app) doomed(ctx context.Context, keys []string, force bool) ([]atoll.Info, error) {
	if len(keys) == 0 {
		all, err := a.sandboxes(ctx, client.Filter{})
		return a.ofDriver(all), err
	}
	var list []atoll.Info
	var errs []error
	for _, key := range keys {
		sb, err := a.open(ctx, key)
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

// ownName is the name of a kept disk that is its sandbox's.
const ownName = "@"

// remove removes a sandbox, but for its disk if that is to be kept under a name,
// after a project's work was saved, unless that may be lost.
func (a *app) remove(ctx context.Context, info atoll.Info, keep string, discard bool) error {
	sb, err := a.link.Sandbox(ctx, info.ID)
	if errors.Is(err, atoll.ErrNotFound) {
		return nil // somebody was faster
	}
	if err != nil {
		return err
	}
	save := a.saved
	if discard {
		save = a.workplaceOf
	}
	w, err := save(ctx, info)
	if err != nil {
		return err
	}
	switch keep {
	case "":
		err = sb.Destroy(ctx)
	case ownName:
		err = atoll.DestroyKeeping(ctx, sb, label(info.Status))
	default:
		err = atoll.DestroyKeeping(ctx, sb, keep)
	}
	if err != nil {
		return err
	}
	if a.home != "" {
		err = errors.Join(a.sshKeys().Forget(info.ID), a.removed(ctx, w))
	}
	if !a.json && err == nil {
		_, err = fmt.Fprintln(a.out, label(info.Status))
	}
	return err
}
