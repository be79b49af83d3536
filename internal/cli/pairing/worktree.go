package pairing

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/client"
	"github.com/atoll-sandbox/atoll/internal/cli/app"
	"github.com/atoll-sandbox/atoll/internal/cli/attach"
	"github.com/atoll-sandbox/atoll/internal/cli/output"
	"github.com/atoll-sandbox/atoll/internal/project"
)

// Worktree is a working tree of a sandbox, as --json tells it.
type Worktree struct {
	Branch   string `json:"branch"`
	Path     string `json:"path"`
	Commit   string `json:"commit,omitempty"`
	Terminal string `json:"terminal,omitempty"`
	Port     int    `json:"port,omitempty"`
	Main     bool   `json:"main"`
}

// ListWorktrees lists the working trees of a sandbox with what belongs to them. One
// that is on no branch has neither terminal nor port of its own.
func ListWorktrees(ctx context.Context, w *Pair) ([]Worktree, error) {
	trees, err := project.Worktrees(ctx, w.Sandbox)
	if err != nil {
		return nil, w.NameError(err)
	}
	list := make([]Worktree, 0, len(trees))
	for _, t := range trees {
		tree := Worktree{Branch: t.Branch, Path: t.Path, Commit: t.Commit, Main: t.Main}
		switch {
		case t.Main:
			tree.Terminal, tree.Port = w.Name(), project.FirstPort
		case project.CheckBranch(t.Branch) == nil:
			if tree.Port, err = project.AssignPort(ctx, w.Sandbox, t.Branch); err == nil {
				tree.Terminal, err = project.TerminalName(ctx, w.Sandbox, w.Name(), t.Branch)
			}
			if err != nil {
				return nil, err
			}
		}
		list = append(list, tree)
	}
	return list, nil
}

// EnsureWorktreeTerminal gives a working tree its port, and a terminal if it has none that
// runs.
func EnsureWorktreeTerminal(ctx context.Context, a *app.App, w *Pair, t Worktree) (Worktree, error) {
	var err error
	if t.Port, err = project.AssignPort(ctx, w.Sandbox, t.Branch); err != nil {
		return t, err
	}
	if t.Terminal, err = project.TerminalName(ctx, w.Sandbox, w.Name(), t.Branch); err != nil {
		return t, err
	}
	list, err := w.Sandbox.ListTerminals(ctx)
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
		if err := w.Sandbox.CloseTerminal(ctx, have.Name); err != nil {
			return t, err
		}
	}
	_, err = attach.OpenTerminal(ctx, a, w.Sandbox, atoll.TerminalSpec{Name: t.Terminal, Dir: t.Path, Env: t.Environment()})
	if errors.Is(err, atoll.ErrExists) {
		err = nil // another was quicker
	}
	return t, err
}

// Environment returns the variables of what runs in a working tree.
func (t Worktree) Environment() []string {
	return []string{"ATOLL_PORT=" + strconv.Itoa(t.Port), "ATOLL_BRANCH=" + t.Branch}
}

// findWorktree finds the working tree of a branch in a project's sandbox; none is
// atoll.ErrNotFound.
func findWorktree(ctx context.Context, a *app.App, sb *client.Sandbox, branch string) (*Pair, Worktree, error) {
	info, err := sb.Info(ctx)
	if err != nil {
		return nil, Worktree{}, err
	}
	w, err := OpenIfProject(ctx, a, info)
	switch {
	case err != nil:
		return nil, Worktree{}, err
	case w == nil:
		return nil, Worktree{}, fmt.Errorf("sandbox %s: %w: it is no project's and has no working trees", output.SandboxName(info.Status), atoll.ErrNotFound)
	}
	if err := w.CheckRunning(); err != nil {
		return w, Worktree{}, err
	}
	list, err := ListWorktrees(ctx, w)
	if err != nil {
		return w, Worktree{}, err
	}
	i := slices.IndexFunc(list, func(t Worktree) bool { return t.Branch == branch && t.Terminal != "" })
	if i < 0 {
		return w, Worktree{}, fmt.Errorf("branch %s: %w: it has no working tree in %s; 'atoll worktree add %s' makes one", output.Clean(branch), atoll.ErrNotFound, w.Name(), output.Clean(branch))
	}
	return w, list[i], nil
}

// CommandInWorktree has a command run in the working tree of a branch.
func CommandInWorktree(ctx context.Context, a *app.App, sb *client.Sandbox, branch string, cmd atoll.Cmd) (atoll.Cmd, error) {
	_, t, err := findWorktree(ctx, a, sb, branch)
	if err != nil {
		return cmd, err
	}
	switch {
	case cmd.Dir == "":
		cmd.Dir = t.Path
	case !path.IsAbs(cmd.Dir):
		cmd.Dir = path.Join(t.Path, cmd.Dir)
	}
	cmd.Env = append(t.Environment(), cmd.Env...)
	return cmd, nil
}

// AttachWorktree puts a person before the terminal of a branch's working tree, which
// is opened anew if it has ended.
func AttachWorktree(ctx context.Context, a *app.App, sb *client.Sandbox, branch string, b attach.Options) error {
	w, t, err := findWorktree(ctx, a, sb, branch)
	if err != nil {
		return err
	}
	if t, err = EnsureWorktreeTerminal(ctx, a, w, t); err != nil {
		return err
	}
	if t.Terminal == "" {
		return fmt.Errorf("%w: sandbox %s has no terminals", atoll.ErrUnsupported, w.Name())
	}
	if err := errors.Join(ReportRefusal(a, w), EnsureWatcher(a, w)); err != nil {
		return err
	}
	return attach.Terminal(ctx, a, sb, w.Name(), t.Terminal, b)
}
