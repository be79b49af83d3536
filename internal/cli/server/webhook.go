package server

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/cli/app"
	"github.com/atoll-sandbox/atoll/internal/cli/output"
)

func (a commands) webhookCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "webhook",
		Short: "Send events to web addresses",
		Long: `Send events to web addresses, signed, with repeated attempts. A running server
sends them; docs/webhooks.md has the format and how to check a signature.`,
		Example: `  atoll webhook create https://hooks.example.com/atoll --type 'sandbox.*'
  atoll webhook deliveries ci
  atoll webhook redeliver ci`,
		Args: app.UnknownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.webhookCreate(), a.webhookLs(), a.webhookSet(), a.webhookDeliveries(), a.webhookRedeliver(), a.webhookRm())
	return cmd
}

func (a commands) webhookCreate() *cobra.Command {
	var w atoll.Webhook
	var owner string
	cmd := &cobra.Command{
		Use:   "create URL",
		Short: "Create a webhook and print its secret",
		Long: `Create a webhook and print its secret once: it is the key of the signatures. The
URL must be https and lead to a public address, unless the server's setting
webhooks.allow names the address.`,
		Example: `  atoll webhook create https://hooks.example.com/atoll --name ci > secret
  atoll webhook create https://hooks.example.com/ops --all-owners`,
		Args: app.CheckArgCount(1, 1, "a URL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			w.URL = args[0]
			if owner != "" {
				o, err := atoll.ParseOwner(owner)
				if err != nil {
					return fmt.Errorf("--owner %q: %w", owner, err)
				}
				w.Owner = o
			}
			c, err := a.Client(cmd.Context())
			if err != nil {
				return err
			}
			made, err := c.CreateWebhook(cmd.Context(), w)
			if err != nil {
				return err
			}
			if a.JSON {
				return a.PrintJSON(made)
			}
			a.Progress("atoll: webhook %s of %s. This is its secret, shown once:", made.ID, made.Owner)
			_, err = fmt.Fprintln(a.Out, made.Secret)
			return err
		},
	}
	fl := cmd.Flags()
	fl.StringVarP(&w.Name, "name", "n", "", "`NAME` to call it by")
	fl.StringSliceVar(&w.Types, "type", nil, "only this `TYPE` of events: sandbox.running, 'sandbox.*' (repeatable)")
	fl.StringVar(&owner, "owner", "", "`APP/USER` whose events it gets (needs the scope admin)")
	fl.BoolVar(&w.AllOwners, "all-owners", false, "events of all owners (needs the scope operate)")
	return cmd
}

func (a commands) webhookLs() *cobra.Command {
	return &cobra.Command{
		Use: "ls", Aliases: []string{"list"},
		Example: "  atoll webhook ls",
		Short:   "List webhooks and how their deliveries go",
		Args:    app.CheckArgCount(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.Client(cmd.Context())
			if err != nil {
				return err
			}
			list, err := c.Webhooks(cmd.Context())
			if err != nil {
				return err
			}
			if a.JSON {
				return a.PrintJSON(output.NonNil(list))
			}
			rows := [][]string{{"ID", "NAME", "OWNER", "URL", "EVENTS", "PENDING", "DEAD", "DELIVERED", "LAST ERROR"}}
			for _, w := range list {
				rows = append(rows, []string{
					w.ID, output.DashIfEmpty(w.Name), w.Owner.String(), output.OneLine(w.URL), webhookEvents(w), strconv.Itoa(w.Pending), strconv.Itoa(w.Dead),
					output.FormatAgo(w.Delivered), output.DashIfEmpty(output.OneLine(w.LastError)),
				})
			}
			return a.PrintTable(rows)
		},
	}
}

// webhookEvents formats which events a webhook gets.
func webhookEvents(w atoll.Webhook) string {
	text := "all"
	if len(w.Types) > 0 {
		text = strings.Join(w.Types, ",")
	}
	if w.AllOwners {
		text += " (all owners)"
	}
	if w.Disabled {
		text += " (disabled)"
	}
	return text
}

func (a commands) webhookSet() *cobra.Command {
	var c atoll.WebhookChange
	var url string
	var types []string
	var disable, enable bool
	cmd := &cobra.Command{
		Use:   "set WEBHOOK",
		Short: "Change a webhook, or renew its secret",
		Example: `  atoll webhook set ci --disable
  atoll webhook set ci --renew-secret > secret`,
		Args: app.CheckArgCount(1, 1, "a webhook"),
		RunE: func(cmd *cobra.Command, args []string) error {
			fl := cmd.Flags()
			if fl.Changed("url") {
				c.URL = &url
			}
			if fl.Changed("type") {
				c.Types = &types
			}
			if disable || enable {
				c.Disabled = &disable
			}
			if c.URL == nil && c.Types == nil && c.Disabled == nil && !c.RenewSecret {
				return fmt.Errorf("%w: nothing to change: give --url, --type, --disable, --enable or --renew-secret", atoll.ErrInvalid)
			}
			l, err := a.Client(cmd.Context())
			if err != nil {
				return err
			}
			w, err := l.UpdateWebhook(cmd.Context(), args[0], c)
			if err != nil {
				return err
			}
			if a.JSON {
				return a.PrintJSON(w)
			}
			if w.Secret != "" {
				a.Progress("atoll: this is the new secret of webhook %s, shown once:", w.ID)
				_, err = fmt.Fprintln(a.Out, w.Secret)
				return err
			}
			return a.PrintChange(app.Change{Action: "changed", Kind: "webhook", Name: args[0]})
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&url, "url", "", "new `URL`")
	fl.StringSliceVar(&types, "type", nil, "only this `TYPE` of events; an empty one: all (repeatable)")
	fl.BoolVar(&disable, "disable", false, "send nothing, and keep nothing for later")
	fl.BoolVar(&enable, "enable", false, "send again what happens from now on")
	fl.BoolVar(&c.RenewSecret, "renew-secret", false, "replace the secret at once, and print the new one")
	cmd.MarkFlagsMutuallyExclusive("disable", "enable")
	return cmd
}

func (a commands) webhookDeliveries() *cobra.Command {
	var pending bool
	limit := 100
	cmd := &cobra.Command{
		Use:   "deliveries WEBHOOK",
		Short: "List the deliveries that were given up, oldest first",
		Long: `List the deliveries that were given up after ten attempts, oldest first. The
newest 1,000 of a webhook are kept, for 30 days.`,
		Example: `  atoll webhook deliveries ci
  atoll webhook deliveries ci --pending --json`,
		Args: app.CheckArgCount(1, 1, "a webhook"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.Client(cmd.Context())
			if err != nil {
				return err
			}
			state := atoll.DeliveryDead
			if pending {
				state = atoll.DeliveryPending
			}
			list, err := c.Deliveries(cmd.Context(), args[0], state, limit)
			if err != nil {
				return err
			}
			if a.JSON {
				return a.PrintJSON(output.NonNil(list))
			}
			rows := [][]string{{"ID", "EVENT", "TYPE", "OBJECT", "ATTEMPTS", "NEXT", "ERROR"}}
			for _, d := range list {
				rows = append(rows, []string{
					d.ID, strconv.FormatInt(d.Event.ID, 10), d.Event.Type, output.DashIfEmpty(output.OneLine(d.Event.Object)), strconv.Itoa(d.Attempts),
					output.FormatUntil(d.Next), output.DashIfEmpty(output.OneLine(d.Error)),
				})
			}
			return a.PrintTable(rows)
		},
	}
	fl := cmd.Flags()
	fl.BoolVar(&pending, "pending", false, "those that wait for an attempt instead")
	fl.IntVar(&limit, "limit", limit, "how many")
	return cmd
}

func (a commands) webhookRedeliver() *cobra.Command {
	return &cobra.Command{
		Use:   "redeliver WEBHOOK [DELIVERY...]",
		Short: "Send deliveries again that were given up",
		Example: `  atoll webhook redeliver ci             all of them
  atoll webhook redeliver ci DELIVERY    'atoll webhook deliveries ci' has ids`,
		Args: app.CheckArgCount(1, -1, "a webhook and deliveries"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.Client(cmd.Context())
			if err != nil {
				return err
			}
			ids := args[1:]
			if len(ids) == 0 {
				ids = []string{""}
			}
			total := 0
			for _, id := range ids {
				n, err := c.Redeliver(cmd.Context(), args[0], id)
				if err != nil {
					return err
				}
				total += n
			}
			if a.JSON {
				return a.PrintJSON(map[string]int{"count": total})
			}
			a.Progress("atoll: %s will be sent again", output.FormatCount(total, "event"))
			return nil
		},
	}
}

func (a commands) webhookRm() *cobra.Command {
	return a.RemovalCommand(&cobra.Command{
		Use: "rm WEBHOOK...", Aliases: []string{"remove"},
		Example: "  atoll webhook rm ci",
		Short:   "Remove webhooks and their deliveries",
		Args:    app.CheckArgCount(1, -1, "webhooks"),
	}, func(ctx context.Context, c *app.Connection) (ids []string, err error) {
		list, err := c.Webhooks(ctx)
		for _, w := range list {
			ids = append(ids, w.ID)
		}
		return ids, err
	}, func(ctx context.Context, c *app.Connection, key string) error { return c.RemoveWebhook(ctx, key) })
}
