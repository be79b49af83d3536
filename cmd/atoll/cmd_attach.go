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
	var b before
	var branch string
	var web webLink
	cmd := &cobra.Command{
		Use:   "attach [SANDBOX [TERMINAL | PROCESS]]",
		Short: "Be before a terminal, or where a command writes",
		Long: `Be before a terminal of a sandbox (see 'atoll terminal'): its screen as it is, then what
comes; what you type goes there. Ctrl-P Ctrl-Q leaves, and it goes on. Without a
name it is the only one, or a new one.

Or be where a command writes, one that 'atoll exec -d' has started or that somebody
else runs: its output so far and from now on, and its exit status as atoll's own.
Ctrl-C leaves it running; on a terminal of its own, Ctrl-P Ctrl-Q does. With -i what
you type is its input.

Without SANDBOX it is that of the directory's project, and of a project the terminal of its
main working tree, or with --worktree of another one. The exit status is 1 without such a
sandbox or working tree, 2 if it does not run.

With --web it prints a link for a browser instead: to the terminals of the sandbox, or
to one of them. Whoever has the link needs nothing else, until --for is over or 'atoll
token rm' ends it; 'atoll token ls' lists what was given away.

With --provider zellij it is the page of the Zellij that is in the sandbox, started there
if it does not run, by the name of its port, and a token of Zellij's in a second line.
TERMINAL is then the session's name.`,
		Example:           "  atoll attach box\n  atoll attach --read-only box build\n  atoll attach box p3k9\n  echo yes | atoll attach -i box p3k9\n  atoll attach --web --read-only --for 1h box build\n  atoll attach --web --provider zellij box",
		Args:              needArgs(0, 2, "a sandbox, and a terminal or a process"),
		ValidArgsFunction: a.completeAttached(),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			if web.wanted {
				if b.record != "" {
					return fmt.Errorf("%w: --record is of a terminal here, not of one in a browser: 'atoll terminal record' writes what it shows meanwhile", atoll.ErrInvalid)
				}
				web.readOnly, web.lifeSaid = b.readOnly, cmd.Flags().Changed("for")
				if len(args) == 0 {
					w, err := a.projectOf(ctx, nil)
					if err != nil {
						return err
					}
					args = []string{w.name()}
				}
				return a.attachWeb(ctx, args, web)
			}
			if cmd.Flags().Changed("for") {
				return fmt.Errorf("%w: --for is how long a link is good: it goes with --web", atoll.ErrInvalid)
			}
			if err := b.check(); err != nil {
				return err
			}
			if web.provider != "" {
				return fmt.Errorf("%w: --provider is whose page a browser sees: it goes with --web", atoll.ErrInvalid)
			}
			if branch != "" && len(args) > 1 {
				return fmt.Errorf("%w: a working tree, or the terminal %s", atoll.ErrInvalid, args[1])
			}
			sb, args, err := a.attached(ctx, args)
			if err != nil {
				return err
			}
			if branch != "" {
				return a.attachTree(ctx, sb, branch, b)
			}
			name, ok, err := a.terminalOf(ctx, sb, args[1:])
			switch {
			case err != nil:
				return err
			case ok:
				return a.attachTerminal(ctx, sb, args[0], name, b)
			}
			if b.record != "" {
				return fmt.Errorf("%w: --record is of terminals, and %s is none of %s", atoll.ErrInvalid, args[1], args[0])
			}
			at := client.Attachment{Stdout: a.out, Stderr: a.err, Lost: a.lost}
			if onlyNew {
				at.Offset = -1
			}
			if stdin && !b.readOnly {
				at.Stdin = a.in
			}
			return a.attachProcess(ctx, args[0], args[1], at)
		},
	}
	cmd.Flags().BoolVar(&onlyNew, "new", false, "without what a command has written so far")
	cmd.Flags().BoolVarP(&stdin, "interactive", "i", false, "send stdin to a command; the end of stdin ends its input")
	cmd.Flags().BoolVarP(&b.readOnly, "read-only", "r", false, "only look")
	b.recordFlag(cmd)
	cmd.Flags().StringVar(&branch, "worktree", "", "the terminal of the working tree of this `BRANCH`")
	cmd.Flags().BoolVarP(&web.wanted, "web", "w", false, "print a link for a browser")
	cmd.Flags().StringVar(&web.life, "for", linkLife, "`DURATION` that the link of --web is good")
	cmd.Flags().StringVar(&web.provider, "provider", "", "`PROVIDER` of the page that --web leads to: builtin or zellij (default: what .atoll.yaml says, else builtin)")
	return cmd
}

// exitNotRunning is the exit status of an attach to a sandbox that does not run.
const exitNotRunning = 2

// attached finds the sandbox that attach means. Who comes back to a project is
// told what could not come home, and its watcher is there again.
func (a *app) attached(ctx context.Context, args []string) (*client.Sandbox, []string, error) {
	var w *workplace
	var sb *client.Sandbox
	var err error
	if len(args) == 0 {
		if w, err = a.project(ctx, ""); err == nil {
			sb, args = w.sb, []string{w.name()}
		}
	} else if sb, err = a.open(ctx, args[0]); err == nil {
		var info atoll.Info
		if info, err = sb.Info(ctx); err == nil {
			w, err = a.workplaceOf(ctx, info)
		}
	}
	switch {
	case errors.Is(err, atoll.ErrNotFound):
		return nil, nil, exits(exitNotFound, err)
	case err != nil || w == nil:
		return sb, args, err
	}
	if err := w.running(); err != nil {
		return nil, nil, exits(exitNotRunning, err)
	}
	if len(args) == 1 {
		list, err := sb.ListTerminals(ctx)
		if err != nil {
			return nil, nil, err
		}
		for _, t := range list {
			if t.Name == w.name() && t.Running { // else the only one
				args = append(args, t.Name)
			}
		}
	}
	return sb, args, errors.Join(a.tellRefusal(w), a.watcher(w))
}

// attachProcess connects to a process.
func (a *app) attachProcess(ctx context.Context, sandbox, key string, at client.Attachment) error {
	sb, p, err := a.process(ctx, sandbox, key)
	if err != nil {
		return err
	}
	left := ctx
	if p.TTY {
		var leave func()
		if left, leave, err = a.stand(ctx, &at.Stdin, &at.Resize); err != nil {
			return err
		}
		defer leave()
	}
	exit, err := sb.Attach(left, p.ID, at)
	if errors.Is(err, context.Canceled) && left.Err() != nil {
		a.progress("\r\natoll: %s goes on; 'atoll kill %s %s' ends it", p.ID, sandbox, p.ID)
		if ctx.Err() == nil {
			return nil // it was left by its keys
		}
	}
	return outcome(exit, err)
}

// completeAttached offers sandboxes, then terminals and processes of the one
// that is named.
func (a *app) completeAttached() cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		names, how := a.completeProcesses()(cmd, args, word)
		if len(args) == 0 {
			return names, how
		}
		terminals, _ := a.completeTerminals()(cmd, args, word)
		return append(terminals, names...), how
	}
}

// stand puts this terminal in the place of another: keys and sizes go through,
// Ctrl-P Ctrl-Q ends ctx. leave makes it as it was.
func (a *app) stand(ctx context.Context, stdin *io.Reader, resize *<-chan atoll.Size) (_ context.Context, leave func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	ends := []func(){cancel}
	leave = func() {
		for _, end := range ends {
			end()
		}
	}
	if out, ok := a.out.(*os.File); ok && isTerminal(out) {
		sizes, stop := screenSizes(out)
		*resize, ends = sizes, append(ends, stop)
	}
	if in, ok := a.in.(*os.File); ok && isTerminal(in) && *stdin != nil {
		old, err := term.MakeRaw(int(in.Fd()))
		if err != nil {
			leave()
			return ctx, nil, fmt.Errorf("the local terminal: %w", err)
		}
		ends = append(ends, func() { _ = term.Restore(int(in.Fd()), old) }) // nobody to tell
		*stdin = &leaving{r: in, leave: cancel}
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
	if a.link.host == "" && !sb.Has((*atoll.Detacher)(nil)) {
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
