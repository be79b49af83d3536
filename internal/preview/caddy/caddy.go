// Package caddy configures an existing Caddy, through its admin API, to forward host names
// to the proxy. It owns one route, marked by an @id, and changes nothing else.
package caddy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/preview/proxy"
)

const (
	// DefaultAdmin is the default address of Caddy's admin API.
	DefaultAdmin = "http://localhost:2019"
	// callTimeout limits one call.
	callTimeout = 10 * time.Second
	// maxResponse limits the bytes of a response: a whole configuration.
	maxResponse = 16 << 20
)

// Provider publishes routes in a Caddy. Its fields must not change after the first use.
type Provider struct {
	// Admin is the URL of the API, or the path of its socket; empty is DefaultAdmin.
	Admin string
	// ID marks the route; it is unique among the users of this Caddy: "atoll".
	ID string
	// Server is the name of the server in Caddy's configuration that gets the
	// route. Empty: the one that listens on Port; none or several are
	// an error.
	Server string
	// Port is the port that browsers connect to.
	Port int
	// SoleServer selects a server that is the only one, whatever port it
	// listens on, for a Caddy behind another proxy.
	SoleServer bool
	// Upstream is the address of the proxy as Caddy reaches it; the proxy must have Front set.
	Upstream proxy.Upstream

	mu     sync.Mutex // one Publish at a time
	client *http.Client
}

var _ proxy.Provider = (*Provider)(nil)

// route is a route in Caddy's configuration.
type route struct {
	ID       string         `json:"@id"`
	Match    []routeMatch   `json:"match"`
	Handle   []routeHandler `json:"handle"`
	Terminal bool           `json:"terminal"`
}

type routeMatch struct {
	Host []string `json:"host"`
}

type routeHandler struct {
	Handler   string     `json:"handler"`
	Upstreams []upstream `json:"upstreams"`
	Flush     int        `json:"flush_interval"`
}

type upstream struct {
	Dial string `json:"dial"`
}

// Publish makes the route forward these hosts to the proxy; an empty list removes the route.
func (p *Provider) Publish(ctx context.Context, routes []proxy.Route) error {
	if err := p.checkFields(); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	ours := route{
		ID: p.ID, Match: []routeMatch{{}}, Terminal: true,
		Handle: []routeHandler{{Handler: "reverse_proxy", Upstreams: []upstream{{p.Upstream.CaddyAddress()}}, Flush: -1}},
	}
	for _, r := range routes {
		ours.Match[0].Host = append(ours.Match[0].Host, r.Host)
	}
	want, err := json.Marshal(ours)
	if err != nil {
		return err
	}
	there, err := p.callAPI(ctx, http.MethodGet, "/id/"+p.ID, nil)
	absent := errors.Is(err, atoll.ErrNotFound)
	switch {
	case err != nil && !absent:
		return err
	case len(routes) == 0 && absent:
		return nil
	case len(routes) == 0:
		_, err = p.callAPI(ctx, http.MethodDelete, "/id/"+p.ID, nil)
	case absent:
		err = p.insertRoute(ctx, want)
	case !equalRoutes(there, want):
		_, err = p.callAPI(ctx, http.MethodPatch, "/id/"+p.ID, want)
	}
	return err
}

// checkFields returns an error for invalid fields.
func (p *Provider) checkFields() error {
	if err := atoll.CheckName(p.ID); err != nil {
		return fmt.Errorf("%w: caddy: route id: %w", atoll.ErrInvalid, err)
	}
	return p.Upstream.Check()
}

// equalRoutes reports whether two JSON values are the same route.
func equalRoutes(a, b []byte) bool {
	var x, y route
	if json.Unmarshal(a, &x) != nil || json.Unmarshal(b, &y) != nil {
		return false
	}
	m, _ := json.Marshal(x) // plain data
	n, _ := json.Marshal(y)
	return bytes.Equal(m, n)
}

// insertRoute inserts the route before all others of the server, so that no catch-all
// route hides it.
func (p *Provider) insertRoute(ctx context.Context, ours []byte) error {
	b, err := p.callAPI(ctx, http.MethodGet, "/config/apps/http/servers", nil)
	if err != nil && !errors.Is(err, atoll.ErrNotFound) {
		return err
	}
	var servers map[string]webServer
	if err == nil {
		if err := json.Unmarshal(b, &servers); err != nil {
			return fmt.Errorf("%w: caddy: read the list of servers: %w", atoll.ErrUnavailable, err)
		}
	}
	name, err := p.chooseServer(servers)
	if err != nil {
		return err
	}
	server := servers[name]
	at := "/config/apps/http/servers/" + url.PathEscape(name) + "/routes"
	if len(server.Routes) == 0 {
		_, err = p.callAPI(ctx, http.MethodPost, at, append(append([]byte("["), ours...), ']'))
		return err
	}
	_, err = p.callAPI(ctx, http.MethodPut, at+"/0", ours)
	return err
}

// webServer holds the fields of a server in Caddy's configuration that are used here.
type webServer struct {
	Listen []string          `json:"listen"`
	Routes []json.RawMessage `json:"routes"`
}

// listensOn reports whether a server listens on a port. Caddy's addresses look like ":443",
// "udp/[::1]:8443" and ":8080-8089".
func (s webServer) listensOn(port int) bool {
	return slices.ContainsFunc(s.Listen, func(address string) bool {
		text := address[strings.LastIndexByte(address, ':')+1:]
		first, last, ranged := strings.Cut(text, "-")
		if !ranged {
			last = first
		}
		from, err := strconv.Atoi(first)
		to, lerr := strconv.Atoi(last)
		return err == nil && lerr == nil && from <= port && port <= to
	})
}

// chooseServer returns the name of the server that gets the route.
func (p *Provider) chooseServer(servers map[string]webServer) (string, error) {
	if len(servers) == 0 {
		return "", fmt.Errorf("%w: caddy has no HTTP server: its configuration needs a site first", atoll.ErrNotFound)
	}
	var all, fit []string
	for _, name := range slices.Sorted(maps.Keys(servers)) {
		all = append(all, name+" ("+strings.Join(servers[name].Listen, " ")+")")
		if p.Server == name || p.Server == "" && (servers[name].listensOn(p.Port) || p.SoleServer && len(servers) == 1) {
			fit = append(fit, name)
		}
	}
	there := strings.Join(all, ", ")
	switch {
	case len(fit) == 1:
		return fit[0], nil
	case p.Server != "":
		return "", fmt.Errorf("%w: caddy has no server %q: there are %s", atoll.ErrNotFound, p.Server, there)
	case len(fit) > 1:
		return "", fmt.Errorf("%w: caddy has several servers on port %d: %s", atoll.ErrInvalid, p.Port, there)
	}
	return "", fmt.Errorf("%w: URLs use port %d, but no caddy server listens on it: there are %s; set proxy.public to the address that browsers use", atoll.ErrInvalid, p.Port, there)
}

// callAPI calls Caddy's admin API. A missing path is ErrNotFound.
func (p *Provider) callAPI(ctx context.Context, method, path string, body []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	base, client := p.adminClient()
	req, err := http.NewRequestWithContext(ctx, method, base+path, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("%w: caddy: %w", atoll.ErrInvalid, err)
	}
	if strings.HasPrefix(p.adminAddress(), "/") {
		req.Host = p.adminAddress() // not a host name: net/http then sends an empty Host, as Caddy requires on a socket
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("%w: caddy's admin API at %s: %w", atoll.ErrUnavailable, p.adminAddress(), err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(io.LimitReader(res.Body, maxResponse))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: caddy: %s %s: %w", atoll.ErrUnavailable, method, path, err)
	case res.StatusCode == http.StatusNotFound, res.StatusCode == http.StatusBadRequest && method == http.MethodGet:
		return nil, fmt.Errorf("%w: caddy: %s", atoll.ErrNotFound, path) // Caddy 2.6 returns 400 for a missing path
	case res.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("%w: caddy: %s %s: %s: %q", atoll.ErrUnavailable, method, path, res.Status, truncateBody(b))
	}
	if bytes.Equal(bytes.TrimSpace(b), []byte("null")) {
		return nil, fmt.Errorf("%w: caddy: %s", atoll.ErrNotFound, path)
	}
	return b, nil
}

func truncateBody(b []byte) []byte { return b[:min(len(b), 300)] }

func (p *Provider) adminAddress() string {
	if p.Admin == "" {
		return DefaultAdmin
	}
	return p.Admin
}

// adminClient returns the URL of the API and an HTTP client for it. The caller
// holds mu.
func (p *Provider) adminClient() (string, *http.Client) {
	admin := p.adminAddress()
	socket := strings.HasPrefix(admin, "/")
	if p.client == nil {
		t := &http.Transport{DisableKeepAlives: true}
		if socket {
			t.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
				var d net.Dialer
				return d.DialContext(ctx, "unix", admin)
			}
		}
		p.client = &http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	}
	if socket {
		return "http://localhost", p.client
	}
	return strings.TrimSuffix(admin, "/"), p.client
}
