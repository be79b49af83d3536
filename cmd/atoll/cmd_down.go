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
	artifacts       []string // as those of a sync
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
1 without such a sandbox, 2 if it could not be ended, or its work not be saved, 3 if --sync
was refused, as 'atoll sync' is: then the sandbox stays as it is, unless --force is said.`,
		Example:           "  atoll down\n  atoll down --sync\n  atoll down --sync --artifacts='dist,*.whl'\n  atoll down web --rm",
		Args:              needArgs(0, 1, "at most the name of a sandbox"),
		ValidArgsFunction: a.completeProjects(0),
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.keep != "" && !f.rm {
				return fmt.Errorf("%w: --keep-disk is for --rm: without it, all disks are kept", atoll.ErrInvalid)
			}
			if f.artifacts != nil && !f.sync {
				return fmt.Errorf("%w: --artifacts is for --sync: without it, nothing comes home", atoll.ErrInvalid)
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
			err = a.down(ctx, w, f)
			var documented exit
			if errors.As(err, &documented) {
				return err
			}
			return exits(exitDownFailed, err)
		},
	}
	cmd.Flags().BoolVarP(&f.sync, "sync", "s", false, "bring the work home first, as 'atoll sync' does")
	cmd.Flags().StringSliceVar(&f.artifacts, "artifacts", nil, "with --sync, also bring files that git does not track, by `GLOB` (default dist, build, target, .next, out)")
	cmd.Flags().Lookup("artifacts").NoOptDefVal = usualArtifacts
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
	d := downed{Sandbox: w.name(), ID: w.info.ID, State: "stopped"}
	atWork := w.info.State == atoll.Running || w.info.State == atoll.Paused
	if atWork || f.rm || f.sync {
		var err error
		if d.Sync, err = a.bringOut(ctx, w, f); err != nil {
			return err
		}
	}
	var err error
	switch {
	case f.rm:
		d.State = "removed"
		err = a.remove(ctx, w.info, f.keep, true) // it is saved
	case atWork || f.sync:
		err = atoll.Stop(ctx, w.sb)
	}
	if err != nil {
		return err
	}
	if a.json {
		return a.print(d)
	}
	a.progress("%s: %s", d.Sandbox, d.State)
	return nil
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

// bringOut saves the work, and then brings it home, if that is wanted. What could
// not be saved, or was refused, stops nothing that keeps the files, if that is
// forced; else the sandbox is what it was.
func (a *app) bringOut(ctx context.Context, w *workplace, f downFlags) (s *synced, err error) {
	was := w.info.State
	err = a.rescue(ctx, w)
	if err == nil && f.sync {
		if s, err = a.syncDown(ctx, w, f); err != nil && (f.rm || !f.force) {
			err = errors.Join(err, settle(ctx, w.sb, was))
		}
	}
	switch {
	case err == nil:
		return s, nil
	case ctx.Err() != nil:
		return nil, err
	case f.rm:
		return nil, fmt.Errorf("%w\nthe sandbox stays; 'atoll rm --discard %s' removes it with all that is in it", err, w.name())
	case !f.force:
		return nil, fmt.Errorf("%w\nthe sandbox stays as it is; --force stops it, and its files stay", err)
	}
	a.progress("%s: %v", w.name(), err)
	return s, nil
}

// syncDown brings work home, as 'atoll sync' does. It returns what --json tells of
// that; nil: nobody has worked in the sandbox yet.
func (a *app) syncDown(ctx context.Context, w *workplace, f downFlags) (*synced, error) {
	if w.info.Labels[project.LabelStage] == project.StageCarry {
		return nil, nil
	}
	var err error
	if w.info, err = w.sb.Info(ctx); err != nil { // it runs now
		return nil, err
	}
	how := syncFlags{artifacts: f.artifacts}
	h, err := a.bringHome(ctx, w, how)
	if errors.Is(err, project.ErrNothing) {
		err = nil
	}
	if errors.Is(h.refusal, project.ErrNothing) {
		h.refusal = nil
	}
	if err != nil || h.res == nil {
		return nil, err
	}
	s := w.synced(h, how)
	if a.json {
		return &s, h.refusal
	}
	return &s, a.tellSync(w, h, how)
}

// downed is how a project's sandbox ended, as --json tells it.
type downed struct {
	Sandbox string  `json:"sandbox"`
	ID      string  `json:"id"`
	State   string  `json:"state"`          // stopped or removed
	Sync    *synced `json:"sync,omitempty"` // what --sync brought
}
