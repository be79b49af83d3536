package api

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/api/mcp"
	"github.com/atoll-sandbox/atoll/internal/fleet"
)

const (
	mcpBody                = 16 << 20         // bytes of a message of an MCP client, including files to write
	mcpIdle                = 10 * time.Minute // until an idle session is closed
	maxMCPSessionsPerOwner = 32               // sessions of one owner, with all its tokens
	maxMCPSessions         = 1000             // sessions of all owners
)

// mcpHandler serves the MCP tools over streamable HTTP. A session belongs to the token that began
// it, not only to the owner, since tokens differ in their scopes.
func (s *Server) mcpHandler() http.Handler {
	h := sdk.NewStreamableHTTPHandler(func(r *http.Request) *sdk.Server {
		if c, _ := r.Context().Value(groupKey{}).(*sessionGroup); c != nil {
			return c.server
		}
		return nil // a request without a session
	}, &sdk.StreamableHTTPOptions{
		SessionTimeout: mcpIdle, MaxRequestBodyBytes: mcpBody, PropagateRequestCancellation: true,
		DisableLocalhostProtection: true, // checkOrigin has checked every request
	})
	identified := auth.RequireBearerToken(func(ctx context.Context, _ string, _ *http.Request) (*auth.TokenInfo, error) {
		c := callOf(ctx).caller
		return &auth.TokenInfo{UserID: c.Owner.String() + " " + c.Token, Expiration: time.Now().Add(mcpIdle)}, nil
	}, nil)(h)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, leave, err := s.mcpSessions.beginRequest(r)
		if err != nil {
			s.metrics.refused.WithLabelValues("sessions").Inc()
			s.writeProblem(w, r, err)
			return
		}
		defer leave()
		if r.Method == http.MethodGet { // a stream without an end of its own
			var cancel context.CancelFunc
			ctx, cancel = context.WithCancel(ctx)
			defer cancel()
			defer context.AfterFunc(s.stopping, cancel)() //nolint:contextcheck // the end of the server ends it too
		}
		r = r.Clone(ctx)                                //nolint:contextcheck // of the request, with an end more
		r.Header.Set("Authorization", "Bearer checked") // the token has been checked already
		identified.ServeHTTP(w, r)
	})
}

// sessionGroup is the MCP server of the sessions of one token.
type sessionGroup struct {
	server   *sdk.Server
	active   int                         // requests in progress; guarded by sessionGroups.mu, as all below
	starting int                         // requests that begin a session that is not in sessions yet
	sessions map[*sdk.ServerSession]bool // sessions whose first message has come; some may have ended
}

// countSessions returns the number of present and starting sessions. The caller holds
// sessionGroups.mu.
func (c *sessionGroup) countSessions() int {
	met := make(map[*sdk.ServerSession]bool, len(c.sessions))
	for session := range c.server.Sessions() {
		if c.sessions[session] {
			met[session] = true
		}
	}
	c.sessions = met
	return c.starting + len(met)
}

type sessionOwner struct {
	owner atoll.Owner
	token string
}

// sessionGroups limits the sessions of MCP clients.
type sessionGroups struct {
	open func(*fleet.Account) *sdk.Server

	mu  sync.Mutex
	all map[sessionOwner]*sessionGroup // guarded by mu
}

type groupKey struct{}

// sessionStartedKey is the context key of a function to call at the first message of a session.
type sessionStartedKey struct{}

func (s *Server) newSessionGroups() *sessionGroups {
	return &sessionGroups{all: make(map[sessionOwner]*sessionGroup), open: func(a *fleet.Account) *sdk.Server {
		server := mcp.New(accountFleet{a}, mcp.Options{Version: s.opts.Version, AnyHost: true}) // the token limits the hosts
		server.AddReceivingMiddleware(func(next sdk.MethodHandler) sdk.MethodHandler {
			return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
				session, ok := req.GetSession().(*sdk.ServerSession)
				if met, begins := ctx.Value(sessionStartedKey{}).(func(*sdk.ServerSession)); ok && begins {
					met(session)
				}
				ctx, cancel := context.WithCancel(ctx) // of the session, which outlives requests
				defer cancel()
				defer context.AfterFunc(s.lifetime, cancel)() //nolint:contextcheck // likewise
				return next(ctx, method, req)
			}
		})
		return server
	}}
}

// beginRequest counts a request and returns its context. It refuses a request that would begin a
// session beyond the limits.
func (c *sessionGroups) beginRequest(r *http.Request) (ctx context.Context, leave func(), err error) {
	req := callOf(r.Context())
	key := sessionOwner{req.caller.Owner, req.caller.Token}
	begins := r.Method == http.MethodPost && r.Header.Get("Mcp-Session-Id") == ""
	c.mu.Lock()
	defer c.mu.Unlock()
	if begins {
		if err := c.checkRoom(key.owner); err != nil {
			return nil, nil, err
		}
	}
	own := c.all[key]
	if own == nil && !begins {
		return r.Context(), func() {}, nil
	}
	if own == nil {
		own = &sessionGroup{server: c.open(req.account), sessions: make(map[*sdk.ServerSession]bool)}
		c.all[key] = own
	}
	own.active++
	ctx = context.WithValue(r.Context(), groupKey{}, own)
	waits := begins // own.starting counts this request; guarded by mu
	if begins {
		own.starting++
		ctx = context.WithValue(ctx, sessionStartedKey{}, func(session *sdk.ServerSession) {
			c.mu.Lock()
			defer c.mu.Unlock()
			if waits {
				waits = false
				own.starting--
				own.sessions[session] = true
			}
		})
	}
	return ctx, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if waits { // it began no session
			waits = false
			own.starting--
		}
		own.active--
		if own.active == 0 && own.countSessions() == 0 {
			delete(c.all, key)
		}
	}, nil
}

// checkRoom refuses a session beyond the limits, and forgets groups whose last session has ended.
// The caller holds mu.
func (c *sessionGroups) checkRoom(owner atoll.Owner) error {
	owned, all := 0, 0
	for key, o := range c.all {
		n := o.countSessions()
		if n == 0 && o.active == 0 {
			delete(c.all, key)
		}
		if all += n; key.owner == owner {
			owned += n
		}
	}
	switch {
	case owned >= maxMCPSessionsPerOwner:
		return tooMany(time.Minute, "you have %d MCP sessions: end one with DELETE, or wait until one has been idle for %v", owned, mcpIdle)
	case all >= maxMCPSessions:
		return tooMany(time.Minute, "the server has %d MCP sessions, which is the limit", all)
	}
	return nil
}

// close closes all sessions and waits for their end until ctx is done.
func (c *sessionGroups) close(ctx context.Context) error {
	c.mu.Lock()
	var sessions []*sdk.ServerSession
	for _, o := range c.all {
		for session := range o.server.Sessions() {
			sessions = append(sessions, session)
		}
	}
	c.mu.Unlock()
	ended := make(chan struct{}, len(sessions))
	for _, session := range sessions {
		go func() {
			_ = session.Close() // the error means that the client has disconnected
			ended <- struct{}{}
		}()
	}
	for range sessions {
		select {
		case <-ended:
		case <-ctx.Done():
			return fmt.Errorf("%w: a tool call of an MCP session did not end in time", atoll.ErrTimeout)
		}
	}
	return nil
}

// accountFleet is a fleet's account as the tools use it.
type accountFleet struct{ a *fleet.Account }

func (f accountFleet) Create(ctx context.Context, cfg atoll.Config) (atoll.Sandbox, error) {
	sb, err := f.a.Create(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return sb, nil
}

func (f accountFleet) Open(ctx context.Context, key string) (atoll.Sandbox, error) {
	sb, err := f.a.Open(ctx, key)
	if err != nil {
		return nil, err
	}
	return sb, nil
}

func (f accountFleet) List(ctx context.Context) ([]atoll.Info, error) {
	return f.a.List(ctx, fleet.Filter{})
}
