package network

import (
	"context"
	"fmt"
	"math"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/client"
	"github.com/atoll-sandbox/atoll/internal/cli/app"
	"github.com/atoll-sandbox/atoll/internal/cli/exitcode"
	"github.com/atoll-sandbox/atoll/internal/cli/output"
)

func (a commands) networkCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "network", Aliases: []string{"net"},
		Example: `  atoll network allow box github.com
  atoll network log box`,
		Short: "Manage the network policy of a sandbox",
		Long: `Manage the network policy of a sandbox. Changes take effect at once, also for
running programs, and persist when the sandbox stops. An ENTRY is NAME,
NAME:PORT, *.NAME, a URL prefix, or an address. NAME=ADDRESS allows a name that
leads to a private address or range, as in registry.corp:443=10.1.2.3 and
*.corp=10.0.0.0/8; an address alone opens no name behind it. Addresses of this
machine or its network need the scope host.`,
		Args: app.UnknownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.networkShow(), a.networkAllow(), a.networkDeny(), a.networkRm(), a.networkLog(), a.networkTest())
	return cmd
}

func (a commands) networkShow() *cobra.Command {
	return &cobra.Command{
		Use:               "show SANDBOX",
		Example:           "  atoll network show box",
		Short:             "Show the network rules",
		Args:              app.CheckArgCount(1, 1, "one sandbox"),
		ValidArgsFunction: a.CompleteSandboxes(0),
		RunE: func(cmd *cobra.Command, args []string) error {
			sb, err := a.OpenSandbox(cmd.Context(), args[0])
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
func (a commands) showNetwork(n atoll.Network) error {
	if a.JSON {
		return a.PrintJSON(n)
	}
	if n.Mode == "" {
		n.Mode = atoll.NetworkNone
	}
	rows := [][]string{{"mode", string(n.Mode)}}
	for _, e := range n.Allow {
		if end, ok := n.Until[e]; ok {
			e += " until " + end.Local().Format(time.DateTime)
		}
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
		rows = append(rows, []string{"rate", output.FormatBytes(n.Rate) + "/s"})
	}
	if n.Bytes > 0 {
		rows = append(rows, []string{"bytes", output.FormatBytes(n.Bytes)})
	}
	return a.PrintTable(rows)
}

func (a commands) networkAllow() *cobra.Command {
	var length time.Duration
	cmd := a.networkChange("allow SANDBOX ENTRY...", "Let it reach what entries name", "  atoll network allow box proxy.golang.org '*.github.com:443'\n  atoll network allow --for 10m box example.com",
		func(entries []string) client.NetworkChange {
			return client.NetworkChange{Allow: entries, Seconds: int64(math.Ceil(length.Seconds()))}
		})
	cmd.Flags().DurationVar(&length, "for", 0, "end the permission after this `DURATION` (default: it does not end)")
	return cmd
}

func (a commands) networkDeny() *cobra.Command {
	return a.networkChange("deny SANDBOX ENTRY...", "Keep it from what entries name, whatever else allows it", "  atoll network deny box example.com",
		func(entries []string) client.NetworkChange { return client.NetworkChange{Deny: entries} })
}

func (a commands) networkRm() *cobra.Command {
	return a.networkChange("rm SANDBOX ENTRY...", "Take entries out of the rules", "  atoll network rm box '*.github.com:443'",
		func(entries []string) client.NetworkChange { return client.NetworkChange{Remove: entries} })
}

// networkChange is a command that changes the rules and shows what they are then.
func (a commands) networkChange(use, short, example string, change func([]string) client.NetworkChange) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Example: example,
		Args:              app.CheckArgCount(2, -1, "a sandbox and entries"),
		ValidArgsFunction: a.CompleteSandboxes(0),
		RunE: func(cmd *cobra.Command, args []string) error {
			sb, err := a.OpenSandbox(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			n, err := sb.ChangeNetwork(cmd.Context(), change(args[1:]))
			if err != nil || a.Quiet {
				return err
			}
			return a.showNetwork(n)
		},
	}
}

func (a commands) networkTest() *cobra.Command {
	return &cobra.Command{
		Use:   "test SANDBOX TARGET...",
		Short: "Check whether the rules allow targets",
		Long: `Resolve targets and show what the egress proxy would do with connections to
them, without connecting: the rule, the address, or why not. The exit status is
1 if a target is not allowed or does not resolve.`,
		Example:           "  atoll network test box example.com:443 https://example.org/api/",
		Args:              app.CheckArgCount(2, -1, "a sandbox and targets"),
		ValidArgsFunction: a.CompleteSandboxes(0),
		RunE: func(cmd *cobra.Command, args []string) error {
			sb, err := a.OpenSandbox(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			var all []atoll.Connection
			rows := [][]string{{"TARGET", "ALLOWED", "RULE", "ADDRESS", "REASON"}}
			denied := false
			for _, target := range args[1:] {
				c, err := atoll.CheckNetwork(cmd.Context(), sb, target)
				if err != nil {
					return err
				}
				denied = denied || !c.Allowed
				all = append(all, c)
				rows = append(rows, []string{target, yesNo(c.Allowed), output.DashIfEmpty(c.Rule), output.DashIfEmpty(c.Address), output.DashIfEmpty(c.Reason)})
			}
			if a.JSON {
				err = a.PrintJSON(all)
			} else {
				err = a.PrintTable(rows)
			}
			if err == nil && denied {
				return exitcode.Silent(exitcode.Problems)
			}
			return err
		},
	}
}

func (a commands) networkLog() *cobra.Command {
	var follow, denied bool
	cmd := &cobra.Command{
		Use:   "log SANDBOX",
		Short: "Show the connections that a sandbox made or tried",
		Long: `Show the connections that a sandbox made or tried, their results, and the rules
that decided. With -f follow until Ctrl-C. With --json each is one line.`,
		Example:           "  atoll network log --denied box\n  atoll network log -f box",
		Args:              app.CheckArgCount(1, 1, "one sandbox"),
		ValidArgsFunction: a.CompleteSandboxes(0),
		RunE: func(cmd *cobra.Command, args []string) error {
			sb, err := a.OpenSandbox(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			l := &traffic{a: a, sb: sb, denied: denied, seen: make(map[string]bool)}
			if !follow {
				return l.printAll(cmd.Context())
			}
			return app.ConvertInterrupt(cmd.Context(), l.followConnections(cmd.Context()))
		},
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "and wait for what is still to happen")
	cmd.Flags().BoolVar(&denied, "denied", false, "only what was refused or failed")
	return cmd
}

// traffic prints the connections of a sandbox.
type traffic struct {
	a      commands
	sb     *client.Sandbox
	denied bool
	seen   map[string]bool
}

// printAll shows what there is.
func (l *traffic) printAll(ctx context.Context) error {
	list, err := atoll.Connections(ctx, l.sb)
	if err != nil {
		return err
	}
	rows := [][]string{{"TIME", "PROTOCOL", "TARGET", "VERDICT", "SENT", "RECEIVED", "TOOK", "WHY"}}
	for _, c := range list {
		if l.denied && connectionResult(c) == "ok" {
			continue
		}
		if l.a.JSON {
			if err := l.a.PrintJSONLine(c); err != nil {
				return err
			}
			continue
		}
		rows = append(rows, connectionRow(c))
	}
	if l.a.JSON {
		return nil
	}
	return l.a.PrintTable(rows)
}

// followConnections shows each connection once, when it has ended. There is no call that
// waits for the next one, so it asks again after a while.
func (l *traffic) followConnections(ctx context.Context) error {
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for {
		list, err := atoll.Connections(ctx, l.sb)
		if err != nil {
			return err
		}
		now := make(map[string]bool, len(list))
		for _, c := range list {
			if connectionResult(c) == "open" {
				continue
			}
			key := fmt.Sprint(c.Time.UnixNano(), c.Protocol, c.Host, c.Address, c.Port, c.Method, c.Path)
			now[key] = true
			if l.seen[key] || l.denied && connectionResult(c) == "ok" {
				continue
			}
			if err := l.printConnection(c); err != nil {
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

func (l *traffic) printConnection(c atoll.Connection) error {
	if l.a.JSON {
		return l.a.PrintJSONLine(c)
	}
	r := connectionRow(c)
	for i := range r {
		r[i] = output.Clean(r[i])
	}
	_, err := fmt.Fprintf(l.a.Out, "%s  %-7s  %-7s %s  %s in, %s out, %s  %s\n", r[0], r[1], r[3], r[2], r[5], r[4], r[6], r[7])
	return err
}

// connectionResult says in a word what became of a connection.
func connectionResult(c atoll.Connection) string {
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
		took = output.RoundDuration(c.Duration).String()
	}
	return []string{c.Time.Local().Format(time.DateTime), c.Protocol, output.OneLine(target), connectionResult(c), output.FormatBytes(c.Sent), output.FormatBytes(c.Received), took, output.DashIfEmpty(strings.Join(strings.Fields(why), " "))} // the rule at its end is not shortened
}

func yesNo(yes bool) string {
	if yes {
		return "yes"
	}
	return "no"
}
