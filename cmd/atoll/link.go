package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/client"
	"github.com/atoll-sandbox/atoll/internal/fleet"
	"github.com/atoll-sandbox/atoll/internal/server"
)

// link is the one way by which the commands of this call reach a fleet.
type link struct {
	*client.Client
	name   string // of the context; empty: none
	host   string // empty: the fleet is in this process
	origin string // what chose it
	end    func(context.Context) error
}

// target says where commands go: the name of a context, or the endpoint that
// --host or $ATOLL_HOST names. Neither means this machine.
func (c *config) target() (name string, e endpoint, err error) {
	host, chosen := c.settings["host"], c.settings["context"]
	if host.key != nil && chosen.key != nil {
		switch {
		case strength(host) == strength(chosen):
			return "", e, fmt.Errorf("%w: %s and %s both say where to go: give one of them", atoll.ErrInvalid, host.origin, chosen.origin)
		case strength(host) > strength(chosen):
			chosen = setting{}
		default:
			host = setting{}
		}
	}
	token := get[string](c, "token")
	if host.key != nil {
		e = endpoint{Host: get[string](c, "host"), Token: token, origin: host.origin}
		return "", e, e.check()
	}
	if chosen.key == nil || chosen.texts[0] == here {
		return here, e, nil
	}
	name = chosen.texts[0]
	e, ok := c.contexts[name]
	if !ok {
		return name, e, fmt.Errorf("%s: %w", chosen.origin, c.knows(name))
	}
	if token != "" {
		e.Token, e.TokenFile = token, ""
	}
	return name, e, e.check()
}

// strength orders the sources of a setting.
func strength(s setting) int {
	switch {
	case strings.HasPrefix(s.origin, "--"):
		return 2
	case strings.HasPrefix(s.origin, "$"):
		return 1
	}
	return 0
}

// elsewhere reports whether commands go to a server that somebody named.
func (a *app) elsewhere() (bool, error) {
	_, e, err := a.config.target()
	return e.Host != "", err
}

// client returns the way to the fleet, which is made once.
func (a *app) client(ctx context.Context) (*link, error) {
	if a.link != nil {
		return a.link, nil
	}
	name, e, err := a.config.target()
	if err != nil {
		return nil, err
	}
	var l *link
	if e.Host != "" {
		l, err = connect(e)
	} else if err = a.homed(); err == nil {
		if l, err = a.socket(ctx); err == nil && l == nil {
			l, err = a.embed(ctx)
		}
	}
	if err != nil {
		return nil, err
	}
	l.name = name
	a.link = l
	return l, nil
}

// connect returns a client of a server. It calls nobody yet.
func connect(e endpoint) (*link, error) {
	secret, err := e.secret()
	if err != nil {
		return nil, err
	}
	o := client.Options{Host: e.Host, Token: secret}
	if e.CA != "" {
		if o.TLSConfig, err = trust(e.CA); err != nil {
			return nil, fmt.Errorf("%s: ca: %w", e.origin, err)
		}
	}
	c, err := client.New(o)
	if err != nil {
		return nil, err
	}
	return &link{Client: c, host: e.Host, origin: e.origin, end: func(context.Context) error { return c.Close() }}, nil
}

// trust returns the system's certificates and those of a file.
func trust(file string) (*tls.Config, error) {
	b, err := readSmall(file)
	if err != nil {
		return nil, err
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if !pool.AppendCertsFromPEM(b) {
		return nil, fmt.Errorf("%w: %s holds no certificate in PEM form", atoll.ErrInvalid, file)
	}
	return &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}, nil
}

// ask asks a server who it is.
func ask(ctx context.Context, e endpoint) (atoll.Server, error) {
	l, err := connect(e)
	if err != nil {
		return atoll.Server{}, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, 15*time.Second, fmt.Errorf("%w: %s has not answered for 15 s", atoll.ErrTimeout, e.Host))
	defer cancel()
	info, err := l.Info(ctx)
	return info, errors.Join(err, l.end(ctx))
}

// socketPath is where a server of this machine listens.
func (a *app) socketPath() string {
	if s := get[string](a.config, "serve.socket"); s != "" {
		return s
	}
	return filepath.Join(a.home, "atoll.sock")
}

// socket returns a client of the server of this machine; nil if none answers.
func (a *app) socket(ctx context.Context) (*link, error) {
	path := a.socketPath()
	if _, err := os.Lstat(path); err != nil {
		return nil, nil // nobody is there
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", path)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return nil, fmt.Errorf("%w: a server listens on %s, and this user may not talk to it: ask for a token and use 'atoll login'", atoll.ErrDenied, path)
	case err != nil:
		return nil, ctxErr(ctx) // nobody is there
	}
	if err := conn.Close(); err != nil {
		return nil, err
	}
	return connect(endpoint{Host: "unix://" + path, origin: "a server that runs here"})
}

// ctxErr is the error of a context that is done before its time.
func ctxErr(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// fleetOptions say what the fleet of this machine consists of.
func (a *app) fleetOptions(log *slog.Logger) fleet.Options {
	c := a.config
	return fleet.Options{
		Home: a.home, Registry: get[string](c, "registry"), Shared: shared, Drivers: a.all(), Default: a.defaultDriver(), Log: log, Rescue: a.rescueForFleet,
		Quota: atoll.Quota{
			Sandboxes: get[int](c, "quota.sandboxes"), CPU: get[float64](c, "quota.cpu"),
			Memory: get[int64](c, "quota.memory"), Disk: get[int64](c, "quota.disk"),
			Workspaces: get[int](c, "quota.workspaces"), Processes: get[int](c, "quota.processes"),
			Tokens: int64(get[int](c, "quota.tokens")), Cost: get[float64](c, "quota.cost"),
		},
		Retention: fleet.Retention{Keep: get[time.Duration](c, "retention.keep"), Cron: get[string](c, "retention.cron")},
	}
}

func (a *app) defaultDriver() string {
	if a.driverName != "" {
		return a.driverName
	}
	if a.sharing() {
		return shared[0]
	}
	return defaultDriver
}

// embed opens the fleet of this machine in this process, behind the same
// handler that a server has, through connections that are only memory.
func (a *app) embed(ctx context.Context) (*link, error) {
	if _, err := a.driver(); err != nil {
		return nil, err
	}
	f, err := fleet.Open(ctx, a.fleetOptions(nil))
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) || isNotDir(err) {
		return nil, fmt.Errorf("%w (set ATOLL_HOME or --home to a directory that you can write)", err)
	}
	if err != nil {
		return nil, err
	}
	tidy, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err := f.Tidy(tidy); err != nil {
		return nil, errors.Join(err, f.Close(context.WithoutCancel(ctx)))
	}
	s := server.New(server.Options{Fleet: f, Version: buildVersion().Version, Agents: a.agents(f, nil)})
	listener, dial := server.Pipe()
	var wg sync.WaitGroup
	var served error
	wg.Go(func() { served = s.Serve(listener) })
	c, err := client.New(client.Options{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) }})
	end := func(ctx context.Context) error {
		var errs []error
		if c != nil {
			errs = append(errs, c.Close())
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
		defer cancel()
		errs = append(errs, s.Shutdown(ctx))
		wg.Wait()
		return errors.Join(append(errs, served, f.Close(ctx))...)
	}
	if err != nil {
		return nil, errors.Join(err, end(ctx))
	}
	return &link{Client: c, origin: "default", end: end}, nil
}

// hangUp ends what client began.
func (a *app) hangUp(ctx context.Context) error {
	if a.link == nil {
		return nil
	}
	l := a.link
	a.link = nil
	return l.end(ctx)
}
