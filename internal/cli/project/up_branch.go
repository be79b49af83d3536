package project

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/atoll-sandbox/atoll"
	agentrun "github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/internal/cli/exitcode"
	"github.com/atoll-sandbox/atoll/internal/cli/pairing"
	"github.com/atoll-sandbox/atoll/internal/project"
)

// branchFlags are the flags of 'atoll up' for work on a branch of its own.
type branchFlags struct {
	name      string
	task      string
	connector string
	model     string
	ask       bool
}

func (f *branchFlags) add(fl *pflag.FlagSet) {
	fl.StringVarP(&f.name, "branch", "b", "", "work on this `BRANCH`, in a working tree of its own; a new one begins at the sandbox's")
	fl.BoolVar(&f.ask, "ask", false, "of a task: the agent asks before it uses tools ('atoll turn decide')")
	fl.StringVarP(&f.connector, "connector", "c", "", "of a task: `CONNECTOR` to the model, as with 'atoll agent run'")
	fl.StringVarP(&f.model, "model", "m", "", "of a task: `MODEL` to ask")
}

// takeTask removes the task from the arguments: with --branch, what follows the agent, or the agent and a
// directory.
func (f *upFlags) takeTask(args []string) ([]string, error) {
	b := &f.branch
	switch {
	case b.name == "" && len(args) > 2:
		return nil, fmt.Errorf("%w: %d arguments: an agent and a directory, at most; a task needs --branch", atoll.ErrInvalid, len(args))
	case b.name == "" && (b.ask || b.connector != "" || b.model != ""):
		return nil, fmt.Errorf("%w: --ask, --connector and --model are of a task, which needs --branch", atoll.ErrInvalid)
	case b.name == "" || len(args) == 0:
		return args, nil
	}
	if err := project.CheckBranch(b.name); err != nil {
		return nil, err
	}
	before := 0 // arguments before the task
	if _, err := findTerminalAgent(args[0]); err == nil && f.agent == "" {
		before = 1
	}
	if len(args)-before == 2 {
		if info, err := os.Stat(args[before]); err != nil || !info.IsDir() {
			return nil, fmt.Errorf("%w: %q is neither an agent nor a directory; write a task of several words in quotes", atoll.ErrInvalid, args[before])
		}
		before++
	}
	if len(args) > before+1 {
		return nil, fmt.Errorf("%w: %d words: write the task in quotes", atoll.ErrInvalid, len(args)-before)
	}
	if len(args) > before {
		if b.task = args[before]; strings.TrimSpace(b.task) == "" {
			return nil, fmt.Errorf("%w: the task is empty", atoll.ErrInvalid)
		}
	}
	return args[:before], nil
}

// readTask reads a task that is "-" from standard input.
func (a commands) readTask(b *branchFlags) error {
	if b.task != "-" {
		return nil
	}
	text, err := io.ReadAll(a.In)
	if b.task = strings.TrimSpace(string(text)); err == nil && b.task == "" {
		err = fmt.Errorf("%w: standard input is empty: it must have the task", atoll.ErrInvalid)
	}
	return err
}

// openBranch opens the working tree of the named branch and its terminal, and starts the agent on the task, or on
// the terminal if there is none.
func (a commands) openBranch(ctx context.Context, r *upRun, w *pairing.Pair) (terminal string, err error) {
	if r.tree, err = a.ensureTree(ctx, w, r.branch.name); err != nil {
		return "", err
	}
	if r.branch.task == "" {
		return a.openAgentTerminal(ctx, r, w, atoll.TerminalSpec{Name: r.tree.Terminal, Dir: r.tree.Path, Env: r.tree.Environment()})
	}
	if r.agent, err = a.agentOfTask(r); err != nil {
		return "", err
	}
	one, err := findTerminalAgent(r.agent)
	if err != nil {
		return "", err
	}
	if _, err := a.findAgentProgram(ctx, w, one); err != nil {
		return "", err
	}
	if r.tree, err = pairing.EnsureWorktreeTerminal(ctx, a.App, w, r.tree); err != nil {
		return "", err
	}
	q := agentrun.Request{Agent: r.agent, Connector: r.branch.connector}
	q.Prompt, q.Model, q.Ask = agentrun.Text(r.branch.task), r.branch.model, r.branch.ask
	r.turn, err = a.startBranchTurn(ctx, w, r.tree, q)
	if errors.Is(err, atoll.ErrInvalid) && os.Getenv(one.key) != "" {
		err = fmt.Errorf("%w\nthe server that runs here may have been started without your %s: 'atoll serve --stop' ends it, and sandboxes stay; then say it again", err, one.key)
	}
	return r.tree.Terminal, err
}

// ensureTree returns the working tree of a branch, which is created if there is none.
func (a commands) ensureTree(ctx context.Context, w *pairing.Pair, branch string) (pairing.Worktree, error) {
	for first := true; ; first = false {
		list, err := pairing.ListWorktrees(ctx, w)
		if err != nil {
			return pairing.Worktree{}, err
		}
		if i := slices.IndexFunc(list, func(t pairing.Worktree) bool { return t.Branch == branch }); i >= 0 {
			return list[i], nil
		}
		_, err = project.AddWorktree(ctx, w.Sandbox, branch)
		if err != nil && (!first || !errors.Is(err, atoll.ErrExists)) { // else another process was first
			return pairing.Worktree{}, w.NameError(err)
		}
	}
}

// agentOfTask returns the agent of a task: the named one, or that of the project file, to which the user has
// consented.
func (a commands) agentOfTask(r *upRun) (string, error) {
	if r.agent != "" {
		return r.agent, nil
	}
	before, err := a.readAgreed(r.repo)
	if err != nil {
		return "", err
	}
	if r.file.Agent == "" || !slices.Contains(before.Grants, r.file.AgentGrant()) {
		return "", fmt.Errorf("%w: which agent? 'atoll up claude --branch %s TASK'", atoll.ErrInvalid, r.branch.name)
	}
	return r.file.Agent, nil
}

// startBranchTurn starts a turn of an agent in the working tree of a branch, in the conversation of that branch.
func (a commands) startBranchTurn(ctx context.Context, w *pairing.Pair, t pairing.Worktree, q agentrun.Request) (agentrun.Record, error) {
	c, err := a.Client(ctx)
	if err != nil {
		return agentrun.Record{}, err
	}
	if c.Host == "" {
		return agentrun.Record{}, fmt.Errorf("%w: a task goes on in the background, which needs a server: 'atoll serve', or the setting server.autostart", atoll.ErrUnsupported)
	}
	q.Chat, q.Sandbox, q.Dir = w.AgentChat(t.Branch), w.Info.ID, t.Path
	q.Env, q.Trust = t.Environment(), true
	q.Labels = map[string]string{project.Label: w.Info.Labels[project.Label], project.LabelAgentSandbox: w.Info.ID, project.LabelAgentBranch: t.Branch}
	rec, err := c.StartTurn(ctx, q)
	if errors.Is(err, atoll.ErrState) {
		err = exitcode.With(exitcode.Refused, fmt.Errorf("branch %s of %s: %w: an agent works on it; 'atoll agents --wait %[1]s' waits for its end, 'atoll turn interrupt' ends it", t.Branch, w.Name(), atoll.ErrState))
	}
	return rec, err
}
