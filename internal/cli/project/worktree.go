package project

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/cli/app"
	"github.com/atoll-sandbox/atoll/internal/cli/exitcode"
	"github.com/atoll-sandbox/atoll/internal/cli/output"
	"github.com/atoll-sandbox/atoll/internal/cli/pairing"
	"github.com/atoll-sandbox/atoll/internal/project"
)

const worktreeStatuses = `The exit status is 3 if it was refused: the branch has a working tree already,
or the working tree has uncommitted changes.`

func (a commands) worktreeCommand() *cobra.Command {
	var sandbox string
	cmd := &cobra.Command{
		Use:   "worktree",
		Short: "Manage working trees of a project's sandbox",
		Long: `Manage working trees of a project's sandbox, one for each branch, at
/workspace/.worktrees/BRANCH. Each has a terminal, SANDBOX-BRANCH, and ten
ports; $ATOLL_PORT is the first.

The default sandbox is that of this directory.`,
		Example: `  atoll worktree add feature/login --create
  atoll worktree list
  atoll attach web --worktree feature/login
  atoll worktree remove feature/login`,
		Args: app.UnknownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.PersistentFlags().StringVarP(&sandbox, "sandbox", "s", "", "the project's sandbox")
	cmd.AddCommand(a.worktreeAdd(&sandbox), a.worktreeList(&sandbox), a.worktreeRemove(&sandbox))
	return cmd
}

// projectAt finds the project's sandbox that a flag names, if it runs.
func (a commands) projectAt(ctx context.Context, sandbox string) (*pairing.Pair, error) {
	w, err := pairing.Find(ctx, a.App, sandbox)
	if err != nil {
		return nil, err
	}
	return w, w.CheckRunning()
}

func (a commands) worktreeList(sandbox *string) *cobra.Command {
	return &cobra.Command{
		Use: "list", Aliases: []string{"ls"},
		Example: "  atoll worktree list",
		Short:   "List the working trees of a project's sandbox",
		Long:    "List the working trees of a project's sandbox; '*' marks the main one.\n\n" + worktreeStatuses,
		Args:    app.CheckArgCount(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			w, err := a.projectAt(cmd.Context(), *sandbox)
			if err != nil {
				return err
			}
			list, err := pairing.ListWorktrees(cmd.Context(), w)
			switch {
			case err != nil:
				return err
			case a.JSON:
				return a.PrintJSON(list)
			}
			rows := [][]string{{"", "BRANCH", "PATH", "TERMINAL", "PORT"}}
			for _, t := range list {
				rows = append(rows, worktreeRow(t))
			}
			return a.PrintTable(rows)
		},
	}
}

func worktreeRow(t pairing.Worktree) []string {
	mark, port := "", "-"
	if t.Main {
		mark = "*"
	}
	if t.Port != 0 {
		port = strconv.Itoa(t.Port)
	}
	branch := t.Branch
	if branch == "" {
		branch = fmt.Sprintf("(at %.12s)", t.Commit)
	}
	return []string{mark, branch, t.Path, output.DashIfEmpty(t.Terminal), port}
}

func (a commands) worktreeAdd(sandbox *string) *cobra.Command {
	var create bool
	cmd := &cobra.Command{
		Use:   "add BRANCH",
		Short: "Create a working tree for a branch",
		Long: `Create a working tree for a branch of a project's sandbox, with the uploaded
files that git does not track, and a terminal and ports of its own. With
--create a missing branch is created from the main working tree.

` + worktreeStatuses,
		Example: "  atoll worktree add feature/login --create\n  atoll worktree add fix-42 -s web",
		Args:    app.CheckArgCount(1, 1, "a branch"),
		RunE: func(cmd *cobra.Command, args []string) error {
			w, err := a.projectAt(cmd.Context(), *sandbox)
			if err != nil {
				return err
			}
			return a.addTree(cmd.Context(), w, args[0], create)
		},
	}
	cmd.Flags().BoolVarP(&create, "create", "c", false, "make the branch, if it is not there")
	return cmd
}

func (a commands) addTree(ctx context.Context, w *pairing.Pair, branch string, create bool) error {
	if err := project.CheckBranch(branch); err != nil {
		return err
	}
	there, err := project.HasBranch(ctx, w.Sandbox, branch)
	if err != nil {
		return w.NameError(err)
	}
	if !there && !create {
		return fmt.Errorf("branch %s of sandbox %s: %w; --create makes it", branch, w.Name(), atoll.ErrNotFound)
	}
	t, err := project.AddWorktree(ctx, w.Sandbox, branch)
	err = w.NameError(err)
	if errors.Is(err, atoll.ErrExists) || errors.Is(err, atoll.ErrState) {
		return exitcode.With(exitcode.Refused, err)
	}
	if err != nil {
		return err
	}
	tree, err := pairing.EnsureWorktreeTerminal(ctx, a.App, w, pairing.Worktree{Branch: t.Branch, Path: t.Path, Commit: t.Commit})
	switch {
	case err != nil:
		return err
	case a.JSON:
		return a.PrintJSON(tree)
	}
	if _, err = fmt.Fprintln(a.Out, output.Clean(tree.Path)); err == nil {
		a.Progress("atoll: terminal %s, port %d; 'atoll attach %s --worktree %s' goes there", tree.Terminal, tree.Port, w.Name(), branch)
	}
	return err
}

func (a commands) worktreeRemove(sandbox *string) *cobra.Command {
	var force, discard bool
	cmd := &cobra.Command{
		Use: "remove BRANCH", Aliases: []string{"rm"},
		Short: "Remove the working tree of a branch",
		Long: `Remove the working tree of a branch, its terminal, and the files that git
ignores. The branch and its commits stay. A working tree with uncommitted
changes is removed only with --force, which saves them first; 'atoll restore'
restores them.

` + worktreeStatuses,
		Example: "  atoll worktree remove feature/login\n  atoll worktree remove fix-42 --force",
		Args:    app.CheckArgCount(1, 1, "a branch"),
		RunE: func(cmd *cobra.Command, args []string) error {
			w, err := a.projectAt(cmd.Context(), *sandbox)
			if err != nil {
				return err
			}
			return a.removeTree(cmd.Context(), w, args[0], force, discard)
		},
	}
	cmd.Flags().BoolVarP(&force, "force", "f", false, "also one with work that no commit has, which is saved first")
	cmd.Flags().BoolVar(&discard, "discard", false, "do not save it: it is lost")
	return cmd
}

func (a commands) removeTree(ctx context.Context, w *pairing.Pair, branch string, force, discard bool) error {
	if err := project.CheckBranch(branch); err != nil {
		return err
	}
	trees, err := pairing.ListWorktrees(ctx, w)
	if err != nil {
		return err
	}
	terminal := ""
	for _, t := range trees {
		if t.Branch == branch {
			terminal = t.Terminal
		}
	}
	how := project.KeepWork
	if force || discard {
		how = project.DiscardWork
	}
	if force && !discard {
		if err := pairing.Rescue(ctx, a.App, w); err != nil {
			return exitcode.With(exitcode.Refused, fmt.Errorf("working tree of %s stays: its work could not be saved: %w\n--discard removes it with all its work", branch, err))
		}
	}
	err = w.NameError(project.RemoveWorktree(ctx, w.Sandbox, branch, how))
	switch {
	case errors.Is(err, project.ErrUnsaved):
		return exitcode.With(exitcode.Refused, fmt.Errorf("%w\ncommit it inside, or say --force, which saves it first", err))
	case errors.Is(err, atoll.ErrNotFound):
		return fmt.Errorf("%w\n'atoll worktree list' shows what there is", err)
	case errors.Is(err, atoll.ErrInvalid): // the main one
		return exitcode.With(exitcode.Refused, err)
	case err != nil:
		return err
	}
	if terminal != "" {
		err = w.Sandbox.CloseTerminal(ctx, terminal)
	}
	if errors.Is(err, atoll.ErrNotFound) || errors.Is(err, atoll.ErrUnsupported) {
		err = nil
	}
	if err == nil && a.JSON {
		return a.PrintChange(app.Change{Action: "removed", Kind: "worktree", Name: branch})
	}
	if err == nil {
		_, err = fmt.Fprintln(a.Out, strings.TrimSpace(output.Clean(branch)))
	}
	return err
}
