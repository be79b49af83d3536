package sandbox

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/client"
	"github.com/atoll-sandbox/atoll/internal/cli/app"
	"github.com/atoll-sandbox/atoll/internal/cli/attach"
	"github.com/atoll-sandbox/atoll/internal/cli/exitcode"
	"github.com/atoll-sandbox/atoll/internal/cli/output"
	"github.com/atoll-sandbox/atoll/internal/cli/pairing"
)

func (a commands) attachCommand() *cobra.Command {
	var onlyNew, stdin bool
	var b attach.Options
	var branch string
	var web webLink
	cmd := &cobra.Command{
		Use:   "attach [SANDBOX [TERMINAL | PROCESS]]",
		Short: "Attach to a terminal or a running command",
		Long: `Attach to a terminal of a sandbox (see 'atoll terminal'). Ctrl-P Ctrl-Q
detaches and leaves it running. Without a name, it is the only terminal, or a
new one.

Or attach to a running command: print its output so far and as it comes, and
exit with its status. Ctrl-C detaches and leaves it running; on a terminal,
Ctrl-P Ctrl-Q does. With -i standard input is sent to it.

The default SANDBOX is that of the project in this directory, and the default
terminal of a project that of its main working tree, or of --worktree.

With --web, print a link for a browser instead, to all terminals or to one. Its
bearer needs no token; it expires after --for, and 'atoll token rm' revokes it.

With --provider zellij, print the URL of the Zellij web server in the sandbox,
which is started if needed, and on a second line a token for it. TERMINAL is
then the name of the session.`,
		Example:           "  atoll attach box\n  atoll attach --read-only box build\n  atoll attach box p3k9\n  echo yes | atoll attach -i box p3k9\n  atoll attach --web --read-only --for 1h box build\n  atoll attach --web --provider zellij box",
		Args:              app.CheckArgCount(0, 2, "a sandbox, and a terminal or a process"),
		ValidArgsFunction: a.completeAttached(),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			if web.wanted {
				if b.Record != "" {
					return fmt.Errorf("%w: --record is of a terminal here, not of one in a browser: 'atoll terminal record' writes what it shows meanwhile", atoll.ErrInvalid)
				}
				web.readOnly, web.lifeSaid = b.ReadOnly, cmd.Flags().Changed("for")
				if len(args) == 0 {
					w, err := pairing.FindByArg(ctx, a.App, nil)
					if err != nil {
						return err
					}
					args = []string{w.Name()}
				}
				return a.attachWeb(ctx, args, web)
			}
			if cmd.Flags().Changed("for") {
				return fmt.Errorf("%w: --for is how long a link is good: it goes with --web", atoll.ErrInvalid)
			}
			if err := b.Check(); err != nil {
				return err
			}
			if web.provider != "" {
				return fmt.Errorf("%w: --provider is whose page a browser sees: it goes with --web", atoll.ErrInvalid)
			}
			if branch != "" && len(args) > 1 {
				return fmt.Errorf("%w: a working tree, or the terminal %s", atoll.ErrInvalid, args[1])
			}
			sb, args, err := a.findAttached(ctx, args)
			if err != nil {
				return err
			}
			if branch != "" {
				return pairing.AttachWorktree(ctx, a.App, sb, branch, b)
			}
			name, ok, err := a.terminalOf(ctx, sb, args[1:])
			switch {
			case err != nil:
				return err
			case ok:
				return attach.Terminal(ctx, a.App, sb, args[0], name, b)
			}
			if b.Record != "" {
				return fmt.Errorf("%w: --record is of terminals, and %s is none of %s", atoll.ErrInvalid, args[1], args[0])
			}
			at := client.Attachment{Stdout: a.Out, Stderr: a.Err, OnLost: a.reportLost}
			if onlyNew {
				at.Offset = -1
			}
			if stdin && !b.ReadOnly {
				at.Stdin = a.In
			}
			return a.attachProcess(ctx, args[0], args[1], at)
		},
	}
	cmd.Flags().BoolVar(&onlyNew, "new", false, "only new output of a command")
	cmd.Flags().BoolVarP(&stdin, "interactive", "i", false, "send stdin to the command")
	cmd.Flags().BoolVarP(&b.ReadOnly, "read-only", "r", false, "read-only: send no keys")
	b.AddRecordFlag(cmd)
	cmd.Flags().StringVar(&branch, "worktree", "", "attach to the terminal of the working tree of `BRANCH`")
	cmd.Flags().BoolVarP(&web.wanted, "web", "w", false, "print a link for a browser")
	cmd.Flags().StringVar(&web.life, "for", output.FormatDuration(app.LinkLife), "lifetime of the link of --web, a `DURATION`")
	cmd.Flags().StringVar(&web.provider, "provider", "", "`PROVIDER` of the page of --web: builtin or zellij (default: that of .atoll.yaml, else builtin)")
	return cmd
}

// findAttached finds the sandbox that attach means. Who comes back to a project is
// told what could not come home, and its watcher is there again.
func (a commands) findAttached(ctx context.Context, args []string) (*client.Sandbox, []string, error) {
	var w *pairing.Pair
	var sb *client.Sandbox
	var err error
	if len(args) == 0 {
		if w, err = pairing.Find(ctx, a.App, ""); err == nil {
			sb, args = w.Sandbox, []string{w.Name()}
		}
	} else if sb, err = a.OpenSandbox(ctx, args[0]); err == nil {
		var info atoll.Info
		if info, err = sb.Info(ctx); err == nil {
			w, err = pairing.OpenIfProject(ctx, a.App, info)
		}
	}
	if err != nil || w == nil {
		return sb, args, err
	}
	if err := w.CheckRunning(); err != nil {
		return nil, nil, err
	}
	if len(args) == 1 {
		list, err := sb.ListTerminals(ctx)
		if err != nil {
			return nil, nil, err
		}
		for _, t := range list {
			if t.Name == w.Name() && t.Running { // else the only one
				args = append(args, t.Name)
			}
		}
	}
	return sb, args, errors.Join(pairing.ReportRefusal(a.App, w), pairing.EnsureWatcher(a.App, w))
}

// attachProcess connects to a process.
func (a commands) attachProcess(ctx context.Context, sandbox, key string, at client.Attachment) error {
	sb, p, err := a.findProcess(ctx, sandbox, key)
	if err != nil {
		return err
	}
	left := ctx
	if p.TTY {
		var leave func()
		if left, leave, err = attach.ConnectLocal(ctx, a.App, &at.Stdin, &at.Resize); err != nil {
			return err
		}
		defer leave()
	}
	exit, err := sb.Attach(left, p.ID, at)
	if errors.Is(err, context.Canceled) && left.Err() != nil {
		a.Progress("\r\natoll: %s goes on; 'atoll kill %s %s' ends it", p.ID, sandbox, p.ID)
		if ctx.Err() == nil {
			return nil // it was left by its keys
		}
	}
	return exitcode.FromExit(exit, err)
}

// completeAttached offers sandboxes, then terminals and processes of the one
// that is named.
func (a commands) completeAttached() cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		names, how := a.completeProcesses()(cmd, args, word)
		if len(args) == 0 {
			return names, how
		}
		terminals, _ := a.completeTerminals()(cmd, args, word)
		return append(terminals, names...), how
	}
}

// startDetached starts a command that goes on by itself, and prints its id.
func (a commands) startDetached(ctx context.Context, sb *client.Sandbox, cmd atoll.Cmd) error {
	if a.Conn.Host == "" && !sb.Has((*atoll.Detacher)(nil)) {
		return fmt.Errorf("%w: a detached command needs a server: start one with 'atoll serve' and try again", atoll.ErrUnsupported)
	}
	p, err := sb.StartProcess(ctx, "", cmd)
	if err != nil {
		return err
	}
	if a.JSON {
		return a.PrintJSON(p)
	}
	_, err = fmt.Fprintln(a.Out, p.ID)
	return err
}
