package project

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/atoll-sandbox/atoll"
	agentrun "github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/internal/cli/app"
	"github.com/atoll-sandbox/atoll/internal/cli/output"
	"github.com/atoll-sandbox/atoll/internal/cli/pairing"
	"github.com/atoll-sandbox/atoll/internal/cli/tty"
	"github.com/atoll-sandbox/atoll/internal/project"
)

// reviewFlags are the flags of 'atoll review'.
type reviewFlags struct {
	comments  []string
	agent     string
	connector string
	model     string
	ask       bool
	wait      bool
	dryRun    bool
	edit      bool
}

func (a commands) reviewCommand() *cobra.Command {
	var f reviewFlags
	cmd := &cobra.Command{
		Use:   "review [NAME] BRANCH",
		Short: "Review an agent's branch and send it your comments",
		Long: `Show the changes on a branch of a project's sandbox, as 'atoll diff' does, and
send comments on them to the agent that works there, as its next message.

On a terminal, your editor ($VISUAL, $EDITOR) opens the changes: write comments
below the lines that they are about. With -m, give the comments on the command
line. Without a terminal and without -m, the changes are only printed.

The agent is the last that worked on the branch; it remembers its work.

The exit status is 3 if the agent still works: --wait waits for it.`,
		Example: `  atoll review fix-login
  atoll review fix-login -m "login.go:42: handle the error" -m "add a test"
  atoll review web fix-login --wait -m "rebase on main"`,
		Args:              app.CheckArgCount(1, 2, "a branch, or the name of a sandbox and a branch"),
		ValidArgsFunction: a.CompleteFrom(-1, a.agentBranches),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.reviewBranch(cmd.Context(), args, f)
		},
	}
	fl := cmd.Flags()
	fl.SortFlags = false
	fl.StringArrayVarP(&f.comments, "message", "m", nil, "a comment: \"`FILE:LINE: TEXT`\", or TEXT about all of it (repeatable)")
	fl.BoolVarP(&f.edit, "edit", "e", false, "open the editor, also with -m")
	fl.BoolVar(&f.wait, "wait", false, "wait until the agent has ended its work, if it works")
	fl.BoolVarP(&f.dryRun, "dry-run", "n", false, "print the message, send nothing")
	fl.StringVar(&f.agent, "agent", "", "send it to this `AGENT` instead")
	fl.StringVarP(&f.connector, "connector", "c", "", "`CONNECTOR` to the model, as with 'atoll agent run'")
	fl.StringVar(&f.model, "model", "", "`MODEL` to ask")
	fl.BoolVar(&f.ask, "ask", false, "the agent asks before it uses tools ('atoll turn decide')")
	return cmd
}

// reviewResult is the result of a review as --json prints it.
type reviewResult struct {
	Sandbox  string    `json:"sandbox"`
	Branch   string    `json:"branch"`
	Agent    string    `json:"agent"`
	Comments []comment `json:"comments"`
	Message  string    `json:"message,omitempty"`
	Turn     string    `json:"turn,omitempty"` // empty: nothing was sent
	DryRun   bool      `json:"dry_run"`
}

// reviewBranch shows the changes of a branch, and sends comments on them.
func (a commands) reviewBranch(ctx context.Context, args []string, f reviewFlags) error {
	branch := args[len(args)-1]
	if err := project.CheckBranch(branch); err != nil {
		return err
	}
	w, err := pairing.FindByArg(ctx, a.App, args[:len(args)-1])
	if err != nil {
		return err
	}
	if err := w.CheckRunning(); err != nil {
		return err
	}
	last, err := a.lastAgent(ctx, w, branch, f)
	if err != nil {
		return err
	}
	repo, fetched, _, err := a.fetchBranch(ctx, w, branch, true)
	if err != nil {
		return err
	}
	v := project.ReviewOptions{Name: w.Name(), Branch: fetched}
	onTerminal := tty.IsTerminal(a.In) && tty.IsTerminal(a.Out) && !a.JSON
	if len(f.comments) == 0 && !f.edit && !onTerminal {
		err := a.StartPager(ctx, func(out io.Writer) error { return repo.Diff(ctx, out, v) })
		return pairing.ExplainRefusal(a.App, w, err)
	}
	list, err := a.readComments(ctx, repo, v, f.comments)
	if err == nil && (f.edit || len(f.comments) == 0) {
		var more []comment
		more, err = a.editComments(ctx, repo, v, branch)
		list = append(more, list...)
	}
	if err != nil {
		return pairing.ExplainRefusal(a.App, w, err)
	}
	res := reviewResult{Sandbox: w.Name(), Branch: branch, Agent: last, Comments: output.NonNil(list), DryRun: f.dryRun}
	if len(list) > 0 {
		res.Message = formatReview(branch, list)
	}
	if len(list) > 0 && !f.dryRun {
		if res.Turn, err = a.sendReview(ctx, w, branch, last, res.Message, f); err != nil {
			return err
		}
	}
	return a.printReview(res)
}

// printReview prints what was sent.
func (a commands) printReview(res reviewResult) error {
	switch {
	case a.JSON:
		return a.PrintJSON(res)
	case res.Message == "":
		a.Progress("atoll: no comments: nothing was sent")
		return nil
	case res.DryRun:
		return pairing.PrintLines(a.App, res.Message)
	}
	a.Progress("%s: %s was sent to %s on branch %s; 'atoll agents' shows how far it is", res.Sandbox, output.FormatCount(len(res.Comments), "comment"), res.Agent, res.Branch)
	_, err := fmt.Fprintln(a.Out, res.Turn)
	return err
}

// lastAgent returns the agent that worked on a branch last, or the one of --agent.
func (a commands) lastAgent(ctx context.Context, w *pairing.Pair, branch string, f reviewFlags) (string, error) {
	if f.agent != "" {
		one, err := findTerminalAgent(f.agent)
		if err != nil {
			return "", err
		}
		return one.name, nil
	}
	c, err := a.Client(ctx)
	if err != nil {
		return "", err
	}
	s, err := c.Session(ctx, w.AgentChat(branch))
	if errors.Is(err, atoll.ErrNotFound) {
		return "", fmt.Errorf("branch %s of %s: %w: no agent has worked on it; --agent sends your comments to one, 'atoll diff %[2]s %[1]s' only shows the changes", branch, w.Name(), atoll.ErrNotFound)
	}
	return s.Agent, err
}

// readComments reads the comments of the command line. Each that names a line quotes it.
func (a commands) readComments(ctx context.Context, repo *project.Repo, v project.ReviewOptions, texts []string) ([]comment, error) {
	var list []comment
	for _, text := range texts {
		c, err := parseComment(text)
		if err != nil {
			return nil, fmt.Errorf("%w: -m %q: %w", atoll.ErrInvalid, text, err)
		}
		if c.File != "" {
			body, err := repo.ReadFetchedFile(ctx, v, c.File)
			if err != nil {
				return nil, fmt.Errorf("-m %q: %w", text, err)
			}
			lines := strings.Split(strings.TrimSuffix(body, "\n"), "\n")
			if c.Line > len(lines) {
				return nil, fmt.Errorf("%w: -m %q: %s has %s", atoll.ErrInvalid, text, c.File, output.FormatCount(len(lines), "line"))
			}
			c.Code = output.Truncate(cleanCode(lines[c.Line-1]), mostCode)
		}
		list = append(list, c)
	}
	return list, nil
}

// Limits of a review.
const (
	mostCode   = 500     // characters of a quoted line
	mostBuffer = 8 << 20 // bytes of a diff in an editor
)

// editComments opens the changes in the user's editor, and returns the comments in them.
func (a commands) editComments(ctx context.Context, repo *project.Repo, v project.ReviewOptions, branch string) (_ []comment, err error) {
	var diff bytes.Buffer
	if err := repo.Diff(ctx, &diff, v); err != nil {
		return nil, err
	}
	if diff.Len() > mostBuffer {
		return nil, fmt.Errorf("%w: the changes have %s, too many for an editor; 'atoll diff' shows them, -m gives comments", atoll.ErrInvalid, output.FormatBytes(int64(diff.Len())))
	}
	dir, err := os.MkdirTemp("", "atoll-review-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	file := filepath.Join(dir, "REVIEW")
	before := formatBuffer(branch, v.Name, diff.String())
	if err := os.WriteFile(file, []byte(before), 0o600); err != nil {
		return nil, err
	}
	if err := a.runEditor(ctx, file); err != nil {
		return nil, err
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return parseBuffer(string(text)), nil
}

// runEditor runs the user's editor on a file.
func (a commands) runEditor(ctx context.Context, file string) error {
	editor := cmp.Or(os.Getenv("VISUAL"), os.Getenv("EDITOR"), "vi")
	cmd := exec.CommandContext(ctx, "sh", "-c", editor+` "$@"`, editor, file) // as git does: it may have options
	cmd.Stdin, cmd.Stdout, cmd.Stderr = a.In, a.Out, a.Err
	cmd.Cancel = func() error { return nil } // Ctrl-C is the editor's, too
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("the editor %s: %w; $VISUAL and $EDITOR name another, -m needs none", editor, err)
	}
	return nil
}

// sendReview sends the message as the next turn of the branch's agent.
func (a commands) sendReview(ctx context.Context, w *pairing.Pair, branch, agent, message string, f reviewFlags) (string, error) {
	list, err := pairing.ListWorktrees(ctx, w)
	if err != nil {
		return "", err
	}
	at := slices.IndexFunc(list, func(t pairing.Worktree) bool { return t.Branch == branch })
	if at < 0 {
		return "", fmt.Errorf("branch %s of %s: %w: it has no working tree any more; 'atoll up %s --branch %[1]s TASK' makes one", branch, w.Name(), atoll.ErrState, agent)
	}
	if f.wait {
		if err := a.waitForAgent(ctx, w, branch); err != nil {
			return "", err
		}
	}
	q := agentrun.Request{Agent: agent, Connector: f.connector}
	q.Prompt, q.Model, q.Ask = agentrun.Text(message), f.model, f.ask
	rec, err := a.startBranchTurn(ctx, w, list[at], q)
	return rec.ID, err
}

// waitForAgent waits until no agent works on a branch.
func (a commands) waitForAgent(ctx context.Context, w *pairing.Pair, branch string) error {
	tick := time.NewTicker(agentsInterval)
	defer tick.Stop()
	for {
		s, err := a.Conn.Session(ctx, w.AgentChat(branch))
		if errors.Is(err, atoll.ErrNotFound) {
			return nil
		}
		if err != nil {
			return app.ConvertInterrupt(ctx, err)
		}
		if one := newBranchAgent(s, w.Info); one.State.isOver() {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}
