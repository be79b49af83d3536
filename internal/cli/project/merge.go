package project

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/cli/app"
	"github.com/atoll-sandbox/atoll/internal/cli/exitcode"
	"github.com/atoll-sandbox/atoll/internal/cli/output"
	"github.com/atoll-sandbox/atoll/internal/cli/pairing"
	"github.com/atoll-sandbox/atoll/internal/cli/tty"
	"github.com/atoll-sandbox/atoll/internal/project"
)

// joinFlags say what is joined with the host's work, and how.
type joinFlags struct {
	branch  string
	to      string // of apply: branch of the host that gets a commit
	message string
	dryRun  bool
	yes     bool
}

const joinStatuses = `The exit status is 3 if it was refused: it conflicts, or you declined.`

func (a commands) mergeCommand() *cobra.Command {
	var f joinFlags
	cmd := &cobra.Command{
		Use:   "merge [NAME] [BRANCH]",
		Short: "Merge work of a project's sandbox into your branch",
		Long: `Merge a branch of a project's sandbox into your current branch. The branch is
fetched first. Before anything changes, conflicts are detected, and you are
asked once about files that can run code on this machine. A merge with
conflicts changes nothing.

The default BRANCH is that of the sandbox's main working tree; wip/BRANCH
includes uncommitted changes.

` + joinStatuses,
		Example:           "  atoll merge\n  atoll merge web feature/login --dry-run\n  atoll merge web --yes",
		Args:              app.CheckArgCount(0, 2, "at most the name of a sandbox and a branch"),
		ValidArgsFunction: a.completeBranches(),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.joinWork(cmd.Context(), args, f, "merge", (*project.Repo).Merge)
		},
	}
	f.add(cmd)
	cmd.Flags().StringVarP(&f.message, "message", "m", "", "message of the commit that joins them")
	return cmd
}

func (a commands) applyCommand() *cobra.Command {
	var f joinFlags
	cmd := &cobra.Command{
		Use:   "apply [NAME] [BRANCH]",
		Short: "Apply changes of a project's sandbox, uncommitted",
		Long: `Apply the changes on a branch of a project's sandbox to your working tree,
without staging or committing them. Either all changes apply or none. With --to,
commit them to another branch of yours instead, a new one if it is missing; your
working tree does not change.

The default BRANCH is that of the sandbox's main working tree, with its
uncommitted changes.

` + joinStatuses,
		Example:           "  atoll apply\n  atoll apply web feature/login --dry-run\n  atoll apply web feature/login --to review/login",
		Args:              app.CheckArgCount(0, 2, "at most the name of a sandbox and a branch"),
		ValidArgsFunction: a.completeBranches(),
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.message != "" && f.to == "" {
				return fmt.Errorf("%w: --message is that of the commit that --to makes", atoll.ErrInvalid)
			}
			return a.joinWork(cmd.Context(), args, f, "apply", (*project.Repo).Apply)
		},
	}
	f.add(cmd)
	cmd.Flags().StringVar(&f.to, "to", "", "commit the changes to this `BRANCH` of yours")
	cmd.Flags().StringVarP(&f.message, "message", "m", "", "with --to: message of the commit")
	return cmd
}

func (f *joinFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&f.branch, "branch", "b", "", "the branch, where no NAME is given")
	cmd.Flags().BoolVarP(&f.dryRun, "dry-run", "n", false, "say what would happen, change nothing")
	cmd.Flags().BoolVarP(&f.yes, "yes", "y", false, "do not ask about files that can make something run")
}

// branchOf is the branch that the second argument or a flag names.
func branchOf(args []string, flag string) (string, error) {
	if len(args) < 2 {
		return flag, nil
	}
	if flag != "" && flag != args[1] {
		return "", fmt.Errorf("%w: the branch is %s or --branch %s", atoll.ErrInvalid, args[1], flag)
	}
	return args[1], nil
}

// fetchBranch fetches new commits if the sandbox runs, and returns the branch to compare with;
// withWork includes uncommitted changes. got is nil if nothing was fetched.
func (a commands) fetchBranch(ctx context.Context, w *pairing.Pair, branch string, withWork bool) (repo *project.Repo, _ string, got *project.FetchResult, err error) {
	if repo, err = w.RequireRepo(); err != nil {
		return nil, "", nil, err
	}
	if w.CheckRunning() != nil {
		a.Progress("atoll: %s is %s: this is what was fetched before", w.Name(), w.Info.State)
		if branch == "" {
			head, err := repo.Head(ctx)
			if err != nil {
				return nil, "", nil, err
			}
			if branch = head.Branch; branch == "" {
				return nil, "", nil, fmt.Errorf("%w: name the branch: you are on none, and the sandbox can't be asked", atoll.ErrInvalid)
			}
		}
		all, err := repo.Branches(ctx, w.Name())
		if err != nil {
			return nil, "", nil, err
		}
		if withWork && slices.Contains(all, "wip/"+branch) {
			branch = "wip/" + branch
		}
		return repo, branch, nil, nil
	}
	if got, err = repo.Fetch(ctx, w.Sandbox, project.FetchOptions{Name: w.Name()}); err != nil {
		return nil, "", nil, pairing.ExplainRefusal(a.App, w, err)
	}
	switch {
	case branch != "":
		if withWork && slices.ContainsFunc(got.Branches, func(b project.BranchState) bool { return b.Name == branch && b.SandboxDirty }) {
			branch = "wip/" + branch
		}
	case got.Branch == "":
		return nil, "", nil, pairing.ExplainRefusal(a.App, w, fmt.Errorf("%w: the sandbox is at commit %.12s", project.ErrDetached, got.TipCommit))
	case withWork && got.WorkCommit != "":
		branch = "wip/" + got.Branch
	default:
		branch = got.Branch
	}
	return repo, branch, got, nil
}

// joined is the result of a merge or apply as --json prints it.
type joined struct {
	Sandbox   string         `json:"sandbox"`
	Branch    string         `json:"branch"`
	Into      string         `json:"into"`
	Tip       string         `json:"tip"`
	Commit    string         `json:"commit,omitempty"`
	Forward   bool           `json:"forward"`
	DryRun    bool           `json:"dry_run"`
	Files     int            `json:"files"`
	Conflicts []string       `json:"conflicts"`
	Risks     []pairing.Risk `json:"risks"`
	Over      []string       `json:"over,omitempty"` // as those of a sync
	Kept      string         `json:"kept,omitempty"`
	Error     string         `json:"error,omitempty"`
	Kind      string         `json:"kind,omitempty"`
}

// joinWork merges or applies: first it looks, then it asks, then it does it.
func (a commands) joinWork(ctx context.Context, args []string, f joinFlags, verb string, do func(*project.Repo, context.Context, project.MergeOptions) (*project.MergeResult, error)) error {
	branch, err := branchOf(args, f.branch)
	if err != nil {
		return err
	}
	w, err := pairing.FindByArg(ctx, a.App, args)
	if err != nil {
		return err
	}
	repo, branch, got, err := a.fetchBranch(ctx, w, branch, verb == "apply")
	if err != nil {
		return err
	}
	m := project.MergeOptions{Name: w.Name(), Branch: branch, Message: f.message, Target: f.to, DryRun: true, ImportedTree: w.Info.Labels[project.LabelImported], Fetched: got}
	res, err := do(repo, ctx, m)
	if err == nil && !f.dryRun {
		if err = a.confirmMerge(ctx, res, f.yes, verb); err == nil {
			m.DryRun, m.Tip = false, res.Tip // nothing that came while somebody was thinking
			res, err = do(repo, ctx, m)
		}
	}
	if f.to != "" && errors.Is(err, atoll.ErrState) {
		err = fmt.Errorf("%w\nwithout --to, 'atoll apply %s' changes your files, and 'atoll merge %[2]s' commits", err, w.Name())
	}
	refusal := pairing.ExplainLook(a.App, w, got, err)
	if a.JSON {
		j := joined{
			Sandbox: w.Name(), Branch: branch, Into: res.TargetBranch, Tip: res.Tip, Commit: res.Commit, Forward: res.FastForward, DryRun: f.dryRun,
			Files: res.Files, Conflicts: output.NonNil(res.Conflicts), Risks: pairing.ListRisks(res.Risks), Over: res.Overwritten, Kept: res.RescueRef,
		}
		return pairing.PrintRefused(a.App, refusal, func(text, kind string) error {
			j.Error, j.Kind = text, kind
			return a.PrintJSON(j)
		})
	}
	if refusal != nil {
		return refusal
	}
	return pairing.PrintLines(a.App, joinText(res, branch, verb, f))
}

// joinText formats the result of a merge or apply.
func joinText(res *project.MergeResult, branch, verb string, f joinFlags) string {
	dry := f.dryRun
	into := res.TargetBranch
	if into == "" {
		into = "your working tree"
	}
	text := fmt.Sprintf("%s into %s: %s, ", branch, into, output.FormatCount(res.Files, "file"))
	switch {
	case dry && verb == "apply":
		text += "it would fit\n"
	case dry && res.FastForward:
		text += "it would only move forward\n"
	case dry:
		text += "without conflict\n"
	case f.to != "":
		text += fmt.Sprintf("committed as %.12s\n", res.Commit)
	case verb == "apply":
		text += "changed, not committed\n"
	case res.FastForward:
		text += fmt.Sprintf("moved forward to %.12s\n", res.Commit)
	default:
		text += fmt.Sprintf("merged as %.12s\n", res.Commit)
	}
	text += pairing.FormatOverwritten(res.Overwritten, res.RescueRef)
	if dry {
		text += pairing.FormatRisks(res.Risks)
	}
	return text
}

// confirmMerge asks, if something comes that can make something run.
func (a commands) confirmMerge(ctx context.Context, res *project.MergeResult, yes bool, verb string) error {
	if len(res.Risks) == 0 || yes {
		return nil
	}
	if !tty.IsTerminal(a.In) || a.JSON {
		return exitcode.With(exitcode.Refused, fmt.Errorf("%w: this can make something run on this machine:\n%ssay --yes to %s it", atoll.ErrDenied, strings.TrimPrefix(pairing.FormatRisks(res.Risks), "look at these before you run anything:\n"), verb))
	}
	fmt.Fprint(a.Err, output.CleanLines("This can make something run on this machine:\n"+strings.TrimPrefix(pairing.FormatRisks(res.Risks), "look at these before you run anything:\n"), ""))
	ok, err := a.Confirm(ctx, fmt.Sprintf("%s it?", strings.ToUpper(verb[:1])+verb[1:]))
	if err == nil && !ok {
		err = exitcode.With(exitcode.Refused, fmt.Errorf("%w: you have said no", atoll.ErrDenied))
	}
	return err
}

// completeBranches completes projects' sandboxes, then their fetched branches.
func (a commands) completeBranches() cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		if len(args) == 0 {
			return pairing.CompleteNames(a.App, 0)(cmd, args, word)
		}
		return a.CompleteFrom(1, func(ctx context.Context) ([]string, error) {
			w, err := pairing.Find(ctx, a.App, args[0])
			if err != nil {
				return nil, err
			}
			repo, err := w.RequireRepo()
			if err != nil {
				return nil, err
			}
			return repo.Branches(ctx, w.Name())
		})(cmd, args, word)
	}
}
