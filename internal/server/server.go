// Package server puts a fleet on the wire: HTTP with an OpenAPI document, RFC
// 9457 problems, server-sent events and WebSockets. One file per noun.
package server

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/atoll-sandbox/atoll/internal/fleet"
	"github.com/atoll-sandbox/atoll/internal/route"
)

// Options say what a server serves, and to whom.
type Options struct {
	Fleet   *fleet.Fleet
	Log     *slog.Logger // nil: nothing is logged
	Version string
	Limits  Limits

	// Hosts are the names that the server is called by, besides addresses and
	// "localhost": what browsers send is looked at.
	Hosts []string

	// Agents returns what turns are done with, and is called when that is first
	// needed. Nil: the server does none.
	Agents func() (*Agents, error)

	// Routes tells the names of ports; nil: they have none.
	Routes *route.Desk

	// Origins are web pages that may call the server, besides its own:
	// "https://console.example.com".
	Origins []string
}

// Server answers requests to a fleet.
type Server struct {
	fleet   *fleet.Fleet
	log     *slog.Logger
	opts    Options
	limits  Limits
	callers *callers
	bearers *bearers
	kept    shelf
	metrics *metrics
	mux     *http.ServeMux
	page    http.Handler
	api     huma.API

	problems  map[int]*huma.Response // as the document has them
	openapi   document
	readiness readiness

	// ending is done when the server begins to shut down: streams say good-bye.
	// Requests go on until their own context is done.
	ending context.Context //nolint:containedctx // it is the server's own
	end    context.CancelFunc

	// life is what the contexts of all requests are made of: done when even
	// those must end that Shutdown has waited for.
	life context.Context //nolint:containedctx // likewise
	die  context.CancelFunc

	mu     sync.Mutex
	served map[*http.Server]bool   // guarded by mu
	doors  map[*http.Server]string // how browsers call those of served; guarded by mu
	active crowd                   // requests under way, streams too
	made   time.Time

	circles *circles // sessions of MCP clients
	agents  func() (*Agents, error)
	opened  atomic.Bool // agents was called
}

// New returns a server of a fleet. It serves nobody yet.
func New(opts Options) *Server {
	log := opts.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	s := &Server{made: time.Now(), fleet: opts.Fleet, log: log, opts: opts, limits: opts.Limits.effective(), served: make(map[*http.Server]bool), doors: make(map[*http.Server]string), problems: make(map[int]*huma.Response)}
	s.metrics = newMetrics(s)
	s.callers = newCallers(s.limits, s.metrics)
	s.agents = s.onceAgents()
	s.ending, s.end = context.WithCancel(context.Background())
	s.life, s.die = context.WithCancel(context.Background())
	s.bearers = s.watchTokens()
	s.mux, s.page = http.NewServeMux(), newPage()
	s.api = s.newAPI()
	s.health(s.mux)
	s.measure(s.mux)
	s.documents(s.mux)
	for _, noun := range s.nouns() {
		noun(s.api)
	}
	s.circles = s.newCircles()
	s.mux.Handle("/mcp", s.mcpHandler())
	s.dialects(s.mux)
	return s
}

// nouns lists what registers routes, one function per noun.
func (s *Server) nouns() []func(huma.API) {
	return []func(huma.API){
		s.info,
		s.sandboxes,
		s.snapshots,
		s.commands,
		s.files,
		s.networks,
		s.notices,
		s.ports,
		s.routes,
		s.images,
		s.disks,
		s.workspaces,
		s.tokens,
		s.pools,
		s.events,
		s.audit,
		s.quotas,
		s.turns,
		s.listAgents,
		s.listAssistants,
	}
}

// Handler returns what answers requests that did not come through [Server.Serve]:
// each of them needs a token.
func (s *Server) Handler() http.Handler { return http.HandlerFunc(s.answer) }

// Quiet returns how long there has been no request; 0 while one is under way, as
// long as anybody is attached or listens to events, and while a turn is.
func (s *Server) Quiet() time.Duration {
	if s.opened.Load() {
		if a, err := s.agents(); err == nil && a.Desk.UnderWay() > 0 {
			return 0
		}
	}
	return s.active.quiet(s.made)
}
