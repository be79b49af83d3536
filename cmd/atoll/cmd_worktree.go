package main

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/client"
	"github.com/atoll-sandbox/atoll/internal/project"
)

const worktreeStatuses = `The exit status is 0, 1 without such a sandbox or branch, 2 if it was refused: the branch has
a working tree already, or one has work that no commit has.`

// exitTreeRefused is the exit status of what was not done to a working tree.
const exitTreeRefused = 2

func (a *app) worktreeCommand() *cobra.Command {
	var sandbox string
	cmd := &cobra.Command{
		Use:   "worktree",
		Short: "Working trees of a project's sandbox, one for each branch",
		Long: `Working trees of a project's sandbox, one for each branch, at /workspace/.worktrees/BRANCH.
Each has a terminal of its own, SANDBOX-BRANCH, and ten ports: $ATOLL_PORT is the first.

Without --sandbox it is the sandbox of the directory that you are in.`,
		Example: `  atoll worktree add feature/login --create
  atoll worktree list
  atoll attach web --worktree feature/login
  atoll worktree remove feature/login`,
		Args: noSuchCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.PersistentFlags().StringVarP(&sandbox, "sandbox", "s", "", "the project's sandbox")
	cmd.AddCommand(a.worktreeAdd(&sandbox), a.worktreeList(&sandbox), a.worktreeRemove(&sandbox))
	return cmd
}

// projectAt finds the project's sandbox that a flag names, if it runs.
func (a *app) projectAt(ctx context.Context, sandbox string) (*workplace, error) {
	w, err := a.project(ctx, sandbox)
	if errors.Is(err, atoll.ErrNotFound) {
		return nil, exits(exitNotFound, err)
	}
	if err != nil {
		return nil, err
	}
	return w, w.running()
}

// worktree is a working tree of a sandbox, as --json tells it.
type worktree struct {
	Branch   string `json:"branch"`
	Path     string `json:"path"`
	Commit   string `json:"commit,omitempty"`
	Terminal string `json:"terminal,omitempty"`
	Port     int    `json:"port,omitempty"`
	Main     bool   `json:"main"`
}

// worktrees lists the working trees of a sandbox with what belongs to them. One
// that is on no branch has neither terminal nor port of its own.
func worktrees(ctx context.Context, w *workplace) ([]worktree, error) {
	trees, err := project.Worktrees(ctx, w.sb)
	if err != nil {
		return nil, w.named(err)
	}
	list := make([]worktree, 0, len(trees))
	for _, t := range trees {
		tree := worktree{Branch: t.Branch, Path: t.Path, Commit: t.Commit, Main: t.Main}
		switch {
		case t.Main:
			tree.Terminal, tree.Port = w.name(), project.FirstPort
		case project.CheckBranch(t.Branch) == nil:
			if tree.Port, err = project.Port(ctx, w.sb, t.Branch); err == nil {
				tree.Terminal, err = project.TerminalName(ctx, w.sb, w.name(), t.Branch)
			}
			if err != nil {
				return nil, err
			}
		}
		list = append(list, tree)
	}
	return list, nil
}

func (a *app) worktreeList(sandbox *string) *cobra.Command {
	return &cobra.Command{
		Use: "list", Aliases: []string{"ls"},
		Short: "List the working trees of a project's sandbox",
		Long:  "List the working trees of a project's sandbox; '*' marks the main one.\n\n" + worktreeStatuses,
		Args:  needArgs(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			w, err := a.projectAt(cmd.Context(), *sandbox)
			if err != nil {
				return err
			}
			list, err := worktrees(cmd.Context(), w)
			switch {
			case err != nil:
				return err
			case a.json:
				return a.print(list)
			}
			rows := [][]string{{"", "BRANCH", "PATH", "TERMINAL", "PORT"}}
			for _, t := range list {
				rows = append(rows, t.row())
			}
			return a.table(rows)
		},
	}
}

func (t worktree) row() []string {
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
	return []string{mark, branch, t.Path, dash(t.Terminal), port}
}

func (a *app) worktreeAdd(sandbox *string) *cobra.Command {
	var create bool
	cmd := &cobra.Command{
		Use:   "add BRANCH",
		Short: "Make a working tree for a branch",
		Long: `Make a working tree for a branch of a project's sandbox, with the files that came in beside
git, a terminal and ports of its own. With --create a branch that is not there is made,
where the main working tree is.

` + worktreeStatuses,
		Example: "  atoll worktree add feature/login --create\n  atoll worktree add fix-42 -s web",
		Args:    needArgs(1, 1, "a branch"),
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

func (a *app) addTree(ctx context.Context, w *workplace, branch string, create bool) error {
	if err := project.CheckBranch(branch); err != nil {
		return err
	}
	there, err := project.HasBranch(ctx, w.sb, branch)
	if err != nil {
		return w.named(err)
	}
	if !there && !create {
		return exits(exitNotFound, fmt.Errorf("branch %s of sandbox %s: %w; --create makes it", branch, w.name(), atoll.ErrNotFound))
	}
	t, err := project.AddWorktree(ctx, w.sb, branch)
	err = w.named(err)
	if errors.Is(err, atoll.ErrExists) || errors.Is(err, atoll.ErrState) {
		return exits(exitTreeRefused, err)
	}
	if err != nil {
		return err
	}
	tree, err := a.treeTerminal(ctx, w, worktree{Branch: t.Branch, Path: t.Path, Commit: t.Commit})
	switch {
	case err != nil:
		return err
	case a.json:
		return a.print(tree)
	}
	if _, err = fmt.Fprintln(a.out, plain(tree.Path)); err == nil {
		a.progress("atoll: terminal %s, port %d; 'atoll attach %s --worktree %s' goes there", tree.Terminal, tree.Port, w.name(), branch)
	}
	return err
}

// treeTerminal gives a working tree its port, and a terminal if it has none that
// runs.
func (a *app) treeTerminal(ctx context.Context, w *workplace, t worktree) (worktree, error) {
	var err error
	if t.Port, err = project.Port(ctx, w.sb, t.Branch); err != nil {
		return t, err
	}
	if t.Terminal, err = project.TerminalName(ctx, w.sb, w.name(), t.Branch); err != nil {
		return t, err
	}
	list, err := w.sb.ListTerminals(ctx)
	switch {
	case errors.Is(err, atoll.ErrUnsupported):
		t.Terminal = ""
		return t, nil
	case err != nil:
		return t, err
	}
	for _, have := range list {
		if have.Name != t.Terminal {
			continue
		}
		if have.Running {
			return t, nil
		}
		if err := w.sb.CloseTerminal(ctx, have.Name); err != nil {
			return t, err
		}
	}
	_, err = a.openTerminal(ctx, w.sb, atoll.TerminalSpec{Name: t.Terminal, Dir: t.Path, Env: t.env()})
	if errors.Is(err, atoll.ErrExists) {
		err = nil // another was quicker
	}
	return t, err
}

// env are variables for what runs in a working tree.
func (t worktree) env() []string {
	return []string{"ATOLL_PORT=" + strconv.Itoa(t.Port), "ATOLL_BRANCH=" + t.Branch}
}

// tree finds the working tree of a branch in a project's sandbox; none is
// atoll.ErrNotFound.
func (a *app) tree(ctx context.Context, sb *client.Sandbox, branch string) (*workplace, worktree, error) {
	info, err := sb.Info(ctx)
	if err != nil {
		return nil, worktree{}, err
	}
	w, err := a.workplaceOf(ctx, info)
	switch {
	case err != nil:
		return nil, worktree{}, err
	case w == nil:
		return nil, worktree{}, fmt.Errorf("sandbox %s: %w: it is no project's and has no working trees", label(info.Status), atoll.ErrNotFound)
	}
	if err := w.running(); err != nil {
		return w, worktree{}, err
	}
	list, err := worktrees(ctx, w)
	if err != nil {
		return w, worktree{}, err
	}
	i := slices.IndexFunc(list, func(t worktree) bool { return t.Branch == branch && t.Terminal != "" })
	if i < 0 {
		return w, worktree{}, fmt.Errorf("branch %s: %w: it has no working tree in %s; 'atoll worktree add %s' makes one", plain(branch), atoll.ErrNotFound, w.name(), plain(branch))
	}
	return w, list[i], nil
}

// inTree has a command run in the working tree of a branch.
func (a *app) inTree(ctx context.Context, sb *client.Sandbox, branch string, cmd atoll.Cmd) (atoll.Cmd, error) {
	_, t, err := a.tree(ctx, sb, branch)
	if err != nil {
		return cmd, err
	}
	switch {
	case cmd.Dir == "":
		cmd.Dir = t.Path
	case !path.IsAbs(cmd.Dir):
		cmd.Dir = path.Join(t.Path, cmd.Dir)
	}
	cmd.Env = append(t.env(), cmd.Env...)
	return cmd, nil
}

// attachTree puts a person before the terminal of a branch's working tree, which
// is opened anew if it has ended.
func (a *app) attachTree(ctx context.Context, sb *client.Sandbox, branch string, b before) error {
	w, t, err := a.tree(ctx, sb, branch)
	switch {
	case errors.Is(err, atoll.ErrNotFound):
		return exits(exitNotFound, err)
	case errors.Is(err, atoll.ErrState):
		return exits(exitNotRunning, err)
	case err != nil:
		return err
	}
	if t, err = a.treeTerminal(ctx, w, t); err != nil {
		return err
	}
	if t.Terminal == "" {
		return fmt.Errorf("%w: sandbox %s has no terminals", atoll.ErrUnsupported, w.name())
	}
	if err := errors.Join(a.tellRefusal(w), a.watcher(w)); err != nil {
		return err
	}
	return a.attachTerminal(ctx, sb, w.name(), t.Terminal, b)
}

func (a *app) worktreeRemove(sandbox *string) *cobra.Command {
	var force, discard bool
	cmd := &cobra.Command{
		Use: "remove BRANCH", Aliases: []string{"rm"},
		Short: "Remove the working tree of a branch",
		Long: `Remove the working tree of a branch, and its terminal; the branch and its commits stay. One
with work that no commit has stays, too, unless forced: then that is saved first, and
'atoll restore' brings it back. Files that git ignores go with it.

` + worktreeStatuses,
		Example: "  atoll worktree remove feature/login\n  atoll worktree remove fix-42 --force",
		Args:    needArgs(1, 1, "a branch"),
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

func (a *app) removeTree(ctx context.Context, w *workplace, branch string, force, discard bool) error {
	if err := project.CheckBranch(branch); err != nil {
		return err
	}
	trees, err := worktrees(ctx, w)
	if err != nil {
		return err
	}
	terminal := ""
	for _, t := range trees {
		if t.Branch == branch {
			terminal = t.Terminal
		}
	}
	how := project.Keep
	if force || discard {
		how = project.Discard
	}
	if force && !discard {
		if err := a.rescue(ctx, w); err != nil {
			return exits(exitTreeRefused, fmt.Errorf("working tree of %s stays: its work could not be saved: %w\n--discard removes it with all its work", branch, err))
		}
	}
	err = w.named(project.RemoveWorktree(ctx, w.sb, branch, how))
	switch {
	case errors.Is(err, project.ErrUnsaved):
		return exits(exitTreeRefused, fmt.Errorf("%w\ncommit it inside, or say --force, which saves it first", err))
	case errors.Is(err, atoll.ErrNotFound):
		return exits(exitNotFound, fmt.Errorf("%w\n'atoll worktree list' shows what there is", err))
	case errors.Is(err, atoll.ErrInvalid): // the main one
		return exits(exitTreeRefused, err)
	case err != nil:
		return err
	}
	if terminal != "" {
		err = w.sb.CloseTerminal(ctx, terminal)
	}
	if errors.Is(err, atoll.ErrNotFound) || errors.Is(err, atoll.ErrUnsupported) {
		err = nil
	}
	if err == nil && !a.json {
		_, err = fmt.Fprintln(a.out, strings.TrimSpace(plain(branch)))
	}
	return err
}
