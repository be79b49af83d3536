package main

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
	"github.com/atoll-sandbox/atoll/internal/proxy"
	"github.com/atoll-sandbox/atoll/internal/route"
)

func (a *app) namesCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "proxy",
		Short: "Names of ports: http://3000-box.localhost:7080/",
		Long: `Names of ports. A server leads http://PORT-NAME.localhost:7080/ to a port of a
sandbox, and http://NAME.localhost:7080/ to its main one: each name an origin of its
own for browsers, there as soon as a program inside listens, with WebSockets. NAME is
that of the sandbox or of its project. On this machine everybody comes in; where
others reach the proxy ('atoll serve --proxy 0.0.0.0:7080') a link is needed.`,
		Args: noSuchCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.proxyLs(), a.proxyLink(), a.proxyLinks(), a.proxyRevoke(), a.proxyExport(), a.proxyRun())
	return cmd
}

func (a *app) proxyLs() *cobra.Command {
	var watch bool
	cmd := &cobra.Command{
		Use: "ls [SANDBOX]", Aliases: []string{"list"},
		Short: "List the names of the ports that are open now",
		Example: `  atoll proxy ls
  atoll proxy ls box --watch`,
		Args:              needArgs(0, 1, "at most one sandbox"),
		ValidArgsFunction: a.complete(0),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, id := cmd.Context(), ""
			if len(args) == 1 {
				sb, err := a.open(ctx, args[0])
				if err != nil {
					return err
				}
				id = sb.ID()
			}
			c, err := a.client(ctx)
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
			if a.json {
				return a.print(some(list))
			}
			return a.table(routeRows(list))
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
		rows = append(rows, []string{name, port, dash(r.Called), r.URL, string(r.State), dash(r.Command)})
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

// watchRoutes tells of names that come and go, until ctx is done.
func (a *app) watchRoutes(ctx context.Context, c *link, id string, list []atoll.Route) error {
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
		for host, r := range sorted(known) {
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

func (a *app) tellRoute(change string, r atoll.Route) error {
	if a.json {
		return a.printLine(routeChange{change, r})
	}
	_, err := fmt.Fprintf(a.out, "%s  %-5s  %s  %s %s\n", time.Now().Format(time.TimeOnly), change, plain(r.URL), plain(string(r.State)), plain(r.Command))
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

func (a *app) proxyLink() *cobra.Command {
	var last string
	cmd := &cobra.Command{
		Use:   "link SANDBOX [PORT]",
		Short: "Make a link that lets its bearer into the ports of a sandbox",
		Long: `Make a link that lets whoever opens it into all ports of a sandbox, where a server's
names are not open to all. It is printed on stdout, this once; it leads to PORT, or to
the main one. 'atoll proxy revoke' makes it useless at once.`,
		Example: `  atoll proxy link box 3000 --for 8h
  atoll proxy revoke l4dq…`,
		Args:              needArgs(1, 2, "a sandbox and at most one port"),
		ValidArgsFunction: a.complete(0),
		RunE: func(cmd *cobra.Command, args []string) error {
			port, err := portAt(args, 1)
			d, derr := parseDuration(last)
			if derr != nil || d <= 0 || d > atoll.MaxRouteLink {
				derr = fmt.Errorf("%w: --for %q: must be a duration up to 30d, like 8h", atoll.ErrInvalid, last)
			}
			if err := errors.Join(err, derr); err != nil {
				return err
			}
			sb, err := a.open(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			made, err := a.link.CreateRouteLink(cmd.Context(), atoll.RouteLink{Sandbox: sb.ID(), Port: port, Expires: time.Now().Add(d).UTC()})
			if err != nil {
				return err
			}
			if a.json {
				return a.print(made)
			}
			a.progress("atoll: link %s is good for %s, to all ports of %s; 'atoll proxy revoke %[1]s' ends that", made.ID, span(d), args[0])
			if limit := linkLimits(made.URL); limit != "" {
				a.progress("atoll: %s", limit)
			}
			_, err = fmt.Fprintln(a.out, made.URL)
			return err
		},
	}
	cmd.Flags().StringVar(&last, "for", "1h", "`DURATION` until it opens nothing any more, at most 30d")
	return cmd
}

func (a *app) proxyLinks() *cobra.Command {
	return &cobra.Command{
		Use:   "links",
		Short: "List the links that are good",
		Args:  needArgs(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client(cmd.Context())
			if err != nil {
				return err
			}
			list, err := c.RouteLinks(cmd.Context())
			if err != nil {
				return err
			}
			if a.json {
				return a.print(some(list))
			}
			rows := [][]string{{"ID", "SANDBOX", "OWNER", "CREATED", "EXPIRES"}}
			for _, l := range list {
				rows = append(rows, []string{l.ID, l.Sandbox, l.Owner.String(), ago(l.Created), until(l.Expires)})
			}
			return a.table(rows)
		},
	}
}

func (a *app) proxyRevoke() *cobra.Command {
	return a.removal(&cobra.Command{
		Use:   "revoke LINK...",
		Short: "Make links useless at once, and end what they let in",
		Args:  needArgs(1, -1, "links"),
	}, func(ctx context.Context, c *link) (ids []string, err error) {
		list, err := c.RouteLinks(ctx)
		for _, l := range list {
			ids = append(ids, l.ID)
		}
		return ids, err
	}, func(ctx context.Context, c *link, key string) error { return c.RevokeRouteLink(ctx, key) })
}

func (a *app) proxyExport() *cobra.Command {
	var upstream string
	cmd := &cobra.Command{
		Use:   "export caddyfile|nginx",
		Short: "Write the configuration of a web server that stands before the names",
		Long: `Write the configuration of a web server of yours that leads all names below
proxy.domains to the proxy. The server of the names must know of it:
'atoll serve --proxy-behind --domain DOMAIN'. Names below localhost need none.`,
		Example: `  atoll proxy export caddyfile --domain sandbox.example.com >> /etc/caddy/Caddyfile
  atoll proxy export nginx --upstream 127.0.0.1:7080`,
		Args:      needArgs(1, 1, "one format"),
		ValidArgs: []string{string(proxy.Caddyfile), string(proxy.Nginx)},
		RunE: func(_ *cobra.Command, args []string) error {
			if upstream == "" {
				upstream = get[string](a.config, "proxy.listen")
				if s := a.readServerFile(); s.Proxy != "" && a.config.settings["proxy.listen"].origin == "default" {
					upstream = s.Proxy
				}
			}
			if upstream == proxyOff {
				return fmt.Errorf("%w: proxy.listen is off: say --upstream", atoll.ErrInvalid)
			}
			if host, port, err := net.SplitHostPort(upstream); err == nil && (host == "0.0.0.0" || host == "::") {
				upstream = net.JoinHostPort("127.0.0.1", port)
			}
			text, err := proxy.Export(proxy.Format(args[0]), proxy.Names{Domains: getList[string](a.config, "proxy.domains")}, proxy.Upstream(upstream))
			if err != nil {
				return err
			}
			if a.json {
				return a.print(map[string]string{"format": args[0], "text": text})
			}
			_, err = fmt.Fprint(a.out, text)
			return err
		},
	}
	cmd.Flags().StringVar(&upstream, "upstream", "", "`ADDRESS` or socket where that server reaches the proxy (default proxy.listen)")
	cmd.Flags().StringArray("domain", nil, "`NAME` that names of ports end in (default proxy.domains; repeatable)")
	return cmd
}

func (a *app) proxyRun() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Give ports names here, until Ctrl-C, without a server",
		Long: `Give ports names on this machine, until Ctrl-C: those of the sandboxes that this
atoll uses, be they here or, with --context, on a server. 'atoll serve' does so too.`,
		Example: `  atoll proxy run
  atoll --context team proxy run --proxy 127.0.0.1:7090`,
		Args: needArgs(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.runProxy(cmd.Context()) },
	}
	cmd.Flags().String("proxy", "", "`ADDRESS` of this machine to listen on (default 127.0.0.1:7080, or a free port)")
	cmd.Flags().StringArray("domain", nil, "`NAME` that names of ports end in (default localhost; repeatable)")
	return cmd
}

func (a *app) runProxy(ctx context.Context) error {
	c, err := a.client(ctx)
	if err != nil {
		return err
	}
	l, err := a.listenProxy(ctx)
	if err != nil {
		return err
	}
	if l == nil {
		return fmt.Errorf("%w: proxy.listen is off: say --proxy ADDRESS", atoll.ErrInvalid)
	}
	if !ours(l) {
		return errors.Join(fmt.Errorf("%w: %s: others than this machine would come in; 'atoll serve --proxy' has links for them", atoll.ErrInvalid, l.Addr()), l.Close())
	}
	p := &proxy.Proxy{Finder: route.Finder{Source: clientSource{c.Client}}, Names: proxy.Names{Domains: a.proxyDomains()}}
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		return err
	}
	address := l.Addr().String()
	if a.json {
		err = a.printLine(map[string]any{"proxy": address, "domains": p.Names.Domains})
	} else {
		_, err = fmt.Fprintf(a.out, "http://PORT-NAME.%s:%s/\n", p.Names.Domains[0], port)
	}
	if err != nil {
		return errors.Join(err, l.Close())
	}
	return errors.Join(p.Serve(ctx, l, proxy.ServeOptions{}), p.Close())
}

// clientSource are the sandboxes of whoever calls.
type clientSource struct{ c *client.Client }

// Open finds a sandbox by id or name.
func (s clientSource) Open(ctx context.Context, key string) (atoll.Sandbox, map[string]string, error) {
	sb, err := s.c.Sandbox(ctx, key)
	if err != nil {
		return nil, nil, err
	}
	return sb, sb.Labels(), nil
}

// Labelled returns those that have a label, oldest first.
func (s clientSource) Labelled(ctx context.Context, key, value string) ([]atoll.Info, error) {
	return s.c.Sandboxes(ctx, client.Filter{Labels: map[string]string{key: value}})
}
