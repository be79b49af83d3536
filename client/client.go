// Package client is the Go client of an atoll server. A [Client] is an atoll.Driver
// whose sandboxes live on the server; its other methods manage the server's other
// objects: workspaces, tokens, pools, events.
//
// Errors are those of the contract: errors.Is(err, atoll.ErrNotFound) holds as
// if the sandbox were in this process. If the server can't be reached or the
// connection is lost, the error is atoll.ErrUnavailable.
package client

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// Options select a server and the credentials for it.
type Options struct {
	// Host is the address of the server: "unix:///run/atoll.sock",
	// "http://host:port/prefix", "https://host". It may be empty if Transport or
	// DialContext is set.
	Host string

	Token     string      // empty: no authentication
	TLSConfig *tls.Config // nil: the system's authorities
	UserAgent string      // empty: "atoll"

	// Transport sends the requests; nil: the client makes its own. It
	// must be able to switch protocols, as http.Transport does for HTTP/1.1.
	Transport http.RoundTripper

	// DialContext makes the connections of the client's own transport.
	DialContext func(ctx context.Context, network, address string) (net.Conn, error)

	// OnReconnect is called with the reason when the lost connection of a command
	// that goes on can't be opened again at once, and with nil when it is open again.
	// It may be called concurrently. Nil: nothing is called.
	OnReconnect func(lost error)

	// ReconnectTimeout is how long the lost connection of a command that goes on is opened again and
	// again; 0: two minutes.
	ReconnectTimeout time.Duration
}

// Client is a connection to an atoll server. Its methods may be called
// concurrently.
type Client struct {
	host      string  // as given, for messages
	base      url.URL // prefix of all paths
	token     string
	userAgent string
	http      *http.Client
	close     func()

	onReconnect      func(lost error)
	reconnectTimeout time.Duration

	mu     sync.Mutex
	driver string // guarded by mu; name of the server's default driver, once it is known
}

var _ atoll.Driver = (*Client)(nil)

// New returns a client of a server. It does not connect yet.
func New(o Options) (*Client, error) {
	c := &Client{host: o.Host, token: o.Token, userAgent: o.UserAgent, close: func() {}, onReconnect: o.OnReconnect, reconnectTimeout: cmp.Or(o.ReconnectTimeout, defaultReconnectTimeout)}
	if c.onReconnect == nil {
		c.onReconnect = func(error) {}
	}
	if c.userAgent == "" {
		c.userAgent = "atoll"
	}
	dial, err := c.parseHost(&o)
	if err != nil {
		return nil, &atoll.Error{Op: "client", Err: err}
	}
	rt := o.Transport
	if rt == nil {
		t := newTransport(o.TLSConfig, dial)
		c.close, rt = t.CloseIdleConnections, t
	}
	c.http = &http.Client{Transport: rt, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return c, nil
}

// parseHost parses Options.Host, sets the base URL and returns the dial function; nil: the default.
func (c *Client) parseHost(o *Options) (func(context.Context, string, string) (net.Conn, error), error) {
	const forms = "a host is unix:///PATH, http://HOST[:PORT][/PREFIX] or https://HOST[:PORT][/PREFIX]"
	dial := o.DialContext
	if o.Host == "" {
		if dial == nil && o.Transport == nil {
			return nil, fmt.Errorf("%w: no host: %s", atoll.ErrInvalid, forms)
		}
		c.host = "in this process"
		c.base = url.URL{Scheme: "http", Host: "atoll"}
		return dial, nil
	}
	u, err := url.Parse(o.Host)
	if err != nil || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("%w: host %q: %s", atoll.ErrInvalid, o.Host, forms)
	}
	switch {
	case u.Scheme == "unix" && u.Host == "" && strings.HasPrefix(u.Path, "/"):
		c.base = url.URL{Scheme: "http", Host: "atoll"}
		if dial == nil {
			dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
				var d net.Dialer
				return d.DialContext(ctx, "unix", u.Path)
			}
		}
	case (u.Scheme == "http" || u.Scheme == "https") && u.Host != "":
		c.base = url.URL{Scheme: u.Scheme, Host: u.Host, Path: strings.TrimSuffix(u.Path, "/")}
	default:
		return nil, fmt.Errorf("%w: host %q: %s", atoll.ErrInvalid, o.Host, forms)
	}
	return dial, nil
}

// newTransport returns a transport that keeps idle connections for reuse.
// It speaks HTTP/1.1 only: streams take over their connections.
func newTransport(conf *tls.Config, dial func(context.Context, string, string) (net.Conn, error)) *http.Transport {
	if dial == nil {
		dial = (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext
	}
	t := &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: dial, TLSClientConfig: conf, TLSHandshakeTimeout: 15 * time.Second,
		MaxIdleConns: 256, MaxIdleConnsPerHost: 256, IdleConnTimeout: 90 * time.Second,
		DisableCompression: true, MaxResponseHeaderBytes: 1 << 20, WriteBufferSize: 32 << 10, ReadBufferSize: 32 << 10,
		Protocols: new(http.Protocols),
	}
	t.Protocols.SetHTTP1(true)
	return t
}

// Close closes idle connections. The client can still be used.
func (c *Client) Close() error {
	c.close()
	return nil
}

// Host returns the address of the server, as given in Options.
func (c *Client) Host() string { return c.host }

// Info describes the server and the authenticated caller.
func (c *Client) Info(ctx context.Context) (atoll.Server, error) {
	var s atoll.Server
	if err := c.getJSON(ctx, call{op: "info", path: "/v1/info"}, &s); err != nil {
		return s, err
	}
	for _, d := range s.Drivers {
		if d.Default {
			c.mu.Lock()
			c.driver = d.Name
			c.mu.Unlock()
		}
	}
	return s, nil
}

// Name returns the name of the server's default driver, or "remote" if the
// server can't be reached.
func (c *Client) Name() string {
	c.mu.Lock()
	name := c.driver
	c.mu.Unlock()
	if name != "" {
		return name
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if _, err := c.Info(ctx); err != nil {
		return "remote"
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.driver == "" {
		return "remote"
	}
	return c.driver
}

// Probe returns the features of the server's default driver.
func (c *Client) Probe(ctx context.Context) (atoll.Features, error) {
	s, err := c.Info(ctx)
	if err != nil {
		return atoll.Features{}, err
	}
	for _, d := range s.Drivers {
		switch {
		case !d.Default:
		case d.Features == nil:
			return atoll.Features{}, &atoll.Error{Op: "probe", Err: fmt.Errorf("%w: driver %s of %s: %s", atoll.ErrUnavailable, d.Name, c.host, d.Error)}
		default:
			f := *d.Features
			f.Persist = true
			return f, nil
		}
	}
	return atoll.Features{}, &atoll.Error{Op: "probe", Err: fmt.Errorf("%w: %s has no driver", atoll.ErrUnavailable, c.host)}
}

// Create creates a sandbox with the server's default driver. It persists until it is
// destroyed. CreateSandbox takes a full configuration.
func (c *Client) Create(ctx context.Context, spec atoll.Spec) (atoll.Sandbox, error) {
	sb, err := c.CreateSandbox(ctx, atoll.Config{Spec: spec, Lifecycle: atoll.Lifecycle{Policy: atoll.PolicyPersistent}})
	if err != nil {
		return nil, err
	}
	return sb, nil
}

// Open returns a sandbox by its id or name.
func (c *Client) Open(ctx context.Context, key string) (atoll.Sandbox, error) {
	sb, err := c.Sandbox(ctx, key)
	if err != nil {
		return nil, err
	}
	return sb, nil
}

// List returns the caller's sandboxes, oldest first.
func (c *Client) List(ctx context.Context) ([]atoll.Status, error) {
	infos, err := c.Sandboxes(ctx, Filter{})
	if err != nil {
		return nil, err
	}
	list := make([]atoll.Status, 0, len(infos))
	for _, i := range infos {
		list = append(list, i.Status)
	}
	return list, nil
}
