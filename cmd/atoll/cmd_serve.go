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
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/filelock"
	"github.com/atoll-sandbox/atoll/internal/fleet"
	"github.com/atoll-sandbox/atoll/internal/server"
)

func (a *app) serveCommand() *cobra.Command {
	var verbose bool
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
			return a.serve(cmd.Context(), a.logger(verbose))
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
	fl.BoolVarP(&verbose, "verbose", "v", false, "log more")
	return cmd
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
func (a *app) serve(ctx context.Context, log *slog.Logger) (err error) {
	if _, err := a.driver(); err != nil {
		return err
	}
	if err := a.homed(); err != nil {
		return err
	}
	unlock, err := a.only()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	listeners, err := a.listen(ctx, log)
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
	s := server.New(server.Options{
		Fleet: f, Log: log, Version: buildVersion().Version, Limits: server.Limits{Rate: get[float64](a.config, "serve.rate")},
		Hosts: getList[string](a.config, "serve.host_names"), Origins: getList[string](a.config, "serve.origins"),
		Agents: a.agents(f, log),
	})
	if err := s.Settle(); err != nil { // the rest can be served without
		log.Warn("no agents yet", "err", err)
	}
	return a.attend(ctx, f, s, listeners, log)
}

// attend runs a server's parts until one fails or ctx is done, and ends all.
func (a *app) attend(ctx context.Context, f *fleet.Fleet, s *server.Server, listeners []net.Listener, log *slog.Logger) error {
	work, stop := context.WithCancel(ctx)
	defer stop()
	var wg sync.WaitGroup
	failed := make(chan error, len(listeners)+1)
	wg.Go(func() {
		if err := f.Run(work); err != nil && work.Err() == nil {
			failed <- err
		}
	})
	for _, l := range listeners {
		wg.Go(func() {
			if err := s.Serve(l); err != nil {
				failed <- err
			}
		})
	}
	for _, l := range listeners {
		log.Info("listening", "address", a.addressText(l))
	}
	if len(listeners) > 1 {
		log.Info("on addresses a token is needed", "make", "atoll token create", "use", "atoll login HOST")
	}
	errs := []error{tellSystemd("READY=1")}
	select {
	case err := <-failed:
		errs = append(errs, err)
	case <-ctx.Done():
		log.Info("ending", "grace", get[time.Duration](a.config, "serve.grace"))
	}
	errs = append(errs, tellSystemd("STOPPING=1"), a.shutdown(ctx, s))
	stop()
	wg.Wait()
	log.Info("ended")
	return errors.Join(errs...)
}

// shutdown ends a server within the grace, or at the second signal.
func (a *app) shutdown(ctx context.Context, s *server.Server) error {
	ctx = context.WithoutCancel(ctx)
	if grace := get[time.Duration](a.config, "serve.grace"); grace >= 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, grace)
		defer cancel()
	}
	hurry, end := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer end()
	err := s.Shutdown(hurry)
	if errors.Is(err, atoll.ErrTimeout) {
		fmt.Fprintf(a.err, "atoll: %v\n", err)
		return nil // that is what grace is for
	}
	return err
}

// only makes sure that no other server has this home, until unlock is called.
func (a *app) only() (unlock func() error, err error) {
	if err := os.MkdirAll(a.home, 0o700); err != nil {
		return nil, a.writable(err)
	}
	f, err := os.OpenFile(filepath.Join(a.home, "serve.lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, a.writable(err)
	}
	ok, err := filelock.Try(f)
	if err != nil {
		return nil, finish(err, f)
	}
	if !ok {
		return nil, finish(fmt.Errorf("%w: another atoll serves %s: 'atoll ls' talks to it; give this one another --home", atoll.ErrExists, a.home), f)
	}
	return f.Close, nil
}

// writable adds to an error of a directory what can be done about it.
func (a *app) writable(err error) error {
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) || isNotDir(err) {
		return fmt.Errorf("%w (set ATOLL_HOME or --home to a directory that you can write)", err)
	}
	return err
}

// listen opens the socket and all addresses, or says what is wrong with each.
// What it returns is to be closed, with an error too.
func (a *app) listen(ctx context.Context, log *slog.Logger) ([]net.Listener, error) {
	files, err := a.tlsFiles(log)
	if err != nil {
		return nil, err
	}
	var list []net.Listener
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
	return list, errors.Join(errs...)
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
