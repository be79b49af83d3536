// Package e2b serves the API of E2B, so that its SDKs work unchanged: the control API of sandboxes and
// templates, and for each sandbox the API of its agent ("envd": commands and files) and of its code
// interpreter. It translates requests to the fleet and decides nothing about sandboxes.
package e2b

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/api/compat"
	"github.com/atoll-sandbox/atoll/internal/fleet"
)

// envdVersion is the version of E2B's agent whose behavior this package has. The SDKs use no feature
// that is newer.
const envdVersion = "0.6.13"

// Ports are the ports by which the SDKs name the services of a sandbox: the agent and the code interpreter.
// Nothing listens on them inside.
var Ports = []int{49983, 49999}

// Options configure a Server.
type Options struct {
	Fleet *fleet.Fleet

	// Domain returns the domain of the host names of ports, with the port if there is one:
	// "localhost:7080". Nil or empty: ports have no host names.
	Domain func() string

	// PublicPorts lets ports of sandboxes be reached without a token, as in E2B, unless their client forbids it.
	PublicPorts bool

	// Template is the configuration of the sandboxes of the templates of E2B itself, such as
	// "base": driver, image and limits. The zero value: the defaults of the fleet.
	Template atoll.Config

	// Stopping is done when the server shuts down: streams end. Nil: never.
	Stopping context.Context //nolint:containedctx // of the server itself
}

// Server serves the API. Its methods may be called concurrently.
type Server struct {
	opts     Options
	control  *router
	data     *router
	watchers watchers
	kernels  compat.Kernels
	builds   builds
	shells   compat.Shells
}

// New returns a server of a fleet.
func New(o Options) *Server {
	if o.Stopping == nil {
		o.Stopping = context.Background()
	}
	if o.Domain == nil {
		o.Domain = func() string { return "" }
	}
	s := &Server{opts: o, control: &router{}, data: &router{}}
	s.registerSandboxes()
	s.registerSnapshots()
	s.registerTemplates()
	s.registerVolumes()
	s.registerSecrets()
	s.registerProcesses()
	s.registerFilesystem()
	s.registerFiles()
	s.registerInterpreter()
	return s
}

// Close ends builds, watchers and the kernels of code interpreters.
func (s *Server) Close() {
	s.builds.close()
	s.watchers.close()
	s.kernels.Close()
}

// Kind is the part of the API that a request calls.
type Kind int

// The kinds of requests.
const (
	Other   Kind = iota // not of E2B
	Control             // the control API, with an API key
	Data                // a sandbox, with its access key
)

// dataPaths are the first elements of paths of the API of a sandbox.
var dataPaths = map[string]bool{
	"files": true, "process.Process": true, "filesystem.Filesystem": true, "health": true, "envs": true, "init": true, "execute": true, "contexts": true,
	"freeze": true, "unfreeze": true,
}

// controlPaths are the first elements of paths of the control API.
var controlPaths = map[string]bool{
	"sandboxes": true, "v2": true, "v3": true, "templates": true, "snapshots": true, "volumes": true, "volumecontent": true, "secrets": true, "teams": true,
	"api-keys": true, "access-tokens": true, "nodes": true, "admin": true, "events": true,
}

// KindOf returns the part of the API that a request calls.
func KindOf(r *http.Request) Kind {
	if r.Header.Get("E2b-Sandbox-Id") != "" || r.Header.Get("X-Access-Token") != "" || r.Header.Get(TrafficHeader) != "" {
		return Data
	}
	first, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	switch {
	case dataPaths[first]:
		return Data
	case controlPaths[first], strings.HasPrefix(r.Header.Get("X-Api-Key"), "e2b_"):
		return Control
	}
	return Other
}

// APIKey returns the API key that a request to the control API shows; empty: none.
func APIKey(r *http.Request) string {
	if key := r.Header.Get("X-Api-Key"); key != "" {
		return key
	}
	scheme, key, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if strings.EqualFold(scheme, "Bearer") {
		return strings.TrimSpace(key)
	}
	return ""
}

// Authenticate returns the caller of a request to a sandbox: by the access key of the sandbox, or by a
// signature that was made with it. A sandbox that was destroyed is ErrNotFound.
func (s *Server) Authenticate(r *http.Request) (fleet.Caller, error) {
	id := r.Header.Get("E2b-Sandbox-Id")
	var c fleet.Caller
	var err error
	switch key := r.Header.Get("X-Access-Token"); {
	case key != "":
		c, err = s.opts.Fleet.AuthenticateAccessKey(r.Context(), key)
	case r.URL.Path == "/files" && r.URL.Query().Get("signature") != "":
		if c, err = s.authenticateSignature(r, id); err != nil {
			return c, err
		}
	case isContexts(r) && id != "":
		if c, err = s.authenticateTraffic(r, id); err != nil {
			return c, err
		}
	default:
		return c, &atoll.Error{Op: "authenticate", Err: atoll.ErrDenied}
	}
	if err == nil && id != "" && id != c.Sandbox {
		return fleet.Caller{}, &atoll.Error{Op: "authenticate", Err: atoll.ErrDenied}
	}
	return c, err
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
	if k == Data {
		return s.data
	}
	return s.control
}

// call is a request with the fleet as its caller sees it.
type call struct {
	w http.ResponseWriter
	r *http.Request
	a *fleet.Account
}

type callKey struct{}

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
	return &Error{Status: http.StatusNotFound, Message: "atoll does not have the route " + r.Method + " " + shortenText(r.URL.Path) + " of E2B's API"}
}

// routed passes a call through a mux.
type routed struct {
	a   *fleet.Account
	err *error
}

// add registers a route.
func add(mux *router, pattern string, f func(c *call) error) {
	mux.patterns = append(mux.patterns, pattern)
	mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		to, _ := r.Context().Value(callKey{}).(*routed)
		*to.err = f(&call{w: w, r: r, a: to.a})
	})
}

// open returns the sandbox that a request to the control API names. Only sandboxes that were created
// with this API are found: a client that removes all that it sees removes no others.
func (c *call) open(ctx context.Context) (*fleet.Sandbox, error) {
	return c.openID(ctx, c.r.PathValue("id"))
}

func (c *call) openID(ctx context.Context, id string) (*fleet.Sandbox, error) {
	missing := &Error{Status: http.StatusNotFound, Message: "sandbox \"" + shortenText(id) + "\" not found"}
	if atoll.CheckID(id) != nil {
		return nil, missing
	}
	sb, err := c.a.Open(ctx, id)
	switch {
	case errors.Is(err, atoll.ErrNotFound):
		return nil, missing
	case err != nil:
		return nil, err
	case sb.Labels()[labelTemplate] == "":
		return nil, missing
	}
	return sb, nil
}

// openSandbox returns the sandbox of a request to a sandbox. A paused one that resumes by itself is resumed.
func (s *Server) openSandbox(c *call) (*fleet.Sandbox, error) {
	ctx := c.r.Context()
	sb, err := c.a.Open(ctx, c.a.Caller().Sandbox)
	if err != nil {
		return nil, deadSandbox(c.a.Caller().Sandbox, err)
	}
	st, err := sb.Info(ctx)
	if err != nil {
		return nil, deadSandbox(c.a.Caller().Sandbox, err)
	}
	switch {
	case st.State == atoll.Running:
	case sb.Labels()[labelAutoResume] != "" && (isAsleep(st.State) || st.State == atoll.Starting):
		owner := c.a.Caller() // an access key may not change how long its sandbox lives: it is the owner who asked for this
		owner.Sandbox = ""
		// Before it runs: it must not expire at once.
		if err := s.extendLife(ctx, s.opts.Fleet.Account(owner), &st, lastTimeout(&st), true); err != nil {
			return nil, err
		}
		if err := wakeSandbox(ctx, sb, st.State); err != nil {
			return nil, err
		}
	default:
		return nil, &Error{Status: http.StatusBadGateway, Message: "The sandbox is " + string(st.State), Sandbox: sb.ID()}
	}
	return sb, nil
}

// isAsleep reports whether a sandbox is paused in the words of E2B, or about to be.
func isAsleep(state atoll.State) bool {
	switch state {
	case atoll.Pausing, atoll.Paused, atoll.Stopping, atoll.Stopped, atoll.Archived:
		return true
	}
	return false
}

// wakeSandbox makes a paused or stopped sandbox run. It waits for a change of its state that is under way.
func wakeSandbox(ctx context.Context, sb *fleet.Sandbox, state atoll.State) error {
	if state == atoll.Paused || state == atoll.Pausing {
		return sb.Resume(ctx)
	}
	return sb.Start(ctx)
}

// shortenText cuts a text of a client to 64 bytes for a message.
func shortenText(s string) string {
	if len(s) > 64 {
		s = s[:64]
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

// pageOf returns the items of a page of a list and the cursor of the next one; empty: it is the last.
// A cursor names the last item of its page.
func pageOf[T any](c *call, items []T, id func(T) string) ([]T, error) {
	q := c.r.URL.Query()
	if from := q.Get("nextToken"); from != "" {
		at := 0
		for at < len(items) && id(items[at]) != from {
			at++
		}
		if at == len(items) {
			return nil, invalidError("nextToken %q: it is not the cursor of a page, or its last item was removed", shortenText(from))
		}
		items = items[at+1:]
	}
	limit := 100
	if v := q.Get("limit"); v != "" {
		n, err := strconv.Atoi(v)
		if err != nil || n < 1 {
			return nil, invalidError("limit %q: must be a positive number", shortenText(v))
		}
		limit = n
	}
	if len(items) > limit {
		items = items[:limit]
		c.w.Header().Set("X-Next-Token", id(items[limit-1]))
	}
	return items, nil
}

// timeText formats a time for clients.
func timeText(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }
