package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/project"
)

// joinFlags say what is joined with the host's work, and how.
type joinFlags struct {
	branch  string
	message string
	dryRun  bool
	yes     bool
}

const joinStatuses = `The exit status is 0 if it is done, 1 without such a sandbox or branch, 2 if you have all
of it already, 3 if it was refused: it conflicts, or you have said no.`

func (a *app) mergeCommand() *cobra.Command {
	var f joinFlags
	cmd := &cobra.Command{
		Use:   "merge [NAME] [BRANCH]",
		Short: "Join work of a project's sandbox with your branch",
		Long: `Join a branch of a project's sandbox with the branch that you are on, whatever its name.
It is fetched first. Whether git can join the two, and which files can make something
run on this machine, is found out before anything changes: of such files you are asked
once. A merge that conflicts changes nothing.

Without BRANCH it is that of the sandbox's main working tree; wip/BRANCH is with
uncommitted work.

` + joinStatuses,
		Example:           "  atoll merge\n  atoll merge web feature/login --dry-run\n  atoll merge web --yes",
		Args:              needArgs(0, 2, "at most the name of a sandbox and a branch"),
		ValidArgsFunction: a.completeBranches(),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.join(cmd.Context(), args, f, "merge", (*project.Repo).Merge)
		},
	}
	f.add(cmd)
	cmd.Flags().StringVarP(&f.message, "message", "m", "", "message of the commit that joins them")
	return cmd
}

func (a *app) applyCommand() *cobra.Command {
	var f joinFlags
	cmd := &cobra.Command{
		Use:   "apply [NAME] [BRANCH]",
		Short: "Take what a project's sandbox has changed as changes of your own",
		Long: `Change the files of your working tree by what a branch of a project's sandbox has since
it parted from yours. Nothing is staged or committed: look at it with 'git diff'. All of
it comes or, where a part does not fit, none.

Without BRANCH it is that of the sandbox's main working tree, with its uncommitted work
if there is some.

` + joinStatuses,
		Example:           "  atoll apply\n  atoll apply web feature/login --dry-run",
		Args:              needArgs(0, 2, "at most the name of a sandbox and a branch"),
		ValidArgsFunction: a.completeBranches(),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.join(cmd.Context(), args, f, "apply", (*project.Repo).Apply)
		},
	}
	f.add(cmd)
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

// fetched fetches what is new, where the sandbox runs, and says which branch it is
// that is looked at; withWork: with uncommitted work, if there is some. got is nil if
// nothing was fetched.
func (a *app) fetched(ctx context.Context, w *workplace, branch string, withWork bool) (repo *project.Repo, _ string, got *project.Fetched, err error) {
	if repo, err = w.home(); err != nil {
		return nil, "", nil, exits(exitNotFound, err)
	}
	if w.running() != nil {
		a.progress("atoll: %s is %s: this is what was fetched before", w.name(), w.info.State)
		if branch == "" {
			head, err := repo.Head(ctx)
			if err != nil {
				return nil, "", nil, err
			}
			if branch = head.Branch; branch == "" {
				return nil, "", nil, fmt.Errorf("%w: name the branch: you are on none, and the sandbox can't be asked", atoll.ErrInvalid)
			}
			all, err := repo.Branches(ctx, w.name())
			if err != nil {
				return nil, "", nil, err
			}
			if withWork && slices.Contains(all, "wip/"+branch) {
				branch = "wip/" + branch
			}
		}
		return repo, branch, nil, nil
	}
	if got, err = repo.Fetch(ctx, w.sb, project.Fetch{Name: w.name()}); err != nil {
		return nil, "", nil, a.refused(w, err)
	}
	switch {
	case branch != "":
	case got.Branch == "":
		return nil, "", nil, a.refused(w, fmt.Errorf("%w: the sandbox is at commit %.12s", project.ErrDetached, got.Tip))
	case withWork && got.Work != "":
		branch = "wip/" + got.Branch
	default:
		branch = got.Branch
	}
	return repo, branch, got, nil
}

// joined is what a merge or apply did, as --json tells it.
type joined struct {
	Sandbox   string   `json:"sandbox"`
	Branch    string   `json:"branch"`
	Into      string   `json:"into"`
	Tip       string   `json:"tip"`
	Commit    string   `json:"commit,omitempty"`
	Forward   bool     `json:"forward"`
	DryRun    bool     `json:"dry_run"`
	Files     int      `json:"files"`
	Conflicts []string `json:"conflicts"`
	Risks     []risk   `json:"risks"`
	Over      []string `json:"over,omitempty"` // as those of a sync
	Kept      string   `json:"kept,omitempty"`
	Error     string   `json:"error,omitempty"`
	Kind      string   `json:"kind,omitempty"`
}

// join merges or applies: first it looks, then it asks, then it does it.
func (a *app) join(ctx context.Context, args []string, f joinFlags, verb string, do func(*project.Repo, context.Context, project.Merge) (*project.Merged, error)) error {
	branch, err := branchOf(args, f.branch)
	if err != nil {
		return err
	}
	w, err := a.projectOf(ctx, args)
	if err != nil {
		return err
	}
	repo, branch, got, err := a.fetched(ctx, w, branch, verb == "apply")
	if err != nil {
		return err
	}
	m := project.Merge{Name: w.name(), Branch: branch, Message: f.message, DryRun: true, Carried: w.info.Labels[project.LabelCarried], Fetched: got}
	res, err := do(repo, ctx, m)
	if err == nil && !f.dryRun {
		if err = a.mayJoin(ctx, res, f.yes, verb); err == nil {
			m.DryRun, m.Tip = false, res.Tip // nothing that came while somebody was thinking
			res, err = do(repo, ctx, m)
		}
	}
	refusal := a.refused(w, err)
	if a.json {
		j := joined{
			Sandbox: w.name(), Branch: branch, Into: res.Into, Tip: res.Tip, Commit: res.Commit, Forward: res.Forward, DryRun: f.dryRun,
			Files: res.Files, Conflicts: some(res.Conflicts), Risks: risksOf(res.Risks), Over: res.Over, Kept: res.Kept,
		}
		return a.withRefusal(refusal, func(text, kind string) error {
			j.Error, j.Kind = text, kind
			return a.print(j)
		})
	}
	if refusal != nil {
		return refusal
	}
	return a.say(joinText(res, branch, verb, f.dryRun))
}

// joinText says what a merge or apply did, or would.
func joinText(res *project.Merged, branch, verb string, dry bool) string {
	into := res.Into
	if into == "" {
		into = "your working tree"
	}
	text := fmt.Sprintf("%s into %s: %s, ", branch, into, count(res.Files, "file"))
	switch {
	case dry && verb == "apply":
		text += "it would fit\n"
	case dry && res.Forward:
		text += "it would only move forward\n"
	case dry:
		text += "without conflict\n"
	case verb == "apply":
		text += "changed, not committed\n"
	case res.Forward:
		text += fmt.Sprintf("moved forward to %.12s\n", res.Commit)
	default:
		text += fmt.Sprintf("merged as %.12s\n", res.Commit)
	}
	text += overText(res.Over, res.Kept)
	if dry {
		text += risksText(res.Risks)
	}
	return text
}

// mayJoin asks, if something comes that can make something run.
func (a *app) mayJoin(ctx context.Context, res *project.Merged, yes bool, verb string) error {
	if len(res.Risks) == 0 || yes {
		return nil
	}
	if !isTerminal(a.in) || a.json {
		return exits(exitRefused, fmt.Errorf("%w: this can make something run on this machine:\n%ssay --yes to %s it", atoll.ErrDenied, strings.TrimPrefix(risksText(res.Risks), "look at these before you run anything:\n"), verb))
	}
	fmt.Fprint(a.err, lines("This can make something run on this machine:\n"+strings.TrimPrefix(risksText(res.Risks), "look at these before you run anything:\n"), ""))
	ok, err := a.confirm(ctx, fmt.Sprintf("%s it?", strings.ToUpper(verb[:1])+verb[1:]))
	if err == nil && !ok {
		err = exits(exitRefused, fmt.Errorf("%w: you have said no", atoll.ErrDenied))
	}
	return err
}

// completeBranches offers projects' sandboxes, then the branches that were
// fetched of the one that is named.
func (a *app) completeBranches() cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		if len(args) == 0 {
			return a.completeProjects(0)(cmd, args, word)
		}
		return a.offer(1, func(ctx context.Context) ([]string, error) {
			w, err := a.project(ctx, args[0])
			if err != nil {
				return nil, err
			}
			repo, err := w.home()
			if err != nil {
				return nil, err
			}
			return repo.Branches(ctx, w.name())
		})(cmd, args, word)
	}
}
