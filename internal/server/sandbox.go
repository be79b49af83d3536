package server

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// sandboxes adds the life of sandboxes.
func (s *Server) sandboxes(api huma.API) {
	register(s, api, huma.Operation{
		OperationID: "list-sandboxes", Method: http.MethodGet, Path: "/v1/sandboxes", Summary: "List sandboxes", Tags: []string{"sandboxes"},
	}, func(ctx context.Context, a *fleet.Account, _ *struct{}) (*reply[wire.List[atoll.Info]], error) {
		return list(a.List(ctx, fleet.Filter{}))
	})
}
