package sandbox

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/client"
	"github.com/atoll-sandbox/atoll/internal/cli/app"
	"github.com/atoll-sandbox/atoll/internal/cli/exitcode"
	"github.com/atoll-sandbox/atoll/internal/cli/pairing"
	"github.com/atoll-sandbox/atoll/internal/cli/sandboxflag"
)

func (a commands) execCommand() *cobra.Command {
	var x execFlags
	var env, envFiles []string
	var how execHow
	var branch string
	cmd := &cobra.Command{
		Use:   "exec [flags] SANDBOX -- PROGRAM [ARG...]",
		Short: "Run a command in a sandbox",
		Long: `Run a command in a sandbox. A program runs in a process of its own, with -t on
a terminal, with -it on yours. With -c the text runs in the persistent shell of
the sandbox, which keeps its directory, variables and functions. Only the
virtual driver has one; with others use -- sh -c TEXT, or 'atoll terminal new'.

Ctrl-C is sent to the command; a second one, or 10 seconds, end it. The exit
status is that of the command; see 'atoll help exit-codes'.`,
		Example: `  atoll exec box -- grep -rn needle /src
  atoll exec -c 'cd /src && export LANG=C' box
  atoll exec -c pwd box
  atoll exec -it box -- bash
  atoll logs -f box $(atoll exec -d box -- make)`,
		Args:              app.CheckArgCount(1, -1, "a sandbox and a command"),
		ValidArgsFunction: a.CompleteSandboxes(0),
		RunE: func(c *cobra.Command, args []string) error {
			cmd, err := x.buildCmd(c, args[1:])
			if err != nil {
				return err
			}
			if cmd.Env, err = sandboxflag.ParseEnv(env, envFiles, "--env"); err != nil {
				return err
			}
			sb, err := a.OpenSandbox(c.Context(), args[0])
			if err != nil {
				return err
			}
			if branch != "" {
				if cmd, err = pairing.CommandInWorktree(c.Context(), a.App, sb, branch, cmd); err != nil {
					return err
				}
			}
			how.allow = "atoll network allow " + args[0]
			return a.execIn(c.Context(), sb, cmd, how)
		},
	}
	cmd.Flags().SetInterspersed(false)
	cmd.Flags().StringVar(&branch, "worktree", "", "in the working tree of this `BRANCH` of a project, with its $ATOLL_PORT")
	x.add(cmd)
	cmd.Flags().StringArrayVarP(&env, "env", "e", nil, "environment variable NAME=VALUE, or NAME to take it from here (repeatable)")
	cmd.Flags().StringArrayVar(&envFiles, "env-file", nil, "file of NAME=VALUE lines (repeatable)")
	cmd.Flags().BoolVarP(&how.tty, "tty", "t", false, "allocate a terminal; standard input only with -i")
	cmd.Flags().BoolVarP(&how.interactive, "interactive", "i", false, "pass standard input, as it is without -t")
	cmd.Flags().BoolVarP(&how.detach, "detach", "d", false, "let it run by itself and print its process id, for 'atoll logs', 'attach' and 'kill'")
	return cmd
}

// execHow holds how a command is connected to the local terminal.
type execHow struct {
	detach, tty, interactive bool

	allow string // what allows a denied connection, before its rule: "atoll network allow box"
}

// execIn runs a command in a sandbox of the fleet.
func (a commands) execIn(ctx context.Context, sb *client.Sandbox, cmd atoll.Cmd, how execHow) error {
	switch {
	case how.detach && how.tty:
		return fmt.Errorf("%w: -d and -t exclude each other: a detached command has no terminal", atoll.ErrInvalid)
	case how.detach:
		return a.startDetached(ctx, sb, cmd)
	case how.tty && a.JSON:
		return fmt.Errorf("%w: -t and --json: what a terminal shows is not collected", atoll.ErrInvalid)
	}
	if cmd.Shell != "" && cmd.Dir == "" && len(cmd.Env) == 0 {
		info, err := sb.Info(ctx)
		if err != nil {
			return err
		}
		if cmd.Session = info.Features.Session; !cmd.Session {
			return fmt.Errorf("%w: -c: driver %s has no lasting shell: say 'atoll exec SANDBOX -- sh -c TEXT', or keep a shell with 'atoll terminal new'", atoll.ErrUnsupported, info.Driver)
		}
	}
	if a.JSON {
		return a.exec(ctx, sb, cmd, execHow{})
	}
	if how.interactive || !how.tty {
		cmd.Stdin = a.In
	}
	if how.tty {
		return exitcode.FromExit(a.ExecOnTerminal(ctx, sb, cmd))
	}
	cmd.Stdout, cmd.Stderr = a.Out, a.Err
	began := time.Now()
	exit, err := a.ExecInterruptible(ctx, sb, cmd)
	if err != nil || exit.Code != 0 {
		a.explainFailure(ctx, sb, cmd, exit, how.allow, began)
	}
	return exitcode.FromExit(exit, err)
}
