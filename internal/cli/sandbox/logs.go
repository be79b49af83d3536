package sandbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/client"
	"github.com/atoll-sandbox/atoll/internal/cli/app"
	"github.com/atoll-sandbox/atoll/internal/cli/output"
)

func (a commands) logsCommand() *cobra.Command {
	var follow, brief, internal bool
	cmd := &cobra.Command{
		Use:   "logs SANDBOX [PROCESS]",
		Short: "Show events of a sandbox or output of a command",
		Long: `Show the events of a sandbox and the commands that ran in it with their output,
in order of time. With a PROCESS, show the output of that command, on stdout
and stderr. With -f follow until Ctrl-C or the end of the command.`,
		Example:           "  atoll logs box\n  atoll logs -f box $(atoll exec -d box -- make)",
		Args:              app.CheckArgCount(1, 2, "a sandbox and perhaps a process"),
		ValidArgsFunction: a.completeProcesses(),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			if len(args) == 2 {
				sb, p, err := a.findProcess(ctx, args[0], args[1])
				if err != nil {
					return err
				}
				return app.ConvertInterrupt(ctx, a.outputOf(ctx, sb, p, follow))
			}
			sb, err := a.OpenSandbox(ctx, args[0])
			if err != nil {
				return err
			}
			l := &journal{a: a, sb: sb, brief: brief, internal: internal}
			return app.ConvertInterrupt(ctx, l.printAll(ctx, follow))
		},
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "and wait for what is still to happen")
	cmd.Flags().BoolVar(&brief, "brief", false, "commands without their output")
	cmd.Flags().BoolVar(&internal, "internal", false, "commands of atoll itself, too, such as git of a sync")
	return cmd
}

// outputOf copies what a process has written.
func (a commands) outputOf(ctx context.Context, sb *client.Sandbox, p atoll.Process, follow bool) error {
	if follow {
		_, err := sb.Attach(ctx, p.ID, client.Attachment{Stdout: a.Out, Stderr: a.Err, OnLost: a.reportLost})
		return err
	}
	for _, s := range []struct {
		stream client.OutputStream
		to     io.Writer
	}{{client.Stdout, a.Out}, {client.Stderr, a.Err}} {
		r, err := sb.Output(ctx, p.ID, s.stream)
		if err != nil {
			return err
		}
		if _, err := io.Copy(s.to, r); output.CloseAfter(err, r) != nil {
			return err
		}
	}
	return nil
}

// reportLost reports that n bytes of output are missing.
func (a commands) reportLost(n int64) {
	a.Progress("atoll: %s of output are no longer kept", output.FormatBytes(n))
}

// journal is all that happened in a sandbox.
type journal struct {
	a        commands
	sb       *client.Sandbox
	brief    bool
	internal bool      // with the commands of atoll itself
	last     int64     // the newest event shown
	newest   time.Time // the newest command shown
}

// entry is one line of a journal.
type entry struct {
	Time    time.Time     `json:"time"`
	Event   *atoll.Event  `json:"event,omitempty"`
	Command *atoll.Result `json:"command,omitempty"`
}

// printAll writes what there is, and then, to follow, what is new.
func (l *journal) printAll(ctx context.Context, follow bool) error {
	c := l.a.Conn
	events, err := c.Events(ctx, client.EventFilter{Object: l.sb.ID()})
	if err != nil {
		return err
	}
	if err := l.write(ctx, events); err != nil || !follow {
		return err
	}
	news := make(chan atoll.Event)
	ended := make(chan error, 1)
	ctx, stop := context.WithCancel(ctx)
	go func() {
		ended <- c.FollowEvents(ctx, client.EventFilter{Object: l.sb.ID(), After: l.last}, func(e atoll.Event) error {
			select {
			case news <- e:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}()
	err = l.followEvents(ctx, news, ended)
	stop()
	return err
}

// followEvents writes events as they come, and commands once they have ended, until
// the sandbox is gone.
func (l *journal) followEvents(ctx context.Context, news <-chan atoll.Event, ended chan error) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		var events []atoll.Event
		select {
		case e := <-news:
			events = append(events, e)
		case <-tick.C:
		case err := <-ended:
			return err
		}
		if err := l.write(ctx, events); err != nil {
			return err
		}
		if len(events) > 0 && events[0].Type == "sandbox."+string(atoll.Destroyed) {
			return nil
		}
	}
}

// write shows events and the commands that are new, in the order of time.
func (l *journal) write(ctx context.Context, events []atoll.Event) error {
	var list []entry
	for _, e := range events {
		l.last = max(l.last, e.ID)
		list = append(list, entry{Time: e.Time, Event: &e})
	}
	read := l.sb.History
	if l.internal {
		read = l.sb.FullHistory
	}
	commands, err := read(ctx)
	if err != nil && !errors.Is(err, atoll.ErrUnsupported) && !errors.Is(err, atoll.ErrNotFound) && !errors.Is(err, atoll.ErrState) {
		return err
	}
	for _, r := range commands {
		end := r.Time.Add(r.Duration)
		if end.After(l.newest) {
			list = append(list, entry{Time: end, Command: &r})
		}
	}
	for _, e := range list {
		if e.Command != nil && e.Time.After(l.newest) {
			l.newest = e.Time
		}
	}
	slices.SortStableFunc(list, func(a, b entry) int { return cmp.Or(a.Time.Compare(b.Time), 0) })
	for _, e := range list {
		if err := l.printLine(e); err != nil {
			return err
		}
	}
	return nil
}

// printLine writes one entry.
func (l *journal) printLine(e entry) error {
	if l.a.JSON {
		return l.a.PrintJSONLine(e)
	}
	at := e.Time.Local().Format(time.DateTime)
	if e.Event != nil {
		_, err := fmt.Fprintf(l.a.Out, "%s  %s\n", at, output.Clean(output.FormatEvent(*e.Event)))
		return err
	}
	r := e.Command
	how := fmt.Sprintf("status %d", r.ExitCode)
	if r.Error != "" {
		how = r.Error
	}
	if _, err := fmt.Fprintf(l.a.Out, "%s  $ %s  (%s, %v)\n", at, output.Clean(output.OneLine(r.Command)), output.Clean(output.OneLine(how)), output.RoundDuration(r.Duration)); err != nil || l.brief {
		return err
	}
	for _, out := range []string{r.Stdout, r.Stderr} {
		for line := range strings.Lines(out) {
			if _, err := fmt.Fprintf(l.a.Out, "    %s\n", output.Clean(strings.TrimRight(line, "\n"))); err != nil {
				return err
			}
		}
	}
	return nil
}
