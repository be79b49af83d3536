package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/client"
)

func (a *app) eventsCommand() *cobra.Command {
	var f client.EventFilter
	var follow bool
	var since string
	cmd := &cobra.Command{
		Use:   "events",
		Short: "Show what happened, and what happens",
		Long: `Show what happened. With -f go on with what happens, until Ctrl-C; when the server
goes away and comes back, nothing is left out. With --json each is one line.`,
		Example: `  atoll events -f --type 'sandbox.*'
  atoll events --since 1h --object box --json`,
		Args: needArgs(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if since != "" {
				d, err := parseDuration(since)
				if err != nil {
					return fmt.Errorf("%w: --since %q: %w", atoll.ErrInvalid, since, err)
				}
				f.Since = time.Now().Add(-d)
			}
			c, err := a.client(cmd.Context())
			if err != nil {
				return err
			}
			return a.watchEvents(cmd.Context(), c, f, follow)
		},
	}
	fl := cmd.Flags()
	fl.BoolVarP(&follow, "follow", "f", false, "and wait for what is still to happen")
	fl.StringSliceVar(&f.Types, "type", nil, "only this `TYPE`: sandbox.running, 'sandbox.*', … (repeatable)")
	fl.StringVar(&f.Object, "object", "", "only those about this `OBJECT`: a sandbox or a workspace")
	fl.StringVar(&since, "since", "", "only those of the last `DURATION`, like 1h")
	fl.Int64Var(&f.After, "after", 0, "only those after this id")
	fl.BoolVar(&f.AllOwners, "all-owners", false, "those of all owners (needs the scope admin)")
	return cmd
}

// watchEvents shows events, and waits for new ones if it is to follow.
func (a *app) watchEvents(ctx context.Context, c *link, f client.EventFilter, follow bool) error {
	if !follow {
		list, err := c.Events(ctx, f)
		if err != nil {
			return err
		}
		for _, e := range list {
			if err := a.showEvent(e); err != nil {
				return err
			}
		}
		return nil
	}
	return leftOff(ctx, c.FollowEvents(ctx, f, a.showEvent))
}

// leftOff is the error of something that has no end but Ctrl-C, which is then
// nothing to complain about.
func leftOff(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return status(exitInterrupted)
	}
	return err
}

// showEvent writes one event on one line.
func (a *app) showEvent(e atoll.Event) error {
	if a.json {
		return a.printLine(e)
	}
	_, err := fmt.Fprintf(a.out, "%s  %s\n", e.Time.Local().Format(time.DateTime), plain(eventText(e)))
	return err
}

// eventText is an event in words.
func eventText(e atoll.Event) string {
	what := e.Name
	switch {
	case what == "":
		what = e.Object
	case e.Object != "" && e.Object != e.Name:
		what += " (" + e.Object + ")"
	}
	text := fmt.Sprintf("%-20s %s", e.Type, what)
	for k, v := range sorted(e.Data) {
		text += " " + k + "=" + oneLine(v)
	}
	if e.Message != "" {
		text += ": " + oneLine(e.Message)
	}
	return strings.TrimRight(text, " ")
}

// printLine writes a result as JSON on one line, for streams of them.
func (a *app) printLine(v any) error {
	enc := json.NewEncoder(a.out)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}
