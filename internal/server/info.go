package server

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet"
)

// info adds what a server says of itself.
func (s *Server) info(api huma.API) {
	register(s, api, huma.Operation{
		OperationID: "get-info", Method: http.MethodGet, Path: "/v1/info", Summary: "What the server is, and who you are", Tags: []string{"server"},
	}, func(ctx context.Context, _ *fleet.Account, _ *struct{}) (*reply[atoll.Server], error) {
		who := callOf(ctx).caller
		return &reply[atoll.Server]{atoll.Server{
			Version: s.opts.Version, Drivers: s.fleet.Drivers(ctx), Owner: who.Owner, Scopes: who.Scopes, Token: who.Token,
		}}, nil
	})
}
