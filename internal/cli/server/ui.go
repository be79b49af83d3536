package server

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/cli/app"
	"github.com/atoll-sandbox/atoll/internal/cli/output"
)

func (a commands) uiCommand() *cobra.Command {
	var life string
	var readOnly, printOnly bool
	cmd := &cobra.Command{
		Use:   "ui",
		Short: "Open the console in the browser",
		Long: `Open the console in the browser: every sandbox, what runs in it, and what it was
refused. A server is started if none runs. Without a browser, or with --print,
the link is printed. Its bearer may do what a token with the scopes read and run
may; 'atoll token rm' revokes it.`,
		Example: `  atoll ui
  atoll ui --read-only --for 1h --print`,
		Args: app.CheckArgCount(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			d, err := app.ParseLinkLife(life)
			if err != nil {
				return err
			}
			ctx := cmd.Context()
			if err := a.EnsureServer(ctx); err != nil {
				return err
			}
			c, err := a.Client(ctx)
			if err != nil {
				return err
			}
			base, err := a.ConsoleURL(ctx, c)
			if err != nil {
				return err
			}
			t := atoll.Token{Scopes: []atoll.Scope{atoll.ScopeRead, atoll.ScopeRun}, Expires: time.Now().Add(d).UTC()}
			if readOnly {
				t.Scopes = t.Scopes[:1]
			}
			link, err := a.CreateConsoleLink(ctx, c, base, t, nil)
			if err != nil {
				return err
			}
			if a.JSON {
				return a.PrintJSON(link)
			}
			a.Progress("atoll: the bearer of this link may %s; it %s; 'atoll token rm %s' revokes it", scopesText(t.Scopes), output.FormatExpiry(link.Expires), link.Token)
			if !printOnly {
				if opened, err := a.OpenBrowser(ctx, link.URL); opened || err != nil {
					return err
				}
			}
			_, err = fmt.Fprintln(a.Out, link.URL)
			return err
		},
	}
	cmd.Flags().StringVar(&life, "for", output.FormatDuration(app.LinkLife), "lifetime of the link, a `DURATION`")
	cmd.Flags().BoolVarP(&readOnly, "read-only", "r", false, "only look")
	cmd.Flags().BoolVarP(&printOnly, "print", "p", false, "print the link, open nothing")
	return cmd
}
