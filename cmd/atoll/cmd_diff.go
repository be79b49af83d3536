package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/project"
)

// lookFlags say what of a sandbox's work is looked at.
type lookFlags struct {
	branch    string
	committed bool
	project.Review
}

const lookStatuses = `The exit status is 0, 1 without such a sandbox or branch, 2 if there is nothing new.`

func (a *app) diffCommand() *cobra.Command {
	var f lookFlags
	cmd := &cobra.Command{
		Use:   "diff [NAME] [BRANCH]",
		Short: "Show what a project's sandbox has changed",
		Long: `Show what a branch of a project's sandbox has changed since it parted from yours, with
its uncommitted work if there is some. It is fetched first; nothing of yours changes.

Without BRANCH it is that of the sandbox's main working tree.

` + lookStatuses,
		Example:           "  atoll diff\n  atoll diff web --stat\n  atoll diff web feature/login",
		Args:              needArgs(0, 2, "at most the name of a sandbox and a branch"),
		ValidArgsFunction: a.completeBranches(),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.look(cmd.Context(), args, f, (*project.Repo).Diff)
		},
	}
	f.add(cmd)
	cmd.Flags().BoolVar(&f.committed, "committed", false, "without uncommitted work")
	cmd.Flags().BoolVar(&f.Brief, "stat", false, "only how many lines of each file")
	return cmd
}

func (a *app) logCommand() *cobra.Command {
	f := lookFlags{committed: true}
	cmd := &cobra.Command{
		Use:   "log [NAME] [BRANCH]",
		Short: "Show the commits of a project's sandbox that you have not",
		Long: `Show the commits of a branch of a project's sandbox that yours has not, newest first.
It is fetched first; nothing of yours changes. What commands wrote is in 'atoll logs'.

Without BRANCH it is that of the sandbox's main working tree.

` + lookStatuses,
		Example:           "  atoll log\n  atoll log -p web feature/login",
		Args:              needArgs(0, 2, "at most the name of a sandbox and a branch"),
		ValidArgsFunction: a.completeBranches(),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.look(cmd.Context(), args, f, (*project.Repo).Log)
		},
	}
	f.add(cmd)
	cmd.Flags().BoolVarP(&f.Patch, "patch", "p", false, "what each commit changes, too")
	return cmd
}

func (f *lookFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&f.branch, "branch", "b", "", "the branch, where no NAME is given")
}

// look shows work of a sandbox.
func (a *app) look(ctx context.Context, args []string, f lookFlags, show func(*project.Repo, context.Context, io.Writer, project.Review) error) error {
	if a.json {
		return fmt.Errorf("%w: --json: this is text; 'atoll sync --dry-run --json' tells in JSON what is new", atoll.ErrInvalid)
	}
	branch, err := branchOf(args, f.branch)
	if err != nil {
		return err
	}
	w, err := a.projectOf(ctx, args)
	if err != nil {
		return err
	}
	repo, branch, _, err := a.fetched(ctx, w, branch, !f.committed)
	if err != nil {
		return err
	}
	v := f.Review
	v.Name, v.Branch = w.name(), branch
	return a.refused(w, a.page(ctx, func(out io.Writer) error { return show(repo, ctx, out, v) }))
}
