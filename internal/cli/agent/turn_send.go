package agent

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/internal/cli/app"
)

func (a commands) turnSend() *cobra.Command {
	var attach []string
	cmd := &cobra.Command{
		Use:   "send TURN MESSAGE...",
		Short: "Send a message to an agent while it works",
		Long: `Send a message to an agent while it works. Claude Code, and Codex with the
argument server, read it after their current step. For every other agent it is
the prompt of the next turn of the chat; its id is printed.`,
		Example: `  atoll turn send TURN "use tabs, not spaces"`,
		Args:    app.CheckArgCount(2, -1, "a turn and a message"),
		RunE: func(cmd *cobra.Command, args []string) error {
			prompt := agent.Text(strings.Join(args[1:], " "))
			for _, name := range attach {
				c, err := readAttachment(name)
				if err != nil {
					return err
				}
				prompt = append(prompt, c)
			}
			c, err := a.Client(cmd.Context())
			if err != nil {
				return err
			}
			d, err := c.SendMessage(cmd.Context(), args[0], "", prompt)
			if err != nil {
				return err
			}
			if a.JSON {
				return a.PrintJSON(d)
			}
			if d.Turn == nil {
				a.Progress("the agent reads it after its current step")
				return nil
			}
			a.Progress("queued, since the agent does not read it in this turn: %s", d.Reason)
			_, err = fmt.Fprintln(a.Out, d.Turn.ID)
			return err
		},
	}
	cmd.Flags().StringArrayVarP(&attach, "attach", "a", nil, "`FILE` that goes along (repeatable)")
	return cmd
}

func (a commands) turnRetry() *cobra.Command {
	var verbose, detach bool
	cmd := &cobra.Command{
		Use:     "retry TURN",
		Example: "  atoll turn retry TURN",
		Short:   "Repeat a turn that has failed",
		Long:    "Repeat a turn that has failed: a new one with its request, in its chat.",
		Args:    app.CheckArgCount(1, 1, "one turn"),
		RunE: func(cmd *cobra.Command, args []string) error {
			l, err := a.Client(cmd.Context())
			if err != nil {
				return err
			}
			if detach && l.Host == "" {
				return errDetach
			}
			made, err := l.RetryTurn(cmd.Context(), args[0])
			switch {
			case err != nil:
				return err
			case detach && a.JSON:
				return a.PrintJSON(made)
			case detach:
				_, err := fmt.Fprintln(a.Out, made.ID)
				return err
			}
			result, err := a.followTurn(cmd.Context(), l.Client, made.ID, 0, a.newTurnView(verbose))
			if err != nil {
				return err
			}
			return turnStatus(result)
		},
	}
	cmd.Flags().BoolVarP(&detach, "detach", "d", false, "only start it, and print its id (needs a server)")
	cmd.Flags().BoolVarP(&verbose, "verbose", "v", false, "show thoughts, and all that tools write")
	return cmd
}

// errDetach refuses a turn that would end with the command.
var errDetach = fmt.Errorf("%w: -d needs a server, which goes on when this command has ended: see 'atoll serve --help'", atoll.ErrUnsupported)
