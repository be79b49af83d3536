package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/api"
	"github.com/atoll-sandbox/atoll/internal/cli/app"
	"github.com/atoll-sandbox/atoll/internal/cli/config"
	"github.com/atoll-sandbox/atoll/internal/cli/output"
	"github.com/atoll-sandbox/atoll/internal/cli/pairing"
	"github.com/atoll-sandbox/atoll/internal/cli/previewserver"
	"github.com/atoll-sandbox/atoll/internal/cli/version"
	"github.com/atoll-sandbox/atoll/internal/fleet"
)

func (a commands) serveCommand() *cobra.Command {
	var o serveOptions
	var stop bool
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the atoll server",
		Long: `Run the atoll server, for this machine or a team. Its unix socket is open to
this user and root only and needs no token; atoll on this machine finds it.
Requests to the addresses of --listen need a token: see 'atoll token create'.

The server also expires sandboxes, removes unused workspaces and fills pools.
SIGTERM or Ctrl-C lets commands run on for --grace; a second one ends them at
once. Sandboxes stay. With --json the log on stderr is JSON lines.

'atoll up' starts a server in the background. 'atoll serve --stop' stops it, or
any other server of this home.

As a service of systemd it takes sockets from LISTEN_FDS, besides its own.
SIGUSR2 ('systemctl reload atoll') checks the configuration and starts the
server again with it, in the same process: sandboxes and those sockets stay.`,
		Example: `  atoll serve
  atoll serve --stop
  atoll serve --listen 127.0.0.1:8484
  atoll serve --listen 0.0.0.0:8484 --tls-cert cert.pem --tls-key key.pem
  atoll serve --listen 127.0.0.1:8484 --e2b`,
		Args: app.CheckArgCount(0, 0, "no arguments (addresses go into --listen)"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if said := a.Config.FlagsOnly().Settings; said["host"].Key != nil || said["context"].Key != nil {
				return fmt.Errorf("%w: serve is for this machine: leave --host and --context away", atoll.ErrInvalid)
			}
			if stop {
				return a.StopServer(cmd.Context())
			}
			return a.serveAndReload(cmd.Context(), o)
		},
	}
	fl := cmd.Flags()
	fl.StringArray("listen", nil, "`ADDRESS` to listen on besides the socket, like 127.0.0.1:8484 (repeatable)")
	fl.String("socket", "", "`FILE` of the unix socket (default atoll.sock in the home)")
	fl.String("tls-cert", "", "PEM `FILE` of the certificates for --listen")
	fl.String("tls-key", "", "PEM `FILE` of their key")
	fl.String("tls-client-ca", "", "PEM `FILE` of the authorities of client certificates that --listen asks for")
	fl.StringArray("host-name", nil, "host `NAME` of the server, besides addresses and localhost (repeatable)")
	fl.StringArray("trusted-proxy", nil, "`ADDRESS` or range of your own proxies, whose X-Forwarded-For is trusted (repeatable)")
	fl.StringArray("origin", nil, "web `ORIGIN` that may call the server, like https://console.example.com (repeatable)")
	fl.Bool("e2b", false, "serve the API of E2B, too, for its SDKs (docs/sdks.md)")
	fl.Bool("daytona", false, "serve the API of Daytona, too, for its SDKs (docs/sdks.md)")
	fl.String("app", "", "`DIRECTORY` of assistants, connectors, mcps and skills (default ~/.config/atoll)")
	fl.String("rate", "", "`REQUESTS` a second that one caller may make (default 1000)")
	fl.String("grace", "", "`DURATION` that commands may run on when the server ends (default 10s)")
	fl.String("proxy", "", "`ADDRESS` of the proxy for host names of ports, or off (default 127.0.0.1:7080, or a free port)")
	fl.StringArray("domain", nil, "`DOMAIN` of host names of ports (default localhost; repeatable)")
	fl.String("proxy-access", "", "`ACCESS` by host names: links, open, or auto: links, unless only this machine reaches them (default auto)")
	fl.Bool("proxy-behind", false, "the proxy is behind your web server (see 'atoll proxy export')")
	fl.String("proxy-public", "", "public `SCHEME[:PORT]` of the host names, like https:8443 (default: as the proxy listens)")
	fl.String("proxy-tls-cert", "", "PEM `FILE` of the certificates for the names (default --tls-cert, if other machines can reach the proxy)")
	fl.String("proxy-tls-key", "", "PEM `FILE` of their key")
	fl.String("caddy", "", "admin `URL` of a Caddy that routes the names here, like http://localhost:2019")
	fl.StringArray("mdns", nil, "network `INTERFACE` to announce NAME.sandbox.local on, by multicast DNS (repeatable)")
	fl.DurationVar(&o.idle, "ends-when-idle", 0, "end after being idle for this `DURATION`")
	fl.BoolVar(&o.background, "background", false, "be the server that 'atoll up' starts")
	fl.BoolVar(&stop, "stop", false, "stop the server that runs for this home, and wait until it has ended")
	fl.BoolVarP(&o.verbose, "verbose", "v", false, "log more")
	_ = fl.MarkHidden("background") // it is there
	return cmd
}

// serveOptions holds the settings of serve that only flags set.
type serveOptions struct {
	verbose    bool
	idle       time.Duration // 0: it does not end by itself
	background bool          // addresses that are taken are left to others; it waits for one that is about to end
}

// newLogger returns the log of a server.
func (a commands) newLogger(verbose bool) *slog.Logger {
	level := config.Get[slog.Level](a.Config, "serve.log_level")
	if verbose {
		level = slog.LevelDebug
	}
	if a.Quiet {
		level = slog.LevelWarn
	}
	o := &slog.HandlerOptions{Level: level}
	if a.JSON {
		return slog.New(slog.NewJSONHandler(a.Err, o))
	}
	return slog.New(slog.NewTextHandler(a.Err, o))
}

// serve serves until ctx is done, or until a reload is due.
func (a commands) serve(ctx context.Context, o serveOptions, inherited *api.Inherited, log *slog.Logger) (reload bool, err error) {
	signals := make(chan os.Signal, 1)
	notifyReload(signals) // first: the signal would end the process; and until its end
	if _, err := a.Driver(); err != nil {
		return false, err
	}
	if err := a.CheckHome(); err != nil {
		return false, err
	}
	unlock, err := a.lockServer(ctx, o)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, a.RemoveServerInfo(), unlock()) }()
	if err := a.RemoveServerInfo(); err != nil { // of one that was killed
		return false, a.ExplainWriteError(err)
	}
	listeners, pages, err := a.listen(ctx, o, log)
	listeners = append(listeners, inherited.Listeners...)
	for _, l := range inherited.Listeners {
		a.warnOfPlainText(l, log)
	}
	defer func() {
		for _, l := range listeners {
			_ = l.Close() // most are closed already, by Shutdown
		}
	}()
	if err != nil {
		return false, err
	}
	f, err := fleet.Open(ctx, a.FleetOptions(log))
	if err != nil {
		return false, a.ExplainWriteError(err)
	}
	defer func() { err = errors.Join(err, f.Close(context.WithoutCancel(ctx))) }()
	if err := f.Reconcile(ctx); err != nil {
		return false, fmt.Errorf("reconcile: %w", err)
	}
	logDrivers(ctx, f, log)
	p, err := previewserver.OpenServer(ctx, a.App, f, log)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	host, err := pairing.HostID(a.App)
	if err != nil {
		return false, err
	}
	s := api.New(api.Options{
		HostID: host, Fleet: f, Log: log, Version: version.Build().Version, Limits: api.Limits{Rate: config.Get[float64](a.Config, "serve.rate")},
		Hosts: config.List[string](a.Config, "serve.host_names"), Origins: config.List[string](a.Config, "serve.origins"),
		TrustedProxies: config.List[netip.Prefix](a.Config, "serve.trusted_proxies"),
		Agents:         a.FleetAgents(f, log, true), Routes: p.Routes(), Identity: a.Identity(), E2B: a.e2bOptions(ctx, f, p), Daytona: a.daytonaOptions(ctx, f),
	})
	if p != nil {
		p.Proxy.Services = s.E2BServices()
		p.Proxy.Admitter = p.Routes().NewAdmitter(s.PortKeyNames())
	}
	if err := s.ReconcileTurns(); err != nil { // the rest can be served without
		log.Warn("no agents yet", "err", err)
	}
	about := app.ServerInfo{PID: os.Getpid(), Version: version.Build().Version, Started: time.Now().UTC(), Proxy: p.Address()}
	for _, l := range listeners {
		about.Listen = append(about.Listen, a.addressText(l))
	}
	if pages != nil {
		about.ConsoleURL = a.addressText(pages)
	}
	if o.idle > 0 {
		about.Idle = o.idle.String()
	}
	if err := a.WriteServerInfo(about); err != nil {
		return false, a.ExplainWriteError(err)
	}
	a.printEnvironment(listeners)
	return a.serveUntilDone(ctx, &serving{fleet: f, server: s, listeners: listeners, portal: p, idle: o.idle, reload: signals}, log)
}

// logDrivers logs in one line which drivers work.
func logDrivers(ctx context.Context, f *fleet.Fleet, log *slog.Logger) {
	var works, missing []string
	for _, d := range f.Drivers(ctx) {
		if d.Features != nil {
			works = append(works, d.Name)
		} else {
			missing = append(missing, d.Name)
		}
	}
	args := []any{"available", strings.Join(works, " ")}
	if len(missing) > 0 {
		args = append(args, "missing", strings.Join(missing, " "), "why", "atoll doctor")
	}
	log.Info("drivers", args...)
}

// warnOfArchiveStorage logs if the archive storage does not work. It is no reason to end: all else can be served.
func warnOfArchiveStorage(ctx context.Context, f *fleet.Fleet, log *slog.Logger) {
	if err := f.CheckArchiveStorage(ctx); err != nil && ctx.Err() == nil {
		log.Warn("archive storage: no sandbox is archived or brought back until it works", "err", err, "see", "docs/archive.md")
	}
}

// serving holds the parts of a running server.
type serving struct {
	fleet     *fleet.Fleet
	server    *api.Server
	listeners []net.Listener
	portal    *previewserver.Server // nil: ports have none
	idle      time.Duration         // 0: it does not end by itself
	reload    <-chan os.Signal
}

// serveUntilDone runs the parts of a server until one fails, ctx is done or the server is
// idle, and then stops all of them. It reports whether a reload was asked for.
func (a commands) serveUntilDone(ctx context.Context, sv *serving, log *slog.Logger) (reload bool, err error) {
	work, stop := context.WithCancel(ctx)
	defer stop()
	var wg sync.WaitGroup
	failed := make(chan error, len(sv.listeners)+2)
	part := func(run func(context.Context) error) {
		wg.Go(func() {
			if err := run(work); err != nil && work.Err() == nil {
				failed <- err
			}
		})
	}
	part(sv.fleet.Run)
	part(func(ctx context.Context) error { warnOfArchiveStorage(ctx, sv.fleet, log); return nil })
	for _, l := range sv.listeners {
		wg.Go(func() {
			if err := sv.server.Serve(l); err != nil {
				failed <- err
			}
		})
	}
	for _, l := range sv.listeners {
		log.Info("listening", "address", a.addressText(l))
	}
	if len(sv.listeners) > 1 {
		log.Info("on addresses a token is needed", "make", "atoll token create", "use", "atoll login HOST")
	}
	idle := make(chan struct{})
	if sv.idle > 0 {
		wg.Go(func() {
			if app.WaitUntilIdle(work, sv.fleet, sv.idle, sv.listIdlers()...) == nil {
				close(idle)
			}
		})
	}
	if sv.portal != nil {
		part(sv.portal.Run)
	}
	errs, say, state := []error{tellSystemd("READY=1")}, func() {}, "STOPPING=1"
	for waiting := true; waiting; {
		waiting = false
		select {
		case err := <-failed:
			errs = append(errs, err)
		case <-ctx.Done():
			say = func() { log.Info("ending", "grace", config.Get[time.Duration](a.Config, "serve.grace")) }
		case <-idle:
			say = func() { log.Info("ending: the server is idle", "for", sv.idle) }
		case <-sv.reload:
			if err := a.checkReload(ctx); err != nil {
				log.Error("not reloaded: the server goes on as it was", "err", err)
				waiting = true
				continue
			}
			say, state, reload = func() { log.Info("reloading") }, "RELOADING=1", true
		}
	}
	// Who reads that it ends may send the second signal at once.
	hurry, end := signal.NotifyContext(context.WithoutCancel(ctx), os.Interrupt, syscall.SIGTERM)
	defer end()
	say()
	errs = append(errs, tellSystemd(state), a.shutDown(hurry, sv.server))
	stop()
	wg.Wait()
	log.Info("ended")
	return reload && ctx.Err() == nil, errors.Join(errs...)
}

// listIdlers are those who know whether a server is needed.
func (sv *serving) listIdlers() []app.Idler {
	list := []app.Idler{sv.server}
	if sv.portal != nil {
		list = append(list, sv.portal.Proxy)
	}
	return list
}

// shutDown ends a server within the grace, or when ctx is done.
func (a commands) shutDown(ctx context.Context, s *api.Server) error {
	if grace := config.Get[time.Duration](a.Config, "serve.grace"); grace >= 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, grace)
		defer cancel()
	}
	err := s.Shutdown(ctx)
	if errors.Is(err, atoll.ErrTimeout) {
		fmt.Fprintf(a.Err, "atoll: %v\n", err)
		return nil // that is what grace is for
	}
	return err
}

// lockServer locks the home, so that it has one server only, until unlock is called. A
// background server waits for another that is about to end.
func (a commands) lockServer(ctx context.Context, o serveOptions) (unlock func() error, err error) {
	if err := os.MkdirAll(a.Home, 0o700); err != nil {
		return nil, a.ExplainWriteError(err)
	}
	other := fmt.Errorf("%w: another server runs for %s: 'atoll ls' uses it, 'atoll serve --stop' stops it; or choose another --home", atoll.ErrExists, a.Home)
	patience := time.Duration(0)
	if o.background {
		patience = app.ServerStartTimeout / 2
	}
	ctx, cancel := context.WithTimeoutCause(ctx, patience, other)
	defer cancel()
	return a.LockHome(ctx, "serve.lock")
}

// listen opens the socket and all addresses; the error names each that failed. The caller
// closes list, also after an error. pages is the listener that browsers of this machine can
// use; nil if there is none.
func (a commands) listen(ctx context.Context, o serveOptions, log *slog.Logger) (list []net.Listener, pages net.Listener, err error) {
	files, err := previewserver.ListenerTLS(a.App, log)
	if err != nil {
		return nil, nil, err
	}
	var errs []error
	add := func(l net.Listener, err error) {
		if err == nil {
			list = append(list, l)
		}
		errs = append(errs, err)
	}
	add(api.ListenUnix(a.SocketPath()))
	for _, address := range config.List[string](a.Config, "serve.listen") {
		l, err := api.ListenTCP(ctx, address, files)
		add(l, err)
		if err == nil {
			a.warnOfPlainText(l, log)
		}
	}
	if o.background {
		l, err := previewserver.Listen(ctx, app.DefaultConsoleAddress, nil)
		add(l, err)
		pages = l
	}
	return list, pages, errors.Join(errs...)
}

// warnOfPlainText warns of a listener that other machines reach without encryption.
func (a commands) warnOfPlainText(l net.Listener, log *slog.Logger) {
	host, _, err := net.SplitHostPort(l.Addr().String())
	if err == nil && l.Addr().Network() == "tcp" && config.Get[string](a.Config, "serve.tls.cert") == "" && !config.IsLoopback(host) {
		log.Warn("not encrypted: tokens can be read on the way; give --tls-cert and --tls-key, or listen on 127.0.0.1 behind something that encrypts", "address", l.Addr())
	}
}

// addressText is how a client calls a listener.
func (a commands) addressText(l net.Listener) string {
	switch {
	case l.Addr().Network() == "unix":
		return "unix://" + l.Addr().String()
	case config.Get[string](a.Config, "serve.tls.cert") != "":
		return "https://" + l.Addr().String()
	}
	return "http://" + l.Addr().String()
}

// tellSystemd says something to the service manager, where there is one.
func tellSystemd(text string) error {
	name := os.Getenv("NOTIFY_SOCKET")
	if name == "" {
		return nil
	}
	if rest, ok := strings.CutPrefix(name, "@"); ok {
		name = "\x00" + rest
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		return fmt.Errorf("NOTIFY_SOCKET: %w", err)
	}
	_, err = conn.Write([]byte(text))
	return output.CloseAfter(err, conn)
}
