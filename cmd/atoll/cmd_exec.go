package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/client"
)

func (a *app) execCommand() *cobra.Command {
	var x execFlags
	var env, envFiles []string
	var how execHow
	var branch string
	cmd := &cobra.Command{
		Use:   "exec [flags] SANDBOX -- PROGRAM [ARG...]",
		Short: "Run a command in a sandbox",
		Long: `Run a command in a sandbox. With -c the text runs in the sandbox's own lasting
shell: the directory, variables and functions it sets are there the next time. Only
the virtual driver has one; elsewhere say -- sh -c TEXT, or use 'atoll terminal new'.
A program runs in a process of its own, with -t on a terminal of its own, which
with -it is yours. Ctrl-C is the command's; a second one, or 10 seconds, end it.
The exit status is the command's own; see 'atoll run --help' for the others.`,
		Example: `  atoll exec box -- grep -rn needle /src
  atoll exec -c 'cd /src && export LANG=C' box
  atoll exec -c pwd box
  atoll exec -it box -- bash
  atoll logs -f box $(atoll exec -d box -- make)`,
		Args:              needArgs(1, -1, "a sandbox and a command"),
		ValidArgsFunction: a.complete(0),
		RunE: func(c *cobra.Command, args []string) error {
			cmd, err := x.cmd(c, args[1:])
			if err != nil {
				return err
			}
			if cmd.Env, err = environment(env, envFiles, "--env"); err != nil {
				return err
			}
			sb, err := a.open(c.Context(), args[0])
			if err != nil {
				return err
			}
			if branch != "" {
				if cmd, err = a.inTree(c.Context(), sb, branch, cmd); err != nil {
					return err
				}
			}
			return a.execIn(c.Context(), sb, cmd, how)
		},
	}
	cmd.Flags().SetInterspersed(false)
	cmd.Flags().StringVar(&branch, "worktree", "", "in the working tree of this `BRANCH` of a project, with its $ATOLL_PORT")
	x.add(cmd)
	cmd.Flags().StringArrayVarP(&env, "env", "e", nil, "environment variable NAME=VALUE, or NAME to take it from here (repeatable)")
	cmd.Flags().StringArrayVar(&envFiles, "env-file", nil, "file of NAME=VALUE lines (repeatable)")
	cmd.Flags().BoolVarP(&how.tty, "tty", "t", false, "give the command a terminal; standard input only with -i")
	cmd.Flags().BoolVarP(&how.interactive, "interactive", "i", false, "pass standard input, as it is without -t")
	cmd.Flags().BoolVarP(&how.detach, "detach", "d", false, "let it run by itself and print its process id, for 'atoll logs', 'attach' and 'kill'")
	return cmd
}

// execHow says how a command is connected to who runs it.
type execHow struct{ detach, tty, interactive bool }

// execIn runs a command in a sandbox of the fleet.
func (a *app) execIn(ctx context.Context, sb *client.Sandbox, cmd atoll.Cmd, how execHow) error {
	switch {
	case how.detach && how.tty:
		return fmt.Errorf("%w: -d and -t: nobody is before the terminal of what runs by itself", atoll.ErrInvalid)
	case how.detach:
		return a.detach(ctx, sb, cmd)
	case how.tty && a.json:
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
	if a.json {
		return a.exec(ctx, sb, cmd, execHow{})
	}
	if how.interactive || !how.tty {
		cmd.Stdin = a.in
	}
	if how.tty {
		return outcome(a.onTerminal(ctx, sb, cmd))
	}
	cmd.Stdout, cmd.Stderr = a.out, a.err
	return outcome(a.interruptible(ctx, sb, cmd))
}
