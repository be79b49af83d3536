// Package caddy lets a Caddy that is there already lead names to the proxy, by
// its admin API. It keeps one route, marked by an @id, and touches nothing else.
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
	"github.com/atoll-sandbox/atoll/internal/proxy"
)

const (
	// DefaultAdmin is where Caddy's API listens if nobody says otherwise.
	DefaultAdmin = "http://localhost:2019"
	// callTime bounds one call.
	callTime = 10 * time.Second
	// maxAnswer bounds what is read of an answer: a whole configuration.
	maxAnswer = 16 << 20
)

// Provider publishes routes in a Caddy. Its fields are not changed once it is used.
type Provider struct {
	// Admin is the URL of the API, or the path of its socket; empty is DefaultAdmin.
	Admin string
	// ID marks the route; it is unique among those who use this Caddy: "atoll".
	ID string
	// Server is the name of the server in Caddy's configuration that gets the
	// route. Empty is the one that listens on Port; where that is not just one, it
	// is an error.
	Server string
	// Port is the one that browsers come in by.
	Port int
	// Only says that a server which is the only one gets the route, whatever it
	// listens on: something stands before Caddy.
	Only bool
	// Upstream is where Caddy reaches the proxy, which has Front set.
	Upstream proxy.Upstream

	mu     sync.Mutex // one Publish at a time
	client *http.Client
}

var _ proxy.Provider = (*Provider)(nil)

// route is one of Caddy's.
type route struct {
	ID       string   `json:"@id"`
	Match    []match  `json:"match"`
	Handle   []handle `json:"handle"`
	Terminal bool     `json:"terminal"`
}

type match struct {
	Host []string `json:"host"`
}

type handle struct {
	Handler   string     `json:"handler"`
	Upstreams []upstream `json:"upstreams"`
	Flush     int        `json:"flush_interval"`
}

type upstream struct {
	Dial string `json:"dial"`
}

// Publish makes our route lead these hosts to the proxy; none removes it.
func (p *Provider) Publish(ctx context.Context, routes []proxy.Route) error {
	if err := p.check(); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	ours := route{
		ID: p.ID, Match: []match{{}}, Terminal: true,
		Handle: []handle{{Handler: "reverse_proxy", Upstreams: []upstream{{p.Upstream.Caddy()}}, Flush: -1}},
	}
	for _, r := range routes {
		ours.Match[0].Host = append(ours.Match[0].Host, r.Host)
	}
	want, err := json.Marshal(ours)
	if err != nil {
		return err
	}
	there, err := p.call(ctx, http.MethodGet, "/id/"+p.ID, nil)
	absent := errors.Is(err, atoll.ErrNotFound)
	switch {
	case err != nil && !absent:
		return err
	case len(routes) == 0 && absent:
		return nil
	case len(routes) == 0:
		_, err = p.call(ctx, http.MethodDelete, "/id/"+p.ID, nil)
	case absent:
		err = p.insert(ctx, want)
	case !same(there, want):
		_, err = p.call(ctx, http.MethodPatch, "/id/"+p.ID, want)
	}
	return err
}

// check reports fields that can't be used.
func (p *Provider) check() error {
	if err := atoll.CheckName(p.ID); err != nil {
		return fmt.Errorf("%w: caddy: the id of our route: %w", atoll.ErrInvalid, err)
	}
	return p.Upstream.Check()
}

// same reports whether two JSON values mean the same.
func same(a, b []byte) bool {
	var x, y route
	if json.Unmarshal(a, &x) != nil || json.Unmarshal(b, &y) != nil {
		return false
	}
	m, _ := json.Marshal(x) // plain data
	n, _ := json.Marshal(y)
	return bytes.Equal(m, n)
}

// insert puts our route before all others of the server, so that no route that
// takes everything hides it.
func (p *Provider) insert(ctx context.Context, ours []byte) error {
	b, err := p.call(ctx, http.MethodGet, "/config/apps/http/servers", nil)
	if err != nil && !errors.Is(err, atoll.ErrNotFound) {
		return err
	}
	var servers map[string]webServer
	if err == nil {
		if err := json.Unmarshal(b, &servers); err != nil {
			return fmt.Errorf("%w: caddy: its servers: %w", atoll.ErrUnavailable, err)
		}
	}
	name, err := p.choose(servers)
	if err != nil {
		return err
	}
	server := servers[name]
	at := "/config/apps/http/servers/" + url.PathEscape(name) + "/routes"
	if len(server.Routes) == 0 {
		_, err = p.call(ctx, http.MethodPost, at, append(append([]byte("["), ours...), ']'))
		return err
	}
	_, err = p.call(ctx, http.MethodPut, at+"/0", ours)
	return err
}

// webServer is what of one of Caddy's servers counts here.
type webServer struct {
	Listen []string          `json:"listen"`
	Routes []json.RawMessage `json:"routes"`
}

// listens reports whether a server has a port: Caddy's addresses are like ":443",
// "udp/[::1]:8443" and ":8080-8089".
func (s webServer) listens(port int) bool {
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

// choose returns the server that gets the route.
func (p *Provider) choose(servers map[string]webServer) (string, error) {
	if len(servers) == 0 {
		return "", fmt.Errorf("%w: caddy has no HTTP server: its configuration needs a site first", atoll.ErrNotFound)
	}
	var all, fit []string
	for _, name := range slices.Sorted(maps.Keys(servers)) {
		all = append(all, name+" ("+strings.Join(servers[name].Listen, " ")+")")
		if p.Server == name || p.Server == "" && (servers[name].listens(p.Port) || p.Only && len(servers) == 1) {
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
	return "", fmt.Errorf("%w: browsers are told to come to port %d, and no server of caddy is there: %s; proxy.public says how they come", atoll.ErrInvalid, p.Port, there)
}

// call asks Caddy's API. What is not there is ErrNotFound.
func (p *Provider) call(ctx context.Context, method, path string, body []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	base, client := p.dial()
	req, err := http.NewRequestWithContext(ctx, method, base+path, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("%w: caddy: %w", atoll.ErrInvalid, err)
	}
	if strings.HasPrefix(p.admin(), "/") {
		req.Host = p.admin() // no host name: net/http then sends an empty Host, the one that Caddy takes on a socket
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("%w: caddy's admin API at %s: %w", atoll.ErrUnavailable, p.admin(), err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: caddy: %s %s: %w", atoll.ErrUnavailable, method, path, err)
	case res.StatusCode == http.StatusNotFound, res.StatusCode == http.StatusBadRequest && method == http.MethodGet:
		return nil, fmt.Errorf("%w: caddy: %s", atoll.ErrNotFound, path) // 2.6 says 400 for a path that leads nowhere
	case res.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("%w: caddy: %s %s: %s: %q", atoll.ErrUnavailable, method, path, res.Status, clip(b))
	}
	if bytes.Equal(bytes.TrimSpace(b), []byte("null")) {
		return nil, fmt.Errorf("%w: caddy: %s", atoll.ErrNotFound, path)
	}
	return b, nil
}

func clip(b []byte) []byte { return b[:min(len(b), 300)] }

func (p *Provider) admin() string {
	if p.Admin == "" {
		return DefaultAdmin
	}
	return p.Admin
}

// dial returns the URL of the API and the client that reaches it. The caller
// holds mu.
func (p *Provider) dial() (string, *http.Client) {
	admin := p.admin()
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
