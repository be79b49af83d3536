package server

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/client"
	"github.com/atoll-sandbox/atoll/internal/cli/app"
	"github.com/atoll-sandbox/atoll/internal/cli/config"
	"github.com/atoll-sandbox/atoll/internal/cli/output"
)

func (a commands) eventsCommand() *cobra.Command {
	var f client.EventFilter
	var follow bool
	var since string
	cmd := &cobra.Command{
		Use:   "events",
		Short: "Show events, past and live",
		Long: `Show events. With -f follow until Ctrl-C; after a reconnection to the server no
event is missing. With --json each event is one line.`,
		Example: `  atoll events -f --type 'sandbox.*'
  atoll events --since 1h --object box --json`,
		Args: app.CheckArgCount(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if since != "" {
				d, err := config.ParseDuration(since)
				if err != nil {
					return fmt.Errorf("%w: --since %q: %w", atoll.ErrInvalid, since, err)
				}
				f.Since = time.Now().Add(-d)
			}
			c, err := a.Client(cmd.Context())
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
	fl.BoolVar(&f.AllOwners, "all-owners", false, "those of all owners (needs the scope operate)")
	return cmd
}

// watchEvents shows events, and waits for new ones if it is to follow.
func (a commands) watchEvents(ctx context.Context, c *app.Connection, f client.EventFilter, follow bool) error {
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
	return app.ConvertInterrupt(ctx, c.FollowEvents(ctx, f, a.showEvent))
}

// showEvent writes one event on one line.
func (a commands) showEvent(e atoll.Event) error {
	if a.JSON {
		return a.PrintJSONLine(e)
	}
	_, err := fmt.Fprintf(a.Out, "%s  %s\n", e.Time.Local().Format(time.DateTime), output.Clean(output.FormatEvent(e)))
	return err
}
