// Package daytona serves the API of Daytona, so that its SDKs work unchanged: the API of sandboxes, and for
// each sandbox its toolbox (commands, sessions, terminals, code, files and git). It translates requests to
// the fleet and decides nothing about sandboxes.
package daytona

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/api/compat"
	"github.com/atoll-sandbox/atoll/internal/fleet"
	"github.com/atoll-sandbox/atoll/internal/preview"
)

// version is the version of Daytona whose API this package has.
const version = "0.205.1"

// Options configure a Server.
type Options struct {
	Fleet *fleet.Fleet

	// Routes gives the URLs of ports. Nil: ports have none.
	Routes *preview.Registry

	// Template is the configuration of the sandboxes that name no snapshot: driver, image and limits. The
	// zero value: the defaults of the fleet.
	Template atoll.Config

	// Stopping is done when the server shuts down: streams end. Nil: never.
	Stopping context.Context //nolint:containedctx // of the server itself
}

// Server serves the API. Its methods may be called concurrently.
type Server struct {
	opts     Options
	api      *router
	toolbox  *router
	shells   compat.Shells
	kernels  compat.Kernels
	sessions sessions
	ptys     ptys
	builds   builds
}

// New returns a server of a fleet.
func New(o Options) *Server {
	if o.Stopping == nil {
		o.Stopping = context.Background()
	}
	s := &Server{opts: o, api: &router{}, toolbox: &router{}}
	s.registerSandboxes()
	s.registerLifecycle()
	s.registerPreviews()
	s.registerSignatures()
	s.registerSnapshots()
	s.registerVolumes()
	s.registerAccount()
	s.registerEvents()
	s.registerSystem()
	s.registerProcesses()
	s.registerSessions()
	s.registerPTYs()
	s.registerInterpreter()
	s.registerFiles()
	s.registerSearch()
	s.registerGit()
	s.registerUnsupported()
	return s
}

// Close ends builds, sessions, terminals and the kernels of code interpreters.
func (s *Server) Close() {
	s.builds.close()
	s.sessions.close()
	s.ptys.close()
	s.kernels.Close()
}

// Kind is the part of the API that a request calls.
type Kind int

// The kinds of requests.
const (
	Other   Kind = iota // not of Daytona
	API                 // the API of sandboxes
	Toolbox             // the toolbox of a sandbox
)

// KindOf returns the part of the API that a request calls.
func KindOf(r *http.Request) Kind {
	switch p := r.URL.Path; {
	case strings.HasPrefix(p, "/api/"), p == "/api":
		return API
	case strings.HasPrefix(p, "/toolbox/"), p == "/toolbox":
		return Toolbox
	}
	return Other
}

// APIKey returns the API key that a request shows; empty: none.
func APIKey(r *http.Request) string {
	scheme, key, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if strings.EqualFold(scheme, "Bearer") {
		return strings.TrimSpace(key)
	}
	return ""
}

// router is a mux that knows its patterns.
type router struct {
	http.ServeMux

	patterns []string
}

// Routes returns the patterns of a part of the API.
func (s *Server) Routes(k Kind) []string { return s.muxOf(k).patterns }

// Pattern returns the route of a request, for metrics; empty: the API has no such route.
func (s *Server) Pattern(k Kind, r *http.Request) string {
	_, pattern := s.muxOf(k).Handler(r)
	return pattern
}

func (s *Server) muxOf(k Kind) *router {
	if k == Toolbox {
		return s.toolbox
	}
	return s.api
}

// call is a request with the fleet as its caller sees it.
type call struct {
	w http.ResponseWriter
	r *http.Request
	a *fleet.Account
}

type callKey struct{}

// routed passes a call through a mux.
type routed struct {
	a   *fleet.Account
	err *error
}

// Serve serves a request of a caller. An error that is returned was not answered yet.
func (s *Server) Serve(k Kind, w http.ResponseWriter, r *http.Request, a *fleet.Account) error {
	if s.Pattern(k, r) == "" {
		return missingRoute(r)
	}
	var err error
	ctx := context.WithValue(r.Context(), callKey{}, &routed{a: a, err: &err})
	s.muxOf(k).ServeHTTP(w, r.WithContext(ctx))
	return err
}

// missingRoute is the error of a request for which there is no route.
func missingRoute(r *http.Request) error {
	return &Error{Status: http.StatusNotFound, Message: "atoll does not have the route " + r.Method + " " + shortenText(r.URL.Path) + " of Daytona's API"}
}

// add registers a route.
func add(mux *router, pattern string, f func(c *call) error) {
	mux.patterns = append(mux.patterns, pattern)
	mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		to, _ := r.Context().Value(callKey{}).(*routed)
		*to.err = f(&call{w: w, r: r, a: to.a})
	})
}

// addAPI registers a route of the API.
func (s *Server) addAPI(method, path string, f func(c *call) error) {
	add(s.api, method+" /api"+path, f)
}

// addSandbox registers a route of the API that names a sandbox.
func (s *Server) addSandbox(method, path string, f func(c *call, sb *fleet.Sandbox) error) {
	s.addAPI(method, "/sandbox/{id}"+path, func(c *call) error {
		sb, err := c.open(c.r.Context())
		if err != nil {
			return err
		}
		return f(c, sb)
	})
}

// addToolbox registers a route of the toolbox.
func (s *Server) addToolbox(method, path string, f func(c *call, sb *fleet.Sandbox) error) {
	add(s.toolbox, method+" /toolbox/{id}"+path, func(c *call) error {
		sb, err := c.openRunning(c.r.Context())
		if err != nil {
			return err
		}
		return f(c, sb)
	})
}

// open returns the sandbox that a request names by its id or name. Only sandboxes that were created with
// this API are found: a client that removes all that it sees removes no others.
func (c *call) open(ctx context.Context) (*fleet.Sandbox, error) {
	return c.openKey(ctx, c.r.PathValue("id"))
}

func (c *call) openKey(ctx context.Context, key string) (*fleet.Sandbox, error) {
	if atoll.CheckID(key) != nil && atoll.CheckName(key) != nil {
		return nil, missingSandbox(key)
	}
	sb, err := c.a.Open(ctx, key)
	switch {
	case errors.Is(err, atoll.ErrNotFound):
		return nil, missingSandbox(key)
	case err != nil:
		return nil, err
	case sb.Labels()[labelSandbox] == "":
		return nil, missingSandbox(key)
	}
	return sb, nil
}

// openRunning returns the sandbox of a request to a toolbox.
func (c *call) openRunning(ctx context.Context) (*fleet.Sandbox, error) {
	sb, err := c.open(ctx)
	if err != nil {
		return nil, err
	}
	st, err := sb.Status(ctx)
	if errors.Is(err, atoll.ErrNotFound) {
		return nil, missingSandbox(sb.ID())
	}
	if err != nil {
		return nil, err
	}
	if st.State != atoll.Running {
		return nil, &Error{Status: http.StatusBadRequest, Message: "the sandbox is not started: it is " + stateOf(&st)}
	}
	return sb, nil
}

// baseURL returns the URL by which a client reaches the server.
func (c *call) baseURL() string {
	scheme := "http"
	if c.r.TLS != nil || c.r.Header.Get("X-Forwarded-Proto") == "https" {
		scheme = "https"
	}
	return scheme + "://" + c.r.Host
}

// readNumber returns a number of the query between least and most; missing if the query has none.
func (c *call) readNumber(name string, missing, least, most int) (int, error) {
	return parseNumber(name, c.r.URL.Query().Get(name), missing, least, most)
}

// parseNumber parses a number between least and most; an empty text is missing.
func parseNumber(name, text string, missing, least, most int) (int, error) {
	if text == "" {
		return missing, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < least || n > most {
		return 0, invalidError("%s %q: must be a number from %d to %d", name, shortenText(text), least, most)
	}
	return n, nil
}
