package server

import (
	"context"
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet"
	"github.com/atoll-sandbox/atoll/internal/mcp"
)

// mcpIdle is how long a session of an MCP client lasts without a request.
const mcpIdle = time.Hour

// mcpHandler serves the tools over streamable HTTP. A session belongs to the
// caller that began it: the token, not only the owner, since tokens differ in
// their scopes.
func (s *Server) mcpHandler() http.Handler {
	h := sdk.NewStreamableHTTPHandler(func(r *http.Request) *sdk.Server {
		return mcp.New(callersFleet{account(r.Context())}, mcp.Options{Version: s.opts.Version, AnyHost: true}) // what the token's owner may
	}, &sdk.StreamableHTTPOptions{
		SessionTimeout: mcpIdle, MaxRequestBodyBytes: mcpBody, PropagateRequestCancellation: true,
		DisableLocalhostProtection: true, // every request has passed checkOrigin
	})
	identified := auth.RequireBearerToken(func(ctx context.Context, _ string, _ *http.Request) (*auth.TokenInfo, error) {
		c := callOf(ctx).caller
		return &auth.TokenInfo{UserID: c.Owner.String() + " " + c.Token, Expiration: time.Now().Add(mcpIdle)}, nil
	}, nil)(h)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer checked") // what came in this place has been looked at
		identified.ServeHTTP(w, r)
	})
}

// mcpBody bounds one message of an MCP client: a file to write is in it.
const mcpBody = 16 << 20

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
