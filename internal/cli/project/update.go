package project

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/cli/app"
	"github.com/atoll-sandbox/atoll/internal/cli/exitcode"
	"github.com/atoll-sandbox/atoll/internal/cli/output"
	"github.com/atoll-sandbox/atoll/internal/cli/pairing"
	"github.com/atoll-sandbox/atoll/internal/project"
)

// updateFlags are the flags of 'atoll update'.
type updateFlags struct {
	branch, worktree             string
	merge, rebase, dryRun, fetch bool
}

func (a commands) updateCommand() *cobra.Command {
	var f updateFlags
	cmd := &cobra.Command{
		Use:   "update [NAME] [BRANCH]",
		Short: "Bring your new commits into a project's sandbox",
		Long: `Bring new commits of your repository into a project's sandbox. What the sandbox
has is fetched first, as by 'atoll sync'.

All your branches become refs/remotes/host/BRANCH in the sandbox. Its branches
of the same names are fast-forwarded, with their working trees; new ones are
created. If the working tree's branch has commits that yours does not have,
--merge merges yours into it, and --rebase rebases it on yours. Conflicts stay
in the sandbox, for you or the agent. Uncommitted changes are never overwritten.

With BRANCH, bring in only this branch of yours or of a remote (origin/main).
--merge and --rebase then use it whatever its name. --fetch fetches from its
remote first.

The exit status is 0 also if there is nothing new, 1 if conflicts wait in the
sandbox, and 3 if it was refused: both sides have commits, or uncommitted work
would be lost.`,
		Example: `  atoll update
  atoll update --merge
  atoll update web main --rebase
  atoll update web origin/feature --fetch
  atoll update --worktree fix-42 --dry-run`,
		Args:              app.CheckArgCount(0, 2, "at most the name of a sandbox and a branch"),
		ValidArgsFunction: pairing.CompleteNames(a.App, 0),
		RunE: func(cmd *cobra.Command, args []string) error {
			w, err := pairing.FindByArg(cmd.Context(), a.App, args)
			if err == nil {
				f.branch, err = branchOf(args, f.branch)
			}
			if err != nil {
				return err
			}
			return a.runUpdate(cmd.Context(), w, f)
		},
	}
	cmd.Flags().StringVarP(&f.branch, "branch", "b", "", "your branch, if no NAME is given")
	cmd.Flags().StringVarP(&f.worktree, "worktree", "w", "", "the working tree of this `BRANCH` of the sandbox (default: the main one)")
	cmd.Flags().BoolVarP(&f.merge, "merge", "m", false, "merge if both sides have commits")
	cmd.Flags().BoolVarP(&f.rebase, "rebase", "r", false, "rebase the sandbox's commits if both sides have commits")
	cmd.Flags().BoolVarP(&f.dryRun, "dry-run", "n", false, "check only, change nothing")
	cmd.Flags().BoolVarP(&f.fetch, "fetch", "f", false, "fetch from the remote first, with your credentials")
	cmd.MarkFlagsMutuallyExclusive("merge", "rebase")
	cmd.MarkFlagsMutuallyExclusive("fetch", "dry-run")
	return cmd
}

// options returns the options of the update of a sandbox.
func (f updateFlags) options(w *pairing.Pair) project.UpdateOptions {
	u := project.UpdateOptions{Name: w.Name(), Source: f.branch, Tree: f.worktree, DryRun: f.dryRun}
	switch {
	case f.merge:
		u.Mode = project.UpdateMerge
	case f.rebase:
		u.Mode = project.UpdateRebase
	}
	return u
}

func (a commands) runUpdate(ctx context.Context, w *pairing.Pair, f updateFlags) error {
	repo, err := w.RequireRepo()
	if err == nil {
		err = w.CheckRunning()
	}
	if err == nil && f.fetch {
		remote, _, found := strings.Cut(f.branch, "/")
		if !found {
			remote = "" // a branch of the host
		}
		err = repo.FetchRemote(ctx, remote, a.Err)
	}
	if err != nil {
		return err
	}
	u := f.options(w)
	var finish func()
	u.OnSent, finish = a.showSent(w.Name())
	res, err := repo.Update(ctx, w.Sandbox, u)
	finish()
	err = explainUpdate(w, f, err)
	if a.JSON && res != nil {
		r := newUpdateReport(w, f, res)
		return pairing.PrintRefused(a.App, err, func(text, kind string) error {
			r.Error, r.Kind = text, kind
			return a.PrintJSON(r)
		})
	}
	if res != nil {
		if perr := pairing.PrintLines(a.App, formatUpdate(res, u)); perr != nil {
			return perr
		}
	}
	return err
}

// explainUpdate adds the exit status and the next command to the error of an update.
func explainUpdate(w *pairing.Pair, f updateFlags, err error) error {
	name := w.Name()
	again := "atoll update " + name
	if f.branch != "" {
		again += " " + f.branch
	}
	if f.worktree != "" {
		again += " --worktree " + f.worktree
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, project.ErrNoNewWork):
		return exitcode.With(exitcode.OK, fmt.Errorf("%s: %w: the sandbox has all your commits", name, project.ErrNoNewWork))
	case errors.Is(err, project.ErrConflict):
		return exitcode.With(exitcode.Problems, fmt.Errorf("%w\nresolve it in the sandbox ('atoll shell %s'), or let the agent do it; then 'git merge --continue' or 'git rebase --continue' there; --abort undoes it", err, name))
	case errors.Is(err, project.ErrDiverged):
		return exitcode.With(exitcode.Refused, fmt.Errorf("%w\n'%s --merge' merges yours into it, '%s --rebase' rebases it on yours", err, again, again))
	case errors.Is(err, project.ErrUnrelated):
		return exitcode.With(exitcode.Refused, fmt.Errorf("%w\n'%s --rebase' rebases it on yours", err, again))
	case errors.Is(err, project.ErrUnsaved):
		return exitcode.With(exitcode.Refused, fmt.Errorf("%w\nnothing of the working tree has changed; 'atoll exec %s -- git stash -u' puts its changes aside; move files that git ignores", err, name))
	case errors.Is(err, project.ErrMoved), errors.Is(err, project.ErrLocked):
		return exitcode.With(exitcode.Refused, fmt.Errorf("%w\nrepeat '%s'", err, again))
	case errors.Is(err, atoll.ErrState):
		return exitcode.With(exitcode.Refused, err)
	}
	return w.NameError(err)
}

// updateReport is the result of an update as --json prints it.
type updateReport struct {
	Sandbox   string               `json:"sandbox"`
	Branch    string               `json:"branch,omitempty"`
	Path      string               `json:"path"`
	Source    string               `json:"source,omitempty"`
	Mode      string               `json:"mode"` // fast-forward, merge or rebase
	From      string               `json:"from,omitempty"`
	To        string               `json:"to,omitempty"`
	Commits   int                  `json:"commits"`
	Conflicts []string             `json:"conflicts"`
	Moved     []string             `json:"moved"`
	Left      []project.LeftBranch `json:"left"`
	Bytes     int64                `json:"bytes"`
	DryRun    bool                 `json:"dry_run"`
	Error     string               `json:"error,omitempty"`
	Kind      string               `json:"kind,omitempty"`
}

func newUpdateReport(w *pairing.Pair, f updateFlags, res *project.UpdateResult) updateReport {
	mode := string(res.Mode)
	if res.Mode == project.UpdateForward {
		mode = "fast-forward"
	}
	return updateReport{
		Sandbox: w.Name(), Branch: res.Branch, Path: res.TreePath, Source: res.Source, Mode: mode, From: res.OldCommit, To: res.NewCommit, Commits: res.Commits,
		Conflicts: output.NonNil(res.Conflicts), Moved: output.NonNil(res.Moved), Left: output.NonNil(res.Left), Bytes: res.Sent, DryRun: f.dryRun,
	}
}

// formatUpdate formats the result of an update for users.
func formatUpdate(res *project.UpdateResult, u project.UpdateOptions) string {
	var b strings.Builder
	verbs := map[project.UpdateMode]string{project.UpdateForward: "fast-forwarded", project.UpdateMerge: "merged", project.UpdateRebase: "rebased"}
	would := ""
	if u.DryRun {
		would = "would be "
	}
	if res.NewCommit != res.OldCommit || len(res.Conflicts) > 0 {
		fmt.Fprintf(&b, "%s: %s%s, %s of %s", res.Branch, would, verbs[res.Mode], output.FormatCount(res.Commits, "commit"), res.Source)
		if res.NewCommit != "" {
			fmt.Fprintf(&b, ": now at %.12s", res.NewCommit)
		}
		b.WriteString("\n")
	}
	for _, name := range res.Conflicts {
		fmt.Fprintf(&b, "conflict: %s\n", name)
	}
	for _, name := range res.Moved {
		fmt.Fprintf(&b, "%s: %supdated\n", name, would)
	}
	for _, l := range res.Left {
		fmt.Fprintf(&b, "%s: not updated: %s\n", l.Name, l.Reason)
	}
	return b.String()
}
