package project

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/cli/app"
	"github.com/atoll-sandbox/atoll/internal/cli/exitcode"
	"github.com/atoll-sandbox/atoll/internal/cli/pairing"
	"github.com/atoll-sandbox/atoll/internal/cli/tty"
	"github.com/atoll-sandbox/atoll/internal/project"
)

// downFlags say how a project's sandbox ends.
type downFlags struct {
	force, sync, rm bool
	keep            string
	artifacts       []string // as those of a sync
}

func (a commands) downCommand() *cobra.Command {
	var f downFlags
	cmd := &cobra.Command{
		Use:   "down [NAME]",
		Short: "Save the work of a project's sandbox and stop it",
		Long: `Save all work that git has in a project's sandbox to your repository, below
refs/sandbox/NAME/rescue, and stop the sandbox. 'atoll restore' restores saved
work. The files of the sandbox stay, and 'atoll up' starts it again. With --rm
the sandbox is removed.

The default NAME is the sandbox of this directory. The exit status is 3 if
--sync was refused, as by 'atoll sync': the sandbox is unchanged, unless
--force is given.`,
		Example:           "  atoll down\n  atoll down --sync\n  atoll down --sync --artifacts='dist,*.whl'\n  atoll down web --rm",
		Args:              app.CheckArgCount(0, 1, "at most the name of a sandbox"),
		ValidArgsFunction: pairing.CompleteNames(a.App, 0),
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.keep != "" && !f.rm {
				return fmt.Errorf("%w: --keep-disk is for --rm: without it, all disks are kept", atoll.ErrInvalid)
			}
			if f.artifacts != nil && !f.sync {
				return fmt.Errorf("%w: --artifacts needs --sync", atoll.ErrInvalid)
			}
			ctx := cmd.Context()
			name := ""
			if len(args) > 0 {
				name = args[0]
			}
			w, err := pairing.Find(ctx, a.App, name)
			if err != nil {
				return err
			}
			return a.runDown(ctx, w, f)
		},
	}
	cmd.Flags().BoolVarP(&f.sync, "sync", "s", false, "sync first, as 'atoll sync' does")
	cmd.Flags().StringSliceVar(&f.artifacts, "artifacts", nil, "with --sync, also bring files that git does not track, by `GLOB` (default dist, build, target, .next, out)")
	cmd.Flags().Lookup("artifacts").NoOptDefVal = pairing.DefaultArtifacts
	cmd.Flags().BoolVar(&f.rm, "rm", false, "remove the sandbox, with all files that git does not have")
	cmd.Flags().StringVar(&f.keep, "keep-disk", "", "with --rm, keep the disk of a machine's working directory, under this `NAME` (default: the sandbox's)")
	cmd.Flags().Lookup("keep-disk").NoOptDefVal = pairing.ExactName
	cmd.Flags().BoolVarP(&f.force, "force", "f", false, "don't ask; stop it also if its work can't be saved or synced")
	return cmd
}

func (a commands) runDown(ctx context.Context, w *pairing.Pair, f downFlags) error {
	if f.rm && !f.force {
		if err := a.confirmRemoval(ctx, w); err != nil {
			return err
		}
	}
	d := downed{Sandbox: w.Name(), ID: w.Info.ID, State: "stopped"}
	atWork := w.Info.State == atoll.Running || w.Info.State == atoll.Paused
	if atWork || f.rm || f.sync {
		var err error
		if d.Sync, err = a.saveAndSync(ctx, w, f); err != nil {
			return err
		}
	}
	var err error
	switch {
	case f.rm:
		d.State = "removed"
		err = pairing.RemoveSandbox(ctx, a.App, w.Info, f.keep, true) // it is saved
	case atWork || f.sync:
		err = atoll.Stop(ctx, w.Sandbox)
	}
	if err != nil {
		return err
	}
	if a.JSON {
		return a.PrintJSON(d)
	}
	a.Progress("%s: %s", d.Sandbox, d.State)
	return nil
}

// confirmRemoval asks a person whether a sandbox is to go.
func (a commands) confirmRemoval(ctx context.Context, w *pairing.Pair) error {
	if !tty.IsTerminal(a.In) || !tty.IsTerminal(a.Err) || a.JSON {
		return exitcode.With(exitcode.Refused, fmt.Errorf("sandbox %s: %w: removing it needs a confirmation, and standard input is not a terminal: use --force", w.Name(), atoll.ErrDenied))
	}
	yes, err := a.Confirm(ctx, fmt.Sprintf("Remove sandbox %s? What git has in it is saved, other files are lost.", w.Name()))
	if err == nil && !yes {
		err = exitcode.With(exitcode.Refused, fmt.Errorf("sandbox %s: %w: it stays as it is", w.Name(), atoll.ErrDenied))
	}
	return err
}

// saveAndSync saves the work, and then brings it home, if that is wanted. What could
// not be saved, or was refused, stops nothing that keeps the files, if that is
// forced; else the sandbox is what it was.
func (a commands) saveAndSync(ctx context.Context, w *pairing.Pair, f downFlags) (s *pairing.SyncReport, err error) {
	was := w.Info.State
	err = pairing.Rescue(ctx, a.App, w)
	if err == nil && f.sync {
		if s, err = a.syncDown(ctx, w, f); err != nil && (f.rm || !f.force) {
			err = errors.Join(err, pairing.RestoreState(ctx, w.Sandbox, was))
		}
	}
	switch {
	case err == nil:
		return s, nil
	case ctx.Err() != nil:
		return nil, err
	case f.rm:
		return nil, exitcode.With(exitcode.Refused, fmt.Errorf("%w\nthe sandbox stays; 'atoll rm --discard %s' removes it with all that is in it", err, w.Name()))
	case !f.force:
		return nil, exitcode.With(exitcode.Refused, fmt.Errorf("%w\nthe sandbox stays as it is; --force stops it, and its files stay", err))
	}
	a.Progress("%s: %v", w.Name(), err)
	return s, nil
}

// syncDown syncs before a sandbox is stopped, as 'atoll sync' does. It returns the report for
// --json; nil if the sandbox has no work yet.
func (a commands) syncDown(ctx context.Context, w *pairing.Pair, f downFlags) (*pairing.SyncReport, error) {
	if w.Info.Labels[project.LabelStage] == project.StageImport {
		return nil, nil
	}
	var err error
	if w.Info, err = w.Sandbox.Info(ctx); err != nil { // it runs now
		return nil, err
	}
	how := pairing.SyncOptions{Artifacts: f.artifacts}
	h, err := pairing.Fetch(ctx, a.App, w, how)
	if errors.Is(err, project.ErrNoNewWork) {
		err = nil
	}
	if errors.Is(h.Refusal, project.ErrNoNewWork) {
		h.Refusal = nil
	}
	if err != nil || h.Result == nil {
		return nil, err
	}
	s := w.SyncReport(h, how)
	if a.JSON {
		return &s, h.Refusal
	}
	return &s, pairing.PrintSync(a.App, w, h, how)
}

// downed is how a project's sandbox ended, as --json tells it.
type downed struct {
	Sandbox string              `json:"sandbox"`
	ID      string              `json:"id"`
	State   string              `json:"state"`          // stopped or removed
	Sync    *pairing.SyncReport `json:"sync,omitempty"` // what --sync brought
}
