package main

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/client"
)

func (a *app) networkCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "network", Aliases: []string{"net"},
		Short: "What a sandbox may reach, and what it tried to",
		Long: `What a sandbox may reach, and what it tried to. Changes take effect at once, for
programs that run too, and stay after a stop. An ENTRY is NAME, NAME:PORT,
*.NAME, a URL prefix, or an address; those of this machine or its network need the
scope host.`,
		Args: noSuchCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.networkShow(), a.networkAllow(), a.networkDeny(), a.networkRm(), a.networkLog(), a.networkTest())
	return cmd
}

func (a *app) networkShow() *cobra.Command {
	return &cobra.Command{
		Use:               "show SANDBOX",
		Short:             "Show the rules",
		Args:              needArgs(1, 1, "one sandbox"),
		ValidArgsFunction: a.complete(0),
		RunE: func(cmd *cobra.Command, args []string) error {
			sb, err := a.open(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			n, err := sb.Network(cmd.Context())
			if err != nil {
				return err
			}
			return a.showNetwork(n)
		},
	}
}

// showNetwork writes rules down.
func (a *app) showNetwork(n atoll.Network) error {
	if a.json {
		return a.print(n)
	}
	if n.Mode == "" {
		n.Mode = atoll.NetworkNone
	}
	rows := [][]string{{"mode", string(n.Mode)}}
	for _, e := range n.Allow {
		rows = append(rows, []string{"allow", e})
	}
	for _, e := range n.Deny {
		rows = append(rows, []string{"deny", e})
	}
	for _, h := range n.Headers {
		rows = append(rows, []string{"header", h.Name + "=" + h.Value + "@" + h.Host})
	}
	if n.Inspect {
		rows = append(rows, []string{"inspect", "yes"})
	}
	if n.Rate > 0 {
		rows = append(rows, []string{"rate", bytesText(n.Rate) + "/s"})
	}
	if n.Bytes > 0 {
		rows = append(rows, []string{"bytes", bytesText(n.Bytes)})
	}
	return a.table(rows)
}

func (a *app) networkAllow() *cobra.Command {
	return a.networkChange("allow SANDBOX ENTRY...", "Let it reach what entries name", "  atoll network allow box proxy.golang.org '*.github.com:443'",
		func(entries []string) client.NetworkChange { return client.NetworkChange{Allow: entries} })
}

func (a *app) networkDeny() *cobra.Command {
	return a.networkChange("deny SANDBOX ENTRY...", "Keep it from what entries name, whatever else allows it", "  atoll network deny box example.com",
		func(entries []string) client.NetworkChange { return client.NetworkChange{Deny: entries} })
}

func (a *app) networkRm() *cobra.Command {
	return a.networkChange("rm SANDBOX ENTRY...", "Take entries out of the rules", "  atoll network rm box '*.github.com:443'",
		func(entries []string) client.NetworkChange { return client.NetworkChange{Remove: entries} })
}

// networkChange is a command that changes the rules and shows what they are then.
func (a *app) networkChange(use, short, example string, change func([]string) client.NetworkChange) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Example: example,
		Args:              needArgs(2, -1, "a sandbox and entries"),
		ValidArgsFunction: a.complete(0),
		RunE: func(cmd *cobra.Command, args []string) error {
			sb, err := a.open(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			n, err := sb.ChangeNetwork(cmd.Context(), change(args[1:]))
			if err != nil || a.quiet {
				return err
			}
			return a.showNetwork(n)
		},
	}
}

func (a *app) networkTest() *cobra.Command {
	return &cobra.Command{
		Use:   "test SANDBOX TARGET...",
		Short: "Ask what the rules say of targets, without connecting",
		Long: `Ask what the rules say of targets, without connecting. The exit status is 1 if one of
them is not allowed.`,
		Example:           "  atoll network test box example.com:443 https://example.org/api/",
		Args:              needArgs(2, -1, "a sandbox and targets"),
		ValidArgsFunction: a.complete(0),
		RunE: func(cmd *cobra.Command, args []string) error {
			sb, err := a.open(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			var all []atoll.Connection
			rows := [][]string{{"TARGET", "ALLOWED", "RULE", "REASON"}}
			denied := false
			for _, target := range args[1:] {
				c, err := atoll.AskNetwork(cmd.Context(), sb, target)
				if err != nil {
					return err
				}
				denied = denied || !c.Allowed
				all = append(all, c)
				rows = append(rows, []string{target, yesNo(c.Allowed), dash(c.Rule), dash(c.Reason)})
			}
			if a.json {
				err = a.print(all)
			} else {
				err = a.table(rows)
			}
			if err == nil && denied {
				return status(1)
			}
			return err
		},
	}
}

func (a *app) networkLog() *cobra.Command {
	var follow, denied bool
	cmd := &cobra.Command{
		Use:   "log SANDBOX",
		Short: "Show what it tried to reach",
		Long: `Show what it tried to reach, what came of it, and which rule or reason decided. With
-f go on until Ctrl-C. With --json each is one line.`,
		Example:           "  atoll network log --denied box\n  atoll network log -f box",
		Args:              needArgs(1, 1, "one sandbox"),
		ValidArgsFunction: a.complete(0),
		RunE: func(cmd *cobra.Command, args []string) error {
			sb, err := a.open(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			l := &traffic{a: a, sb: sb, denied: denied, seen: make(map[string]bool)}
			if !follow {
				return l.all(cmd.Context())
			}
			return leftOff(cmd.Context(), l.follow(cmd.Context()))
		},
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "and wait for what is still to happen")
	cmd.Flags().BoolVar(&denied, "denied", false, "only what was refused or failed")
	return cmd
}

// traffic is what a sandbox tried to reach.
type traffic struct {
	a      *app
	sb     *client.Sandbox
	denied bool
	seen   map[string]bool
}

// all shows what there is.
func (l *traffic) all(ctx context.Context) error {
	list, err := atoll.Connections(ctx, l.sb)
	if err != nil {
		return err
	}
	rows := [][]string{{"TIME", "PROTOCOL", "TARGET", "VERDICT", "SENT", "RECEIVED", "TOOK", "WHY"}}
	for _, c := range list {
		if l.denied && ended(c) == "ok" {
			continue
		}
		if l.a.json {
			if err := l.a.printLine(c); err != nil {
				return err
			}
			continue
		}
		rows = append(rows, connectionRow(c))
	}
	if l.a.json {
		return nil
	}
	return l.a.table(rows)
}

// follow shows each connection once, when it has ended. There is no call that
// waits for the next one, so it asks again after a while.
func (l *traffic) follow(ctx context.Context) error {
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for {
		list, err := atoll.Connections(ctx, l.sb)
		if err != nil {
			return err
		}
		now := make(map[string]bool, len(list))
		for _, c := range list {
			if ended(c) == "open" {
				continue
			}
			key := fmt.Sprint(c.Time.UnixNano(), c.Protocol, c.Host, c.Address, c.Port, c.Method, c.Path)
			now[key] = true
			if l.seen[key] || l.denied && ended(c) == "ok" {
				continue
			}
			if err := l.line(c); err != nil {
				return err
			}
		}
		l.seen = now
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (l *traffic) line(c atoll.Connection) error {
	if l.a.json {
		return l.a.printLine(c)
	}
	r := connectionRow(c)
	for i := range r {
		r[i] = plain(r[i])
	}
	_, err := fmt.Fprintf(l.a.out, "%s  %-7s  %-7s %s  %s in, %s out, %s  %s\n", r[0], r[1], r[3], r[2], r[5], r[4], r[6], r[7])
	return err
}

// ended says in a word what became of a connection.
func ended(c atoll.Connection) string {
	switch {
	case !c.Allowed:
		return "denied"
	case c.Reason != "":
		return "failed"
	case c.Duration == 0:
		return "open"
	}
	return "ok"
}

func connectionRow(c atoll.Connection) []string {
	target := c.Host
	if target == "" {
		target = c.Address
	} else if c.Port > 0 {
		target = net.JoinHostPort(target, strconv.Itoa(c.Port))
	}
	if c.Method != "" {
		target = c.Method + " " + target + c.Path
	}
	why := c.Reason
	if c.Rule != "" {
		why = strings.TrimSpace(why + " (rule " + c.Rule + ")")
	}
	took := "-"
	if c.Duration > 0 {
		took = round(c.Duration).String()
	}
	return []string{c.Time.Local().Format(time.DateTime), c.Protocol, oneLine(target), ended(c), bytesText(c.Sent), bytesText(c.Received), took, oneLine(dash(why))}
}

// dash stands for nothing.
func dash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

func yesNo(yes bool) string {
	if yes {
		return "yes"
	}
	return "no"
}
