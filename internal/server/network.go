package server

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// setNetwork, changeNetwork and askNetwork are what is asked of a sandbox's
// network.
type (
	setNetwork struct {
		SandboxKey

		Body atoll.Network
	}
	changeNetwork struct {
		SandboxKey

		Body wire.NetworkChange
	}
	askNetwork struct {
		SandboxKey

		Target string `query:"target" doc:"HOST, HOST:PORT or a URL."`
	}
)

// Resolve checks what rules are to be.
func (in *setNetwork) Resolve(huma.Context) []error {
	cfg := atoll.Config{Spec: atoll.Spec{Network: in.Body}}
	return details(cfg.Check())
}

// networks adds the rules of the way out, and what was tried.
func (s *Server) networks(api huma.API) {
	noun := []string{"network"}
	register(s, api, huma.Operation{
		OperationID: "get-network", Method: http.MethodGet, Path: "/v1/sandboxes/{id}/network", Tags: noun,
		Summary: "What a sandbox may reach", Errors: []int{404},
	}, func(ctx context.Context, a *fleet.Account, in *SandboxKey) (*reply[atoll.Network], error) {
		sb, err := a.Open(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		return one(sb.Network(ctx))
	})
	register(s, api, huma.Operation{
		OperationID: "set-network", Method: http.MethodPut, Path: "/v1/sandboxes/{id}/network", Tags: noun,
		Summary: "Replace the rules of what a sandbox may reach",
		Description: "At once: connections that they no longer allow are ended. The mode stays. A header whose value is \"***\", as it is shown, keeps its value. " +
			"Addresses of the host or its network need the scope host.", Errors: []int{404, 409, 501},
	}, func(ctx context.Context, a *fleet.Account, in *setNetwork) (*none, error) {
		sb, err := a.Open(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		return done(atoll.SetNetwork(ctx, sb, in.Body))
	})
	register(s, api, huma.Operation{
		OperationID: "change-network", Method: http.MethodPatch, Path: "/v1/sandboxes/{id}/network", Tags: noun,
		Summary:     "Add rules of what a sandbox may reach, or take some away",
		Description: "What is added to one list leaves the other. The answer has all rules.", Errors: []int{404, 409, 501},
	}, func(ctx context.Context, a *fleet.Account, in *changeNetwork) (*reply[atoll.Network], error) {
		sb, err := a.Open(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		return one(sb.ChangeNetwork(ctx, in.Body))
	})
	register(s, api, huma.Operation{
		OperationID: "list-connections", Method: http.MethodGet, Path: "/v1/sandboxes/{id}/network/connections", Tags: noun,
		Summary: "What a sandbox tried to reach, oldest first", Errors: []int{404, 409, 501},
	}, func(ctx context.Context, a *fleet.Account, in *SandboxKey) (*reply[wire.List[atoll.Connection]], error) {
		sb, err := a.Open(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		return list(atoll.Connections(ctx, sb))
	})
	register(s, api, huma.Operation{
		OperationID: "test-network", Method: http.MethodGet, Path: "/v1/sandboxes/{id}/network/test", Tags: noun,
		Summary: "What the rules say of a target, without connecting", Errors: []int{404, 409, 501},
	}, func(ctx context.Context, a *fleet.Account, in *askNetwork) (*reply[atoll.Connection], error) {
		sb, err := a.Open(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		if in.Target == "" || len(in.Target) > 4096 {
			return nil, invalid("target", "must be HOST, HOST:PORT or a URL")
		}
		return one(atoll.AskNetwork(ctx, sb, in.Target))
	})
}
