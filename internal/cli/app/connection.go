package app

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/client"
	"github.com/atoll-sandbox/atoll/internal/api"
	"github.com/atoll-sandbox/atoll/internal/cli/config"
	"github.com/atoll-sandbox/atoll/internal/cli/version"
	"github.com/atoll-sandbox/atoll/internal/fleet"
)

// Connection is the connection of this run to a fleet.
type Connection struct {
	*client.Client
	Name   string // of the context; empty: none
	Host   string // empty: the fleet is in this process
	Origin string // what chose it
	close  func(context.Context) error
}

// IsRemote reports whether commands use a server that a flag, the environment or the
// configuration names.
func (a *App) IsRemote() (bool, error) {
	_, e, err := a.Config.Target()
	return e.Host != "", err
}

// Client returns the way to the fleet, which is made once.
func (a *App) Client(ctx context.Context) (*Connection, error) {
	if a.Conn != nil {
		return a.Conn, nil
	}
	name, e, err := a.Config.Target()
	if err != nil {
		return nil, err
	}
	var l *Connection
	if e.Host != "" {
		l, err = newConnection(e, client.Options{OnReconnect: a.tellReconnect})
	} else if err = a.CheckHome(); err == nil {
		if l, err = a.connectSocket(ctx); err == nil && l == nil {
			l, err = a.openEmbedded(ctx)
		}
	}
	if err != nil {
		return nil, err
	}
	l.Name = name
	a.Conn = l
	return l, nil
}

// newConnection returns a client of a server, with further options, without connecting to it.
func newConnection(e config.Endpoint, o client.Options) (*Connection, error) {
	secret, err := e.Secret()
	if err != nil {
		return nil, err
	}
	o.Host, o.Token = e.Host, secret
	if o.TLSConfig, err = loadTLS(e); err != nil {
		return nil, fmt.Errorf("%s: %w", e.Origin, err)
	}
	c, err := client.New(o)
	if err != nil {
		return nil, err
	}
	return &Connection{Client: c, Host: e.Host, Origin: e.Origin, close: func(context.Context) error { return c.Close() }}, nil
}

// localReconnectTimeout is how long a command waits for a server of this machine that has ended: long enough for
// one that a service manager starts again.
const localReconnectTimeout = 20 * time.Second

// tellReconnect tells that a command goes on while its connection is opened again.
func (a *App) tellReconnect(lost error) {
	switch {
	case a.Quiet:
	case lost != nil: // the terminal may be in raw mode
		fmt.Fprintf(a.Err, "atoll: the connection was lost; the command goes on, connecting again …\r\n")
	default:
		fmt.Fprintf(a.Err, "atoll: connected again\r\n")
	}
}

// loadTLS returns the TLS of an endpoint with files of its own; nil: it has none.
func loadTLS(e config.Endpoint) (*tls.Config, error) {
	if e.CA == "" && e.Cert == "" {
		return nil, nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if e.CA != "" {
		var err error
		if c, err = loadCAs(e.CA); err != nil {
			return nil, fmt.Errorf("ca: %w", err)
		}
	}
	if e.Cert != "" {
		pair, err := tls.LoadX509KeyPair(e.Cert, e.Key)
		if err != nil {
			return nil, fmt.Errorf("cert: %w", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

// NewClient returns a client of an endpoint and the TLS that it uses, nil for the system's. It does not connect yet.
func NewClient(e config.Endpoint) (*client.Client, *tls.Config, error) {
	c, err := loadTLS(e)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", e.Origin, err)
	}
	secret, err := e.Secret()
	if err != nil {
		return nil, nil, err
	}
	made, err := client.New(client.Options{Host: e.Host, Token: secret, TLSConfig: c})
	return made, c, err
}

// loadCAs returns the system's certificates and those of a file.
func loadCAs(file string) (*tls.Config, error) {
	b, err := config.ReadSmallFile(file)
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

// QueryServer asks a server who it is.
func QueryServer(ctx context.Context, e config.Endpoint) (atoll.Server, error) {
	l, err := newConnection(e, client.Options{})
	if err != nil {
		return atoll.Server{}, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, 15*time.Second, fmt.Errorf("%w: %s has not answered for 15 s", atoll.ErrTimeout, e.Host))
	defer cancel()
	info, err := l.Info(ctx)
	return info, errors.Join(err, l.close(ctx))
}

// SocketPath is where a server of this machine listens.
func (a *App) SocketPath() string {
	if s := config.Get[string](a.Config, "serve.socket"); s != "" {
		return s
	}
	return filepath.Join(a.Home, "atoll.sock")
}

// connectSocket returns a client of the server of this machine; nil if none answers.
func (a *App) connectSocket(ctx context.Context) (*Connection, error) {
	path := a.SocketPath()
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
	return newConnection(config.Endpoint{Host: "unix://" + path, Origin: "a server that runs here"}, client.Options{OnReconnect: a.tellReconnect, ReconnectTimeout: localReconnectTimeout})
}

// ctxErr is the error of a context that is done before its time.
func ctxErr(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// openEmbedded opens the fleet of this machine in this process, behind the same
// handler that a server has, through connections that are only memory.
func (a *App) openEmbedded(ctx context.Context) (*Connection, error) {
	if _, err := a.Driver(); err != nil {
		return nil, err
	}
	f, err := fleet.Open(ctx, a.FleetOptions(nil))
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) || isNotDir(err) {
		return nil, fmt.Errorf("%w (set ATOLL_HOME or --home to a directory that you can write)", err)
	}
	if err != nil {
		return nil, err
	}
	if r := f.Rebuilt(); r != nil {
		fmt.Fprintf(a.Err, "atoll: the registry was damaged (%s) and is rebuilt from the sandboxes and workspaces that exist; tokens, quotas and the damaged part are in %s\n", r.Damage, r.Backup)
	}
	tidy, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err := f.ExpireSandboxes(tidy); err != nil {
		return nil, errors.Join(err, f.Close(context.WithoutCancel(ctx)))
	}
	s := api.New(api.Options{Fleet: f, Version: version.Build().Version, Agents: a.FleetAgents(f, nil, false)})
	listener, dial := api.Pipe()
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
	return &Connection{Client: c, Origin: "default", close: end}, nil
}

// Disconnect closes the connection that Client opened.
func (a *App) Disconnect(ctx context.Context) error {
	if a.Conn == nil {
		return nil
	}
	l := a.Conn
	a.Conn = nil
	return l.close(ctx)
}

// rescueFunc returns the function by which a fleet saves the work of a project's
// sandbox; nil: there is none.
func (a *App) rescueFunc() func(context.Context, atoll.Info, atoll.Sandbox) error {
	if a.NewRescuer == nil {
		return nil
	}
	return a.NewRescuer(a)
}
