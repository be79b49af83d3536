package main

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
)

func (a *app) logsCommand() *cobra.Command {
	var follow, brief bool
	cmd := &cobra.Command{
		Use:   "logs SANDBOX [PROCESS]",
		Short: "Show what happened in a sandbox, or what a command wrote",
		Long: `Show what happened in a sandbox: the commands that ran, with their output, and its
events, in the order of time. With a PROCESS, what that command wrote, to stdout and
stderr. With -f go on until Ctrl-C, or until the command has ended.`,
		Example:           "  atoll logs box\n  atoll logs -f box $(atoll exec -d box -- make)",
		Args:              needArgs(1, 2, "a sandbox and perhaps a process"),
		ValidArgsFunction: a.completeProcesses(),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			if len(args) == 2 {
				sb, p, err := a.process(ctx, args[0], args[1])
				if err != nil {
					return err
				}
				return leftOff(ctx, a.outputOf(ctx, sb, p, follow))
			}
			sb, err := a.open(ctx, args[0])
			if err != nil {
				return err
			}
			l := &journal{a: a, sb: sb, brief: brief}
			return leftOff(ctx, l.show(ctx, follow))
		},
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "and wait for what is still to happen")
	cmd.Flags().BoolVar(&brief, "brief", false, "commands without their output")
	return cmd
}

// outputOf copies what a process has written.
func (a *app) outputOf(ctx context.Context, sb *client.Sandbox, p atoll.Process, follow bool) error {
	if follow {
		_, err := sb.Attach(ctx, p.ID, client.Attachment{Stdout: a.out, Stderr: a.err, Lost: a.lost})
		return err
	}
	for _, s := range []struct {
		stream client.OutputStream
		to     io.Writer
	}{{client.Stdout, a.out}, {client.Stderr, a.err}} {
		r, err := sb.Output(ctx, p.ID, s.stream)
		if err != nil {
			return err
		}
		if _, err := io.Copy(s.to, r); finish(err, r) != nil {
			return err
		}
	}
	return nil
}

// lost says that output is missing.
func (a *app) lost(n int64) { a.progress("atoll: %s of output are no longer kept", bytesText(n)) }

// journal is all that happened in a sandbox.
type journal struct {
	a      *app
	sb     *client.Sandbox
	brief  bool
	last   int64     // the newest event shown
	newest time.Time // the newest command shown
}

// entry is one line of a journal.
type entry struct {
	Time    time.Time     `json:"time"`
	Event   *atoll.Event  `json:"event,omitempty"`
	Command *atoll.Result `json:"command,omitempty"`
}

// show writes what there is, and then, to follow, what is new.
func (l *journal) show(ctx context.Context, follow bool) error {
	c := l.a.link
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
	err = l.follow(ctx, news, ended)
	stop()
	return err
}

// follow writes events as they come, and commands once they have ended, until
// the sandbox is gone.
func (l *journal) follow(ctx context.Context, news <-chan atoll.Event, ended chan error) error {
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
	commands, err := atoll.History(ctx, l.sb)
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
		if err := l.line(e); err != nil {
			return err
		}
	}
	return nil
}

// line writes one entry.
func (l *journal) line(e entry) error {
	if l.a.json {
		return l.a.printLine(e)
	}
	at := e.Time.Local().Format(time.DateTime)
	if e.Event != nil {
		_, err := fmt.Fprintf(l.a.out, "%s  %s\n", at, plain(eventText(*e.Event)))
		return err
	}
	r := e.Command
	how := fmt.Sprintf("status %d", r.ExitCode)
	if r.Error != "" {
		how = r.Error
	}
	if _, err := fmt.Fprintf(l.a.out, "%s  $ %s  (%s, %v)\n", at, plain(oneLine(r.Command)), plain(oneLine(how)), round(r.Duration)); err != nil || l.brief {
		return err
	}
	for _, out := range []string{r.Stdout, r.Stderr} {
		for line := range strings.Lines(out) {
			if _, err := fmt.Fprintf(l.a.out, "    %s\n", plain(strings.TrimRight(line, "\n"))); err != nil {
				return err
			}
		}
	}
	return nil
}
