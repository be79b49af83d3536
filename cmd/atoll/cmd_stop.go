package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/atoll-sandbox/atoll"
)

// exitStopFailed is the exit status of a stop that did not succeed.
const exitStopFailed = 2

func (a *app) stopCommand() *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use:   "stop SANDBOX...",
		Short: "End what runs in sandboxes and keep their files",
		Long: `End what runs in sandboxes and keep their files. The work of a project's sandbox is saved
in the repository first; 'atoll restore' brings it back.

The exit status is 0, 1 without such a sandbox, 2 if it failed.`,
		Args:              needArgs(1, -1, "sandboxes"),
		ValidArgsFunction: a.complete(-1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var errs []error
			for _, key := range args {
				err := a.stop(cmd.Context(), key, force)
				code := exitStopFailed
				if errors.Is(err, atoll.ErrNotFound) {
					code = exitNotFound
				}
				errs = append(errs, exits(code, err))
			}
			return errors.Join(errs...)
		},
	}
	cmd.Flags().BoolVarP(&force, "force", "f", false, "do not save the work of a project first")
	return cmd
}

func (a *app) startCommand() *cobra.Command {
	var fresh bool
	cmd := a.switchCommand("start", "Start stopped sandboxes", func(ctx context.Context, sb atoll.Sandbox) error {
		if fresh {
			return atoll.Fresh(ctx, sb)
		}
		return atoll.Start(ctx, sb)
	})
	cmd.Flags().BoolVar(&fresh, "fresh", false, "discard what is on their disks: they start as they were made (driver microvm)")
	return cmd
}

func (a *app) pauseCommand() *cobra.Command {
	return a.switchCommand("pause", "Freeze what runs in sandboxes", atoll.Pause)
}

func (a *app) resumeCommand() *cobra.Command {
	return a.switchCommand("resume", "Let paused sandboxes go on", atoll.Resume)
}

func (a *app) switchCommand(verb, short string, do func(context.Context, atoll.Sandbox) error) *cobra.Command {
	return &cobra.Command{
		Use:               verb + " SANDBOX...",
		Short:             short,
		Args:              needArgs(1, -1, "sandboxes"),
		ValidArgsFunction: a.complete(-1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var errs []error
			for _, key := range args {
				sb, err := a.open(cmd.Context(), key)
				if err == nil {
					err = do(cmd.Context(), sb)
				}
				errs = append(errs, err)
			}
			return errors.Join(errs...)
		},
	}
}
