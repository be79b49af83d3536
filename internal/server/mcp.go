package server

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet"
	"github.com/atoll-sandbox/atoll/internal/mcp"
)

const (
	mcpBody     = 16 << 20         // bytes of one message of an MCP client: a file to write is in it
	mcpIdle     = 10 * time.Minute // how long a session lasts without a request
	mcpOfOwner  = 32               // sessions of one owner, whatever his tokens
	mcpSessions = 1000             // of all
)

// mcpHandler serves the tools over streamable HTTP. A session belongs to the
// caller that began it: the token, not only the owner, since tokens differ in
// their scopes.
func (s *Server) mcpHandler() http.Handler {
	h := sdk.NewStreamableHTTPHandler(func(r *http.Request) *sdk.Server {
		if c, _ := r.Context().Value(circleKey{}).(*circle); c != nil {
			return c.server
		}
		return nil // the request is of no session, and begins none
	}, &sdk.StreamableHTTPOptions{
		SessionTimeout: mcpIdle, MaxRequestBodyBytes: mcpBody, PropagateRequestCancellation: true,
		DisableLocalhostProtection: true, // every request has passed checkOrigin
	})
	identified := auth.RequireBearerToken(func(ctx context.Context, _ string, _ *http.Request) (*auth.TokenInfo, error) {
		c := callOf(ctx).caller
		return &auth.TokenInfo{UserID: c.Owner.String() + " " + c.Token, Expiration: time.Now().Add(mcpIdle)}, nil
	}, nil)(h)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, leave, err := s.circles.enter(r)
		if err != nil {
			s.metrics.refused.WithLabelValues("sessions").Inc()
			s.fail(w, r, err)
			return
		}
		defer leave()
		if r.Method == http.MethodGet { // a stream, which has no end of its own
			var cancel context.CancelFunc
			ctx, cancel = context.WithCancel(ctx)
			defer cancel()
			defer context.AfterFunc(s.ending, cancel)() //nolint:contextcheck // the end of the server ends it too
		}
		r = r.Clone(ctx)                                //nolint:contextcheck // of the request, with an end more
		r.Header.Set("Authorization", "Bearer checked") // what came in this place has been looked at
		identified.ServeHTTP(w, r)
	})
}

// circle is what the sessions of one token share.
type circle struct {
	server *sdk.Server
	under  int                         // requests under way; guarded by circles.mu, as all below
	begun  int                         // of those, the ones that begin a session which is not in met
	met    map[*sdk.ServerSession]bool // sessions whose first message has come; some may have ended
}

// alive returns how many sessions there are, and will be in a moment. circles.mu
// is held.
func (c *circle) alive() int {
	met := make(map[*sdk.ServerSession]bool, len(c.met))
	for session := range c.server.Sessions() {
		if c.met[session] {
			met[session] = true
		}
	}
	c.met = met
	return c.begun + len(met)
}

type guest struct {
	owner atoll.Owner
	token string
}

// circles bounds the sessions of MCP clients.
type circles struct {
	open func(*fleet.Account) *sdk.Server

	mu  sync.Mutex
	all map[guest]*circle // guarded by mu
}

type circleKey struct{}

// metKey finds, in the context of a session, what to call with it when its first
// message has come.
type metKey struct{}

func (s *Server) newCircles() *circles {
	return &circles{all: make(map[guest]*circle), open: func(a *fleet.Account) *sdk.Server {
		server := mcp.New(callersFleet{a}, mcp.Options{Version: s.opts.Version, AnyHost: true}) // what the token's owner may
		server.AddReceivingMiddleware(func(next sdk.MethodHandler) sdk.MethodHandler {
			return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
				session, ok := req.GetSession().(*sdk.ServerSession)
				if met, begins := ctx.Value(metKey{}).(func(*sdk.ServerSession)); ok && begins {
					met(session)
				}
				ctx, cancel := context.WithCancel(ctx) // a session's, which outlives requests
				defer cancel()
				defer context.AfterFunc(s.life, cancel)() //nolint:contextcheck // likewise
				return next(ctx, method, req)
			}
		})
		return server
	}}
}

// enter counts a request in and returns its context, or refuses it if it would
// begin one session too many.
func (c *circles) enter(r *http.Request) (ctx context.Context, leave func(), err error) {
	who := callOf(r.Context())
	key := guest{who.caller.Owner, who.caller.Token}
	begins := r.Method == http.MethodPost && r.Header.Get("Mcp-Session-Id") == ""
	c.mu.Lock()
	defer c.mu.Unlock()
	if begins {
		if err := c.room(key.owner); err != nil {
			return nil, nil, err
		}
	}
	own := c.all[key]
	if own == nil && !begins {
		return r.Context(), func() {}, nil
	}
	if own == nil {
		own = &circle{server: c.open(who.account), met: make(map[*sdk.ServerSession]bool)}
		c.all[key] = own
	}
	own.under++
	ctx = context.WithValue(r.Context(), circleKey{}, own)
	waits := begins // own.begun counts this request; guarded by mu
	if begins {
		own.begun++
		ctx = context.WithValue(ctx, metKey{}, func(session *sdk.ServerSession) {
			c.mu.Lock()
			defer c.mu.Unlock()
			if waits {
				waits = false
				own.begun--
				own.met[session] = true
			}
		})
	}
	return ctx, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if waits { // it has begun none
			waits = false
			own.begun--
		}
		own.under--
		if own.under == 0 && own.alive() == 0 {
			delete(c.all, key)
		}
	}, nil
}

// room refuses a session if there are enough, and forgets circles whose last
// session has ended by itself. It is called with mu held.
func (c *circles) room(owner atoll.Owner) error {
	his, all := 0, 0
	for key, o := range c.all {
		n := o.alive()
		if n == 0 && o.under == 0 {
			delete(c.all, key)
		}
		if all += n; key.owner == owner {
			his += n
		}
	}
	switch {
	case his >= mcpOfOwner:
		return tooMany(time.Minute, "you have %d MCP sessions: end one with DELETE, or wait until one was idle for %v", his, mcpIdle)
	case all >= mcpSessions:
		return tooMany(time.Minute, "the server has %d MCP sessions, which is all it takes", all)
	}
	return nil
}

// close ends all sessions and waits for that, but not longer than ctx.
func (c *circles) close(ctx context.Context) error {
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
			_ = session.Close() // how its client left is nothing to tell
			ended <- struct{}{}
		}()
	}
	for range sessions {
		select {
		case <-ended:
		case <-ctx.Done():
			return fmt.Errorf("%w: a tool of an MCP session did not end in time", atoll.ErrTimeout)
		}
	}
	return nil
}

// callersFleet is the fleet as the tools want it.
type callersFleet struct{ a *fleet.Account }

func (f callersFleet) Create(ctx context.Context, cfg atoll.Config) (atoll.Sandbox, error) {
	sb, err := f.a.Create(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return sb, nil
}

func (f callersFleet) Open(ctx context.Context, key string) (atoll.Sandbox, error) {
	sb, err := f.a.Open(ctx, key)
	if err != nil {
		return nil, err
	}
	return sb, nil
}

func (f callersFleet) List(ctx context.Context) ([]atoll.Info, error) {
	return f.a.List(ctx, fleet.Filter{})
}
