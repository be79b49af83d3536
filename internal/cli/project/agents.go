package project

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/atoll-sandbox/atoll"
	agentrun "github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/client"
	"github.com/atoll-sandbox/atoll/internal/cli/app"
	"github.com/atoll-sandbox/atoll/internal/cli/exitcode"
	"github.com/atoll-sandbox/atoll/internal/cli/output"
	"github.com/atoll-sandbox/atoll/internal/cli/pairing"
	"github.com/atoll-sandbox/atoll/internal/project"
)

// agentState is what an agent on a branch does.
type agentState string

// The states.
const (
	agentWorks   agentState = "working"
	agentWaits   agentState = "waiting" // for permission to use a tool
	agentDone    agentState = "done"
	agentFailed  agentState = "failed"
	agentStopped agentState = "stopped" // interrupted, or cancelled
)

// isOver reports whether the agent has nothing to do.
func (s agentState) isOver() bool { return s != agentWorks && s != agentWaits }

// branchAgent is an agent that works on a branch, or has, as --json prints it.
type branchAgent struct {
	Project     string                `json:"project"`
	Sandbox     string                `json:"sandbox"`
	ID          string                `json:"id"`             // of the sandbox
	Path        string                `json:"path,omitempty"` // of the project's working tree on the host
	Branch      string                `json:"branch"`
	Agent       string                `json:"agent"`
	State       agentState            `json:"state"`
	Outcome     agentrun.Outcome      `json:"outcome,omitempty"` // of the last task; none: it works on it
	Message     string                `json:"message,omitempty"` // the agent's last message, or why it failed
	Turn        string                `json:"turn"`              // the current task, or the last one
	Turns       int                   `json:"turns"`             // number of tasks and reviews
	Permissions []agentrun.Permission `json:"permissions,omitempty"`
	Usage       agentrun.Usage        `json:"usage,omitzero"` // of all turns
	Started     time.Time             `json:"started"`
	Updated     time.Time             `json:"updated"`
}

// agentsFlags are the flags of 'atoll agents'.
type agentsFlags struct {
	sandbox     string
	watch, wait bool
	notice      noticeFlags
}

func (a commands) agentsCommand() *cobra.Command {
	var f agentsFlags
	cmd := &cobra.Command{
		Use:   "agents [BRANCH...]",
		Short: "List the agents that work on branches",
		Long: `List the agents that 'atoll up AGENT --branch BRANCH TASK' started, in all
projects: what each does, and its last message. The states are working, waiting
(for permission to use a tool: 'atoll turn decide'), done, failed and stopped.

With --watch, print each change as it happens; with --wait, until no agent works
any more. --bell, --notify and --webhook report an agent that waits or has
ended.

The exit status of --wait is 1 if an agent has failed or was stopped.`,
		Example: `  atoll agents
  atoll agents --watch --bell
  atoll agents --wait fix-a fix-b
  atoll agents --watch --notify notify-send`,
		ValidArgsFunction: a.CompleteFrom(-1, a.agentBranches),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.notice.check(f.watch || f.wait); err != nil {
				return err
			}
			if f.watch || f.wait {
				return a.watchAgents(cmd.Context(), f, args)
			}
			list, err := a.listAgents(cmd.Context(), f.sandbox, args)
			switch {
			case err != nil:
				return err
			case a.JSON:
				return a.PrintJSON(output.NonNil(list))
			case len(list) == 0:
				a.Progress("no agent works on a branch; 'atoll up AGENT --branch BRANCH TASK' starts one")
				return nil
			}
			return a.printAgents(list)
		},
	}
	fl := cmd.Flags()
	fl.SortFlags = false
	fl.StringVarP(&f.sandbox, "sandbox", "s", "", "only those in this `SANDBOX`")
	fl.BoolVarP(&f.watch, "watch", "w", false, "then print each change, until Ctrl-C")
	fl.BoolVar(&f.wait, "wait", false, "print each change until no agent works any more")
	f.notice.add(fl)
	cmd.MarkFlagsMutuallyExclusive("watch", "wait")
	return cmd
}

// agentBranches completes branches with an agent.
func (a commands) agentBranches(ctx context.Context) ([]string, error) {
	list, err := a.listAgents(ctx, "", nil)
	var names []string
	for _, one := range list {
		names = append(names, one.Branch)
	}
	return names, err
}

// mostSessions limits the sessions that are read to find agents on branches.
const mostSessions = 1000

// listAgents returns the agents on branches of existing sandboxes. sandbox and branches restrict the list; it
// returns ErrNotFound for a branch without an agent.
func (a commands) listAgents(ctx context.Context, sandbox string, branches []string) ([]branchAgent, error) {
	c, err := a.Client(ctx)
	if err != nil {
		return nil, err
	}
	boxes, err := pairing.List(ctx, a.App)
	if err != nil {
		return nil, err
	}
	if sandbox != "" {
		w, err := pairing.Find(ctx, a.App, sandbox)
		if err != nil {
			return nil, err
		}
		boxes = []atoll.Info{w.Info}
	}
	all, err := c.Sessions(ctx, client.SessionFilter{Limit: mostSessions})
	if err != nil {
		return nil, err
	}
	var list []branchAgent
	for _, s := range all {
		branch := s.Labels[project.LabelAgentBranch]
		at := slices.IndexFunc(boxes, func(i atoll.Info) bool { return i.ID == s.Labels[project.LabelAgentSandbox] })
		if branch != "" && at >= 0 && (len(branches) == 0 || slices.Contains(branches, branch)) {
			list = append(list, newBranchAgent(s, boxes[at]))
		}
	}
	for _, b := range branches {
		if !slices.ContainsFunc(list, func(one branchAgent) bool { return one.Branch == b }) {
			return nil, fmt.Errorf("branch %s: %w: no agent has worked on it; 'atoll agents' lists those with one", output.Clean(b), atoll.ErrNotFound)
		}
	}
	slices.SortFunc(list, func(x, y branchAgent) int {
		return cmp.Or(cmp.Compare(x.Sandbox, y.Sandbox), cmp.Compare(x.Branch, y.Branch), x.Updated.Compare(y.Updated))
	})
	return list, nil
}

// newBranchAgent returns the agent of a session on a branch.
func newBranchAgent(s agentrun.SessionRecord, box atoll.Info) branchAgent {
	one := branchAgent{
		Project: s.Labels[project.Label], Sandbox: output.SandboxName(box.Status), ID: box.ID, Path: box.Labels[project.LabelPath],
		Branch: s.Labels[project.LabelAgentBranch], Agent: s.Agent, State: agentWorks, Outcome: s.Outcome, Message: s.Text,
		Turn: s.Turn, Turns: s.Turns, Permissions: s.Permissions, Usage: s.Usage, Started: s.Started, Updated: s.Updated,
	}
	switch {
	case len(s.Permissions) > 0:
		one.State = agentWaits
	case s.Outcome == "":
	case s.Outcome == agentrun.OK:
		one.State = agentDone
	case s.Outcome == agentrun.Aborted:
		one.State = agentStopped
	default:
		one.State, one.Message = agentFailed, cmp.Or(s.Message, s.Code, string(s.Outcome))
	}
	return one
}

// summary returns what an agent waits for, or its last message, in a line.
func (one *branchAgent) summary() string {
	if len(one.Permissions) > 0 {
		return "may it use " + output.ToolCallTitle(&one.Permissions[0].Tool) + "?"
	}
	return strings.Join(strings.Fields(one.Message), " ")
}

// messageWidth is the number of characters of a message in the table.
const messageWidth = 60

// printAgents prints the table, and how to answer those that wait.
func (a commands) printAgents(list []branchAgent) error {
	rows := [][]string{{"SANDBOX", "BRANCH", "AGENT", "STATE", "AGE", "MESSAGE"}}
	for _, one := range list {
		rows = append(rows, []string{one.Sandbox, one.Branch, one.Agent, string(one.State), output.FormatAge(one.Updated), output.DashIfEmpty(output.Truncate(one.summary(), messageWidth))})
	}
	if err := a.PrintTable(rows); err != nil {
		return err
	}
	for _, one := range list {
		a.tellDecision(one)
	}
	return nil
}

// tellDecision prints how to answer an agent that waits.
func (a commands) tellDecision(one branchAgent) {
	if one.State == agentWaits {
		a.Progress("%s waits: 'atoll turn decide %s %s allow', or deny", one.Branch, one.Turn, one.Permissions[0].ID)
	}
}

// agentsInterval is the time between two looks at the sessions.
const agentsInterval = 500 * time.Millisecond

// watchAgents prints the agents, then each change: until ctx is done, or with --wait until none works.
func (a commands) watchAgents(ctx context.Context, f agentsFlags, branches []string) error {
	tick := time.NewTicker(agentsInterval)
	defer tick.Stop()
	last := make(map[string]branchAgent)
	for first := true; ; first = false {
		list, err := a.listAgents(ctx, f.sandbox, branches)
		if err != nil {
			return app.ConvertInterrupt(ctx, err)
		}
		busy, failed := false, false
		for _, one := range list {
			busy = busy || !one.State.isOver()
			failed = failed || one.State.isOver() && one.State != agentDone
			before, known := last[one.ID+"/"+one.Branch]
			last[one.ID+"/"+one.Branch] = one
			if known && before.State == one.State && before.summary() == one.summary() {
				continue
			}
			if err := a.printAgentChange(one); err != nil {
				return err
			}
			if !first && (before.State != one.State || before.Turn != one.Turn) && one.State != agentWorks {
				f.notice.send(ctx, a.App, one)
			}
		}
		if f.wait && !busy {
			if failed {
				return exitcode.Silent(exitcode.Problems)
			}
			return nil
		}
		select {
		case <-ctx.Done():
			return exitcode.Silent(exitcode.Interrupted)
		case <-tick.C:
		}
	}
}

// printAgentChange prints a line about one agent.
func (a commands) printAgentChange(one branchAgent) error {
	if a.JSON {
		return a.PrintJSONLine(one)
	}
	text := fmt.Sprintf("%s %s %s: %s", one.Sandbox, one.Branch, one.Agent, one.State)
	if s := one.summary(); s != "" {
		text += ": " + s
	}
	if _, err := fmt.Fprintln(a.Out, output.OneLine(text)); err != nil {
		return err
	}
	a.tellDecision(one)
	return nil
}
