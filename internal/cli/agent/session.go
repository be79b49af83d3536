package agent

import (
	"cmp"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/client"
	"github.com/atoll-sandbox/atoll/internal/cli/app"
	"github.com/atoll-sandbox/atoll/internal/cli/config"
	"github.com/atoll-sandbox/atoll/internal/cli/output"
)

// agentSessions returns the command that lists sessions.
func (a commands) agentSessions() *cobra.Command {
	var f client.SessionFilter
	cmd := &cobra.Command{
		Use:   "sessions [CHAT]",
		Short: "List the sessions of chats",
		Long: `List the sessions of chats, or show one. A session is the conversation with an
agent: its own id, its state, and the tokens that were counted, also of turns
that ended early.`,
		Example: `  atoll agent sessions --state waiting_approval
  atoll agent sessions fizz --json`,
		Args: app.CheckArgCount(0, 1, "at most one chat"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.State != "" {
				if _, err := config.ParseOneOf(f.State, agent.SessionStates...); err != nil {
					return fmt.Errorf("%w: --state %q: %w", atoll.ErrInvalid, f.State, err)
				}
			}
			c, err := a.Client(cmd.Context())
			if err != nil {
				return err
			}
			if len(args) == 1 {
				r, err := c.Session(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				return a.printSessions([]agent.SessionRecord{r}, r)
			}
			all, err := c.Sessions(cmd.Context(), f)
			if err != nil {
				return err
			}
			if len(all) == 0 && !a.JSON {
				a.Progress("no sessions; 'atoll agent run' makes one")
				return nil
			}
			return a.printSessions(all, output.NonNil(all))
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.State, "state", "", "only those in this `STATE`, such as idle or waiting_approval")
	fl.IntVarP(&f.Limit, "limit", "n", 0, "only the `N` that changed last")
	return cmd
}

// printSessions prints sessions as a table, or v as JSON.
func (a commands) printSessions(all []agent.SessionRecord, v any) error {
	if a.JSON {
		return a.PrintJSON(v)
	}
	rows := [][]string{{"CHAT", "WHO", "STATE", "LAST TURN", "TOKENS", "AGE"}}
	for _, r := range all {
		tokens := r.Usage.Input + r.Usage.Output + r.Usage.CacheRead + r.Usage.CacheWrite
		rows = append(rows, []string{r.ID, cmp.Or(r.Assistant, r.Agent), r.State, cmp.Or(string(r.Outcome), "-"), strconv.FormatInt(tokens, 10), output.FormatAge(r.Started)})
	}
	return a.PrintTable(rows)
}
