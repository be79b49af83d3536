// Package api serves a fleet over HTTP, with an OpenAPI document, RFC 9457 problems, server-sent
// events and WebSockets. One file per resource.
package api

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/atoll-sandbox/atoll/internal/api/daytona"
	"github.com/atoll-sandbox/atoll/internal/api/e2b"
	"github.com/atoll-sandbox/atoll/internal/fleet"
	"github.com/atoll-sandbox/atoll/internal/fleet/identity"
	"github.com/atoll-sandbox/atoll/internal/preview"
	"github.com/atoll-sandbox/atoll/internal/project"
)

// Options configure a Server.
type Options struct {
	Fleet   *fleet.Fleet
	Log     *slog.Logger // nil: no log
	Version string
	Limits  Limits

	// Hosts are the host names of the server, besides addresses and "localhost". Requests of
	// browsers with other names are refused.
	Hosts []string

	// Agents returns the parts that turns need, at first use. Nil: the server has no agents.
	Agents func() (*Agents, error)

	// HostID is the id of the server's home of atoll, by which it recognizes projects whose repositories are
	// on this host: see project.LabelHost. Empty: it has access to none.
	HostID string

	// Routes has the host names of ports; nil: there are none.
	Routes *preview.Registry

	// E2B serves the API of E2B, too. Its Fleet and Stopping are set by New. Nil: not.
	E2B *e2b.Options

	// Daytona serves the API of Daytona, too. Its Fleet, Routes and Stopping are set by New. Nil: not.
	Daytona *daytona.Options

	// Identity verifies tokens of login providers and client certificates. Nil: none is accepted.
	Identity *identity.Verifier

	// Origins are the origins of web pages that may call the server, besides its own:
	// "https://console.example.com".
	Origins []string

	// TrustedProxies are the addresses of proxies in front of the server, whose X-Forwarded-For names the clients: limits by
	// address are the clients' then. Nil: the peer of a connection is the client.
	TrustedProxies []netip.Prefix
}

// Server serves a fleet over HTTP. Its methods may be called concurrently.
type Server struct {
	fleet      *fleet.Fleet
	log        *slog.Logger
	opts       Options
	limits     Limits
	callers    *callerLimits
	tokenCalls *tokenCalls
	outputs    outputBudget
	metrics    *metrics
	mux        *http.ServeMux
	console    http.Handler
	api        huma.API

	problems  map[int]*huma.Response // by status, for the document
	openapi   document
	readiness readiness

	// stopping is done when the server begins to shut down: streams end. Other requests go on
	// until their own context is done.
	stopping  context.Context //nolint:containedctx // of the server itself
	beginStop context.CancelFunc
	accepting sync.WaitGroup // running calls of Serve
	fresh     sync.Map       // of net.Conn: no request is being answered yet

	// lifetime is the parent of all request contexts. It is done when the requests end that
	// Shutdown has waited for in vain.
	lifetime    context.Context //nolint:containedctx // of the server itself
	endLifetime context.CancelFunc

	mu      sync.Mutex
	served  map[*http.Server]net.Listener // guarded by mu
	urls    map[*http.Server]string       // URLs of served; guarded by mu
	active  inFlight                      // requests in progress, including streams
	created time.Time

	e2b         *e2b.Server     // nil: not served
	daytona     *daytona.Server // nil: not served
	mcpSessions *sessionGroups  // sessions of MCP clients
	agents      func() (*Agents, error)
	agentsUsed  atomic.Bool // agents was called
}

// New returns a server of a fleet. It serves no listener yet.
func New(opts Options) *Server {
	log := opts.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	s := &Server{created: time.Now(), fleet: opts.Fleet, log: log, opts: opts, limits: opts.Limits.withDefaults(), served: make(map[*http.Server]net.Listener), urls: make(map[*http.Server]string), problems: make(map[int]*huma.Response)}
	if opts.HostID != "" {
		opts.Fleet.ReserveLabel(project.Label, project.LabelHost, opts.HostID)
	}
	s.metrics = newMetrics(s)
	s.callers = newCallers(s.limits, s.metrics, opts.TrustedProxies)
	s.agents = s.lazyAgents()
	s.stopping, s.beginStop = context.WithCancel(context.Background())
	s.lifetime, s.endLifetime = context.WithCancel(context.Background())
	s.tokenCalls = s.newTokenCalls()
	s.mux, s.console = http.NewServeMux(), newConsole(opts.Routes)
	s.api = s.newAPI()
	s.registerHealth(s.mux)
	s.registerLogins(s.mux)
	s.registerIssuer(s.mux)
	s.registerMetrics(s.mux)
	s.registerDocument(s.mux)
	for _, noun := range s.resources() {
		noun(s.api)
	}
	s.mcpSessions = s.newSessionGroups()
	s.mux.Handle("/mcp", s.mcpHandler())
	s.registerDialects(s.mux)
	if opts.E2B != nil {
		o := *opts.E2B
		o.Fleet, o.Stopping = opts.Fleet, s.stopping
		s.e2b = e2b.New(o)
	}
	if opts.Daytona != nil {
		o := *opts.Daytona
		o.Fleet, o.Routes, o.Stopping = opts.Fleet, opts.Routes, s.stopping
		s.daytona = daytona.New(o)
	}
	return s
}

// resources lists the functions that register operations, one per resource.
func (s *Server) resources() []func(huma.API) {
	return []func(huma.API){
		s.registerInfo,
		s.registerSandboxes,
		s.registerSnapshots,
		s.registerCommands,
		s.registerFiles,
		s.registerChanges,
		s.registerProjects,
		s.registerNetwork,
		s.registerNotices,
		s.registerPorts,
		s.registerIdentityTokens,
		s.registerRoutes,
		s.registerImages,
		s.registerDisks,
		s.registerWorkspaces,
		s.registerTokens,
		s.registerPools,
		s.registerEvents,
		s.registerAudit,
		s.registerWebhooks,
		s.registerQuotas,
		s.registerTurns,
		s.registerSessions,
		s.registerAgents,
		s.registerAssistants,
	}
}

// Handler returns a handler for requests that don't come through [Server.Serve]: all of them need
// a token.
func (s *Server) Handler() http.Handler { return http.HandlerFunc(s.serveRequest) }

// IdleTime returns how long the server has been idle: without requests, attached clients, followers
// of events, and turns.
func (s *Server) IdleTime() time.Duration {
	if s.agentsUsed.Load() {
		if a, err := s.agents(); err == nil && a.Turns.CountRunning() > 0 {
			return 0
		}
	}
	return s.active.idleTime(s.created)
}
