package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"

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
			if p.TTY {
				var leave func()
				if ctx, leave, err = a.stand(ctx, &at); err != nil {
					return err
				}
				defer leave()
			}
			exit, err := sb.Attach(ctx, p.ID, at)
			if errors.Is(err, context.Canceled) && ctx.Err() != nil {
				a.progress("\r\natoll: %s goes on; 'atoll kill %s %s' ends it", p.ID, args[0], p.ID)
				if cmd.Context().Err() == nil {
					return nil // it was left by its keys
				}
			}
			return outcome(exit, err)
		},
	}
	cmd.Flags().BoolVar(&onlyNew, "new", false, "without what it has written so far")
	cmd.Flags().BoolVarP(&stdin, "interactive", "i", false, "send stdin to it; the end of stdin ends its input")
	return cmd
}

// stand puts this terminal in the place of a process's: keys and sizes go
// through, Ctrl-P Ctrl-Q ends ctx. leave makes it as it was.
func (a *app) stand(ctx context.Context, at *client.Attachment) (_ context.Context, leave func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	ends := []func(){cancel}
	leave = func() {
		for _, end := range ends {
			end()
		}
	}
	if out, ok := a.out.(*os.File); ok && isTerminal(out) {
		sizes, stop := screenSizes(out)
		at.Resize, ends = sizes, append(ends, stop)
	}
	if in, ok := a.in.(*os.File); ok && isTerminal(in) && at.Stdin != nil {
		old, err := term.MakeRaw(int(in.Fd()))
		if err != nil {
			leave()
			return ctx, nil, fmt.Errorf("the local terminal: %w", err)
		}
		ends = append(ends, func() { _ = term.Restore(int(in.Fd()), old) }) // nobody to tell
		at.Stdin = &leaving{r: in, leave: cancel}
	}
	return ctx, leave, nil
}

const ctrlP, ctrlQ = 16, 17

// leaving is a keyboard on which Ctrl-P Ctrl-Q leaves. A Ctrl-P goes through
// with the key after it.
type leaving struct {
	r     io.Reader
	leave func()
	held  bool // a Ctrl-P
}

func (l *leaving) Read(b []byte) (int, error) {
	if len(b) < 2 {
		return l.r.Read(b) // too short to hold a key back
	}
	for {
		keys := make([]byte, len(b)/2)
		n, err := l.r.Read(keys)
		out := b[:0]
		for _, k := range keys[:n] {
			switch {
			case l.held && k == ctrlQ:
				l.leave() // the end of this reader would be that of the process's input
				l.held = false
				continue
			case l.held:
				out = append(out, ctrlP)
			}
			if l.held = k == ctrlP; !l.held {
				out = append(out, k)
			}
		}
		if len(out) > 0 || err != nil {
			return len(out), err
		}
	}
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
