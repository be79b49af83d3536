package server

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

// Resolve checks what a pool is to keep ready.
func (in *setPool) Resolve(huma.Context) []error {
	var errs []error
	if in.Body.Name != "" && in.Body.Name != in.Name {
		errs = append(errs, &huma.ErrorDetail{Message: "must be empty or the name in the path", Location: "body.name", Value: in.Body.Name})
	}
	if in.Body.Size < 0 {
		errs = append(errs, &huma.ErrorDetail{Message: "must not be negative", Location: "body.size", Value: in.Body.Size})
	}
	return append(errs, details(in.Body.Config.Check())...)
}

// pools adds sandboxes that are ready to be claimed.
func (s *Server) pools(api huma.API) {
	noun := []string{"pools"}
	register(s, api, huma.Operation{
		OperationID: "list-pools", Method: http.MethodGet, Path: "/v1/pools", Tags: noun, Summary: "List warm pools in the order of names",
	}, func(ctx context.Context, a *fleet.Account, _ *struct{}) (*reply[wire.List[atoll.Pool]], error) {
		return list(a.Pools(ctx))
	})
	register(s, api, huma.Operation{
		OperationID: "set-pool", Method: http.MethodPut, Path: "/v1/pools/{name}", Tags: noun,
		Summary: "Make or change a warm pool", Description: "Of the body, config and size count.",
	}, func(ctx context.Context, a *fleet.Account, in *setPool) (*reply[atoll.Pool], error) {
		in.Body.Name = in.Name
		return one(a.SetPool(ctx, in.Body))
	})
	register(s, api, huma.Operation{
		OperationID: "remove-pool", Method: http.MethodDelete, Path: "/v1/pools/{name}", Tags: noun,
		Summary: "Remove a pool and the sandboxes of it that nobody has claimed", Errors: []int{404},
	}, func(ctx context.Context, a *fleet.Account, in *PoolKey) (*none, error) {
		return done(a.RemovePool(ctx, in.Name))
	})
}
