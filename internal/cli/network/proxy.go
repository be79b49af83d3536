package network

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/client"
	"github.com/atoll-sandbox/atoll/internal/cli/app"
	"github.com/atoll-sandbox/atoll/internal/cli/config"
	"github.com/atoll-sandbox/atoll/internal/cli/output"
	"github.com/atoll-sandbox/atoll/internal/cli/previewserver"
	"github.com/atoll-sandbox/atoll/internal/preview"
	"github.com/atoll-sandbox/atoll/internal/preview/proxy"
)

func (a commands) namesCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "proxy",
		Example: `  atoll proxy ls
  atoll proxy link box 3000`,
		Short: "Manage host names of ports, like 3000-box.localhost",
		Long: `Manage host names of ports. A server routes http://PORT-NAME.localhost:7080/ to
a port of a sandbox, and http://NAME.localhost:7080/ to its main port, as soon
as a program listens. Each name is an origin of its own for browsers;
WebSockets work. NAME is the sandbox or its project. On this machine no link is
needed; where other machines reach the proxy ('atoll serve --proxy
0.0.0.0:7080'), a link is.`,
		Args: app.UnknownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.proxyLs(), a.proxyLink(), a.proxyLinks(), a.proxyRevoke(), a.proxyExport(), a.proxyRun())
	return cmd
}

func (a commands) proxyLs() *cobra.Command {
	var watch bool
	cmd := &cobra.Command{
		Use: "ls [SANDBOX]", Aliases: []string{"list"},
		Short: "List the host names of open ports",
		Example: `  atoll proxy ls
  atoll proxy ls box --watch`,
		Args:              app.CheckArgCount(0, 1, "at most one sandbox"),
		ValidArgsFunction: a.CompleteSandboxes(0),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, id := cmd.Context(), ""
			if len(args) == 1 {
				sb, err := a.OpenSandbox(ctx, args[0])
				if err != nil {
					return err
				}
				id = sb.ID()
			}
			c, err := a.Client(ctx)
			if err != nil {
				return err
			}
			list, err := c.Routes(ctx, id)
			if err != nil {
				return err
			}
			if watch {
				return a.watchRoutes(ctx, c, id, list)
			}
			if a.JSON {
				return a.PrintJSON(output.NonNil(list))
			}
			return a.PrintTable(routeRows(list))
		},
	}
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "then tell of each that comes and goes, until Ctrl-C")
	return cmd
}

func routeRows(list []atoll.Route) [][]string {
	rows := [][]string{{"SANDBOX", "PORT", "NAME", "URL", "STATE", "PROGRAM"}}
	for _, r := range list {
		port := "main"
		if r.Port > 0 {
			port = strconv.Itoa(r.Port)
		}
		name := r.Name
		if name == "" {
			name = r.Sandbox
		}
		rows = append(rows, []string{name, port, output.DashIfEmpty(r.PortName), r.URL, string(r.State), output.DashIfEmpty(r.Command)})
	}
	return rows
}

// watchEvery is how often names are looked at that are watched.
const watchEvery = time.Second

// routeChange is a name that came, went or leads to what is in another state.
type routeChange struct {
	Change string      `json:"change"` // "there", "open", "gone", "state"
	Route  atoll.Route `json:"route"`
}

// watchRoutes prints host names as they appear and disappear, until ctx is done.
func (a commands) watchRoutes(ctx context.Context, c *app.Connection, id string, list []atoll.Route) error {
	known := make(map[string]atoll.Route)
	for _, r := range list {
		known[r.Host] = r
		if err := a.tellRoute("there", r); err != nil {
			return err
		}
	}
	t := time.NewTicker(watchEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		}
		list, err := c.Routes(ctx, id)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		}
		now := make(map[string]atoll.Route)
		for _, r := range list {
			now[r.Host] = r
			before, ok := known[r.Host]
			switch {
			case !ok:
				err = a.tellRoute("open", r)
			case before.State != r.State:
				err = a.tellRoute("state", r)
			}
			if err != nil {
				return err
			}
		}
		for host, r := range output.SortedPairs(known) {
			if _, ok := now[host]; ok {
				continue
			}
			if err := a.tellRoute("gone", r); err != nil {
				return err
			}
		}
		known = now
	}
}

func (a commands) tellRoute(change string, r atoll.Route) error {
	if a.JSON {
		return a.PrintJSONLine(routeChange{change, r})
	}
	_, err := fmt.Fprintf(a.Out, "%s  %-5s  %s  %s %s\n", time.Now().Format(time.TimeOnly), change, output.Clean(r.URL), output.Clean(string(r.State)), output.Clean(r.Command))
	return err
}

// parsePort reads the number of a port.
func parsePort(text string) (int, error) {
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil || port == 0 {
		return 0, fmt.Errorf("%w: port %q: must be 1 to 65535", atoll.ErrInvalid, text)
	}
	return int(port), nil
}

// portAt reads the port of a command's arguments; none is the main one.
func portAt(args []string, at int) (int, error) {
	if len(args) <= at {
		return 0, nil
	}
	return parsePort(args[at])
}

func (a commands) proxyLink() *cobra.Command {
	var last string
	cmd := &cobra.Command{
		Use:   "link SANDBOX [PORT]",
		Short: "Create a link to the ports of a sandbox",
		Long: `Create a link that opens all ports of a sandbox to its bearer, and print it
once. It leads to PORT or to the main port. 'atoll proxy revoke' revokes it.`,
		Example: `  atoll proxy link box 3000 --for 8h
  atoll proxy revoke l4dq…`,
		Args:              app.CheckArgCount(1, 2, "a sandbox and at most one port"),
		ValidArgsFunction: a.CompleteSandboxes(0),
		RunE: func(cmd *cobra.Command, args []string) error {
			port, err := portAt(args, 1)
			d, derr := config.ParseDuration(last)
			if derr != nil || d <= 0 || d > atoll.MaxRouteLink {
				derr = fmt.Errorf("%w: --for %q: must be a duration up to 30d, like 8h", atoll.ErrInvalid, last)
			}
			if err := errors.Join(err, derr); err != nil {
				return err
			}
			sb, err := a.OpenSandbox(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			made, err := a.Conn.CreateRouteLink(cmd.Context(), atoll.RouteLink{Sandbox: sb.ID(), Port: port, Expires: time.Now().Add(d).UTC()})
			if err != nil {
				return err
			}
			if a.JSON {
				return a.PrintJSON(made)
			}
			a.Progress("atoll: link %s is good for %s, to all ports of %s; 'atoll proxy revoke %[1]s' ends that", made.ID, output.FormatDuration(d), args[0])
			if limit := previewserver.DescribeLinkLimits(made.URL); limit != "" {
				a.Progress("atoll: %s", limit)
			}
			_, err = fmt.Fprintln(a.Out, made.URL)
			return err
		},
	}
	cmd.Flags().StringVar(&last, "for", "1h", "`DURATION` until it opens nothing any more, at most 30d")
	return cmd
}

func (a commands) proxyLinks() *cobra.Command {
	return &cobra.Command{
		Use:     "links",
		Example: "  atoll proxy links",
		Short:   "List valid links",
		Args:    app.CheckArgCount(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.Client(cmd.Context())
			if err != nil {
				return err
			}
			list, err := c.RouteLinks(cmd.Context())
			if err != nil {
				return err
			}
			if a.JSON {
				return a.PrintJSON(output.NonNil(list))
			}
			rows := [][]string{{"ID", "SANDBOX", "OWNER", "CREATED", "EXPIRES"}}
			for _, l := range list {
				rows = append(rows, []string{l.ID, l.Sandbox, l.Owner.String(), output.FormatAgo(l.Created), output.FormatUntil(l.Expires)})
			}
			return a.PrintTable(rows)
		},
	}
}

func (a commands) proxyRevoke() *cobra.Command {
	return a.RemovalCommand(&cobra.Command{
		Use:     "revoke LINK...",
		Example: "  atoll proxy revoke LINK               'atoll proxy links' lists them",
		Short:   "Revoke links and close their connections",
		Args:    app.CheckArgCount(1, -1, "links"),
	}, func(ctx context.Context, c *app.Connection) (ids []string, err error) {
		list, err := c.RouteLinks(ctx)
		for _, l := range list {
			ids = append(ids, l.ID)
		}
		return ids, err
	}, func(ctx context.Context, c *app.Connection, key string) error { return c.RevokeRouteLink(ctx, key) })
}

func (a commands) proxyExport() *cobra.Command {
	var upstream string
	cmd := &cobra.Command{
		Use:   "export caddyfile|nginx",
		Short: "Print a web server configuration for the host names",
		Long: `Print a configuration for your web server that routes all names below
proxy.domains to the proxy. Start the server with 'atoll serve --proxy-behind
--domain DOMAIN'. Names below localhost need no web server.`,
		Example: `  atoll proxy export caddyfile --domain box.example.com >> /etc/caddy/Caddyfile
  atoll proxy export nginx --upstream 127.0.0.1:7080`,
		Args:      app.CheckArgCount(1, 1, "one format"),
		ValidArgs: []string{string(proxy.Caddyfile), string(proxy.Nginx)},
		RunE: func(_ *cobra.Command, args []string) error {
			if upstream == "" {
				upstream = config.Get[string](a.Config, "proxy.listen")
				if s := a.ReadServerInfo(); s.Proxy != "" && a.Config.Settings["proxy.listen"].Origin == "default" {
					upstream = s.Proxy
				}
			}
			if upstream == config.ProxyOff {
				return fmt.Errorf("%w: proxy.listen is off: say --upstream", atoll.ErrInvalid)
			}
			if host, port, err := net.SplitHostPort(upstream); err == nil && (host == "0.0.0.0" || host == "::") {
				upstream = net.JoinHostPort("127.0.0.1", port)
			}
			text, err := proxy.Export(proxy.Format(args[0]), proxy.Names{Domains: config.List[string](a.Config, "proxy.domains")}, proxy.Upstream(upstream))
			if err != nil {
				return err
			}
			if a.JSON {
				return a.PrintJSON(map[string]string{"format": args[0], "text": text})
			}
			_, err = fmt.Fprint(a.Out, text)
			return err
		},
	}
	cmd.Flags().StringVar(&upstream, "upstream", "", "`ADDRESS` or socket where that server reaches the proxy (default proxy.listen)")
	cmd.Flags().StringArray("domain", nil, "`NAME` that names of ports end in (default proxy.domains; repeatable)")
	return cmd
}

func (a commands) proxyRun() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Serve host names of ports on this machine",
		Long: `Serve host names of ports on this machine until Ctrl-C, without a server, for
the sandboxes of the current context. 'atoll serve' serves them, too.`,
		Example: `  atoll proxy run
  atoll --context team proxy run --proxy 127.0.0.1:7090`,
		Args: app.CheckArgCount(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.runProxy(cmd.Context()) },
	}
	cmd.Flags().String("proxy", "", "`ADDRESS` of this machine to listen on (default 127.0.0.1:7080, or a free port)")
	cmd.Flags().StringArray("domain", nil, "`DOMAIN` of host names of ports (default localhost; repeatable)")
	return cmd
}

func (a commands) runProxy(ctx context.Context) error {
	c, err := a.Client(ctx)
	if err != nil {
		return err
	}
	l, err := previewserver.ListenProxy(ctx, a.App)
	if err != nil {
		return err
	}
	if l == nil {
		return fmt.Errorf("%w: proxy.listen is off: say --proxy ADDRESS", atoll.ErrInvalid)
	}
	if !previewserver.IsLocalListener(l) {
		return errors.Join(fmt.Errorf("%w: %s: others than this machine would come in; 'atoll serve --proxy' has links for them", atoll.ErrInvalid, l.Addr()), l.Close())
	}
	p := &proxy.Proxy{Finder: preview.Finder{Source: clientSource{c.Client}}, Names: proxy.Names{Domains: previewserver.ProxyDomains(a.App)}}
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		return err
	}
	address := l.Addr().String()
	if a.JSON {
		err = a.PrintJSONLine(map[string]any{"proxy": address, "domains": p.Names.Domains})
	} else {
		_, err = fmt.Fprintf(a.Out, "http://PORT-NAME.%s:%s/\n", p.Names.Domains[0], port)
	}
	if err != nil {
		return errors.Join(err, l.Close())
	}
	return errors.Join(p.Serve(ctx, l, proxy.ServeOptions{}), p.Close())
}

// clientSource lists the sandboxes of a client's owner.
type clientSource struct{ c *client.Client }

// Open finds a sandbox by id or name.
func (s clientSource) Open(ctx context.Context, key string) (atoll.Sandbox, map[string]string, error) {
	sb, err := s.c.Sandbox(ctx, key)
	if err != nil {
		return nil, nil, err
	}
	return sb, sb.Labels(), nil
}

// FindByLabel returns those that have a label, oldest first.
func (s clientSource) FindByLabel(ctx context.Context, key, value string) ([]atoll.Info, error) {
	return s.c.Sandboxes(ctx, client.Filter{Labels: map[string]string{key: value}})
}
