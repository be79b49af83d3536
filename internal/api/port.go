package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// registerPorts registers the list of ports that programs listen on. The dial operation connects
// to them.
func (s *Server) registerPorts(api huma.API) {
	registerJSON(s, api, huma.Operation{
		OperationID: "list-ports", Method: http.MethodGet, Path: "/v1/sandboxes/{id}/ports", Tags: []string{"sandboxes"},
		Summary: "List the ports that programs in a sandbox listen on", Errors: []int{404, 409, 501},
	}, func(ctx context.Context, a *fleet.Account, in *SandboxKey) (*reply[wire.List[atoll.Port]], error) {
		sb, err := a.Open(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		return listReply(atoll.Ports(ctx, sb))
	})
}
