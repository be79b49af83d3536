package sandbox

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/client"
	"github.com/atoll-sandbox/atoll/internal/cli/app"
	"github.com/atoll-sandbox/atoll/internal/cli/output"
	"github.com/atoll-sandbox/atoll/internal/suggest"
)

func (a commands) psCommand() *cobra.Command {
	var all, internal bool
	cmd := &cobra.Command{
		Use:   "ps SANDBOX",
		Short: "List running commands of a sandbox",
		Long: `List the running commands of a sandbox, and with --all those that ended
recently.`,
		Example:           "  atoll ps box\n  atoll ps --all --json box",
		Args:              app.CheckArgCount(1, 1, "one sandbox ('atoll ls' lists those)"),
		ValidArgsFunction: a.CompleteSandboxes(0),
		RunE: func(cmd *cobra.Command, args []string) error {
			sb, err := a.OpenSandbox(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			read := sb.Processes
			if internal {
				read = sb.AllProcesses
			}
			list, err := read(cmd.Context())
			if err != nil {
				return err
			}
			shown := []atoll.Process{}
			for _, p := range list {
				if all || p.Running {
					shown = append(shown, p)
				}
			}
			if a.JSON {
				return a.PrintJSON(shown)
			}
			if len(shown) == 0 {
				if all {
					a.Progress("no command ran in %s", args[0])
				} else {
					a.Progress("no command is under way in %s; --all shows those that have ended, too", args[0])
				}
				return nil
			}
			rows := [][]string{{"ID", "STATE", "STARTED", "TOOK", "OUTPUT", "COMMAND"}}
			for _, p := range shown {
				rows = append(rows, []string{p.ID, processState(p), output.FormatAgo(p.Started), runTime(p), output.FormatBytes(p.Output), output.OneLine(p.Command)})
			}
			return a.PrintTable(rows)
		},
	}
	cmd.Flags().BoolVarP(&all, "all", "a", false, "those that have ended, too")
	cmd.Flags().BoolVar(&internal, "internal", false, "those of atoll itself, too, such as git of a sync")
	return cmd
}

// processState formats the state or the exit status of a process.
func processState(p atoll.Process) string {
	var words []string
	switch {
	case p.Running:
		words = append(words, "running")
	case p.Error != "":
		words = append(words, output.OneLine(p.Error))
	case p.Signal != "":
		words = append(words, "signal "+p.Signal)
	default:
		words = append(words, "status "+strconv.Itoa(p.Code))
	}
	if p.Detached {
		words = append(words, "detached")
	}
	if p.TTY {
		words = append(words, "tty")
	}
	return strings.Join(words, " ")
}

// runTime is how long a process has run.
func runTime(p atoll.Process) string {
	if p.Ended.IsZero() {
		return output.RoundDuration(time.Since(p.Started).Truncate(time.Second)).String()
	}
	return output.RoundDuration(p.Ended.Sub(p.Started)).String()
}

// findProcess finds a process of a sandbox by its id, or the beginning of it.
func (a commands) findProcess(ctx context.Context, sandbox, key string) (*client.Sandbox, atoll.Process, error) {
	sb, err := a.OpenSandbox(ctx, sandbox)
	if err != nil {
		return nil, atoll.Process{}, err
	}
	list, err := sb.AllProcesses(ctx)
	if err != nil {
		return nil, atoll.Process{}, err
	}
	var begins, ids []string
	var found atoll.Process
	for _, p := range list {
		if p.ID == key {
			return sb, p, nil
		}
		if key != "" && strings.HasPrefix(p.ID, key) {
			begins, found = append(begins, p.ID), p
		}
		ids = append(ids, p.ID)
	}
	switch len(begins) {
	case 1:
		return sb, found, nil
	case 0:
		return nil, found, fmt.Errorf("process %q of %s: %w%s; 'atoll ps --all %s' shows what there is", key, sandbox, atoll.ErrNotFound, suggest.Hint(key, ids), sandbox)
	}
	return nil, found, fmt.Errorf("%w: %q is the beginning of %d processes: %s", atoll.ErrInvalid, key, len(begins), strings.Join(begins, ", "))
}

// completeProcesses offers sandboxes, then the running processes of the one
// that is named.
func (a commands) completeProcesses() cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		if len(args) == 0 {
			return a.CompleteSandboxes(0)(cmd, args, word)
		}
		return a.CompleteFrom(-1, func(ctx context.Context) ([]string, error) {
			sb, err := a.OpenSandbox(ctx, args[0])
			if err != nil {
				return nil, err
			}
			list, err := sb.Processes(ctx)
			var ids []string
			for _, p := range list {
				ids = append(ids, p.ID)
			}
			return ids, err
		})(cmd, args, word)
	}
}

func (a commands) killCommand() *cobra.Command {
	var signal string
	cmd := &cobra.Command{
		Use:   "kill SANDBOX PROCESS...",
		Short: "Send a signal to commands in a sandbox",
		Long: `Send a signal to commands in a sandbox. KILL ends a command and all its child
processes with every driver; other signals depend on the driver.`,
		Example:           "  atoll kill box p3k9\n  atoll kill -s KILL box p3k9",
		Args:              app.CheckArgCount(2, -1, "a sandbox and processes"),
		ValidArgsFunction: a.completeProcesses(),
		RunE: func(cmd *cobra.Command, args []string) error {
			var errs []error
			for _, key := range args[1:] {
				sb, p, err := a.findProcess(cmd.Context(), args[0], key)
				if err == nil {
					err = sb.Signal(cmd.Context(), p.ID, strings.TrimPrefix(strings.ToUpper(signal), "SIG"))
				}
				if err == nil {
					err = a.PrintChange(app.Change{Action: "signaled", Kind: "process", ID: p.ID})
				}
				errs = append(errs, err)
			}
			return errors.Join(errs...)
		},
	}
	cmd.Flags().StringVarP(&signal, "signal", "s", "TERM", "`SIGNAL` to send: TERM, INT, HUP, KILL, …")
	return cmd
}
