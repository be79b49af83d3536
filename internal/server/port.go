package server

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// ports adds what programs inside listen on; /dial connects to it.
func (s *Server) ports(api huma.API) {
	register(s, api, huma.Operation{
		OperationID: "list-ports", Method: http.MethodGet, Path: "/v1/sandboxes/{id}/ports", Tags: []string{"sandboxes"},
		Summary: "The ports that programs inside listen on", Errors: []int{404, 409, 501},
	}, func(ctx context.Context, a *fleet.Account, in *SandboxKey) (*reply[wire.List[atoll.Port]], error) {
		sb, err := a.Open(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		return list(atoll.Ports(ctx, sb))
	})
}
