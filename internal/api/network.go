package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// The parameters of network operations.
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

// Resolve checks the rules.
func (in *setNetwork) Resolve(huma.Context) []error {
	cfg := atoll.Config{Spec: atoll.Spec{Network: in.Body}}
	return errorDetails(cfg.Check())
}

// registerNetwork registers the network rules and the log of connections.
func (s *Server) registerNetwork(api huma.API) {
	noun := []string{"network"}
	registerJSON(s, api, huma.Operation{
		OperationID: "get-network", Method: http.MethodGet, Path: "/v1/sandboxes/{id}/network", Tags: noun,
		Summary: "Get the network rules of a sandbox", Errors: []int{404},
	}, func(ctx context.Context, a *fleet.Account, in *SandboxKey) (*reply[atoll.Network], error) {
		sb, err := a.Open(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		return oneReply(sb.Network(ctx))
	})
	registerJSON(s, api, huma.Operation{
		OperationID: "set-network", Method: http.MethodPut, Path: "/v1/sandboxes/{id}/network", Tags: noun,
		Summary: "Replace the network rules of a sandbox",
		Description: "They apply at once: connections that they no longer allow are closed. The mode can't be changed. A header with the redacted value \"***\" keeps its value. " +
			"Addresses of the host or its network need the scope host.", Errors: []int{404, 409, 501},
	}, func(ctx context.Context, a *fleet.Account, in *setNetwork) (*noBody, error) {
		sb, err := a.Open(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		return emptyReply(atoll.SetNetwork(ctx, sb, in.Body))
	})
	registerJSON(s, api, huma.Operation{
		OperationID: "change-network", Method: http.MethodPatch, Path: "/v1/sandboxes/{id}/network", Tags: noun,
		Summary:     "Add and remove network rules of a sandbox",
		Description: "An entry added to one list is removed from the other. The response has all rules.", Errors: []int{404, 409, 501},
	}, func(ctx context.Context, a *fleet.Account, in *changeNetwork) (*reply[atoll.Network], error) {
		sb, err := a.Open(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		return oneReply(sb.ChangeNetwork(ctx, in.Body))
	})
	registerJSON(s, api, huma.Operation{
		OperationID: "list-connections", Method: http.MethodGet, Path: "/v1/sandboxes/{id}/network/connections", Tags: noun,
		Summary: "List the connections that a sandbox has tried, oldest first", Errors: []int{404, 409, 501},
	}, func(ctx context.Context, a *fleet.Account, in *SandboxKey) (*reply[wire.List[atoll.Connection]], error) {
		sb, err := a.Open(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		return listReply(atoll.Connections(ctx, sb))
	})
	registerJSON(s, api, huma.Operation{
		OperationID: "test-network", Method: http.MethodGet, Path: "/v1/sandboxes/{id}/network/test", Tags: noun,
		Summary: "Check a target against the network rules, without connecting", Errors: []int{404, 409, 501},
	}, func(ctx context.Context, a *fleet.Account, in *askNetwork) (*reply[atoll.Connection], error) {
		sb, err := a.Open(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		if in.Target == "" || len(in.Target) > 4096 {
			return nil, invalidField("target", "must be HOST, HOST:PORT or a URL")
		}
		return oneReply(atoll.CheckNetwork(ctx, sb, in.Target))
	})
}
