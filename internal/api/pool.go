package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

type (
	PoolKey struct {
		Name string `path:"name" doc:"The pool's name."`
	}
	setPool struct {
		PoolKey

		Body atoll.Pool
	}
)

// Resolve checks the configuration of a pool.
func (in *setPool) Resolve(huma.Context) []error {
	var errs []error
	if in.Body.Name != "" && in.Body.Name != in.Name {
		errs = append(errs, &huma.ErrorDetail{Message: "must be empty or the name in the path", Location: "body.name", Value: in.Body.Name})
	}
	if in.Body.Size < 0 {
		errs = append(errs, &huma.ErrorDetail{Message: "must not be negative", Location: "body.size", Value: in.Body.Size})
	}
	return append(errs, errorDetails(in.Body.Config.Check())...)
}

// registerPools registers warm pools.
func (s *Server) registerPools(api huma.API) {
	noun := []string{"pools"}
	registerJSON(s, api, huma.Operation{
		OperationID: "list-pools", Method: http.MethodGet, Path: "/v1/pools", Tags: noun, Summary: "List warm pools, sorted by name",
	}, func(ctx context.Context, a *fleet.Account, _ *struct{}) (*reply[wire.List[atoll.Pool]], error) {
		return listReply(a.Pools(ctx))
	})
	registerJSON(s, api, huma.Operation{
		OperationID: "set-pool", Method: http.MethodPut, Path: "/v1/pools/{name}", Tags: noun,
		Summary: "Create or change a warm pool", Description: "The config and size of the body are used.",
	}, func(ctx context.Context, a *fleet.Account, in *setPool) (*reply[atoll.Pool], error) {
		in.Body.Name = in.Name
		return oneReply(a.SetPool(ctx, in.Body))
	})
	registerJSON(s, api, huma.Operation{
		OperationID: "remove-pool", Method: http.MethodDelete, Path: "/v1/pools/{name}", Tags: noun,
		Summary: "Remove a pool and its unclaimed sandboxes", Errors: []int{404},
	}, func(ctx context.Context, a *fleet.Account, in *PoolKey) (*noBody, error) {
		return emptyReply(a.RemovePool(ctx, in.Name))
	})
}
