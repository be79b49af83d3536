package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/project"
)

// Exit statuses of 'atoll down'.
const (
	exitNoProject  = 1
	exitDownFailed = 2
)

// downFlags say how a project's sandbox ends.
type downFlags struct {
	force, sync, rm bool
	keep            string
}

func (a *app) downCommand() *cobra.Command {
	var f downFlags
	cmd := &cobra.Command{
		Use:   "down [NAME]",
		Short: "End the work in a project's sandbox: save it, and stop the sandbox",
		Long: `End the work in a project's sandbox. First all that git has in it is saved in your
repository, beneath refs/sandbox/NAME/rescue ('atoll restore' brings it back), then the
sandbox is stopped; its files stay, and 'atoll up' goes on with them. With --rm it is
removed.

Without NAME it is the sandbox of the directory that you are in. The exit status is 0,
1 without such a sandbox, 2 if it could not be ended, or its work not be saved.`,
		Example:           "  atoll down\n  atoll down --sync\n  atoll down web --rm",
		Args:              needArgs(0, 1, "at most the name of a sandbox"),
		ValidArgsFunction: a.completeProjects(0),
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.keep != "" && !f.rm {
				return fmt.Errorf("%w: --keep-disk is for --rm: without it, all disks are kept", atoll.ErrInvalid)
			}
			ctx := cmd.Context()
			name := ""
			if len(args) > 0 {
				name = args[0]
			}
			w, err := a.project(ctx, name)
			if errors.Is(err, atoll.ErrNotFound) {
				return exits(exitNoProject, err)
			}
			if err != nil {
				return err
			}
			return exits(exitDownFailed, a.down(ctx, w, f))
		},
	}
	cmd.Flags().BoolVarP(&f.sync, "sync", "s", false, "bring the work home first, as 'atoll sync' does")
	cmd.Flags().BoolVar(&f.rm, "rm", false, "remove the sandbox, and all that git does not have in it")
	cmd.Flags().StringVar(&f.keep, "keep-disk", "", "with --rm, keep the disk of a machine's working directory, under this `NAME` (default: the sandbox's)")
	cmd.Flags().Lookup("keep-disk").NoOptDefVal = ownName
	cmd.Flags().BoolVarP(&f.force, "force", "f", false, "don't ask; stop it also if the work can't be saved or brought home: its files stay")
	return cmd
}

func (a *app) down(ctx context.Context, w *workplace, f downFlags) error {
	if f.rm && !f.force {
		if err := a.mayRemove(ctx, w); err != nil {
			return err
		}
	}
	atWork := w.info.State == atoll.Running || w.info.State == atoll.Paused
	if atWork || f.rm || f.sync {
		if err := a.bringOut(ctx, w, f); err != nil {
			return err
		}
	}
	if f.rm {
		keep := f.keep
		if err := a.remove(ctx, w.info, keep, true); err != nil { // it is saved
			return err
		}
		return a.toldDown(w, "removed")
	}
	if !atWork && !f.sync {
		return a.toldDown(w, "stopped")
	}
	if err := atoll.Stop(ctx, w.sb); err != nil {
		return err
	}
	return a.toldDown(w, "stopped")
}

// mayRemove asks a person whether a sandbox is to go.
func (a *app) mayRemove(ctx context.Context, w *workplace) error {
	if !isTerminal(a.in) || !isTerminal(a.err) || a.json {
		return fmt.Errorf("sandbox %s: %w: it would be removed, and nobody is here to ask: --force says so", w.name(), atoll.ErrDenied)
	}
	yes, err := a.confirm(ctx, fmt.Sprintf("Remove sandbox %s? What git has in it is saved, other files are lost.", w.name()))
	if err == nil && !yes {
		err = fmt.Errorf("sandbox %s: %w: it stays as it is", w.name(), atoll.ErrDenied)
	}
	return err
}

// bringOut brings the work home, if that is wanted, and saves it anyhow. What
// could not be saved stops nothing that keeps the files, if that is forced.
func (a *app) bringOut(ctx context.Context, w *workplace, f downFlags) error {
	err := a.rescue(ctx, w)
	if err == nil && f.sync {
		err = a.syncDown(ctx, w)
	}
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return err
	case f.rm:
		return fmt.Errorf("%w\nthe sandbox stays; 'atoll rm --discard %s' removes it with all that is in it", err, w.name())
	case !f.force:
		return fmt.Errorf("%w\nthe sandbox stays as it is; --force stops it, and its files stay", err)
	}
	a.progress("%s: %v", w.name(), err)
	return nil
}

// syncDown brings work home, as 'atoll sync' does.
func (a *app) syncDown(ctx context.Context, w *workplace) error {
	repo, err := w.home()
	if err != nil {
		return err
	}
	res, err := repo.Sync(ctx, w.sb, project.Fetch{Name: w.name()})
	if errors.Is(err, project.ErrNothing) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("sync: %w", err)
	}
	if res.Landed {
		a.progress("%s: commits on %s: %d, files: %d", w.name(), res.Into, res.Commits, res.Files)
	}
	return nil
}

// toldDown prints what became of a sandbox.
func (a *app) toldDown(w *workplace, what string) error {
	if a.json {
		return a.print(map[string]string{"sandbox": w.name(), "id": w.info.ID, "state": what})
	}
	a.progress("%s: %s", w.name(), what)
	return nil
}
