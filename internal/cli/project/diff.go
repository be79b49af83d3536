package project

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/cli/app"
	"github.com/atoll-sandbox/atoll/internal/cli/exitcode"
	"github.com/atoll-sandbox/atoll/internal/cli/pairing"
	"github.com/atoll-sandbox/atoll/internal/project"
)

// lookFlags say what of a sandbox's work is looked at.
type lookFlags struct {
	branch    string
	committed bool
	exitCode  bool // the exit status says whether there are changes
	project.ReviewOptions
}

func (a commands) diffCommand() *cobra.Command {
	var f lookFlags
	cmd := &cobra.Command{
		Use:   "diff [NAME] [BRANCH]",
		Short: "Show the changes in a project's sandbox",
		Long: `Show the changes on a branch of a project's sandbox since it diverged from
yours, with uncommitted changes. The branch is fetched first; nothing of yours
changes.

The default BRANCH is that of the sandbox's main working tree.`,
		Example:           "  atoll diff\n  atoll diff web --stat\n  atoll diff --patch >changes.patch\n  atoll diff web feature/login",
		Args:              app.CheckArgCount(0, 2, "at most the name of a sandbox and a branch"),
		ValidArgsFunction: a.completeBranches(),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.showChanges(cmd.Context(), args, f, (*project.Repo).Diff)
		},
	}
	f.add(cmd)
	cmd.Flags().BoolVar(&f.committed, "committed", false, "without uncommitted work")
	cmd.Flags().BoolVar(&f.Brief, "stat", false, "only how many lines of each file")
	cmd.Flags().BoolVarP(&f.Patch, "patch", "p", false, "a patch for 'git apply': with the contents of binary files")
	cmd.MarkFlagsMutuallyExclusive("patch", "stat")
	cmd.Flags().BoolVar(&f.exitCode, "exit-code", false, "exit with 1 if there are changes, with 0 if there are none")
	return cmd
}

func (a commands) logCommand() *cobra.Command {
	f := lookFlags{committed: true}
	cmd := &cobra.Command{
		Use:   "log [NAME] [BRANCH]",
		Short: "Show the new commits of a project's sandbox",
		Long: `Show the commits on a branch of a project's sandbox that yours does not have,
newest first. The branch is fetched first; nothing of yours changes. For the
output of commands see 'atoll logs'.

The default BRANCH is that of the sandbox's main working tree.`,
		Example:           "  atoll log\n  atoll log -p web feature/login",
		Args:              app.CheckArgCount(0, 2, "at most the name of a sandbox and a branch"),
		ValidArgsFunction: a.completeBranches(),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.showChanges(cmd.Context(), args, f, (*project.Repo).Log)
		},
	}
	f.add(cmd)
	cmd.Flags().BoolVarP(&f.Patch, "patch", "p", false, "what each commit changes, too")
	return cmd
}

func (f *lookFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&f.branch, "branch", "b", "", "the branch, where no NAME is given")
}

// showChanges shows work of a sandbox.
func (a commands) showChanges(ctx context.Context, args []string, f lookFlags, show func(*project.Repo, context.Context, io.Writer, project.ReviewOptions) error) error {
	if a.JSON {
		return fmt.Errorf("%w: --json: this is text; 'atoll sync --dry-run --json' tells in JSON what is new", atoll.ErrInvalid)
	}
	branch, err := branchOf(args, f.branch)
	if err != nil {
		return err
	}
	w, err := pairing.FindByArg(ctx, a.App, args)
	if err != nil {
		return err
	}
	repo, branch, got, err := a.fetchBranch(ctx, w, branch, !f.committed)
	if err != nil {
		return err
	}
	v := f.ReviewOptions
	v.Name, v.Branch = w.Name(), branch
	counted := &countingWriter{}
	err = a.StartPager(ctx, func(out io.Writer) error {
		counted.to = out
		return show(repo, ctx, counted, v)
	})
	if err == nil && f.exitCode && counted.n > 0 {
		return exitcode.Silent(exitcode.Problems)
	}
	return pairing.ExplainLook(a.App, w, got, err)
}

// countingWriter counts what it passes on.
type countingWriter struct {
	to io.Writer
	n  int64
}

func (c *countingWriter) Write(b []byte) (int, error) {
	n, err := c.to.Write(b)
	c.n += int64(n)
	return n, err
}
