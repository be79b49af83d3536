package agent

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/client"
	"github.com/atoll-sandbox/atoll/internal/cli/app"
	"github.com/atoll-sandbox/atoll/internal/cli/config"
	"github.com/atoll-sandbox/atoll/internal/cli/output"
)

func (a commands) turnCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "turn",
		Example: `  atoll turn ls
  atoll turn show TURN`,
		Short: "Manage turns: requests to agents",
		Long: `Manage turns. Each request to an agent or an assistant is a turn. Its log can
be followed from any client, and it may wait for permission to use a tool.`,
		Args: app.UnknownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.turnLs(), a.turnShow(), a.turnDecide(), a.turnSend(), a.turnInterrupt(), a.turnRetry(), a.turnRm())
	return cmd
}

func (a commands) turnLs() *cobra.Command {
	var f client.TurnFilter
	cmd := &cobra.Command{
		Use: "ls", Aliases: []string{"list"},
		Example: "  atoll turn ls",
		Short:   "List turns",
		Args:    app.CheckArgCount(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.State != "" {
				if _, err := config.ParseOneOf(f.State, "queued", "running", "waiting", "finished"); err != nil {
					return fmt.Errorf("%w: --state %q: %w", atoll.ErrInvalid, f.State, err)
				}
			}
			c, err := a.Client(cmd.Context())
			if err != nil {
				return err
			}
			all, err := c.Turns(cmd.Context(), f)
			if err != nil {
				return err
			}
			if a.JSON {
				return a.PrintJSON(output.NonNil(all))
			}
			if len(all) == 0 {
				a.Progress("no turns; 'atoll agent run' makes one")
				return nil
			}
			rows := [][]string{{"ID", "WHO", "CHAT", "STATE", "AGE"}}
			for _, r := range all {
				rows = append(rows, []string{r.ID, cmp.Or(r.Assistant, r.Agent), r.Chat, turnState(r), output.FormatAge(r.Started)})
			}
			return a.PrintTable(rows)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.Chat, "chat", "", "only those of this `CHAT`")
	fl.StringVar(&f.State, "state", "", "only those that are `STATE`: queued, running, waiting or finished")
	fl.IntVarP(&f.Limit, "limit", "n", 0, "only the newest `N`")
	return cmd
}

// turnState is where a turn is, in a word.
func turnState(r agent.Record) string {
	if r.Result != nil {
		return string(r.Result.Outcome)
	}
	if len(r.Permissions) > 0 {
		return "asks: " + output.ToolCallTitle(&r.Permissions[0].Tool)
	}
	return r.State
}

func (a commands) turnShow() *cobra.Command {
	var after int64
	var verbose bool
	cmd := &cobra.Command{
		Use:     "show TURN",
		Example: "  atoll turn show TURN",
		Short:   "Show a turn and follow it",
		Args:    app.CheckArgCount(1, 1, "one turn"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.Client(cmd.Context())
			if err != nil {
				return err
			}
			v := a.newTurnView(verbose)
			defer v.close()
			var result agent.Result
			err = c.TurnEvents(cmd.Context(), args[0], after, func(e agent.Event) error {
				if e.Type == agent.Finished {
					result = *e.Result
				}
				if err := v.handleEvent(e); err != nil || a.JSON {
					return err
				}
				if e.Type == agent.PermissionRequested {
					v.printPermission(args[0], *e.Permission)
				}
				return nil
			})
			if err != nil {
				return err
			}
			return turnStatus(result)
		},
	}
	cmd.Flags().Int64Var(&after, "after", 0, "only what came after event `N`")
	cmd.Flags().BoolVarP(&verbose, "verbose", "v", false, "show thoughts, and all that tools write")
	return cmd
}

func (a commands) turnDecide() *cobra.Command {
	var d agent.Decision
	var input string
	cmd := &cobra.Command{
		Use:     "decide TURN PERMISSION allow|deny",
		Example: "  atoll turn decide TURN PERMISSION allow",
		Short:   "Answer a permission request of an agent",
		Args:    app.CheckArgCount(3, 3, "a turn, what it asks for, and allow or deny"),
		RunE: func(cmd *cobra.Command, args []string) error {
			word, err := config.ParseOneOf(args[2], "allow", "deny")
			if err != nil {
				return fmt.Errorf("%w: %q: %w", atoll.ErrInvalid, args[2], err)
			}
			d.Allow = word == "allow"
			if input != "" {
				if err := json.Unmarshal([]byte(input), &d.Input); err != nil || d.Input == nil || !d.Allow {
					return fmt.Errorf("%w: --input: must be an object of JSON, and goes with allow", atoll.ErrInvalid)
				}
			}
			c, err := a.Client(cmd.Context())
			if err != nil {
				return err
			}
			return c.DecideTurn(cmd.Context(), args[0], args[1], d)
		},
	}
	cmd.Flags().StringVarP(&d.Message, "message", "m", "", "`TEXT` that says why; the model reads it")
	cmd.Flags().BoolVar(&d.Always, "always", false, "for the rest of the session")
	cmd.Flags().StringVar(&input, "input", "", "call it with this `JSON` instead")
	return cmd
}

func (a commands) turnInterrupt() *cobra.Command {
	return &cobra.Command{
		Use:     "interrupt TURN...",
		Example: "  atoll turn interrupt TURN",
		Short:   "Ask an agent to stop its turn",
		Args:    app.CheckArgCount(1, -1, "turns"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.Client(cmd.Context())
			if err != nil {
				return err
			}
			var errs []error
			for _, id := range args {
				errs = append(errs, c.InterruptTurn(cmd.Context(), id))
			}
			return errors.Join(errs...)
		},
	}
}

func (a commands) turnRm() *cobra.Command {
	return &cobra.Command{
		Use:     "rm TURN...",
		Example: "  atoll turn rm TURN",
		Short:   "Remove turns and end their processes",
		Args:    app.CheckArgCount(1, -1, "turns"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.Client(cmd.Context())
			if err != nil {
				return err
			}
			var errs []error
			for _, id := range args {
				errs = append(errs, c.CancelTurn(cmd.Context(), id))
			}
			return errors.Join(errs...)
		},
	}
}
