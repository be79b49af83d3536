package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet"
	"github.com/atoll-sandbox/atoll/internal/server"
)

func (a *app) serveCommand() *cobra.Command {
	var o serveOptions
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Be a server of sandboxes for this machine, or for a team",
		Long: `Be a server of sandboxes. On the unix socket, which only this user and root can
open, nobody needs a token; 'atoll' on this machine finds it by itself. On the
addresses of --listen everybody does: make one with 'atoll token create'.

The server also does what nobody calls for: it ends sandboxes whose time has come,
removes workspaces that nobody uses, keeps pools filled. SIGTERM or Ctrl-C lets
commands go on for --grace; a second one ends them at once. Sandboxes stay. With
--json the log on stderr is JSON lines.`,
		Example: `  atoll serve
  atoll serve --listen 127.0.0.1:8484
  atoll serve --listen 0.0.0.0:8484 --tls-cert cert.pem --tls-key key.pem`,
		Args: needArgs(0, 0, "no arguments (addresses go into --listen)"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if said := a.config.flagsOnly().settings; said["host"].key != nil || said["context"].key != nil {
				return fmt.Errorf("%w: serve is for this machine: leave --host and --context away", atoll.ErrInvalid)
			}
			return a.serve(cmd.Context(), o)
		},
	}
	fl := cmd.Flags()
	fl.StringArray("listen", nil, "`ADDRESS` to listen on besides the socket, like 127.0.0.1:8484 (repeatable)")
	fl.String("socket", "", "`FILE` of the unix socket (default atoll.sock in the home)")
	fl.String("tls-cert", "", "PEM `FILE` of the certificates for --listen")
	fl.String("tls-key", "", "PEM `FILE` of their key")
	fl.StringArray("host-name", nil, "`NAME` that the server is called by, besides addresses and localhost (repeatable)")
	fl.StringArray("origin", nil, "web `PAGE` that may call it from a browser, like https://console.example.com (repeatable)")
	fl.String("app", "", "`DIRECTORY` of assistants, connectors, mcps and skills (default ~/.config/atoll)")
	fl.String("rate", "", "`REQUESTS` a second that one caller may make (default 1000)")
	fl.String("grace", "", "`DURATION` that commands may go on when the server is to end (default 10s)")
	fl.String("proxy", "", "`ADDRESS` where ports of sandboxes have names, or off (default 127.0.0.1:7080, or a free port)")
	fl.StringArray("domain", nil, "`NAME` that names of ports end in (default localhost; repeatable)")
	fl.String("proxy-access", "", "who comes in by these names: `links`, open or auto: links, unless only this machine reaches them (default auto)")
	fl.Bool("proxy-behind", false, "a web server of yours stands before the names (see 'atoll proxy export')")
	fl.String("proxy-public", "", "how browsers call the names: `SCHEME[:PORT]`, like https:8443 (default: as the proxy listens)")
	fl.String("proxy-tls-cert", "", "PEM `FILE` of the certificates for the names (default --tls-cert, where others reach them)")
	fl.String("proxy-tls-key", "", "PEM `FILE` of their key")
	fl.String("caddy", "", "admin `URL` of a Caddy that is to lead the names here, like http://localhost:2019")
	fl.StringArray("mdns", nil, "network `INTERFACE` to tell NAME.sandbox.local on, by multicast DNS (repeatable)")
	fl.DurationVar(&o.idle, "ends-when-idle", 0, "end after this `DURATION` without a call, a command, or a sandbox of a project that runs")
	fl.BoolVar(&o.background, "background", false, "be the server that 'atoll up' starts")
	fl.BoolVarP(&o.verbose, "verbose", "v", false, "log more")
	_ = fl.MarkHidden("background") // it is there
	return cmd
}

// serveOptions are what only the flags of serve say.
type serveOptions struct {
	verbose    bool
	idle       time.Duration // 0: it does not end by itself
	background bool          // addresses that are taken are left to others; it waits for one that is about to end
}

// logger returns the log of a server.
func (a *app) logger(verbose bool) *slog.Logger {
	level := slog.LevelInfo
	if verbose {
		level = slog.LevelDebug
	}
	if a.quiet {
		level = slog.LevelWarn
	}
	o := &slog.HandlerOptions{Level: level}
	if a.json {
		return slog.New(slog.NewJSONHandler(a.err, o))
	}
	return slog.New(slog.NewTextHandler(a.err, o))
}

// serve serves until ctx is done.
func (a *app) serve(ctx context.Context, o serveOptions) (err error) {
	log := a.logger(o.verbose)
	if _, err := a.driver(); err != nil {
		return err
	}
	if err := a.homed(); err != nil {
		return err
	}
	unlock, err := a.only(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.removeServerFile(), unlock()) }()
	if err := a.removeServerFile(); err != nil { // of one that was killed
		return a.writable(err)
	}
	listeners, pages, err := a.listen(ctx, o, log)
	defer func() {
		for _, l := range listeners {
			_ = l.Close() // most are closed already, by Shutdown
		}
	}()
	if err != nil {
		return err
	}
	f, err := fleet.Open(ctx, a.fleetOptions(log))
	if err != nil {
		return a.writable(err)
	}
	defer func() { err = errors.Join(err, f.Close(context.WithoutCancel(ctx))) }()
	if err := f.Reconcile(ctx); err != nil {
		return fmt.Errorf("reconcile: %w", err)
	}
	p, err := a.openPortal(ctx, f, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.close()) }()
	s := server.New(server.Options{
		Fleet: f, Log: log, Version: buildVersion().Version, Limits: server.Limits{Rate: get[float64](a.config, "serve.rate")},
		Hosts: getList[string](a.config, "serve.host_names"), Origins: getList[string](a.config, "serve.origins"),
		Agents: a.agents(f, log), Routes: p.routes(),
	})
	if err := s.Settle(); err != nil { // the rest can be served without
		log.Warn("no agents yet", "err", err)
	}
	about := serverFile{PID: os.Getpid(), Version: buildVersion().Version, Started: time.Now().UTC(), Proxy: p.address()}
	for _, l := range listeners {
		about.Listen = append(about.Listen, a.addressText(l))
	}
	if pages != nil {
		about.Pages = a.addressText(pages)
	}
	if o.idle > 0 {
		about.Idle = o.idle.String()
	}
	if err := a.writeServerFile(about); err != nil {
		return a.writable(err)
	}
	return a.attend(ctx, &serving{fleet: f, server: s, listeners: listeners, portal: p, idle: o.idle}, log)
}

// serving is what a server consists of.
type serving struct {
	fleet     *fleet.Fleet
	server    *server.Server
	listeners []net.Listener
	portal    *portal       // nil: ports have none
	idle      time.Duration // 0: it does not end by itself
}

// attend runs a server's parts until one fails, ctx is done or nobody needs it
// any more, and ends all.
func (a *app) attend(ctx context.Context, sv *serving, log *slog.Logger) error {
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
			if untilIdle(work, sv.fleet, sv.idle, sv.quiet()...) == nil {
				close(idle)
			}
		})
	}
	if sv.portal != nil {
		part(sv.portal.run)
	}
	errs, say := []error{tellSystemd("READY=1")}, func() {}
	select {
	case err := <-failed:
		errs = append(errs, err)
	case <-ctx.Done():
		say = func() { log.Info("ending", "grace", get[time.Duration](a.config, "serve.grace")) }
	case <-idle:
		say = func() { log.Info("ending: nobody needs it", "for", sv.idle) }
	}
	// Who reads that it ends may send the second signal at once.
	hurry, end := signal.NotifyContext(context.WithoutCancel(ctx), os.Interrupt, syscall.SIGTERM)
	defer end()
	say()
	errs = append(errs, tellSystemd("STOPPING=1"), a.shutdown(hurry, sv.server))
	stop()
	wg.Wait()
	log.Info("ended")
	return errors.Join(errs...)
}

// quiet are those who know whether a server is needed.
func (sv *serving) quiet() []quiet {
	list := []quiet{sv.server}
	if sv.portal != nil {
		list = append(list, sv.portal.proxy)
	}
	return list
}

// shutdown ends a server within the grace, or when ctx is done.
func (a *app) shutdown(ctx context.Context, s *server.Server) error {
	if grace := get[time.Duration](a.config, "serve.grace"); grace >= 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, grace)
		defer cancel()
	}
	err := s.Shutdown(ctx)
	if errors.Is(err, atoll.ErrTimeout) {
		fmt.Fprintf(a.err, "atoll: %v\n", err)
		return nil // that is what grace is for
	}
	return err
}

// only makes sure that no other server has this home, until unlock is called. In
// the background it waits for one that is about to end.
func (a *app) only(ctx context.Context, o serveOptions) (unlock func() error, err error) {
	if err := os.MkdirAll(a.home, 0o700); err != nil {
		return nil, a.writable(err)
	}
	other := fmt.Errorf("%w: another atoll serves %s: 'atoll ls' talks to it; give this one another --home", atoll.ErrExists, a.home)
	patience := time.Duration(0)
	if o.background {
		patience = backgroundStart / 2
	}
	ctx, cancel := context.WithTimeoutCause(ctx, patience, other)
	defer cancel()
	return a.lockHome(ctx, "serve.lock")
}

// writable adds to an error of a directory what can be done about it.
func (a *app) writable(err error) error {
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) || isNotDir(err) {
		return fmt.Errorf("%w (set ATOLL_HOME or --home to a directory that you can write)", err)
	}
	return err
}

// listen opens the socket and all addresses, or says what is wrong with each.
// What it returns is to be closed, with an error too. Pages is the one of them
// that browsers of this machine find; nil: there is none.
func (a *app) listen(ctx context.Context, o serveOptions, log *slog.Logger) (list []net.Listener, pages net.Listener, err error) {
	files, err := a.tlsFiles(log)
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
	add(server.ListenUnix(a.socketPath()))
	for _, address := range getList[string](a.config, "serve.listen") {
		add(server.ListenTCP(ctx, address, files))
		if host, _, err := net.SplitHostPort(address); err == nil && files == nil && !loopback(host) {
			log.Warn("not encrypted: tokens can be read on the way; give --tls-cert and --tls-key, or listen on 127.0.0.1 behind something that encrypts", "address", address)
		}
	}
	if o.background {
		l, err := listenOr(ctx, backgroundPages, nil)
		add(l, err)
		pages = l
	}
	return list, pages, errors.Join(errs...)
}

// listenOr listens on an address of this machine, or on any free port there if
// another program has it.
func listenOr(ctx context.Context, address string, files *server.TLSFiles) (net.Listener, error) {
	l, err := server.ListenTCP(ctx, address, files)
	if !errors.Is(err, atoll.ErrExists) {
		return l, err
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	return server.ListenTCP(ctx, net.JoinHostPort(host, "0"), files)
}

func (a *app) tlsFiles(log *slog.Logger) (*server.TLSFiles, error) {
	cert, key := get[string](a.config, "serve.tls.cert"), get[string](a.config, "serve.tls.key")
	if cert == "" && key == "" {
		return nil, nil
	}
	if cert == "" || key == "" {
		return nil, fmt.Errorf("%w: --tls-cert and --tls-key belong together", atoll.ErrInvalid)
	}
	return &server.TLSFiles{Cert: cert, Key: key, Log: log}, nil
}

// addressText is how a client calls a listener.
func (a *app) addressText(l net.Listener) string {
	switch {
	case l.Addr().Network() == "unix":
		return "unix://" + l.Addr().String()
	case get[string](a.config, "serve.tls.cert") != "":
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
	return finish(err, conn)
}
