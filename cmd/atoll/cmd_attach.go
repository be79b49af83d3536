package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/client"
)

func (a *app) attachCommand() *cobra.Command {
	var onlyNew, stdin bool
	cmd := &cobra.Command{
		Use:   "attach SANDBOX PROCESS",
		Short: "Be where a command writes, and see it end",
		Long: `Be where a command writes, one that 'atoll exec -d' has started or that somebody
else runs: its output so far and from now on, and its exit status as atoll's own.
Ctrl-C leaves it running; on a terminal of its own, Ctrl-P Ctrl-Q does. With -i what
you type is its input.`,
		Example:           "  atoll attach box p3k9\n  echo yes | atoll attach -i box p3k9",
		Args:              needArgs(2, 2, "a sandbox and a process"),
		ValidArgsFunction: a.completeProcesses(),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			sb, p, err := a.process(ctx, args[0], args[1])
			if err != nil {
				return err
			}
			at := client.Attachment{Stdout: a.out, Stderr: a.err, Lost: a.lost}
			if onlyNew {
				at.Offset = -1
			}
			if stdin {
				at.Stdin = a.in
			}
			exit, err := sb.Attach(ctx, p.ID, at)
			if errors.Is(err, context.Canceled) && ctx.Err() != nil {
				a.progress("\natoll: %s goes on; 'atoll kill %s %s' ends it", p.ID, args[0], p.ID)
			}
			return outcome(exit, err)
		},
	}
	cmd.Flags().BoolVar(&onlyNew, "new", false, "without what it has written so far")
	cmd.Flags().BoolVarP(&stdin, "interactive", "i", false, "send stdin to it; the end of stdin ends its input")
	return cmd
}

// detach starts a command that goes on by itself, and prints its id.
func (a *app) detach(ctx context.Context, sb *client.Sandbox, cmd atoll.Cmd) error {
	if a.link.host == "" {
		return fmt.Errorf("%w: nobody is there to keep the command when this atoll has ended: start a server ('atoll serve') and say it again", atoll.ErrUnsupported)
	}
	p, err := sb.StartProcess(ctx, "", cmd)
	if err != nil {
		return err
	}
	if a.json {
		return a.print(p)
	}
	_, err = fmt.Fprintln(a.out, p.ID)
	return err
}
